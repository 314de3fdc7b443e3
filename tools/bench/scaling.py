"""The growth of costs with the length of the run, the size of the state, and the share of it that changes.

Each point is a separate process. Each curve has an expected slope, in logarithms (0: does not grow, 1: in proportion),
and a measured slope, fitted over the points from the size that dominates on. Only the file may grow with the length of
the run.

    length    a small state (1 KB), 10^4 to 10^6 ticks; --long: to 10^7, which takes some minutes and 2 GB of disk
    size      10 KB to 1 GB, of which 100 numbers change a tick; --largest for less. 10 MB are still in caches: slopes are
              fitted to larger sizes
    share     6.4 MB, of which 0.01 % to 100 % change a tick

    python tools/bench/scaling.py [--only length ...] [--long] [--quick] [--json FILE] [--markdown FILE] [--plot FOLDER]
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import msgpack
import numpy as np
import numpy.typing as npt
import tables
import turns
import workloads
import xxhash
from rich.console import Console
from rich.progress import track

import recorder
import replayer
from recorder.format.recording.change_replay import ChangeLog
from sim import Field, Schema, State

LENGTHS, LONG_LENGTHS = (10_000, 30_000, 100_000, 300_000, 1_000_000), (3_000_000, 10_000_000)
SIZES = tuple(10**power for power in range(4, 10))
SHARES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
SMALL_BYTES, SMALL_CHANGED = 1 << 10, 4
SHARED_BYTES, SIZED_CHANGED = 6_400_000, 100
WINDOWS, WINDOW_TICKS = 10, 500  # In the last fifth of a long run; the reference after each.
SEEKS = 40
INDEX_SETS_BYTES = 64 << 20

Point = dict[str, Any]


class Cells:
    """A state of a given size, of which some numbers, drawn in advance, change each tick."""

    def __init__(self, size_bytes: int, changed: int, *, marks: bool = True) -> None:
        self.marks_writes = marks
        count = max(1, size_bytes // 8)
        self.state = State(Schema(Field("cells", "i8", (count,)), Field("tick", "i8", hot=True)))
        random = np.random.Generator(np.random.PCG64(1))
        self.state["cells"][:] = np.arange(count) % 1000 * 256
        sets = max(2, min(64, INDEX_SETS_BYTES // (8 * changed)))
        self.sets = [self._draw(random, count, changed) for _ in range(sets)]
        self.amounts = random.integers(-30_000, 30_000, max(map(len, self.sets)))

    @staticmethod
    def _draw(random: np.random.Generator, count: int, changed: int) -> npt.NDArray[np.int64]:
        if changed * 20 < count:  # Shuffling that many would take long.
            return np.unique(random.integers(0, count, changed))
        return np.sort(random.permutation(count)[:changed])

    def step(self, _: Any) -> None:
        """Add to some of the numbers."""
        state = self.state
        tick = int(state["tick"]) + 1
        rows = self.sets[tick % len(self.sets)]
        state["cells"][rows] += self.amounts[: len(rows)]
        state["tick"][()] = tick
        if self.marks_writes:
            state.mark("cells", rows)
            state.mark("tick")


def timed_us(action: Callable[[], Any]) -> float:
    """The duration of one call."""
    start = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - start) / 1e3


# --- along the length


def record_length(path: Path, ticks: int) -> Point:
    """Record, and measure in the last fifth of the run, in turns with hash + encode + store."""
    timed = workloads.Timed(Cells(SMALL_BYTES, SMALL_CHANGED))
    other, encoder, memory = Cells(SMALL_BYTES, SMALL_CHANGED), msgpack.Packer(), bytearray(1 << 16)
    tick_inputs, beyond, reference = workloads.many_orders(), [], []
    window = min(WINDOW_TICKS, ticks // (5 * WINDOWS))
    starts = {ticks - (number + 1) * (ticks // (5 * WINDOWS)) for number in range(WINDOWS)}
    tick, early_bytes, before_bytes = 0, 0, turns.rss_bytes("RssAnon")
    with recorder.Recorder(path, timed) as tape:
        step = tape.step
        while tick < ticks:
            if tick in starts:
                for _ in range(window):
                    tick += 1
                    start = time.perf_counter_ns()
                    step(tick_inputs[tick % 500])
                    beyond.append((time.perf_counter_ns() - start - timed.step_ns) / 1e3)
                for number in range(window):
                    other.step(None)
                    start = time.perf_counter_ns()
                    digest = xxhash.xxh3_64_intdigest(other.state.arena.data)
                    encoded = encoder.pack((tick, digest, tick_inputs[number]))
                    memory[: len(encoded)] = encoded
                    reference.append((time.perf_counter_ns() - start) / 1e3)
            else:
                tick += 1
                step(tick_inputs[tick % 500])
            if tick == ticks // 10:
                early_bytes = turns.rss_bytes("RssAnon")
        memory_bytes = turns.rss_bytes("RssAnon")
        start_s = time.perf_counter()
    p50, p99 = np.percentile(beyond, [50, 99]).tolist()
    return {
        "ticks": ticks,
        "µs a tick, p50": p50,
        "p99": p99,
        "÷ hash + encode + store": p50 / statistics.median(reference),
        "close, s": time.perf_counter() - start_s,
        "recording, MB": (memory_bytes - before_bytes) / 1e6,
        "since 10 % of the run, MB": (memory_bytes - early_bytes) / 1e6,
        "file, MB": path.stat().st_size / 1e6,
    }


def read_length(path: Path, ticks: int) -> Point:
    """Open, and seek at random."""
    world = partial(Cells, SMALL_BYTES, SMALL_CHANGED)
    opened_us = [timed_us(lambda: replayer.open(path, world).close()) for _ in range(5)]
    before = turns.rss_bytes("RssAnon")
    random = np.random.Generator(np.random.PCG64(3))
    with replayer.open(path, world) as run:
        first_ms = timed_us(lambda: run.seek(ticks // 2)) / 1e3
        found = [timed_us(partial(run.seek, tick)) / 1e3 for tick in random.integers(0, ticks, SEEKS).tolist()]
        p50, p99 = np.percentile(found, [50, 99]).tolist()
        return {
            "open, ms": statistics.median(opened_us) / 1e3,
            "first seek, ms": first_ms,
            "seek, ms p50": p50,
            "seek p99": p99,
            "reading, MB": (turns.rss_bytes("RssAnon") - before) / 1e6,
        }


def length(path: Path, ticks: float) -> list[Callable[[], Point]]:
    """What one point of this curve takes."""
    return [partial(record_length, path, int(ticks)), partial(read_length, path, int(ticks))]


# --- along the size


def record_cells(path: Path, world: Cells, ticks: int, interval: int, mode: Any) -> Point:
    """Record; every second keyframe is full."""
    timed = workloads.Timed(world)
    ticks_us: list[float] = []
    keyframes_us: list[float] = []
    tick_inputs = workloads.many_orders(100)
    with recorder.Recorder(path, timed, keyframe_interval_ticks=interval, full_every=2, mode=mode) as tape:
        tape.flush()
        start_bytes = size = path.stat().st_size
        for tick in range(1, ticks + 1):
            start = time.perf_counter_ns()
            tape.step(tick_inputs[tick % 100])
            beyond_us = (time.perf_counter_ns() - start - timed.step_ns) / 1e3
            (ticks_us if tick % interval else keyframes_us).append(beyond_us)
            if (tick + 1) % interval == 0:
                tape.flush()  # Otherwise keyframes would wait for each other, and this would measure the writer's speed.
                size = path.stat().st_size
    p50, p99 = np.percentile(ticks_us, [50, 99]).tolist()
    whole = statistics.median(keyframes_us[1::2] or keyframes_us)
    return {
        "p50": p50,
        "p99": p99,
        "delta": statistics.median(keyframes_us[::2]),
        "full": whole,
        "bytes": (size - start_bytes) / ticks,
    }


def seek_log_ms(path: Path, ticks: int) -> float:
    """Time seeks through the change log, each from a keyframe on the tape."""
    found = []
    with replayer.Tape(path) as tape:
        log = ChangeLog(tape.recording)
        for tick in np.random.Generator(np.random.PCG64(3)).integers(1, ticks, 10).tolist():
            log.forget()
            found.append(timed_us(partial(log.reach, tick)) / 1e3)
    return statistics.median(found)


def hash_and_copy_us(world: Cells) -> tuple[float, float]:
    """Time hash and copy of the complete state, right after steps."""
    arena, hashed, copied = world.state.arena, [], []
    spare = arena.copy()
    for _ in range(20):
        world.step(None)
        hashed.append(timed_us(partial(xxhash.xxh3_64_intdigest, arena.data)))
        copied.append(timed_us(partial(np.copyto, spare, arena)))
    return statistics.median(hashed), statistics.median(copied)


def measure_size(path: Path, size: float) -> Point:
    """Measure one size of the state."""
    size_bytes = int(size)
    ticks = int(min(2000, max(60, 2e10 / size_bytes)))
    interval = ticks // 6
    world = Cells(size_bytes, SIZED_CHANGED)
    hash_us, copy_us = hash_and_copy_us(world)
    before = turns.rss_bytes()
    events = record_cells(path, world, ticks, interval, "events")
    extra = turns.rss_bytes("VmHWM") - before
    with replayer.Tape(path) as tape:
        fulls = [place for place in tape.keyframes if place.is_full]
        read_ms = statistics.median(timed_us(partial(tape.snapshot, place)) for place in (fulls * 5)[:5]) / 1e3
    path.unlink()
    changes = record_cells(path, world, ticks, interval, "changes")
    return {
        "state, bytes": size_bytes,
        "a hash, µs": hash_us,
        "a copy, µs": copy_us,
        "µs a tick, p50": events["p50"],
        "p99": events["p99"],
        "mode changes, p50": changes["p50"],
        "delta keyframe, µs": events["delta"],
        "full keyframe, µs": events["full"],
        "full read, ms": read_ms,
        "seek by changes, ms": seek_log_ms(path, ticks),
        "memory, states": extra / size_bytes if size_bytes >= 10**7 else None,
    }


def sized(path: Path, size: float) -> list[Callable[[], Point]]:
    """What one point of this curve takes."""
    return [partial(measure_size, path, size)]


# --- along the share


def measure_share(path: Path, share: float) -> Point:
    """Measure one share that changes."""
    changed, ticks, interval = max(1, int(share * SHARED_BYTES / 8)), 120, 20
    found: dict[str, Point] = {}
    for name, marks, mode in (("events", True, "events"), ("scan", False, "changes"), ("marks", True, "changes")):
        path.unlink(missing_ok=True)
        # Only the log: the keyframe is at the end, where its bytes and its reading are not counted.
        between = interval if mode == "events" else ticks
        found[name] = record_cells(path, Cells(SHARED_BYTES, changed, marks=marks), ticks, between, mode)
    seek_ms = seek_log_ms(path, ticks)
    return {
        "share": share,
        "events, µs a tick": found["events"]["p50"],
        "changes by marks, µs a tick": found["marks"]["p50"],
        "changes by scan, µs a tick": found["scan"]["p50"],
        "delta keyframe, µs": found["events"]["delta"],
        "changes, bytes a tick": found["marks"]["bytes"],
        "seek by changes, ms": seek_ms,
    }


def shared(path: Path, share: float) -> list[Callable[[], Point]]:
    """What one point of this curve takes."""
    return [partial(measure_share, path, share)]


# --- the curves


@attrs.frozen
class Expected:
    """The expected growth of a figure.

    Attributes:
        slope: in logarithms.
        why: in a few words.
        from_x: the slope is fitted from there on.
    """

    slope: float
    why: str
    from_x: float = 0.0


@attrs.frozen
class Curve:
    """One of the three curves.

    Attributes:
        title: in words.
        xs: the points.
        jobs: functions that measure a point, each in a separate process.
        expected: by the column's name.
        panels: columns that are drawn together, by the title of their axis.
    """

    title: str
    xs: tuple[float, ...]
    jobs: Callable[[Path, float], list[Callable[[], Point]]]
    expected: dict[str, Expected]
    panels: dict[str, tuple[str, ...]]


CURVES = {
    "length": Curve(
        "length of the run",
        LENGTHS,
        length,
        {
            "µs a tick, p50": Expected(0, "a tick does not depend on earlier ticks"),
            "p99": Expected(0, "a tick does not depend on earlier ticks"),
            "÷ hash + encode + store": Expected(
                0, "a tick does not depend on earlier ticks; machine drift cancels out"
            ),
            "recording, MB": Expected(0, "at most 64 MiB wait for a sync, reached by then", 1e6),
            "open, ms": Expected(0, "the end of the file leads to the index"),
            "first seek, ms": Expected(0, "a seek, plus making the simulation", 1e5),
            "seek, ms p50": Expected(0, "the index is a tree; at most 300 steps"),
            "reading, MB": Expected(0, "the index is read in parts, on demand"),
            "file, MB": Expected(1, "it holds all ticks"),
        },
        {
            "µs a tick beyond the step": ("µs a tick, p50", "p99"),
            "ms": ("open, ms", "first seek, ms", "seek, ms p50"),
            "memory, MB": ("recording, MB", "reading, MB"),
            "file, MB": ("file, MB",),
        },
    ),
    "size": Curve(
        "size of the state",
        SIZES,
        sized,
        {
            "µs a tick, p50": Expected(1, "each tick hashes the whole state", 1e8),
            "mode changes, p50": Expected(
                0, "from 1 MiB on, a hash of the changes: a hundred numbers, ever further apart", 1e7
            ),
            "delta keyframe, µs": Expected(1, "its tick is hashed; marks select the rows to copy", 1e8),
            "full keyframe, µs": Expected(1, "its tick is hashed; the writer builds it from the previous one", 1e8),
            "full read, ms": Expected(1, "everything is decoded", 1e8),
            "seek by changes, ms": Expected(1, "a full keyframe is read, and the result hashed", 1e8),
        },
        {
            "µs, on the simulation's thread": (
                "a hash, µs",
                "µs a tick, p50",
                "mode changes, p50",
                "full keyframe, µs",
            ),
            "ms, reading": ("full read, ms", "seek by changes, ms"),
        },
    ),
    "share": Curve(
        "share of 6.4 MB that changes",
        SHARES,
        shared,
        {
            "events, µs a tick": Expected(0, "only inputs and the hash are kept"),
            "changes by marks, µs a tick": Expected(1, "changes are copied; at small shares the hash dominates", 1e-2),
            "changes by scan, µs a tick": Expected(
                1, "changes are copied; at small shares the comparison dominates", 1e-2
            ),
            "delta keyframe, µs": Expected(0, "a field with many changed rows is copied completely", 1e-3),
            "changes, bytes a tick": Expected(1, "proportional to the changes", 1e-3),
            "seek by changes, ms": Expected(
                1, "changes are applied; at small shares reading the keyframe dominates", 1e-2
            ),
        },
        {
            "µs a tick beyond the step": (
                "events, µs a tick",
                "changes by marks, µs a tick",
                "changes by scan, µs a tick",
            ),
            "bytes a tick": ("changes, bytes a tick",),
            "ms": ("seek by changes, ms",),
        },
    ),
}


def slope(points: list[Point], column: str, from_x: float) -> float | None:
    """The slope of the logarithms, by least squares; None if there are too few points."""
    key = next(iter(points[0]))
    chosen = [(one[key], one[column]) for one in points if one[key] >= from_x and (one[column] or 0) > 0]
    if len(chosen) < 2:
        return None
    xs, ys = np.log(np.array(chosen)).T
    return float(np.polyfit(xs, ys, 1)[0])


def slopes(curve: Curve, points: list[Point]) -> list[Point]:
    """The table of expected and measured slopes."""
    rows = []
    for column, expected in curve.expected.items():
        measured = slope(points, column, expected.from_x)
        grows = None if measured is None else "yes" if measured > expected.slope + 0.1 else "no"
        rows.append(
            {
                "figure": column,
                "expected slope": f"{expected.slope:g}",
                "measured slope": None if measured is None else f"{measured:+.2f}",
                "grows faster": grows,
                "because": expected.why,
            }
        )
    return rows


def run(curve: Curve, xs: list[float]) -> list[Point]:
    """Measure all points, each job in a fresh process."""
    points: list[Point] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for x in track(xs, curve.title, console=Console(stderr=True), transient=True):
            point: Point = {}
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                for job in curve.jobs(Path(folder) / "run.tape", x):
                    point |= pool.submit(job).result()
            points.append(point)
    return points


def plot(name: str, points: list[Point], folder: Path) -> None:
    """Draw the curve's panels, both axes logarithmic; the dashed lines have the expected slopes."""
    curve, plt = CURVES[name], tables.pyplot()
    key = next(iter(points[0]))
    shape = {"figsize": (4 * len(curve.panels), 2.8), "squeeze": False, "gridspec_kw": {"wspace": 0.85}}
    figure, axes = plt.subplots(1, len(curve.panels), **shape)
    colours = (tables.OURS, tables.OTHERS, "#5b8c5a", "#8a6bb1")
    for axis, (title, columns) in zip(axes[0], curve.panels.items(), strict=True):
        ends = []
        for column, colour in zip(columns, colours, strict=False):
            known = [(one[key], one[column]) for one in points if (one[column] or 0) > 0]
            if not known:
                continue
            xs, ys = zip(*known, strict=True)
            axis.plot(xs, ys, "o-", color=colour, ms=3.5, lw=1.4)
            ends.append((ys[-1], column, colour))
            expected = curve.expected.get(column)
            if expected is not None:
                line = [x for x in xs if x >= expected.from_x]
                axis.plot(line, [ys[-1] * (x / xs[-1]) ** expected.slope for x in line], "--", color=colour, lw=0.7)
        axis.set(xscale="log", yscale="log", xlabel=key)
        axis.set_title(title, fontsize=9)
        _label_ends(axis, ends, points[-1][key])
        axis.grid(color="#e3e6ea", lw=0.6)
    figure.suptitle(f"{curve.title}; dashed: the expected slope", x=0.12, y=1.05, ha="left", fontweight="bold")
    tables.save_picture(figure, folder, f"scaling-{name}")
    plt.close(figure)


def _label_ends(axis: Any, ends: list[tuple[float, str, str]], x: float) -> None:
    """Write names next to the last points; spread them if they would overlap."""
    low, high = axis.get_ylim()
    if high / low < 20:  # A flat line looks flat only if the axis has room.
        middle = (low * high) ** 0.5
        low, high = middle / 20, middle * 20
        axis.set_ylim(low, high)
    ends.sort()
    gap, places = (high / low) ** 0.075, [0.0]
    for y, _, _ in ends:
        places.append(max(y, places[-1] * gap))
    too_high = (places[-1] / ends[-1][0]) ** 0.5  # Those that were moved up are moved down again by half of that.
    for place, (_, column, colour) in zip(places[1:], ends, strict=True):
        where = {"xytext": (6, 0), "textcoords": "offset points", "annotation_clip": False}
        axis.annotate(column, (x, place / too_high), color=colour, fontsize=7, va="center", **where)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=CURVES, default=list(CURVES))
    parser.add_argument("--long", action="store_true", help="runs of up to 10^7 ticks")
    parser.add_argument("--quick", action="store_true", help="the smaller points only")
    parser.add_argument("--largest", type=float, default=1e9, help="state in bytes; 1 GB takes about 5 GB of memory")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file, too")
    parser.add_argument("--plot", type=Path, help="write pictures into this folder")
    options = parser.parse_args()
    found, text = {}, f"{tables.facts_line()}\n"
    for name in options.only:
        curve = CURVES[name]
        xs = [*curve.xs, *(LONG_LENGTHS if options.long and name == "length" else ())]
        xs = [x for x in xs if name != "size" or x <= options.largest]
        if options.quick:
            xs = [x / 10 for x in xs[:3]] if name == "length" else xs[:3]
        points = run(curve, xs)
        slope_rows = slopes(curve, points)
        tables.print_table(curve.title, points)
        tables.print_table("slopes", slope_rows)
        found[name] = {"points": points, "slopes": slope_rows}
        text += f"\n### With the {curve.title}\n\n{tables.markdown_table(points)}\n{tables.markdown_table(slope_rows)}"
        if options.plot:
            plot(name, points, options.plot)
    if options.json:
        tables.write_json(options.json, found)
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
