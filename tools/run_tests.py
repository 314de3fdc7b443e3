"""Run all tests and the pages, a folder or a few modules to a process, as many processes at a time as there are jobs.

    tools/run_tests.py --jobs 3 --cases-seed 7 --hypothesis-seed 7 --pages-seed 7

What a process of tests has imported and made stays in its memory, and each of its forks copies the tables of that
memory: the tests of trials take 26 seconds of processor time after all others of the recorder, and 10 in a process of
their own. A part is a folder of at most MODULES_MAX test modules, or some modules of a larger one, or pages. The parts
with most code begin first. All get the same seeds. All other arguments are pytest's.

It prints a line for each part, and all that a part printed which failed. The exit code is 1 if one failed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import random
import re
import runpy
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NoReturn

import attrs

ROOT = Path(__file__).parents[1]
MODULES_MAX = 12  # Of a part. A process takes 0.7 seconds before its first test.
PAGE_PARTS = 4
MODULES = (
    "numpy",
    "pytest",
    "hypothesis.strategies",
    "sybil",
    "cyclopts",
    "recorder.session.recorder",
    "recorder.adapted.record",
    "recorder.commands.main",
    "replayer.commands.main",
    "replayer.desync.isolated_rerun",
)
NO_TESTS = 5  # pytest's exit code: this time none of the part's tests has its turn.
COUNT = re.compile(r"(\d+) ([a-z]+)")


@attrs.frozen
class Part:
    """What one process runs.

    Attributes:
        paths: files and folders, below the root.
        options: of this part alone.
        size_bytes: of its tests.
    """

    paths: list[Path]
    options: list[str] = attrs.field(factory=list)
    size_bytes: int = 0

    @property
    def name(self) -> str:
        """The paths in a line."""
        first, *others = [str(path.relative_to(ROOT)) for path in self.paths]
        return f"{first} and {len(others)} more" if others else first


@attrs.frozen
class Outcome:
    """The end of a part."""

    part: Part
    printed: str
    exit_code: int
    took_s: float

    @property
    def is_good(self) -> bool:
        """Whether all of its tests passed, or none has its turn."""
        return self.exit_code in (0, NO_TESTS)

    @property
    def counts(self) -> Counter[str]:
        """The figures of pytest's last line, such as 58 passed."""
        ends = [line for line in self.printed.splitlines() if re.search(r" in \d+\.\d+s", line)]
        line = ends[-1].rpartition(" in ")[0] if ends else ""
        return Counter({word: int(number) for number, word in COUNT.findall(line)})


def main() -> int:
    """Run all parts; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=3, help="processes at a time; 3 by default")
    parser.add_argument("--cases-seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--pages-seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options, arguments = parser.parse_known_args()
    cases_seed, pages_seed = ["--cases-seed", str(options.cases_seed)], ["--pages-seed", str(options.pages_seed)]
    print("the same cases, random numbers and pages again:", *cases_seed, *pages_seed, flush=True)
    parts = [attrs.evolve(part, options=cases_seed) for part in test_parts(ROOT / "tests")]
    parts += [attrs.evolve(part, options=part.options + pages_seed) for part in page_parts()]
    parts.sort(key=lambda part: -part.size_bytes)
    begin_s = time.monotonic()
    import_all()
    outcomes = []
    for outcome in run_all(parts, options.jobs, arguments):
        outcomes.append(outcome)
        report(outcome, f"{len(outcomes)}/{len(parts)}")
    return summary(outcomes, time.monotonic() - begin_s)


def test_parts(folder: Path) -> list[Part]:
    """Divide the test modules below a folder into parts: each module is in one of them."""
    modules = sorted(folder.rglob("test_*.py"))
    if len(modules) <= MODULES_MAX:
        return [Part([folder], size_bytes=total_bytes(modules))] if modules else []
    parts: list[Part] = []
    small: list[tuple[Path, list[Path]]] = []
    for path in sorted(folder.iterdir()):
        held = sorted(path.rglob("test_*.py")) if path.is_dir() else [path] * (path in modules)
        if len(held) > MODULES_MAX:
            parts += test_parts(path)
        elif held:
            small.append((path, held))
    together: list[tuple[Path, list[Path]]] = []
    for entry in [*small, None]:
        count = sum(len(held) for _, held in together)
        if together and (entry is None or count + len(entry[1]) > MODULES_MAX):
            size_bytes = sum(total_bytes(held) for _, held in together)
            parts.append(Part([path for path, _ in together], size_bytes=size_bytes))
            together = []
        if entry is not None:
            together.append(entry)
    return parts


def page_parts() -> list[Part]:
    """Divide the pages. Which ones have their turn is drawn by conftest.py, in each part the same."""
    size_bytes = total_bytes((ROOT / "docs").rglob("*.md")) // PAGE_PARTS
    return [
        Part(
            [ROOT / "docs"] if number else [ROOT / "README.md", ROOT / "docs"],
            ["--pages-part", f"{number}/{PAGE_PARTS}"],
            size_bytes,
        )
        for number in range(PAGE_PARTS)
    ]


def total_bytes(files: Iterable[Path]) -> int:
    """The sizes of files together."""
    return sum(file.stat().st_size for file in files)


def run_all(parts: Sequence[Part], jobs: int, arguments: Sequence[str]) -> Iterator[Outcome]:
    """Run each part in a copy of this process, at most ``jobs`` at a time."""
    left = deque(parts)
    running: dict[int, tuple[Part, float, IO[bytes]]] = {}
    while left or running:
        while left and len(running) < jobs:
            output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - read when the part has ended
            part = left.popleft()
            child = os.fork()
            if child == 0:
                for _, _, other in running.values():
                    other.close()
                become_pytest([*arguments, *part.options, *map(str, part.paths)], output)
            running[child] = part, time.monotonic(), output
        child, status = os.wait()
        part, begin_s, output = running.pop(child)
        with output:
            output.seek(0)
            printed = output.read().decode(errors="replace")
        yield Outcome(part, printed, os.waitstatus_to_exitcode(status), time.monotonic() - begin_s)


def import_all() -> None:
    """Import what the tests of every part import, so that the copies have it: it takes a second."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # See conftest.py; it is read by NumPy's import.
    gc.disable()
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    gc.enable()


def become_pytest(arguments: Sequence[str], output: IO[bytes]) -> NoReturn:
    """In a copy: what ``python -m pytest`` is after its imports."""
    for number in (1, 2):
        os.dup2(output.fileno(), number)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    output.close()
    sys.path[0] = str(Path(sys.executable).parent)  # In place of the folder of this script.
    # Of plugins of hypothesis, which are never rewritten for their assertions here.
    known = [
        f"-Wignore:Module already imported so cannot be rewritten; {name}" for name in ("hypothesis", "_hypothesis")
    ]
    sys.argv[:] = ["pytest", "-q", *known, *arguments]
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    sys.exit(0)


def report(outcome: Outcome, number: str) -> None:
    """Print a line, and what a part printed that failed."""
    if not outcome.is_good:
        print(outcome.printed)
    counts = ", ".join(f"{count} {word}" for word, count in outcome.counts.items() if word != "deselected")
    end = counts if outcome.is_good else f"FAILED with exit code {outcome.exit_code}: {counts}"
    print(f"{number} {outcome.part.name}: {end or 'none has its turn'}, {outcome.took_s:.1f} s", flush=True)


def summary(outcomes: Sequence[Outcome], took_s: float) -> int:
    """Print why tests were skipped, what failed, and the sums. Return the exit code."""
    lines = [line for outcome in outcomes for line in outcome.printed.splitlines()]
    for line in sorted({line for line in lines if line.startswith("SKIPPED")}):
        print(line)
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(line)
    failed = [outcome.part.name for outcome in outcomes if not outcome.is_good]
    for name in failed:
        print(f"failed: {name}")
    counts = sum((outcome.counts for outcome in outcomes), Counter[str]())
    print(", ".join(f"{count} {word}" for word, count in counts.items()), f"in {took_s:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
