"""The complete tick of a simulation, mean and p99, with and without the recorder: pure Python and NumPy, short and long.

There are three ways, each a separate process, in turns: no recorder; this recorder; and the writer that a project would
write first, a thread that takes a dict for each tick from a queue.Queue and appends it as lz4.frame of MessagePack. The
writer's thread and the simulation share an interpreter. A thread that holds it makes the simulation wait. The mean shows
that, the median does not.

The worlds have 32 KB of state. A step makes NumPy calls on all of it, or runs plain Python on part of it, repeated until
it takes about 30 or 280 µs on this machine without a recorder.

    python tools/bench/ticks.py [--only numpy-30 ...] [--quick] [--json FILE] [--markdown FILE] [--plot FOLDER]
"""

from __future__ import annotations

import argparse
import queue
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import lz4.frame
import msgpack
import numpy as np
import tables
import turns
import workloads
import xxhash

import recorder
from sim import Field, Schema, State

CELLS = 4096
INTERVAL = 300
PLAN = turns.TurnPlan(slice_ticks=1500, rounds=12, warm_up=1)
CALIBRATE_TICKS = 300

Row = dict[str, Any]


class Busy:
    """A world that repeats a piece of work in each step."""

    marks_writes = True

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.state = State(Schema(Field("cells", "i8", (CELLS,))))
        self.state["cells"][:] = np.arange(CELLS)


class BusyNumpy(Busy):
    """Additions of thousands of numbers, each a call during which other threads can run."""

    def step(self, _: Any) -> None:
        """Add."""
        cells = self.state["cells"]
        for _number in range(self.repeats):
            np.add(cells, 1, out=cells)
        self.state.mark("cells")


class BusyPython(Busy):
    """Additions one by one, in the interpreter."""

    def step(self, _: Any) -> None:
        """Add."""
        cells, total = self.state["cells"], 0
        for number in range(self.repeats):
            total += number ^ total & 0xFF
        cells[total % CELLS] += total
        self.state.mark("cells", total % CELLS)


def repeats_for(kind: type[BusyNumpy | BusyPython], wanted_us: float) -> int:
    """The number of repetitions with which a step takes about the given time."""
    repeats = 100
    world = kind(repeats)
    found = []
    for _ in range(CALIBRATE_TICKS):
        start = time.perf_counter_ns()
        world.step(None)
        found.append((time.perf_counter_ns() - start) / 1e3)
    return max(1, round(repeats * wanted_us / statistics.median(found)))


class Alone:
    """Steps without recording."""

    def __init__(self, folder: Path, world: Busy) -> None:
        self.folder, self.world, self.step_ns = folder, world, 0
        self.tick_inputs = workloads.many_orders(2000)
        self.open()

    def open(self) -> None:
        """Begin."""

    def is_keyframe(self, _: int) -> bool:
        """The complete tick counts, with or without a keyframe."""
        return False

    def tick(self, tick: int) -> None:
        """A step."""
        step: Callable[[Any], Any] = self.world.step  # type: ignore[attr-defined]
        step(self.tick_inputs[tick % 2000])

    def after(self, _: int) -> None:
        """Nothing."""

    def finish(self) -> dict[str, Any]:
        """End."""
        return {}


class Ours(Alone):
    """This recorder, with its defaults."""

    def open(self) -> None:
        """Begin a tape."""
        self.tape = recorder.Recorder(self.folder / "run.tape", self.world, keyframe_interval_ticks=INTERVAL)

    def tick(self, tick: int) -> None:
        """The recorder steps."""
        self.tape.step(self.tick_inputs[tick % 2000])

    def finish(self) -> dict[str, Any]:
        """Seal."""
        self.tape.close()
        return {}


class Naive(Alone):
    """A dict for each tick in a queue, and a thread that packs, compresses and writes it."""

    def open(self) -> None:
        """Start the thread."""
        self.queue: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.file = (self.folder / "run.bin").open("wb")
        self.thread = threading.Thread(target=self._write)
        self.thread.start()

    def _write(self) -> None:
        while (item := self.queue.get()) is not None:
            self.file.write(lz4.frame.compress(msgpack.packb(item)))

    def tick(self, tick: int) -> None:
        """Step, hash, and put."""
        super().tick(tick)
        arena = self.world.state.arena
        item = {"tick": tick, "inputs": self.tick_inputs[tick % 2000], "hash": xxhash.xxh3_64_intdigest(arena.data)}
        if tick % INTERVAL == 0:
            item["state"] = arena.tobytes()
        self.queue.put(item)

    def finish(self) -> dict[str, Any]:
        """End the thread."""
        self.queue.put(None)
        self.thread.join()
        self.file.close()
        return {}


WAYS: dict[str, type[Alone]] = {"no recorder": Alone, "ours": Ours, "naive thread": Naive}
WORLDS: dict[str, tuple[type[BusyNumpy | BusyPython], float]] = {
    "numpy-30": (BusyNumpy, 30),
    "numpy-280": (BusyNumpy, 280),
    "python-30": (BusyPython, 30),
    "python-280": (BusyPython, 280),
}


def make_runner(folder: Path, *, way: str, world: str, repeats: int) -> turns.Runner:
    """Make one way, in its process."""
    return WAYS[way](folder, WORLDS[world][0](repeats))


def measure(world: str, plan: turns.TurnPlan) -> list[Row]:
    """Measure all ways on one world."""
    repeats = repeats_for(*WORLDS[world])
    makes = {way: partial(make_runner, way=way, world=world, repeats=repeats) for way in WAYS}
    taken = turns.take_turns(makes, plan, world)
    rows: list[Row] = []
    for way, one in taken.items():
        if one.problem:
            raise RuntimeError(f"{way} on {world}: {one.problem}")
        p50, p99 = np.percentile(one.whole_us, [50, 99]).tolist()
        mean = statistics.mean(one.whole_us)
        first = rows[0] if rows else {"mean, µs": mean, "p99": p99}
        rows.append(
            {
                "world": world,
                "way": way,
                "p50, µs": p50,
                "mean, µs": mean,
                "p99": p99,
                "× mean alone": mean / first["mean, µs"],
                "× p99 alone": p99 / first["p99"],
            }
        )
    return rows


def plot(rows: list[Row], folder: Path) -> None:
    """Draw a panel for each world: mean and p99 of each way."""
    plt = tables.pyplot()
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    figure, axes = plt.subplots(len(worlds), 1, figsize=(7, 1.1 * len(worlds) + 0.8), squeeze=False)
    for world, axis in zip(worlds, axes[:, 0], strict=True):
        chosen = [row for row in reversed(rows) if row["world"] == world]
        for place, row in enumerate(chosen):
            colour = {"ours": tables.OURS, "no recorder": tables.FAINT}.get(row["way"], tables.OTHERS)
            axis.plot([row["mean, µs"], row["p99"]], [place, place], color=colour, lw=1.4)
            axis.plot([row["mean, µs"]], [place], "o", color=colour, ms=5)
            axis.plot([row["p99"]], [place], "|", color=colour, ms=9)
            label = f"{row['mean, µs']:,.0f} · {row['p99']:,.0f}"
            right = max(row["mean, µs"], row["p99"])
            axis.annotate(label, (right, place), (7, 0), textcoords="offset points", va="center", fontsize=7)
        axis.set_yticks(range(len(chosen)), [row["way"] for row in chosen])
        axis.set_xscale("log")
        axis.set_ylim(-0.7, len(chosen) - 0.3)
        low, high = axis.get_xlim()
        axis.set_xlim(low / 1.2, high * 1.5)
        axis.set_title(world.replace("-", ", ") + " µs", fontsize=9)
        axis.grid(axis="x", which="both", color="#e3e6ea", lw=0.5)
    axes[-1][0].set_xlabel("µs a whole tick: dot mean, bar p99")
    figure.tight_layout()
    tables.save_picture(figure, folder, "ticks")
    plt.close(figure)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--quick", action="store_true", help="a quarter of the turns")
    parser.add_argument("--slice", type=int, default=PLAN.slice_ticks, help="ticks of a turn")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    parser.add_argument("--plot", type=Path, help="write a picture into this folder")
    options = parser.parse_args()
    rounds = PLAN.rounds // 4 if options.quick else PLAN.rounds
    plan = attrs.evolve(PLAN, rounds=rounds, slice_ticks=options.slice)
    rows = [row for world in options.only for row in measure(world, plan)]
    tables.hand_out("complete tick, step included", rows, options)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
