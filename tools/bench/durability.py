"""Measure the cost of each durability level per tick.

Ways of recording the workload S (33 KB of state, 5 to 20 inputs a tick) take turns, a slice of ticks each, in one
process: a drift of the machine affects all of them equally. For comparison:

    no recorder             the step alone
    hash + encode + store   full state hash, msgpack, checksum and one store into mapped memory: the floor of T1
    SQLite, commit a tick   the same frames as rows, WAL, synchronous=OFF: what survives kill -9 elsewhere

T1: cost beyond the step, at most 4 µs, or 2.5 times the floor. T1b: the hashes of the fields in each frame, the
difference to blame=none, at most 1.5 µs. ticks.py measures the effect of the writer's thread on complete ticks.

    python tools/bench/durability.py [--json FILE] [--markdown FILE] [--ticks N]
"""

from __future__ import annotations

import argparse
import json
import mmap
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import google_crc32c
import msgpack
import numpy as np
import workloads
import xxhash
from rich.console import Console
from rich.progress import track
from rich.table import Table

import recorder

TICKS = 12_000
SLICE_TICKS = 250
KEYFRAME_INTERVAL = 300
WARM_UP_SLICES = 4  # First accesses to memory and files are not part of a run's cost.

Step = Callable[[list[list[int]], int], Any]


@attrs.define(eq=False)
class Way:
    """One way of recording, with its own simulation.

    Attributes:
        name: name in the table.
        timed: the simulation.
        step: function that steps it and records.
        finish: function that closes everything.
        beyond_us: for each tick without a keyframe, its cost beyond the step.
        whole_us: for each tick, its total cost.
    """

    name: str
    timed: workloads.Timed
    step: Step
    finish: Callable[[], None]
    beyond_us: list[float] = attrs.field(factory=list)
    whole_us: list[float] = attrs.field(factory=list)

    def run(self, tick_inputs: list[list[list[int]]], first_tick: int, *, keep: bool) -> None:
        """Run a slice of ticks."""
        for tick in range(first_tick, first_tick + SLICE_TICKS):
            start = time.perf_counter_ns()
            self.step(tick_inputs[tick % len(tick_inputs)], tick)
            whole = time.perf_counter_ns() - start
            if keep:
                self.whole_us.append(whole / 1e3)
                if tick % KEYFRAME_INTERVAL:
                    self.beyond_us.append((whole - self.timed.step_ns) / 1e3)


def a_world() -> workloads.Timed:
    """Make the workload S."""
    return workloads.Timed(workloads.make("S"))


def alone(_: Path) -> Way:
    """Only the step."""
    timed = a_world()
    return Way("no recorder", timed, lambda inputs, _: timed.step(inputs), lambda: None)


def floor(path: Path) -> Way:
    """The floor for T1: hash, encode, checksum, one store into mapped memory."""
    timed, encoder, size = a_world(), msgpack.Packer(), 1 << 20
    file = path.open("w+b")
    file.truncate(size)
    memory = mmap.mmap(file.fileno(), size)
    place = 0

    def step(inputs: list[list[int]], tick: int) -> None:
        nonlocal place
        timed.step(inputs)
        encoded = encoder.pack((tick, xxhash.xxh3_64_intdigest(timed.state.arena.data), inputs))
        if place + len(encoded) + 4 > size:
            place = 0
        memory[place : place + len(encoded) + 4] = encoded + google_crc32c.value(encoded).to_bytes(4, "little")
        place += len(encoded) + 4

    return Way("hash + encode + store", timed, step, file.close)


def ours(**settings: Any) -> Callable[[Path], Way]:
    """This recorder with some settings."""

    def make(path: Path) -> Way:
        timed = a_world()
        tape = recorder.Recorder(path, timed, keyframe_interval_ticks=KEYFRAME_INTERVAL, **settings)
        name = ", ".join(f"{key}={value}" for key, value in settings.items())
        return Way(f"ours, {name}", timed, lambda inputs, _: tape.step(inputs), tape.close)

    return make


def sqlite(path: Path) -> Way:
    """A row and a commit a tick."""
    timed, encoder = a_world(), msgpack.Packer()
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=OFF")
    database.execute("CREATE TABLE frames (tick INTEGER PRIMARY KEY, hash BLOB, inputs BLOB)")

    def step(inputs: list[list[int]], tick: int) -> None:
        timed.step(inputs)
        digest = xxhash.xxh3_64_digest(timed.state.arena.data)
        database.execute("INSERT INTO frames VALUES (?, ?, ?)", (tick, digest, encoder.pack(inputs)))

    return Way("SQLite, commit a tick", timed, step, database.close)


WAYS: dict[str, Callable[[Path], Way]] = {
    "alone": alone,
    "floor": floor,
    "tick": ours(durability="tick"),
    "tick-unblamed": ours(durability="tick", blame="none"),
    "block": ours(durability="block"),
    "none": ours(durability="none"),
    "tick-block": ours(durability="tick", sync="block"),
    "sqlite": sqlite,
}


def measure(folder: Path, ticks: int) -> list[Way]:
    """All ways, in turns."""
    tick_inputs = workloads.many_orders()
    ways = [make(folder / f"{key}.tape") for key, make in WAYS.items()]
    slices = ticks // SLICE_TICKS + WARM_UP_SLICES
    for number in track(range(slices), "measuring", console=Console(stderr=True), transient=True):
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            way.run(tick_inputs, 1 + number * SLICE_TICKS, keep=number >= WARM_UP_SLICES)
    for way in ways:
        way.finish()
    return ways


def figures(ways: list[Way]) -> list[dict[str, Any]]:
    """The lines of the table."""
    bare = float(np.mean(ways[0].whole_us))
    base_p50 = float(np.median(ways[1].beyond_us))
    lines = []
    for way in ways:
        p50, p99 = np.percentile(way.beyond_us, [50, 99])
        lines.append(
            {
                "way": way.name,
                "beyond the step, µs p50": round(float(p50), 2),
                "p99": round(float(p99), 2),
                "× floor": round(float(p50) / base_p50, 2),
                "whole tick, µs mean": round(float(np.mean(way.whole_us)), 1),
                "× no recorder": round(float(np.mean(way.whole_us)) / bare, 2),
            }
        )
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    parser.add_argument("--ticks", type=int, default=TICKS, help="of each way")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:  # In the current folder: /tmp may be in memory.
        lines = figures(measure(Path(folder), options.ticks))
    table = Table(title=f"workload S, {options.ticks:,} ticks each, in turns", title_justify="left")
    for title in lines[0]:
        table.add_column(title, justify="left" if title == "way" else "right")
    for line in lines:
        table.add_row(*map(str, line.values()))
    Console(width=120).print(table)
    if options.json:
        facts = {"machine": platform.machine(), "python": sys.version.split()[0], "numpy": np.__version__}
        options.json.write_text(json.dumps({**facts, "ticks": options.ticks, "ways": lines}, indent=1) + "\n")
    if options.markdown:
        rows = [list(lines[0]), ["---"] * len(lines[0]), *(list(map(str, line.values())) for line in lines)]
        options.markdown.write_text("".join(f"| {' | '.join(row)} |\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
