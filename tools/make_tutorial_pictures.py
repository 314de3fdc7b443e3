"""Draw the pictures of the tutorial from its own files: docs/pictures/outpost.png, by `replay render`.

Run it in the checkout: python tools/make_tutorial_pictures.py. It saves the files of the first lesson, records the game as the
reader does, and draws what the reader draws.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs/pictures"


def main() -> None:
    """Record the run of lesson 1 in an empty folder, and render it."""
    lesson = (ROOT / "docs/tutorial/1-record.md").read_text(encoding="utf-8")
    replay = [sys.executable, "-m", "replayer"]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in re.findall(r'^```\w+ title="([^"]+)"\n(.+?)^```$', lesson, re.MULTILINE | re.DOTALL):
            Path(folder, name).write_text(text, encoding="utf-8")
        subprocess.run([sys.executable, "play.py"], cwd=folder, check=True)
        drawn = ["--ticks", "272", "--sim", "outpost:Outpost", "-o", str(PICTURES / "outpost.png")]
        subprocess.run([*replay, "render", "outpost.tape", *drawn], cwd=folder, check=True)


if __name__ == "__main__":
    main()
