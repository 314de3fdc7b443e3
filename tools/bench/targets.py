"""The targets T1 to T10 in one table: measured value, limit, met or not. One process a target.

Times on shared machines are noisy, and this machine is not the one on which the targets were set. If a target is a
time, its reference is measured in the same process, and the ratio counts. T1, T1b, a part of T7, T8 and T9
have separate programs, which are run and read.

    python tools/bench/targets.py [--only T3 ...] [--json FILE] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import tables
import turns
import ways
import workloads
import xxhash
from rich.console import Console
from rich.table import Table

import recorder
import replayer
from recorder.format.recording.change_replay import ChangeLog

HERE = Path(__file__).parent
TICKS = {"S": 3000, "M": 900, "G": 600, "L": 120}
INTERVAL = {"S": 300, "M": 100, "G": 60, "L": 20}  # Enough keyframes for a median.
KEYFRAMES, KEYFRAME_INTERVAL = (
    14,
    {"M": 150, "G": 150, "L": 20},
)  # Ticks: the writer finishes long before the next keyframe.
SEEK_TICKS = {"S": 3000, "M": 1500, "L": 660}
PEER_TICKS = {"S": 300, "M": 12, "G": 8}
SEEKS = 30
WORKLOADS = ["S", "M", "G", "L"]
IMPORTS = 9


@attrs.frozen
class Line:
    """One line of the table.

    Attributes:
        target: T1 to T10.
        what: was measured, and on what.
        measured: as text.
        limit: that the target sets, as text.
        met: True if the measured value is within the limit.
    """

    target: str
    what: str
    measured: str
    limit: str
    met: bool = attrs.field(converter=bool)  # NumPy has its own bool type.


@attrs.frozen
class Run:
    """The cost of recording a workload, in µs beyond the step.

    Attributes:
        tick_us: that of ticks without a keyframe.
        full_us, delta_us: that of ticks with one.
        copy_us: that of a copy of the complete state, right after steps of the same workload.
        hash_us: that of a hash of the state, right after steps, too.
    """

    tick_us: list[float]
    full_us: list[float]
    delta_us: list[float]
    copy_us: float
    hash_us: float


def record(
    path: Path, name: str, *, marks: bool = True, ticks: int | None = None, interval: int | None = None, **settings: Any
) -> Run:
    """Record a workload; after some of its ticks copy and hash the state, as a reference."""
    ticks, interval = ticks or TICKS[name], interval or INTERVAL[name]
    timed = workloads.Timed(workloads.make(name, marks_writes=marks))
    tick_inputs = workloads.many_orders(200)
    plain: list[float] = []
    keyframes: list[float] = []
    copies: list[float] = []
    hashes: list[float] = []
    spare = timed.state.arena.copy()
    # Every second keyframe is full: there are enough of both.
    with recorder.Recorder(path, timed, keyframe_interval_ticks=interval, full_every=2, **settings) as tape:
        for tick in range(1, ticks + 1):
            if tick % interval == 0:
                tape.flush()  # In real runs keyframes are further apart: the writer has finished the one before.
            start = time.perf_counter_ns()
            tape.step(tick_inputs[tick % 200])
            beyond_us = (time.perf_counter_ns() - start - timed.step_ns) / 1e3
            (keyframes if tick % interval == 0 else plain).append(beyond_us)
            if tick % interval == interval // 2:
                copies.append(timed_us(lambda: np.copyto(spare, timed.state.arena)))
                hashes.append(timed_us(lambda: xxhash.xxh3_64_intdigest(timed.state.arena.data)))
    middle = statistics.median
    return Run(
        plain,
        keyframes[1::2],
        keyframes[::2],
        middle(copies),
        middle(hashes),
    )


def timed_us(action: Callable[[], Any]) -> float:
    """The duration of one call."""
    start = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - start) / 1e3


def best_peer(folder: Path, name: str) -> tuple[str, float] | None:
    """MCAP or blosc2, whichever takes fewer bytes a tick for each complete state; None without either."""
    found = {}
    for way in ("MCAP zstd", "blosc2"):
        known = ways.WAYS[way]
        if ways.missing(known):
            continue
        place = folder / f"{name} {way}"
        place.mkdir()
        peer = ways.make_way(place, kind=known.kind, workload=name, every=1)
        for tick in range(1, PEER_TICKS[name] + 1):
            peer.tick(tick)
        peer.close()
        found[way] = turns.folder_bytes(place) / PEER_TICKS[name]
    return min(found.items(), key=lambda one: one[1]) if found else None


# --- the targets


def t2(folder: Path) -> Iterator[Line]:
    """Identity of the state each tick: in mode changes a hash of the changes, including all other costs of a tick."""
    for name in WORKLOADS[1:]:
        run = record(folder / f"{name}.tape", name, mode="changes")
        share = statistics.median(run.tick_us) / run.hash_us
        what = f"{name}: total cost of a tick in mode changes ÷ a full hash ({run.hash_us:,.0f} µs)"
        yield Line("T2", what, f"{share:.2f} ×", "≤ 0.25 ×", share <= 0.25)


def t3(folder: Path) -> Iterator[Line]:
    """The producer's cost of keyframes."""
    for name in WORKLOADS[1:]:
        for marks in (True, False):
            # Enough that the first ones, whose memory is fresh, are not the median; the worst one is named.
            count, interval = KEYFRAMES, KEYFRAME_INTERVAL[name]
            run = record(
                folder / f"{name}{marks}.tape",
                name,
                marks=marks,
                blame="none",
                ticks=count * interval,
                interval=interval,
            )
            tick = statistics.median(run.tick_us)
            for kind, times in (("full", run.full_us), ("delta", run.delta_us)):
                cost = statistics.median(times) - tick
                limit = 0.6 * run.copy_us + 30 if marks else 1.1 * run.copy_us
                share = (cost - (30 if marks else 0)) / run.copy_us
                limit_text = "≤ 0.6 × + 30 µs" if marks else "≤ 1.1 ×"
                worst = max(times) - tick
                what = f"{name}: {kind} keyframe, {'marks' if marks else 'no marks'} (worst {worst:,.0f} µs), ÷ copy of the state"
                measured = f"{cost:,.0f} µs = {share:.2f} ×" + (" + 30 µs" if marks else "")
                yield Line("T3", what, measured, limit_text, cost <= limit)


def t4(folder: Path) -> Iterator[Line]:
    """The change log."""
    shares = {"S": 0.5, "M": 1 / 200, "G": 1 / 20}
    for name in WORKLOADS:
        run = record(folder / f"{name}.tape", name, mode="changes", blame="none")
        p50, p99 = np.percentile(run.tick_us, [50, 99])
        above_us = p50 - run.hash_us
        limit_us = {"M": 30, "L": 70}.get(name)
        if limit_us is not None:
            what = f"{name}: a tick in mode changes beyond the step (p99 {p99:,.0f}; without the full hash {above_us:,.0f})"
            yield Line("T4", what, f"{p50:,.0f} µs", f"≤ {limit_us} µs", p50 <= limit_us)
        peer = best_peer(folder, name) if name in shares else None
        if peer is not None:
            way, peer_bytes = peer
            size = bytes_a_tick(folder / f"{name}-bytes.tape", name, mode="changes", blame="none")
            what = f"{name}: bytes a tick, mode changes ({size:,.0f}) ÷ {way} ({peer_bytes:,.0f})"
            share = size / peer_bytes
            yield Line("T4", what, f"1/{1 / share:,.1f}", f"≤ 1/{1 / shares[name]:,.0f}", share <= shares[name])


def bytes_a_tick(path: Path, name: str, **settings: Any) -> float:
    """Bytes per tick of a tape with default keyframes, inputs included."""
    world, random = workloads.make(name), np.random.Generator(np.random.PCG64(7))
    ticks = {"S": 6000, "M": 1200, "G": 1200, "L": 600}[name]
    with recorder.Recorder(path, world, **settings) as tape:
        for _ in range(ticks):
            tape.step(workloads.orders(random))
    return path.stat().st_size / ticks


def t5(folder: Path) -> Iterator[Line]:
    """Bytes a tick in mode events, with default keyframes."""
    for name in WORKLOADS:
        size = bytes_a_tick(folder / f"{name}.tape", name)
        if name == "S":
            yield Line("T5", "S: bytes a tick, per-field hashes included", f"{size:,.0f} B", "≤ 140 B", size <= 140)
        else:
            peer, share = {"M": (12_700, 0.45), "G": (12_200, 0.45), "L": (581_000, 0.28)}[name]
            limit = share * peer
            what = f"{name}: bytes a tick (best peer in the design notes: {peer:,})"
            yield Line("T5", what, f"{size:,.0f} B", f"≤ {limit:,.0f} B", size <= limit)


def t6(folder: Path) -> Iterator[Line]:
    """Seeks: a full keyframe, any tick by changes, one tick back."""
    for name, times, limit_ms in (("S", None, 1.0), ("M", 10, 8.0), ("L", 3, 100.0)):
        if name not in WORKLOADS:
            continue
        path = folder / f"{name}.tape"
        run = record(path, name, mode="changes", blame="none", ticks=SEEK_TICKS[name], interval=300)
        with replayer.Tape(path) as tape:
            fulls = [place for place in tape.keyframes if place.is_full]
            if times is not None:
                decode = statistics.median(timed_us(partial(tape.snapshot, place)) for place in fulls[:5] * 2)
                what = f"{name}: a full keyframe read ({decode / 1e3:,.1f} ms) ÷ copy of the state"
                yield Line("T6", what, f"{decode / run.copy_us:.1f} ×", f"≤ {times} ×", decode <= times * run.copy_us)
            log, found = ChangeLog(tape.recording), []
            for tick in np.random.Generator(np.random.PCG64(3)).integers(1, SEEK_TICKS[name], SEEKS).tolist():
                log.forget()
                found.append(timed_us(partial(log.reach, tick)) / 1e3)
        p50, p99 = np.percentile(found, [50, 99])
        what = f"{name}: seek to any tick by changes (p99 {p99:,.1f} ms)"
        yield Line("T6", what, f"{p50:,.1f} ms", f"≤ {limit_ms:g} ms", p50 <= limit_ms)
    yield from step_back(folder)


def step_back(folder: Path) -> Iterator[Line]:
    """One tick back after a seek, compared with a step."""
    for name in ("S", "M"):
        path = folder / f"{name}-events.tape"
        with recorder.Recorder(path, workloads.make(name)) as tape:
            for _ in range(600):
                tape.step([])
        other = workloads.make(name)
        with replayer.open(path, partial(workloads.make, name)) as run:
            backs, steps = [], []
            for tick in range(50, 590, 37):
                run.seek(tick)
                backs.append(timed_us(run.step_back))
                steps.append(timed_us(partial(other.step, [])))
        share = statistics.median(backs) / statistics.median(steps)
        yield Line("T6", f"{name}: step_back after a seek ÷ a step", f"{share:.1f} ×", "≤ 2 ×", share <= 2)


def t10(_: Path) -> Iterator[Line]:
    """Importing, compared with NumPy alone, in turns."""
    programs = {
        "numpy": "import numpy",
        "recorder": "from recorder import Recorder",
    }  # Names are imported at first use.
    # As for any user: with compiled modules on the disk. The environment may differ, and the first time does not count.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(IMPORTS + 1):
        for name, times in found.items():
            run = partial(subprocess.run, [sys.executable, "-c", programs[name]], check=True, env=environment)
            taken_ms = timed_us(run) / 1e3
            if number:
                times.append(taken_ms)
    numpy_ms, ours_ms = (min(times) for times in found.values())
    added = ours_ms - numpy_ms
    what = f"importing the recorder beyond NumPy alone ({numpy_ms:,.0f} ms; ratio {added / numpy_ms:.2f}, target 0.74 = 60 ÷ 81)"
    yield Line("T10", what, f"+{added:,.0f} ms", "≤ 60 ms", added <= 60)


# --- those with programs of their own


def durability(folder: Path) -> Iterator[Line]:
    """T1 and T1b."""
    lines = {line["way"]: line for line in figures_of("durability.py", folder)["ways"]}
    floor = lines["hash + encode + store"]["beyond the step, µs p50"]
    plain, blamed = lines["ours, durability=tick, blame=none"], lines["ours, durability=tick"]
    p50, p99 = plain["beyond the step, µs p50"], plain["p99"]
    what = f"S: a tick ({p50} µs, p99 {p99}) ÷ hash + encode + store ({floor} µs)"
    yield Line("T1", what, f"{p50 / floor:.2f} ×", "≤ 2.5 × (or 4 µs)", p50 <= 2.5 * floor)
    ratio = p99 / lines["hash + encode + store"]["p99"]
    yield Line(
        "T1",
        "S: p99 of a tick ÷ p99 of hash + encode + store",
        f"{ratio:.2f} ×",
        "≤ 2.5 × (or 12 µs)",
        ratio <= 2.5 or p99 <= 12,
    )
    added = blamed["beyond the step, µs p50"] - p50
    yield Line(
        "T1b", f"S: hashes of 13 fields (÷ floor {added / floor:.2f})", f"+{added:.1f} µs", "≤ 1.5 µs", added <= 1.5
    )


def t7(folder: Path) -> Iterator[Line]:
    """The effect of the writer's thread on a tick that is busy with NumPy, and on memory."""
    rows = {row["way"]: row for row in figures_of("ticks.py", folder, "--only", "numpy-30")["figures"]}
    for statistic, key, limit in (("mean", "× mean alone", 1.15), ("p99", "× p99 alone", 2.0)):
        ratio, naive = rows["ours"][key], rows["naive thread"][key]
        what = f"a NumPy-bound tick of 30 µs ÷ without a recorder, {statistic} (a naive thread: {naive:.2f} ×)"
        yield Line("T7", what, f"{ratio:.2f} ×", f"≤ {limit:g} ×", ratio <= limit)
    for name in WORKLOADS[1::2]:
        world = workloads.make(name)
        state_bytes = len(world.state.arena)
        before = most = turns.rss_bytes()
        with recorder.Recorder(folder / f"{name}.tape", world, keyframe_interval_ticks=INTERVAL[name]) as tape:
            for tick in range(TICKS[name]):
                tape.step([])
                most = max(most, turns.rss_bytes()) if tick % 5 == 0 else most
        states = (most - before) / state_bytes
        yield Line("T7", f"{name}: memory beyond the simulation's, in states", f"{states:.1f}", "≤ 2", states <= 2)


def gymnasium_steps(folder: Path) -> Iterator[Line]:
    """T8."""
    steps = figures_of("gymnasium_steps.py", folder)
    ours, alone = steps["recorded (block)"], steps["CartPole alone"]
    added = ours["added_us_p50"]
    minari = steps.get("Minari", {}).get("added_us_p50")
    what = f"CartPole, a step ({alone['step_us_p50']:.1f} µs alone; Minari adds {minari and round(minari)} µs)"
    yield Line("T8", what, f"+{added:.1f} µs", "≤ 2.5 µs", added <= 2.5)
    size = ours["bytes_a_tick"]
    yield Line("T8", "CartPole, bytes a step", f"{size:.1f} B", "≤ 20 B", size <= 20)


def extract(folder: Path) -> Iterator[Line]:
    """T9."""
    for name, rates in figures_of("extract.py", folder, "--repeats", "1").items():
        one, two = (rates[way]["best_rows_a_second"] for way in ("replay extract", "replay extract -j 2"))
        rate = one / 1e6
        yield Line("T9", f"{name}: Parquet, a core", f"{rate:.2f} M rows/s", "≥ 3 M rows/s", rate >= 3)
        speedup = two / one
        yield Line("T9", f"{name}: two processes", f"{speedup:.2f} ×", "≥ 1.8 ×", speedup >= 1.8)


def figures_of(program: str, folder: Path, *more: str) -> Any:
    """Run another program and return its figures."""
    path = folder / "figures.json"
    subprocess.run([sys.executable, HERE / program, "--json", path, *more], check=True, stdout=subprocess.DEVNULL)
    return json.loads(path.read_text())


TARGETS: dict[str, Callable[[Path], Iterator[Line]]] = {
    "T1": durability,
    "T2": t2,
    "T3": t3,
    "T4": t4,
    "T5": t5,
    "T6": t6,
    "T7": t7,
    "T8": gymnasium_steps,
    "T9": extract,
    "T10": t10,
}


def make_quick() -> None:
    """Reduce the measurements to a minimum, to try this program."""
    global IMPORTS  # noqa: PLW0603 - one place decides, at the start
    TICKS.update({"S": 200, "M": 40, "G": 40, "L": 8})
    INTERVAL.update({"S": 20, "M": 4, "G": 4, "L": 2})
    IMPORTS = 1
    WORKLOADS.remove("L")


def measure(target: str, more: list[str]) -> list[Line]:
    """Measure a target in a separate process, where no other target has left anything in memory."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        path = Path(name) / "lines.json"
        done = subprocess.run([sys.executable, __file__, "--alone", target, "--json", path, *more], check=False)
        return [Line(**line) for line in json.loads(path.read_text())] if done.returncode == 0 else []


def show(lines: list[Line]) -> None:
    """The table."""
    table = Table(title="targets", title_justify="left")
    for title in ("", "what", "measured", "target", "met"):
        table.add_column(title, justify="right" if title in ("measured", "target") else "left")
    for line in lines:
        table.add_row(line.target, line.what, line.measured, line.limit, "yes" if line.met else "no")
    Console(width=130).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=TARGETS, default=list(TARGETS), help="T1 has T1b, too")
    parser.add_argument("--alone", choices=TARGETS, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="minimal measurements, to try this program")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    if options.quick:
        make_quick()
    if options.alone:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            lines = list(TARGETS[options.alone](Path(folder)))
    else:
        lines = [line for target in options.only for line in measure(target, ["--quick"] if options.quick else [])]
        show(lines)
    if options.json:
        options.json.write_text(json.dumps([attrs.asdict(line) for line in lines], indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        rows = [["", "what", "measured", "target", "met"], ["---"] * 5]
        rows += [[one.target, one.what, one.measured, one.limit, "yes" if one.met else "**no**"] for one in lines]
        facts = f"{tables.facts_line()}\n\n"
        options.markdown.write_text(facts + "".join(f"| {' | '.join(row)} |\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
