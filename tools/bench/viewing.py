"""The page of `replay view` in Chromium: from a wish to the painted tick, beside a bare loop of seek and layers.

Needs the groups test and viewers, and Chromium (tools/get_chromium.sh). Each part records its tapes, serves them, opens
the page and measures in the page itself. On a shared machine a time tells little, so each line has what tells more: the
load, how much longer a loop of pure computation takes than its processor time ("slowed"), the processor time of the
processes, and the ratio to the bare loop, which runs right before.

    python tools/bench/viewing.py [--only filled cold ...] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, expect, sync_playwright
from rich.console import Console
from rich.table import Table

import recorder
import replayer
from replayer.view.states.frame_encoding import encode_points, encode_values
from replayer.view.states.shown_layers import ShownLayers

RECORD = "from recorder.commands.main import main; main()"
REPLAY = "from replayer.commands.main import main; main()"
TICKS, LARGE_TICKS, LONG_TICKS, SAMPLES = 1500, 90, 1_000_000, 40
SEED, OTHER_SEED, DRAG_EVENTS, DRAG_S, PLAY_S = 5, 6, 200, 2.0, 5.0
LAYERS = ("plant energy", "heads of caterpillar")
ZOOMED_TICKS = 20
WAIT_MS = 600_000
SPIN_S = 0.2
WATCHED_TURNS = 14
LIVE_TICKS, LIVE_RATE = 3000, 100.0
KERNEL_CLOCK = os.sysconf("SC_CLK_TCK")

# In the page: go to ticks by the box of the transport, and wait until every map says that it shows the tick.
GO_TO = """async ([ticks, pause]) => {
  const maps = () => [...document.querySelectorAll('#maps canvas[role=img]')];
  const box = document.getElementById('tick'), times = [];
  const shows = (tick) => maps().length && maps().every((map) => map.ariaLabel?.includes(`tick ${tick}`) && !new RegExp(`tick ${tick}\\\\d`).test(map.ariaLabel));
  for (const tick of ticks) {
    await new Promise((done) => setTimeout(done, pause));
    const began = performance.now();
    box.value = String(tick);
    box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    while (!shows(tick)) await new Promise((done) => requestAnimationFrame(done));
    times.push(performance.now() - began);
  }
  return times;
}"""
COUNT_PAINTED = """() => {
  const map = document.querySelector('#maps canvas[role=img]');
  window.painted = [];
  let last = map.ariaLabel;
  new MutationObserver(() => {
    if (map.ariaLabel !== last) window.painted.push(performance.now());
    last = map.ariaLabel;
  }).observe(map, { attributeFilter: ['aria-label'] });
}"""
COUNT_HEADS = """() => {
  window.heads = [];
  new MutationObserver(() => {
    const tick = Number(/tick (\\d+)/.exec(document.querySelector('#maps canvas[role=img]').ariaLabel)[1]);
    if (tick !== window.heads.at(-1)?.[0]) window.heads.push([tick, Date.now()]);
  }).observe(document.querySelector('#maps canvas[role=img]'), { attributeFilter: ['aria-label'] });
}"""
# Playwright's own mouse waits for the page after each event: with it the drag takes as long as the page likes.
DRAG = """async ([events, ms]) => {
  const tracks = document.getElementById('tracks'), box = tracks.getBoundingClientRect();
  tracks.setPointerCapture = () => {}; // There is no such pointer.
  const send = (kind, share) => tracks.dispatchEvent(new PointerEvent(kind, {
    clientX: box.left + 80 + (box.width - 100) * share, clientY: box.top + 30, pointerId: 1, buttons: 1, bubbles: true }));
  const place = (at) => 0.5 - 0.5 * Math.cos((2.7 * Math.PI * at) / events);
  const began = performance.now();
  send('pointerdown', 0);
  for (let at = 1; at <= events; at++) {
    await new Promise((done) => setTimeout(done, began + (ms * at) / events - performance.now()));
    send('pointermove', place(at));
  }
  const painted = window.painted.length, took = performance.now() - began;
  send('pointerup', place(events));
  return [painted, took];
}"""


class Bench:
    """The lines of the table, and one browser for all of them."""

    def __init__(self, browser: Browser, folder: Path, *, quick: bool) -> None:
        self.browser, self.folder, self.quick = browser, folder, quick
        self.lines: list[dict[str, Any]] = []
        self.slowed = slowed()  # At the last line.

    def say(self, what: str, measured: str, target: str, *, met: bool | None, **figures: Any) -> None:
        """Add a line, and print it at once."""
        about = {"load": os.getloadavg()[0], "slowed": (self.slowed + (now := slowed())) / 2}
        self.slowed = now
        self.lines.append({"what": what, "measured": measured, "target": target, "met": met, **about, **figures})
        told = f"load {about['load']:.1f}, slowed {about['slowed']:.1f} x"
        print(f"{what}: {measured} ({target}; {told})", file=sys.stderr, flush=True)

    def meadow(self, name: str, *more: str, ticks: int, seed: int = SEED, scenario: str = "arms-race") -> Path:
        """Record a meadow, once."""
        tape = self.folder / name
        if not tape.exists():
            run = ["run", scenario, "-o", str(tape), "--ticks", str(ticks), "--seed", str(seed), "-q", *more]
            subprocess.run([sys.executable, "-c", RECORD, *run], check=True)
        return tape

    @contextlib.contextmanager
    def page(self, *arguments: str | Path, shown: str = "") -> Iterator[tuple[Page, int]]:
        """`replay view` and its page, and the process id of the command."""
        command = [sys.executable, "-c", REPLAY, "view", "--no-browser", *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            page = self.browser.new_page(viewport={"width": 1280, "height": 800})
            try:
                page.goto(f"{url}#{shown}")
                yield page, server.pid
            finally:
                page.close()
                server.send_signal(signal.SIGINT)
                server.wait()


def slowed() -> float:
    """How many times longer a loop takes by the clock than by its processor time: 1.0 on an idle machine."""
    start_s, used_s = time.perf_counter(), time.thread_time()
    while time.thread_time() - used_s < SPIN_S:
        pass
    return (time.perf_counter() - start_s) / (time.thread_time() - used_s)


def sampled(first: int, last: int, count: int, seed: int) -> list[int]:
    """Different ticks in random order."""
    drawn = np.random.default_rng(seed).choice(np.arange(first, last + 1), count, replace=False)
    return [int(tick) for tick in drawn]


def quantiles(times_ms: list[float]) -> tuple[float, float]:
    """p50 and p95."""
    p50, p95 = np.percentile(times_ms, [50, 95])
    return float(p50), float(p95)


def bare(tape: Path, ticks: list[int], layers: tuple[str, ...]) -> list[float]:
    """Milliseconds of seek, layers, points and their encoding for each tick, without a page."""
    times = []
    with replayer.open(tape) as run:
        run.seek(0)
        shown = ShownLayers(run, None, {0: run.state.snapshot()}, can_simulate=True)
        for tick in ticks:
            start_s = time.perf_counter()
            run.seek(tick)
            snapshot = run.state.snapshot()
            snapshot.hash()
            for number, values in enumerate(shown.layers(tick, snapshot, list(layers)).values()):
                encode_values(number, values)
            for number, places in enumerate(shown.points(tick, snapshot).values()):
                encode_points(number, places)
            times.append((time.perf_counter() - start_s) * 1000)
    return times


def filled(page: Page, ticks: int, sides: int = 1) -> None:
    """Wait until the cache holds all ticks."""
    expect(page.locator("#transport .state")).to_have_text(f"{sides * (ticks + 1):,} ticks ready", timeout=WAIT_MS)


def address(*layers: str, **more: object) -> str:
    """The part of the page's address after #."""
    query = {"layers": "|".join(layers), **more}
    return "&".join(f"{name}={str(value).replace(' ', '+')}" for name, value in query.items())


def measure_filled(bench: Bench) -> None:
    """Scrub over filled ticks; play them."""
    tape = bench.meadow("meadow.tape", "--events", ticks=TICKS)
    ticks = sampled(1, TICKS - 1, SAMPLES, 1)
    with bench.page(tape, shown=address(*LAYERS)) as (page, pid):
        filled(page, TICKS)
        p50, p95 = quantiles(page.evaluate(GO_TO, [ticks, 30]))
        bench.say(
            "scrub, filled", f"p50 {p50:.0f} ms, p95 {p95:.0f} ms", "p95 <= 50 ms", met=p95 <= 50, p50=p50, p95=p95
        )
        play(bench, page, pid, "play, filled, 48^2", 50, 60)


def play(bench: Bench, page: Page, pid: int, what: str, least: float, speed: int) -> None:
    """Pictures a second at some ticks a second, from the first tick on."""
    seconds = 1.0 if bench.quick else PLAY_S
    page.evaluate(GO_TO, [[0], 30])
    page.wait_for_timeout(500)
    page.get_by_label("Speed").select_option(str(speed))
    page.evaluate(COUNT_PAINTED)
    before_s = cpu_s(pid)
    page.keyboard.press(" ")
    page.wait_for_timeout(seconds * 1000)
    page.keyboard.press(" ")
    painted = page.evaluate("window.painted")
    used_s = cpu_s(pid) - before_s
    rate = len(painted) / seconds
    gaps = np.diff(painted)
    text = f"{rate:.1f} pictures/s at {speed} ticks/s, longest gap {max(gaps, default=0):.0f} ms, server's CPU {used_s / seconds:.0%}"
    target = f">= {least:.0f} pictures/s" if least else "none"
    bench.say(what, text, target, met=rate >= least if least else None, rate=rate)


def measure_two(bench: Bench) -> None:
    """Two tapes with their difference, filled."""
    tapes = [bench.meadow(f"two-{seed}.tape", ticks=TICKS // 3, seed=seed) for seed in (SEED, OTHER_SEED)]
    ticks = sampled(1, TICKS // 3 - 1, SAMPLES, 2)
    with bench.page(*tapes, shown=address(*LAYERS, compare="both")) as (page, pid):
        filled(page, TICKS // 3, 2)
        p50, p95 = quantiles(page.evaluate(GO_TO, [ticks, 30]))
        bench.say(
            "scrub, two and difference", f"p50 {p50:.0f} ms, p95 {p95:.0f} ms", "p95 <= 80 ms", met=p95 <= 80, p95=p95
        )
        play(bench, page, pid, "play, two and difference", 0, 60)


def measure_cold(bench: Bench) -> None:
    """Seek without a cache, beside the bare loop; drag over it."""
    tape = bench.meadow("meadow.tape", "--events", ticks=TICKS)
    ticks = sampled(1, TICKS - 1, SAMPLES, 3)
    alone = bare(tape, ticks, LAYERS)
    with bench.page(tape, "--cache-mb", "0", shown=address(*LAYERS, tick=0)) as (page, _):
        page.get_by_label("plant energy, tick 0").wait_for()
        page.wait_for_timeout(2000)
        times = page.evaluate(GO_TO, [ticks, 30])
        (bare50, bare95), (p50, p95) = quantiles(alone), quantiles(times)
        text = f"p50 {p50:.0f} ms, p95 {p95:.0f} ms; bare {bare50:.0f} and {bare95:.0f}; {p50 / bare50:.2f} x, {p95 / bare95:.2f} x"
        bench.say(
            "seek, cold", text, "<= 1.5 x bare", met=p50 <= 1.5 * bare50, ratio50=p50 / bare50, ratio95=p95 / bare95
        )
    with bench.page(tape, shown=address(*LAYERS, tick=0)) as (page, pid):
        page.get_by_label("plant energy, tick 0").wait_for()
        drag(bench, page, tape, pid)


def drag(bench: Bench, page: Page, tape: Path, pid: int) -> None:
    """A drag of 200 events in two seconds, over a tape that has just been opened."""
    page.evaluate(COUNT_PAINTED)
    before_s = cpu_s(pid)
    painted, took_ms = page.evaluate(DRAG, [DRAG_EVENTS, DRAG_S * 1000])
    used_s = cpu_s(pid) - before_s
    tick = int(page.locator("#tick").input_value().replace(",", ""))
    start_s = time.monotonic()
    page.get_by_label(f"plant energy, tick {tick},").wait_for(timeout=WAIT_MS)
    ended_s = time.monotonic() - start_s
    with replayer.open(tape) as run:
        run.seek(tick)
        expect(page.locator("#panel")).to_contain_text(f"{run.state.hash():016x}", timeout=WAIT_MS)
    rate = painted / used_s if used_s else 0.0
    text = (
        f"{painted} pictures in {took_ms / 1000:.1f} s and {used_s:.2f} s of processor time, {rate:.0f} a second of that; "
        f"tick {tick} with its hash {ended_s * 1000:.0f} ms after the drag"
    )
    bench.say("drag, cold", text, ">= 30 pictures", met=painted >= 30, painted=painted, used_s=used_s)


def measure_large(bench: Bench) -> None:
    """A meadow of 512^2, filled."""
    tape = bench.meadow("large.tape", ticks=LARGE_TICKS, scenario="large")
    with bench.page(tape, shown=address("plant energy")) as (page, pid):
        filled(page, LARGE_TICKS)
        p50, p95 = quantiles(page.evaluate(GO_TO, [sampled(1, LARGE_TICKS - 1, 30, 4), 30]))
        bench.say("scrub, filled, 512^2", f"p50 {p50:.0f} ms, p95 {p95:.0f} ms", "p95 <= 50 ms", met=p95 <= 50, p95=p95)
        page.evaluate(GO_TO, [[0], 30])
        page.keyboard.press("i")  # From here to the end, again and again.
        play(bench, page, pid, "play, filled, 512^2", 20, 60)


def window_of(page: Page) -> tuple[int, int] | None:
    """The visible stretch of ticks, as the address has it; None for the whole run."""
    found = re.search(r"window=(\d+)-(\d+)", page.url)
    return (int(found[1]), int(found[2])) if found else None


class Walk:
    """A small state, for a long run."""

    def __init__(self) -> None:
        self.field = np.zeros((8, 8))
        self.tick = 0

    def step(self) -> None:
        """One step: one cell changes."""
        self.tick += 1
        self.field[self.tick % 8, self.tick // 8 % 8] += 1


def measure_long(bench: Bench) -> None:
    """A run of a million ticks opens, and is zoomed to 20 ticks."""
    tape, ticks = bench.folder / "long.tape", LONG_TICKS // (20 if bench.quick else 1)
    recording: Any = recorder.record(Walk(), tape, keyframe_interval_ticks=1000, durability="none", sync="never")
    with recording as walk:
        for _ in range(ticks):
            walk.step()
    start_s = time.monotonic()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    with bench.page(tape, "--sim", "viewing:Walk", shown=f"tick={ticks // 2 + 77}") as (page, pid):
        page.get_by_label(f"field, tick {ticks // 2 + 77}").wait_for(timeout=WAIT_MS)
        opened_s, used_s = time.monotonic() - start_s, cpu_s(pid)
        text = f"{opened_s:.1f} s to the first picture, {used_s:.1f} s of processor time of the command"
        bench.say(f"open {ticks:,} ticks", text, "<= 3 s", met=opened_s <= 3, s=opened_s, used_s=used_s)
        expect(page.locator("#tracks")).to_be_visible()
        start_s, presses = time.monotonic(), int(np.ceil(np.log2(ticks / ZOOMED_TICKS)))
        for _ in range(presses):
            page.keyboard.press("+")
        while (shown := window_of(page)) is None or shown[1] - shown[0] > ZOOMED_TICKS:
            page.wait_for_timeout(50)
        text = f"{time.monotonic() - start_s:.1f} s, {presses} presses: ticks {shown[0]:,} to {shown[1]:,}"
        bench.say("zoom to 20 ticks", text, "works", met=None)


def record_in_real_time(tape: str, stamps: str, ticks: int, rate: float) -> None:
    """In a process: record a meadow at so many ticks a second, and note when each step had ended."""
    from sim.scenario.scenario_file import load_scenario  # noqa: PLC0415 - only in that process

    simulation = load_scenario("quiet-meadow").make(ticks)
    ended_ms, took_ms, used_ms, due_s = [0.0], [0.0], [0.0], time.monotonic()
    started_s = time.process_time()
    with recorder.Recorder(tape, simulation) as recording:
        for _ in range(ticks):
            due_s = max(due_s + 1 / rate, time.monotonic())
            time.sleep(max(0.0, due_s - time.monotonic()))
            begun_s, used_s = time.perf_counter(), time.thread_time()
            recording.step(None)
            used_ms.append((time.thread_time() - used_s) * 1000)
            took_ms.append((time.perf_counter() - begun_s) * 1000)
            ended_ms.append(time.time() * 1000)
    total_s = time.process_time() - started_s
    Path(stamps).write_text(json.dumps([ended_ms, took_ms, used_ms, total_s]), encoding="utf-8")


def measure_live(bench: Bench) -> None:
    """Follow a run of 100 ticks a second: from the end of a step to the painted tick; the run's steps with and without."""
    ticks = 600 if bench.quick else LIVE_TICKS
    took = {}
    for watched in (False, True):
        tape, stamps = bench.folder / f"live-{watched}.tape", bench.folder / f"stamps-{watched}.json"
        run = [sys.executable, __file__, "--record", str(tape), str(stamps), str(ticks)]
        with subprocess.Popen(run) as process:
            if watched:
                while not tape.exists():
                    time.sleep(0.05)
                with bench.page("--live", tape) as (page, _):
                    page.locator("#maps canvas[role=img]").first.wait_for(timeout=WAIT_MS)
                    page.evaluate(COUNT_HEADS)
                    process.wait()
                    page.get_by_text("The recording has ended").wait_for(timeout=WAIT_MS)
                    heads = page.evaluate("window.heads")
            process.wait()
        ended_ms, took[watched], _, _ = json.loads(stamps.read_text(encoding="utf-8"))
    late = [painted - ended_ms[tick] for tick, painted in heads if tick < ticks]
    (p50, p95), span_s = quantiles(late), (heads[-1][1] - heads[0][1]) / 1000
    text = f"p50 {p50:.0f} ms, p95 {p95:.0f} ms over {len(late)} pictures, {len(late) / span_s:.0f} a second"
    bench.say(f"live, {LIVE_RATE:.0f} ticks/s", text, "p95 <= 100 ms", met=p95 <= 100, p50=p50, p95=p95)
    (alone50, alone95), (with50, with95) = quantiles(took[False]), quantiles(took[True])
    text = f"p50 {with50:.2f} ms, p95 {with95:.2f} ms; not watched {alone50:.2f} and {alone95:.2f}"
    bench.say("live, the run's own steps", text, "none", met=None, watched=with50, alone=alone50)


def measure_watched(bench: Bench) -> None:
    """What a page that follows costs the recording: processor time of its process, in turns with and without."""
    ticks = 300 if bench.quick else 600
    used: dict[bool, list[float]] = {False: [], True: []}
    total: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2 * WATCHED_TURNS):
        watched = bool(turn % 2)
        tape, stamps = bench.folder / f"turn-{turn}.tape", bench.folder / f"turn-{turn}.json"
        run = [sys.executable, __file__, "--record", str(tape), str(stamps), str(ticks)]
        with subprocess.Popen(run) as process:
            if watched:
                while not tape.exists():
                    time.sleep(0.05)
                with bench.page("--live", tape):
                    process.wait()
            process.wait()
        _, _, steps_ms, total_s = json.loads(stamps.read_text(encoding="utf-8"))
        used[watched] += steps_ms[ticks // 2 :]  # By then the page is there.
        total[watched].append(total_s)
    step = {watched: float(np.median(times)) for watched, times in used.items()}
    whole = {watched: float(np.median(times)) for watched, times in total.items()}
    text = (
        f"a step {step[True]:.3f} ms of processor time, not watched {step[False]:.3f}: {step[True] / step[False] - 1:+.1%}; "
        f"the whole process {whole[True]:.2f} s and {whole[False]:.2f}: {whole[True] / whole[False] - 1:+.1%}"
    )
    bench.say(
        "watched, the recording's cost",
        text,
        "<= 1 %",
        met=step[True] <= 1.01 * step[False],
        ratio=step[True] / step[False],
    )


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and its children that live."""
    total = 0.0
    for one in [pid, *children(pid)]:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / KERNEL_CLOCK
    return total


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for tasks in found for child in tasks.read_text(encoding="ascii").split()]


PARTS = {
    "filled": measure_filled, "two": measure_two, "cold": measure_cold, "large": measure_large, "long": measure_long,
    "live": measure_live, "watched": measure_watched,
}  # fmt: skip


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="small and short, to try this program")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--record", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record is not None:
        tape, stamps, ticks = arguments.record
        record_in_real_time(tape, stamps, int(ticks), LIVE_RATE)
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        bench = Bench(browser, Path(folder), quick=arguments.quick)
        for name in arguments.only:
            PARTS[name](bench)
        browser.close()
    table = Table("what", "measured", "target", "met", "load", "slowed")
    for line in bench.lines:
        met = {True: "yes", False: "NO", None: ""}[line["met"]]
        busy = f"{line['load']:.1f}", f"{line['slowed']:.1f} x"
        table.add_row(line["what"], line["measured"], line["target"], met, *busy)
    Console(width=160).print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(bench.lines, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
