"""Update all tables and pictures of docs/performance.md, between the marks on the page, with new measurements.

Takes about half an hour on a quiet machine with two cores. The figures are also written as JSON.

    python tools/bench/page.py [--only felt targets profile ticks scaling peers objects] [--quick] [--page FILE] [--json FOLDER]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
SECTIONS = {
    "felt": ("felt.py", False),
    "targets": ("targets.py", False),
    "profile": ("profile_step.py", True),
    "ticks": ("ticks.py", True),
    "scaling": ("scaling.py", True),
    "peers": ("peer_costs.py", True),
    "objects": ("objects.py", False),
}  # The program; True if it draws pictures.
QUICK = {
    "targets": ["--quick", "--only", "T10"],
    "profile": ["--ticks", "1000"],
}  # The other programs have an argument for that.


def replace_section(page: str, name: str, text: str) -> str:
    """Return the page with text between the marks of a section. Raises ValueError if there are no such marks."""
    begin, end = f"<!-- {name}: made by tools/bench/page.py -->\n", f"<!-- end of {name} -->\n"
    section = re.compile(f"({re.escape(begin)}).*?({re.escape(end)})", re.DOTALL)
    if not section.search(page):
        raise ValueError(f"the page has no section {name!r}")
    return section.sub(lambda match: f"{match[1]}\n{text.strip()}\n\n{match[2]}", page)


def make(name: str, options: list[str], pictures: Path, json_folder: Path) -> str:
    """Run one program and return its text for the page."""
    program, draws_pictures = SECTIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        markdown = Path(folder) / "section.md"
        command: list[str | Path] = [sys.executable, HERE / program, "--markdown", markdown]
        command += ["--json", json_folder / f"{name}.json"]
        if draws_pictures:
            command += ["--plot", pictures]
        subprocess.run([*command, *options], check=True)
        return markdown.read_text(encoding="utf-8")


def main() -> None:
    """Measure, and update the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="small and short, to try this program")
    parser.add_argument("--long", action="store_true", help="scaling: runs of up to 10^7 ticks")
    parser.add_argument("--page", type=Path, default=DOCS / "performance.md")
    parser.add_argument("--json", type=Path, default=Path("build/bench"), help="folder for the figures")
    arguments = parser.parse_args()
    arguments.json.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        start = time.monotonic()
        options = (
            QUICK.get(name, ["--quick"])
            if arguments.quick
            else ["--long"]
            if arguments.long and name == "scaling"
            else []
        )
        text = make(name, options, arguments.page.parent / "pictures", arguments.json)
        page = arguments.page.read_text(
            encoding="utf-8"
        )  # Now, not before: it may have been edited during the measurement.
        arguments.page.write_text(replace_section(page, name, text), encoding="utf-8")
        print(f"{name}: {time.monotonic() - start:,.0f} s")


if __name__ == "__main__":
    main()
