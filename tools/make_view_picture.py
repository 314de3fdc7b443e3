"""Draw docs/pictures/view.png: the page of `replay view` in Chromium, with a meadow at one of its ticks.

Needs the groups test and viewers, and Chromium (tools/get_chromium.sh).

    python tools/make_view_picture.py [PICTURE] [--dark]
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

PICTURE = Path(__file__).parents[1] / "docs/pictures/view.png"
TICK, TICKS, SEED = 330, 600, 5
SHOWN = f"#tick={TICK}&layers=plant+energy|heads+of+caterpillar&curves=plants.oak|plants.clover"
RECORD = "from recorder.commands.main import main; main()"
REPLAY = "from replayer.commands.main import main; main()"


def main() -> None:
    """Record, serve, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", nargs="?", type=Path, default=PICTURE)
    parser.add_argument("--dark", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tape = Path(folder) / "meadow.tape"
        run = ["run", "arms-race", "-o", str(tape), "--ticks", str(TICKS), "--seed", str(SEED), "--events", "-q"]
        subprocess.run([sys.executable, "-c", RECORD, *run], check=True)
        view = [sys.executable, "-c", REPLAY, "view", "--no-browser", str(tape)]
        with subprocess.Popen(view, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                draw(server.stdout.readline().strip(), arguments.picture, "dark" if arguments.dark else "light")
            finally:
                server.send_signal(signal.SIGINT)
                server.wait()


def draw(url: str, picture: Path, scheme: Literal["light", "dark"]) -> None:
    """Open the page and wait until the whole run is in the cache."""
    chromium = shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        page.goto(url + SHOWN)
        expect(page.locator("#transport .state")).to_have_text(f"{TICKS + 1} ticks ready", timeout=120_000)
        page.screenshot(path=str(picture))
        browser.close()


if __name__ == "__main__":
    main()
