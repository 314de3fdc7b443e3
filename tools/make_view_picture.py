"""Draw docs/pictures/view.png and view-branch.png: the page of `replay view` in Chromium, with a meadow, alone and with a branch.

Needs the groups test and viewers, and Chromium (tools/get_chromium.sh).

    python tools/make_view_picture.py [FOLDER] [--only view.png] [--dark]
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import expect, sync_playwright

PICTURES = Path(__file__).parents[1] / "docs/pictures"
TICK, TICKS, SEED = 330, 600, 5
SHOWN = f"#tick={TICK}&layers=plant+energy|heads+of+caterpillar&curves=plants.oak|plants.clover"
FORK = 300
DROUGHT = f'{{"tick": {FORK + 1}, "inputs": [{{"kind": "drought", "ticks": 60, "percent": 120}}]}}\n'
BESIDE = f"#tick={TICK}&layers=plant+energy&compare=both&curves=plants.oak|plants.clover"
RECORD = "from recorder.commands.main import main; main()"
REPLAY = "from replayer.commands.main import main; main()"


def main() -> None:
    """Record, serve, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=PICTURES)
    parser.add_argument("--only", choices=["view.png", "view-branch.png"])
    parser.add_argument("--dark", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tape = Path(folder) / "meadow.tape"
        run = ["run", "arms-race", "-o", str(tape), "--ticks", str(TICKS), "--seed", str(SEED), "--events", "-q"]
        subprocess.run([sys.executable, "-c", RECORD, *run], check=True)
        drought, branch = Path(folder) / "drought.jsonl", Path(folder) / "dry.tape"
        drought.write_text(DROUGHT, encoding="utf-8")
        leave = ["branch", str(tape), "--at", str(FORK), "--override", str(drought), "-o", str(branch)]
        subprocess.run([sys.executable, "-c", REPLAY, *leave], check=True, stdout=subprocess.DEVNULL)
        scheme: Literal["light", "dark"] = "dark" if arguments.dark else "light"
        for tapes, shown, name in (([tape], SHOWN, "view.png"), ([tape, branch], BESIDE, "view-branch.png")):
            if arguments.only in (None, name):
                serve(tapes, shown, arguments.folder / name, scheme)


def serve(tapes: list[Path], shown: str, picture: Path, scheme: Literal["light", "dark"]) -> None:
    """Serve the page of one tape, or of two, and draw it."""
    view = [sys.executable, "-c", REPLAY, "view", "--no-browser", *map(str, tapes)]
    with subprocess.Popen(view, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            draw(server.stdout.readline().strip() + shown, len(tapes) * (TICKS + 1), picture, scheme)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()


def draw(url: str, ticks: int, picture: Path, scheme: Literal["light", "dark"]) -> None:
    """Open the page and wait until the whole run is in the cache: so many ticks."""
    chromium = shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        page.goto(url)
        expect(page.locator("#transport .state")).to_have_text(f"{ticks:,} ticks ready", timeout=300_000)
        page.screenshot(path=str(picture))
        browser.close()


if __name__ == "__main__":
    main()
