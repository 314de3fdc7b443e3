"""`replay render -o page.html`: the page in one file, read here as a browser reads it, and in a browser."""

from __future__ import annotations

import base64
import json
import re
import shutil
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import LazyModule, needs

import recorder
import replayer.commands.main
from recorder.console.app import run_app

from oracle.command_lines import assert_one_line
from small_worlds import record
from viewed_worlds import TICKS, Camp, Pond, inputs_of_pond, pond_at

CHROMIUM = shutil.which("chromium")
SIM = ("--sim", "viewed_worlds:Pond")
COLOURS = {1: (0x44, 0x77, 0xAA), 2: (0xEE, 0x66, 0x77), 3: (0x22, 0x88, 0x33)}  # Of categories; 0 has none.
LIGHT_GROUND = (0xE9, 0xEC, 0xEF)

playwright = LazyModule("playwright.sync_api")


class Town:
    """Ground of four kinds that a step changes in one cell, and two kinds of things on it."""

    def __init__(self) -> None:
        self.kinds = np.arange(12, dtype=np.uint8).reshape(3, 4) % 4
        self.people = np.array([[0.5, 0.5], [1.5, 2.5], [3.5, 1.5]])
        self.tick = 0

    def step(self) -> None:
        """One cell becomes the next kind."""
        self.kinds.reshape(-1)[self.tick % 12] = (self.kinds.reshape(-1)[self.tick % 12] + 1) % 4
        self.tick += 1

    def layers(self) -> dict[str, Any]:
        """The ground."""
        return {"kinds": self.kinds}

    def points(self) -> dict[str, Any]:
        """People, and a cart once there is one."""
        return {"people": self.people, "carts": self.people[: self.tick % 2]}


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pond of 60 ticks, whose name would end a script."""
    path = tmp_path_factory.mktemp("file") / "<script>alert(1)<!--.tape"
    record(path, Pond(), inputs_of_pond(TICKS), keyframe_interval_ticks=20)
    return path


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a town of 20 ticks."""
    folder = tmp_path_factory.mktemp("town")
    with recorder.record(Town(), folder / "town.tape", trial_ms=0) as recorded:
        for _ in range(20):
            recorded.step()
    output = folder / "town.html"
    assert render(folder / "town.tape", "--ticks", "0..-1", "-o", output, "--sim", f"{__name__}:Town") == 0
    return output


def render(*arguments: object) -> int:
    """The exit code of the command."""
    words = ["render", *map(str, arguments)]
    return run_app(replayer.commands.main.load(words), words)


def part(page: str, name: str) -> str:
    """The text of a script of the page that has data."""
    found = re.search(rf'<script type="[\w/]+" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return found[1]


def frames_of(page: str) -> Iterator[tuple[int, int, np.ndarray[Any, Any]]]:
    """The tick, the hash and the first layer of each frame, by the layout that frame_encoding states."""
    content = zlib.decompress(base64.b64decode(part(page, "frames")))
    while content:
        (size,) = struct.unpack_from("<I", content)
        frame, content = content[4 : 4 + size], content[4 + size :]
        tick, _, state_hash = struct.unpack_from("<QQQ", frame, 8)
        _, _, steps, width, height, count, low, high = struct.unpack_from("<HBBIIIdd", frame, 32)
        codes = np.frombuffer(frame, np.uint8, count, 64).reshape(height, width)
        yield tick, state_hash, low + codes / steps * (high - low)


def test_the_file_has_the_states_of_its_ticks(pond: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a plain run has them; the line says how large the file is, and no name of a tape is markup."""
    output = tmp_path / "pond.html"
    assert render(pond, "--ticks", "5..-1", "--every", 5, "-o", output, *SIM) == 0
    page = output.read_text()

    ticks = list(range(5, TICKS + 1, 5))
    assert (
        f"ticks 5 to {TICKS}, {len(ticks)} pictures, {output.stat().st_size / 1000:,.1f} kB" in capsys.readouterr().out
    )
    for expected, (tick, state_hash, water) in zip(ticks, frames_of(page), strict=True):
        truth = pond_at(expected).state
        assert (tick, state_hash) == (expected, truth.snapshot().hash())
        assert (water == truth["water"]).all(), "whole numbers that lie close together are exact"
    facts = json.loads(part(page, "facts"))
    assert (facts["ticks"], facts["layers"], facts["points"]) == (ticks, ["water"], ["frogs"])
    assert "<script>alert" not in page
    assert set(re.findall(r"https?://[^\s'\"]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_it_needs_no_package_that_draws(
    pond: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pictures need Pillow; the page does not."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert render(pond, "--ticks", 3, "-o", tmp_path / "pond.html", *SIM) == 0
    assert render(pond, "--ticks", 3, "-o", tmp_path / "pond.png", *SIM) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--layer", "ice"], "no layer 'ice'; the layers are water"),
        (["--hide", "toads"], "no points 'toads'; the kinds are frogs"),
        (["--max-mb", "0"], "--max-mb"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    pond: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    """As of the other kinds of files."""
    assert render(pond, "--ticks", "0..-1", "-o", tmp_path / "a.html", *arguments, *SIM) == 2
    assert_one_line(capsys.readouterr(), expected)
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_would_be_too_large_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Noise of 1 MB a tick, which is 1.4 MB of text: the line names the tick that there was room for, and what to do."""
    tape = tmp_path / "noise.tape"
    with recorder.record(Noise(), tape, trial_ms=0) as recorded:
        recorded.step()
    capsys.readouterr()
    sim = ("--sim", f"{__name__}:Noise")
    assert render(tape, "--ticks", "0..1", "-o", tmp_path / "a.html", "--max-mb", 2, *sim) == 2
    assert_one_line(capsys.readouterr(), "larger than 2 MB, it is full at tick 0: give fewer --ticks")
    assert render(tape, "--ticks", "0..1", "-o", tmp_path / "a.html", "--max-mb", 1, *sim) == 2
    assert_one_line(capsys.readouterr(), "not even one tick fits")
    assert not (tmp_path / "a.html").exists()
    assert render(tape, "--ticks", "0..1", "-o", tmp_path / "a.html", "--max-mb", 3, *sim) == 0
    assert (tmp_path / "a.html").stat().st_size < 3_000_000


def test_a_page_that_a_browser_could_not_hold_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maps that hardly change are small in the file, and large once the browser has unpacked them."""
    monkeypatch.setattr("replayer.view.drawing.page_file.UNPACKED_BYTES_MAX", 1_500_000)
    tape = tmp_path / "noise.tape"
    with recorder.record(Noise(), tape, trial_ms=0) as recorded:
        recorded.step()
    capsys.readouterr()
    sim = ("--sim", f"{__name__}:Noise")
    assert render(tape, "--ticks", "0..1", "-o", tmp_path / "a.html", *sim) == 2
    assert_one_line(
        capsys.readouterr(), "more than 1.5 MB of a browser's memory, it is full at tick 0: give fewer --ticks"
    )
    assert not (tmp_path / "a.html").exists()
    assert render(tape, "--ticks", "0", "-o", tmp_path / "a.html", *sim) == 0


class Noise:
    """A map of a million bytes that do not compress."""

    def __init__(self) -> None:
        self.noise = np.random.default_rng(1).integers(0, 256, (1000, 1000)).astype(np.uint8)

    def step(self) -> None:
        """Other bytes, by a rule: the state has no generator."""
        self.noise = self.noise[::-1] ^ np.uint8(0x5A)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_opens_it_from_the_disk(town: Path, scheme: str) -> None:
    """Categories have their colours and their legend, points their names and counts, a map the whole page; nothing is asked."""
    needs("playwright")
    complaints: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
        page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request", lambda asked: complaints.append(asked.url) if asked.url[:5] not in {"file:", "data:"} else None
        )
        page.goto(town.as_uri())
        playwright.expect(page.locator("#tick")).to_have_text("0")
        playwright.expect(page.locator(".named").first).to_have_text("people 3carts 0")
        for _ in range(7):
            page.keyboard.press("ArrowRight")
        playwright.expect(page.locator("#tick")).to_have_text("7")
        playwright.expect(page.locator(".named").first).to_have_text("people 3carts 1")
        categories = page.locator(".card").first.locator(
            ".top .legend:not([hidden]) span", has_text=re.compile(r"^\d$")
        )
        assert categories.all_inner_texts() == ["0", "1", "2", "3"]
        page.get_by_label("people", exact=True).uncheck()
        page.get_by_label("carts", exact=True).uncheck()
        ground = LIGHT_GROUND if scheme == "light" else (0x0D, 0x0F, 0x11)
        truth = Town()
        for _ in range(7):
            truth.step()
        expected = [list(COLOURS.get(kind, ground)) for kind in truth.kinds.reshape(-1).tolist()]
        assert page.evaluate(PIXELS) == expected
        before = page.locator(".pair canvas").first.bounding_box()["width"]
        page.keyboard.press("x")
        playwright.expect(page.locator("#rail")).to_be_hidden()
        assert page.locator(".pair canvas").first.bounding_box()["width"] > before
        page.get_by_label("All maps").click()
        playwright.expect(page.locator("#rail")).to_be_visible()
        page.locator("#ticks").focus()
        page.keyboard.press(" ")
        playwright.expect(page.locator("#tick")).to_have_text("20", timeout=30_000)
        assert page.evaluate(VALUES_TOLD) == ["100 ± 0.5", "0", "3"]
        browser.close()
    assert complaints == []


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_it_is_laid_out_at_any_width_and_opens_at_a_tick_with_a_map(tmp_path: Path) -> None:
    """Two maps use the width of the window; the address names a tick, and a tick without a map says so."""
    needs("playwright")
    with recorder.record(Late(), tmp_path / "late.tape", trial_ms=0) as played:
        for _ in range(20):
            played.step()
    output = tmp_path / "late.html"
    assert render(tmp_path / "late.tape", "--ticks", "0..-1", "-o", output, "--sim", f"{__name__}:Late") == 0
    expect = playwright.expect
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 800})
        page.goto(output.as_uri())
        expect(page.locator("#tick")).to_have_text("1")
        expect(page.locator(".wait:visible")).to_have_count(0)
        for width in (420, 700, 850, 1000, 1400):
            page.set_viewport_size({"width": width, "height": 800})
            page.wait_for_timeout(100)
            boxes = [canvas.bounding_box() for canvas in page.locator(".pair canvas").all()]
            assert len(boxes) == 2
            assert min(box["width"] for box in boxes) > width / 3, f"at {width} pixels: {boxes}"
            assert all(title.bounding_box()["width"] > 30 for title in page.locator(".card .top b").all())
            assert page.locator("#rail").bounding_box()["height"] < 800 / 3 or width == 1400
            last = page.locator("#rail select").last.bounding_box()
            assert last["x"] + last["width"] <= width
        page.keyboard.press("Home")
        expect(page.locator(".wait:visible")).to_have_text(["not at this tick"] * 2)
        page.evaluate("location.hash = '#tick=10'")
        expect(page.locator("#tick")).to_have_text("10")
        page = browser.new_page()
        page.goto(f"{output.as_uri()}#tick=12")
        expect(page.locator("#tick")).to_have_text("12")
        browser.close()


class Late:
    """It has maps from its first step on, as an environment from its first reset."""

    def __init__(self) -> None:
        self.tick = 0

    def step(self) -> None:
        """One tick more."""
        self.tick += 1

    def layers(self) -> dict[str, Any]:
        """Two maps, whose names need some room."""
        return {name: np.full((6, 6), self.tick) for name in ("food", "trail")} if self.tick else {}


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_rings_of_all_kinds_have_one_scale(tmp_path: Path) -> None:
    """The ring of a thing of a quarter of the size has a quarter of the area: half the width."""
    needs("playwright")
    with recorder.record(Camp(), tmp_path / "camp.tape", trial_ms=0) as played:
        played.step()
    output = tmp_path / "camp.html"
    assert render(tmp_path / "camp.tape", "--ticks", "0..-1", "-o", output, "--sim", "viewed_worlds:Camp") == 0
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(output.as_uri())
        playwright.expect(page.locator("#tick")).to_have_text("0")
        scout, soldier = page.evaluate(RING_WIDTHS)
        browser.close()
    assert soldier / 2 - 2 <= scout <= soldier / 2 + 2


# The widths of what is drawn in the upper and in the lower half of the map of layer "ground".
RING_WIDTHS = """() => {
  const canvas = [...document.querySelectorAll('.card')].find((card) => card.innerText.startsWith('ground')).querySelector('.pair canvas');
  const { width, height } = canvas, half = height / 2;
  return [0, half].map((top) => {
    const { data } = canvas.getContext('2d').getImageData(0, top, width, half), columns = [];
    for (let i = 0; i < data.length; i += 4) if (Math.abs(data[i] - data[0]) + Math.abs(data[i + 1] - data[1]) > 60) columns.push((i / 4) % width);
    return Math.max(...columns) - Math.min(...columns);
  });
}"""


# Of floats from 0 to 255 a byte tells the value to half a unit, but for the lowest; of whole numbers exactly.
VALUES_TOLD = """async () => {
  const { valueOf } = await import('wire');
  const told = (steps, high, code) => valueOf({ kind: 0, steps, low: 0, high, codes: [code] }, 0, String);
  return [told(255, 255, 100), told(255, 255, 0), told(7, 7, 3)];
}"""


# The colour in the middle of each cell of the map, row by row.
PIXELS = """() => {
  const { width, height } = document.querySelector('.pair canvas'), cells = [];
  const { data } = document.querySelector('.pair canvas').getContext('2d').getImageData(0, 0, width, height);
  for (let y = 0; y < 3; y++) for (let x = 0; x < 4; x++) {
    const at = 4 * (Math.floor((y + 0.5) * height / 3) * width + Math.floor((x + 0.5) * width / 4));
    cells.push([...data.slice(at, at + 3)]);
  }
  return cells;
}"""
