"""The page in a browser: Debian's Chromium, headless, driven by Playwright. Where there is none, one line says so."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from optional_packages import LazyModule, needs

import recorder
from recorder import Recorder
from sim.worlds.organisms import Organisms

from project_paths import ROOT
from small_worlds import record
from viewed_worlds import (
    EXTRA_TICK,
    HEIGHT,
    TICKS,
    WIDTH,
    DriftingPond,
    Game,
    Pond,
    inputs_of_pond,
    pond_at,
    record_ponds,
)

needs("playwright", "starlette", "uvicorn", "websockets")
playwright = LazyModule("playwright.sync_api")

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the page is not tested: there is no Chromium on this machine")

START_S = 60
PROGRAM = "from replayer.commands.main import main; main()"

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def tapes(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """As record_ponds makes them."""
    return record_ponds(tmp_path_factory.mktemp("view"))


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """`replay view` with these arguments, and its address; Ctrl-C ends it, with exit code 0 and no word on stderr."""
    support = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests/support")])
    command = [sys.executable, "-c", PROGRAM, "view", "--no-browser", *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": support}
    with subprocess.Popen(command, env=environment, **streams) as server:  # type: ignore[call-overload]
        try:
            assert select.select([server.stdout], [], [], START_S)[0], "the command has printed no address"
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGINT)
            _, errors = server.communicate(timeout=30)
    assert (server.returncode, errors) == (0, "")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests."""
    with playwright.sync_playwright() as driver:
        playwright.expect.set_options(timeout=30_000)
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address(tapes: list[Path]) -> Iterator[str]:
    """The address of both tapes."""
    with serving(*map(str, tapes), "--sim", "viewed_worlds:Pond") as url:
        yield url


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens pages; afterwards no console had an error, and nothing was asked of another host."""
    contexts, complaints, asked, served = [], [], set(), set()

    def opened(url: str, start: str | None = None, **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 840}, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(told_by(said)) if said.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.add(host_of(request.url)))
        served.add(host_of(url))
        page.goto(url)
        if start is None:
            playwright.expect(page.locator("#tick")).not_to_have_value("", timeout=30_000)
        else:
            playwright.expect(page.locator(start)).to_be_visible(timeout=30_000)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert asked - {""} == served


def told_by(said: Any) -> str:
    """A line of the console, and the address that it is about."""
    return f"{said.text} {said.location.get('url', '')}"


def host_of(url: str) -> str:
    """The host of an address; "" of data in the page itself."""
    return urlsplit(url).netloc


def shows(page: Any, tick: int, extra: int | None = None, side: str = "A") -> None:
    """Wait until the page shows a tick with the hash of a plain run."""
    truth = pond_at(tick, extra)
    playwright.expect(page.locator("#tick")).to_have_value(str(tick), timeout=30_000)
    playwright.expect(page.locator("#panel")).to_contain_text(f"{truth.state.hash():016x}, as recorded", timeout=30_000)
    label = re.compile(rf"^water, (tape {side}, )?tick {tick}, from \d+ to {truth.state['water'].max()}$")
    playwright.expect(page.get_by_label(label)).to_be_visible(timeout=30_000)


@pytest.mark.seldom(0.18)
def test_ticks_are_reached_by_keys_by_pointer_and_by_typing(open_page: Open, address: str) -> None:
    """Each time the hash shown is the one of the tick."""
    page = open_page(address)
    shows(page, 0)
    for key, tick in (("End", 60), ("ArrowLeft", 59), ("Shift+ArrowLeft", 49), ("PageUp", 40), ("}", 50), ("Home", 0)):
        page.keyboard.press(key)
        shows(page, tick)
    page.keyboard.press("g")
    page.keyboard.type("-7")
    page.keyboard.press("Enter")
    shows(page, 54)
    tracks = page.locator("#tracks").bounding_box()
    page.mouse.move(tracks["x"] + 200, tracks["y"] + 40)
    page.mouse.down()
    page.mouse.move(tracks["x"] + tracks["width"] - 60, tracks["y"] + 40, steps=30)
    page.mouse.up()
    tick = int(page.locator("#tick").input_value())
    assert 50 < tick < 60
    shows(page, tick)
    page.keyboard.press("/")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    shows(page, 12)


@pytest.mark.seldom(0.5)
def test_it_plays_both_ways_and_stops_at_the_ends(open_page: Open, address: str) -> None:
    """At 300 ticks a second, with the difference of both tapes."""
    page = open_page(f"{address}#tick=0&compare=both")
    page.get_by_label("Speed").select_option("300")
    page.keyboard.press(" ")
    shows(page, 60)
    playwright.expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.keyboard.press("j")
    shows(page, 0)


@pytest.mark.seldom(0.15)
def test_two_tapes_are_compared(open_page: Open, address: str) -> None:
    """The first difference is said, gone to, and marked in the map and in the inspector."""
    page = open_page(f"{address}#tick=5&compare=both")
    banner = page.locator("#banner")
    playwright.expect(banner).to_contain_text(f"First difference: tick {EXTRA_TICK}", timeout=30_000)
    playwright.expect(banner).to_contain_text(
        f"fields water, rained; inputs differ from tick {EXTRA_TICK}; 28 ticks differ"
    )
    shows(page, 5)
    playwright.expect(page.locator("figcaption").last).to_contain_text("the same")
    page.get_by_role("button", name="Go there").click()
    shows(page, EXTRA_TICK)
    shows(page, EXTRA_TICK, EXTRA_TICK, "B")
    playwright.expect(page.locator("figcaption").last).to_contain_text("1 cell differs, by 1 at most")
    playwright.expect(page.locator("#panel .differs").first).to_contain_text("they differ")
    page.get_by_role("tab", name="Fields").click()
    row = page.locator("#panel tr", has_text="rained")
    playwright.expect(row.locator(".differs")).to_contain_text("one int64: value 16")


@contextlib.contextmanager
def notebook(cell: str) -> Iterator[str]:
    """The address of a page of this machine, under another name, that shows a cell: a browser blocks others' frames."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(f"<!doctype html><link rel=icon href='data:,'>{cell}".encode())

        def log_message(self, *_: object) -> None:
            """Not to stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.seldom(0.5)
def test_a_page_in_the_frame_of_another_site_works_without_cookies(browser: Any, tapes: list[Path]) -> None:
    """As in a notebook: run.view() in a page of another address, whose frame shows the tick and plays."""
    import replayer

    complaints: list[str] = []
    with replayer.open(tapes[0], Pond) as run, run.view(show="tick=12") as cell, notebook(cell._repr_html_()) as url:
        context = browser.new_context()
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        frame = page.frame_locator("iframe")
        playwright.expect(frame.get_by_label(re.compile("^water, tick 12,"))).to_be_visible()
        frame.locator("#tracks").press("End")
        playwright.expect(frame.get_by_label(re.compile("^water, tick 60,"))).to_be_visible()
        assert context.cookies() == []
        context.close()
    assert complaints == []


@pytest.mark.seldom(0.5)
def test_what_is_seen_can_be_saved(open_page: Open, tapes: list[Path]) -> None:
    """A picture, the curves, a command that renders the loop, and one that shows the same page."""
    with serving(str(tapes[0]), "--sim", "viewed_worlds:Pond", "--show", "tick=12&loop=5-9&curves=rained") as url:
        page = open_page(url)
        playwright.expect(page.get_by_label(re.compile("^water, tick 12,"))).to_be_visible(timeout=30_000)
        page.keyboard.press("s")
        box = page.get_by_role("dialog", name="Save")
        with page.expect_download() as picture:
            box.get_by_role("button", name="Save picture").click()
        assert picture.value.suggested_filename == "one-12.png"
        assert Path(picture.value.path()).read_bytes().startswith(b"\x89PNG")
        with page.expect_download() as curves:
            box.get_by_role("link", name="Save CSV").click()
        assert Path(curves.value.path()).read_text().splitlines()[0] == "tick,rained"
        render, show = box.locator("code").all_inner_texts()
        expected = "--sim viewed_worlds:Pond --ticks 5..9 --layer water --fps 30 -o one.mp4"
        assert render == f"replay render {tapes[0]} {expected}"
        assert show.startswith(f"replay view {tapes[0]} --sim viewed_worlds:Pond --show 'tapes=one.tape&tick=12&")
        page.keyboard.press("Escape")
        page.close()


@pytest.mark.seldom(0.5)
def test_the_address_holds_what_is_seen(open_page: Open, address: str) -> None:
    """A reload shows the same; texts of a tape are texts."""
    page = open_page(f"{address}#tick=20&compare=difference&curves=rained&map=inferno")
    shows_tick = page.locator("#tick")
    playwright.expect(shows_tick).to_have_value("20")
    page.keyboard.press("ArrowRight")
    playwright.expect(shows_tick).to_have_value("21")
    page.keyboard.press("ArrowLeft")
    page.locator("summary", has_text="<img").first.click(timeout=30_000)
    playwright.expect(page.locator("#panel")).to_contain_text("onerror=")
    assert page.title() == "one.tape | other.tape – replay view"
    playwright.expect(page).to_have_url(
        re.compile("tick=20&.*curves=rained.*compare=difference.*map=inferno"), timeout=15_000
    )
    page.reload()
    playwright.expect(shows_tick).to_have_value("20", timeout=30_000)
    playwright.expect(page.get_by_role("radio", name="Δ", exact=True)).to_have_attribute("aria-checked", "true")
    playwright.expect(page.locator(".chip .name")).to_have_text(["rained"])
    assert "token" not in page.url


NAMELESS = """[...document.querySelectorAll('button, input, select, canvas, dialog, [role]')]
    .filter((e) => e.checkVisibility() && e.getAttribute('aria-hidden') !== 'true')
    .filter((e) => !(e.ariaLabel || e.getAttribute('aria-labelledby') || e.innerText?.trim() || e.closest('label')?.innerText.trim()))
    .filter((e) => !e.closest('.legend') && e.id !== 'banner' && e.id !== 'tip').map((e) => e.outerHTML.slice(0, 90))"""


@pytest.mark.sample(1)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 800), ("dark", 420)])
@pytest.mark.seldom(0.15)
def test_narrow_windows_both_schemes_and_screen_readers(open_page: Open, address: str, scheme: str, width: int) -> None:
    """Nothing is wider than the window, colours follow the system, and each control has a name."""
    page = open_page(address, color_scheme=scheme, viewport={"width": width, "height": 760})
    shows(page, 0)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    lightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (lightness < 60) == (scheme == "dark")
    assert page.evaluate(NAMELESS) == []
    slider = page.get_by_role("slider", name="Tick")
    playwright.expect(slider).to_have_attribute("aria-valuetext", "tick 0 of 60")
    if width == 1280:
        page.keyboard.press("?")
        playwright.expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        page.keyboard.press("t")
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.seldom(0.15)
def test_objects_and_a_desync(open_page: Open, tmp_path: Path) -> None:
    """A recorded object is a tree of paths; a tick that differs from its recording is reported, and others are shown."""
    import recorder

    game, pond = tmp_path / "game.tape", tmp_path / "pond.tape"
    with recorder.record(Game(), game) as played:
        for _ in range(10):
            played.step()
    with serving(str(game), "--sim", "viewed_worlds:Game") as url:
        page = open_page(f"{url}#tick=7")
        playwright.expect(page.locator("#panel .leaf", has_text="turn")).to_contain_text("7", timeout=30_000)
        page.locator("summary", has_text="[1]").click()
        playwright.expect(page.locator("#panel .leaf[title='units[1].hp'] .changed")).to_have_text("17")
        page.get_by_role("button", name="curve").first.click()
        page.close()
    record(pond, Pond(), [[]] * 40, keyframe_interval_ticks=20)
    with serving(str(pond), "--sim", f"viewed_worlds:{DriftingPond.__name__}") as url:
        page = open_page(f"{url}#tick=18")
        playwright.expect(page.locator("#banner")).to_contain_text("This tick cannot be shown", timeout=30_000)
        page.keyboard.press("PageDown")
        playwright.expect(page.get_by_label(re.compile("^water, tick 20,"))).to_be_visible(timeout=30_000)
        page.close()


@pytest.mark.seldom(0.15)
def test_a_dump_is_seen_from_both_sides(open_page: Open, tmp_path: Path) -> None:
    """It opens at its tick; at the next keyframe the one cell that differs is marked; nothing is marked before."""
    import replayer

    record(tmp_path / "pond.tape", Pond(), [[]] * 40, keyframe_interval_ticks=20)
    with replayer.Timeline(tmp_path / "pond.tape", DriftingPond, dump_folder=tmp_path) as run:
        bad = run.verify().first_bad
    (dump,) = (path for path in tmp_path.iterdir() if path.is_dir())
    with serving(str(dump), "--sim", "viewed_worlds:DriftingPond") as url:
        page = open_page(f"{url}#compare=both")
        playwright.expect(page.locator("#tick")).to_have_value(str(bad))
        playwright.expect(page.locator("#banner")).to_contain_text(f"DESYNC at tick {bad}, field water")
        playwright.expect(page.locator("#panel")).to_contain_text(f"Desync at tick {bad}")
        waiting = page.locator("figure .wait").first
        playwright.expect(waiting).to_have_text(f"not recorded; tick {bad - 1}, the last that agrees")
        playwright.expect(page.locator("figcaption").last).to_contain_text("not at this tick")
        page.get_by_role("button", name="Keyframe 20").click()
        playwright.expect(page.locator("figcaption").last).to_contain_text("1 cell differs", timeout=30_000)
        page.keyboard.press("Shift+F")
        page.get_by_role("button", name="Tick before").click()
        playwright.expect(page.locator("figcaption").last).to_contain_text("the same", timeout=30_000)
        page.close()


@pytest.mark.seldom(0.18)
def test_a_run_is_opened_from_the_list_of_its_folder(open_page: Open, tapes: list[Path]) -> None:
    """The list is sorted and filtered in the page; a click opens a run, whose address holds it, and a link leads back."""
    with serving(str(tapes[0].parent), "--sim", "viewed_worlds:Pond") as url:
        page = open_page(url, start="#words")
        rows = page.locator("#rows tr")
        playwright.expect(rows.locator("a")).to_have_text(["one.tape", "other.tape"], timeout=30_000)
        page.get_by_role("button", name="run").click()
        playwright.expect(rows.locator("a")).to_have_text(["other.tape", "one.tape"])
        page.keyboard.press("/")
        page.keyboard.type("one 60")
        playwright.expect(rows).to_have_count(0)
        playwright.expect(page.locator("#none")).to_have_text("No run fits this filter.")
        for _ in "60":
            page.keyboard.press("Backspace")
        playwright.expect(rows.locator("a")).to_have_text(["one.tape"])
        playwright.expect(page.locator("#sum")).to_contain_text("1 of 2 runs, 60 ticks")
        rows.locator("a").click()
        shows(page, 0)
        page.keyboard.press("End")
        shows(page, TICKS)
        page.wait_for_url(re.compile(rf"/run/one\.tape/#.*tick={TICKS}"))
        page.reload()
        shows(page, TICKS)
        page.get_by_title("All runs of the folder").click()
        playwright.expect(rows.locator("a")).to_have_text(["one.tape"], timeout=30_000)
        playwright.expect(page.locator("#words")).to_have_value("one ")
        page.context.close()


@pytest.mark.seldom(0.18)
def test_the_page_follows_a_recording_until_it_ends(open_page: Open, tmp_path: Path) -> None:
    """It shows each new tick, stays where one goes back to, returns to the head by a key, and says when it has ended."""
    path, inputs = tmp_path / "run.tape", iter(inputs_of_pond(TICKS))
    with Recorder(path, Pond(), keyframe_interval_ticks=20) as tape:

        def step_to(tick: int) -> None:
            while tape.tick < tick:
                tape.step(next(inputs))

        step_to(12)
        with serving("--live", str(path), "--sim", "viewed_worlds:Pond") as url:
            page = open_page(url)
            shows(page, 12)
            step_to(33)
            shows(page, 33)
            follow = page.locator("#follow")
            playwright.expect(follow).to_have_attribute("aria-pressed", "true")
            page.keyboard.press("Shift+ArrowLeft")
            shows(page, 23)
            playwright.expect(follow).to_have_attribute("aria-pressed", "false")
            step_to(45)
            playwright.expect(page.locator("#transport")).to_contain_text("of 45")
            shows(page, 23)
            page.keyboard.press("n")
            shows(page, 45)
            step_to(TICKS)
            tape.close({"reason": "done"})
            playwright.expect(page.locator("#banner")).to_contain_text(f"The recording has ended at tick {TICKS}done")
            playwright.expect(follow).to_be_hidden()
            shows(page, TICKS)
            page.keyboard.press("Home")
            shows(page, 0)
            page.context.close()


@pytest.mark.seldom(0.5)
def test_curves_of_several_scales_tell_them_in_their_chips_and_titles_have_room(
    open_page: Open, tmp_path: Path
) -> None:
    """The lowest and highest value of a plain run, and whose scale the axis has. Both titles are seen in full."""
    path = tmp_path / "organisms.tape"
    world = Organisms({"world": "organisms", "seed": 9, "organisms_max": 40, "inflow": 500})
    counts, pools = [], []
    with Recorder(path, world) as tape:
        for tick in range(21):
            if tick:
                tape.step(None)
            counts.append(int(world.telemetry()["organisms"]))
            pools.append(int(world.telemetry()["pool"]))
    with serving(str(path)) as url:
        page = open_page(f"{url}#tick=3&curves=organisms|pool", viewport={"width": 800, "height": 600})
        ranges = page.locator(".chip .dim")
        expected = [f"{min(values):,} … {max(values):,}" for values in (counts, pools)]
        playwright.expect(ranges).to_have_text(expected)
        for title in page.locator(".card b").all():
            assert title.evaluate("element => element.scrollWidth <= element.clientWidth")
        playwright.expect(page.locator("#axis")).to_have_text("axis: organisms; scaled apart: pool by itself")
        page.get_by_role("button", name="Remove the curve pool").click()
        playwright.expect(ranges).to_have_text(expected[:1])
        playwright.expect(page.locator("#axis")).to_be_hidden()
        page.context.close()


@pytest.mark.seldom(0.5)
def test_curves_that_share_a_scale_have_their_own_figures_in_their_chips(open_page: Open, tmp_path: Path) -> None:
    """The lowest and the highest value of each, as a plain loop has them, in what is seen of the run."""
    path = tmp_path / "farm.tape"
    farm = {"plants.grass": [], "plants.clover": [], "heads": []}
    with recorder.record(Game(), path, trial_ms=0, quiet=True, telemetry=farm_at) as game:
        for tick in range(61):
            if tick:
                game.step()
            for name, value in farm_at(game).items():
                farm[name].append(value)
    with serving(str(path)) as url:
        page = open_page(f"{url}#tick=0&curves=plants.grass|plants.clover|heads&window=20-40")
        seen = [values[20:41] for values in farm.values()]
        playwright.expect(page.locator(".chip .dim")).to_have_text([f"{min(one)} … {max(one)}" for one in seen])
        playwright.expect(page.locator("#axis")).to_have_text("axis: plants; scaled apart: heads by itself")
        page.get_by_role("button", name="The whole run").click()
        seen = list(farm.values())
        playwright.expect(page.locator(".chip .dim")).to_have_text([f"{min(one)} … {max(one)}" for one in seen])
        page.context.close()


def farm_at(game: Game) -> dict[str, int]:
    """Two curves of one scale, and one of another."""
    turn = game.turn
    return {"plants.grass": 247 + turn * 7 % 41, "plants.clover": 300 + turn * turn % 97, "heads": 24 - turn % 5}


def test_a_tick_that_the_run_has_not_is_told(open_page: Open, address: str) -> None:
    """The nearest is shown, and why; the next step says no more of it."""
    page = open_page(address)
    status = page.locator("#transport .state")
    for typed, said, tick in (("9999", "the last tick is 60", 60), ("-9999", "the first tick is 0", 0)):
        page.locator("#tick").fill(typed)
        page.keyboard.press("Enter")
        playwright.expect(status).to_have_text(said)
        shows(page, tick)
        playwright.expect(status).to_have_text(said)
    page.keyboard.press("ArrowRight")
    playwright.expect(status).not_to_have_text("the first tick is 0")
    assert page.get_by_label("Speed").locator("option").all_text_contents()[:2] == ["1 tick/s", "2 ticks/s"]


def test_colours_mean_the_same_at_all_ticks(open_page: Open, address: str) -> None:
    """The scale is that of the whole run as soon as all ticks are ready, at the first tick and after layers were chosen."""
    page = open_page(f"{address}#tick=1")
    highest = max(int(pond_at(tick, extra).state["water"].max()) for tick in range(61) for extra in (None, EXTRA_TICK))
    scale = page.locator(".legend span").last
    playwright.expect(scale).to_have_text(str(highest))
    for _ in range(2):
        page.get_by_label("water", exact=True).click()
    playwright.expect(scale).to_have_text(str(highest))
    page.get_by_label("Scale: one that grows").select_option("own")
    playwright.expect(scale).to_have_text(str(pond_at(1).state["water"].max()))


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_the_legend_has_the_colour_that_nothing_has(open_page: Open, address: str, scheme: str) -> None:
    """Of a cell that is 0, in both schemes; the difference, whose middle is 0, has no such square."""
    page = open_page(f"{address}#tick=41&compare=both", color_scheme=scheme)
    shows(page, 41)
    legend = page.locator(".legend i").first
    playwright.expect(legend).to_be_visible()
    shown = legend.evaluate("element => getComputedStyle(element).backgroundColor.match(/\\d+/g).map(Number)")
    y, x = (int(place) for place in np.argwhere(pond_at(41).state["water"] == 0)[-1])
    cell = page.locator("figure canvas").first.evaluate(
        f"""canvas => [...canvas.getContext('2d').getImageData(
            ({x} + 0.9) * canvas.width / {WIDTH}, ({y} + 0.9) * canvas.height / {HEIGHT}, 1, 1).data].slice(0, 3)"""
    )
    assert cell == shown


def test_keys_that_are_pressed_while_the_page_opens_are_done(open_page: Open, address: str) -> None:
    """The answer to the page's first question is held until a tick was typed; meanwhile the page says how long it takes."""
    page = open_page(address)  # The cookie, and the processes of the tapes.
    shows(page, 0)
    held: list[Any] = []
    page.route("**/api/info?*", lambda route: held.append(route))  # noqa: PLW0108 - a method has no place for its own mark
    page.evaluate("location.hash = ''")
    page.reload(wait_until="load")
    maps = page.locator("#maps")
    playwright.expect(maps).to_contain_text(re.compile(r"opening the tape … \d+ s"))
    page.keyboard.type("g33")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    held[0].continue_()
    shows(page, 34)


def test_the_branch_box_has_the_recorded_inputs_also_where_they_are_none(open_page: Open, tmp_path: Path) -> None:
    """None is recorded as null, and is no empty list."""
    path = tmp_path / "pond.tape"
    record(path, Pond(), [None] * 12)
    with serving(str(path), "--sim", "viewed_worlds:Pond") as url:
        page = open_page(f"{url}#tick=5&layers=water")
        shows(page, 5)
        page.get_by_role("button", name="Ask", exact=True).click()
        playwright.expect(page.get_by_label("Inputs")).to_have_value('{"tick": 6, "inputs": null}')
        page.close()


@pytest.mark.seldom(0.5)
def test_the_run_is_asked_and_left_from_the_page(open_page: Open, tmp_path: Path) -> None:
    """Find next, marks of all matches, who wrote a cell, and a branch beside its parent: by keys and by clicks."""
    path = tmp_path / "pond.tape"
    record(path, Pond(), inputs_of_pond(TICKS), keyframe_interval_ticks=20)
    holds = [tick for tick in range(TICKS + 1) if pond_at(tick).state["water"].max() > 25]
    cells = [int(pond_at(tick).state["water"][4, 3]) for tick in range(41)]
    with serving(str(path), "--sim", "viewed_worlds:Pond") as url:
        page = open_page(f"{url}#tick=0&layers=water")
        answer = page.locator("#answer")
        page.keyboard.press("q")
        page.keyboard.type("water.max() > 25")
        page.keyboard.press("Enter")
        shows(page, holds[0])
        page.get_by_role("button", name="Mark all").click()
        playwright.expect(answer).to_contain_text(f"holds at {len(holds)} of ticks 0 to 60")
        page.keyboard.press("m")
        shows(page, holds[1])
        page.keyboard.press("Shift+M")
        shows(page, holds[0])

        page.keyboard.press("g")
        page.keyboard.type("40")
        page.keyboard.press("Enter")
        shows(page, 40)
        box = page.get_by_label(re.compile("^water, tick 40,")).bounding_box()
        page.mouse.click(box["x"] + box["width"] * 3.5 / WIDTH, box["y"] + box["height"] * 4.5 / HEIGHT)
        playwright.expect(page.get_by_label("Row", exact=True)).to_have_value("4,3")
        page.keyboard.press("Enter")
        changed = max(tick for tick in range(1, 41) if cells[tick] != cells[tick - 1])
        playwright.expect(answer).to_contain_text(
            f"water[4, 3]: {cells[changed - 1]} → {cells[changed]} at tick {changed}"
        )
        playwright.expect(answer).to_contain_text("viewed_worlds.py")
        answer.get_by_role("button", name="Tick before").click()
        shows(page, changed - 1)

        page.get_by_role("button", name="Ask", exact=True).click()
        inputs = page.get_by_label("Inputs")
        playwright.expect(inputs).not_to_have_value("")
        inputs.fill(f'{{"tick": {changed + 1}, "inputs": [{{"x": 1, "y": 2, "drops": 1}}]}}')
        page.get_by_role("button", name="Record").click()
        playwright.expect(answer).to_contain_text(f"first different at tick {changed + 1}")
        answer.get_by_role("link", name="Show beside its parent").click()
        playwright.expect(page.locator("#banner")).to_contain_text(f"First difference: tick {changed + 1}")
        playwright.expect(page.locator("figcaption").last).to_contain_text("1 cell differs, by 1 at most")
        page.keyboard.press("Home")
        playwright.expect(page.get_by_label(re.compile("^water, tape B, tick 0,"))).to_be_visible()
        page.close()


def test_a_map_names_its_points_and_can_be_as_large_as_the_page(open_page: Open, tapes: list[Path]) -> None:
    """The line below it has how many there are; X leaves nothing beside the map, and the address keeps that."""
    with serving(str(tapes[0]), "--sim", "viewed_worlds:Pond", "--show", "41") as url:
        page = open_page(url)
        shows(page, 41)
        playwright.expect(page.locator(".named")).to_have_text("frogs 5")
        before = page.locator(".pair canvas").bounding_box()["width"]
        page.keyboard.press("x")
        playwright.expect(page.locator("#inspector")).to_be_hidden()
        playwright.expect(page.locator("#curves")).to_be_hidden()
        assert page.locator(".pair canvas").bounding_box()["width"] > before
        page.wait_for_url(re.compile("large=water"))
        page.reload()
        playwright.expect(page.locator("#inspector")).to_be_hidden()
        page.get_by_label("All maps").click()
        playwright.expect(page.locator("#inspector")).to_be_visible()
        page.get_by_label("frogs", exact=True).uncheck()
        playwright.expect(page.locator(".named")).to_be_hidden()
        page.close()  # Before its server ends.


def test_points_of_two_tapes_are_counted_for_each(open_page: Open, address: str) -> None:
    """Beside the line in the middle; the difference has no points, and no line."""
    page = open_page(f"{address}#tick=41&compare=both")
    shows(page, 41)
    playwright.expect(page.locator(".named")).to_have_text("frogs 5 | 5")
    page.get_by_role("radio", name="Δ", exact=True).click()
    playwright.expect(page.locator(".named")).to_be_hidden()
