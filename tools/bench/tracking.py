"""Measure the cost of finding changes: by marks, by a scan of the state, by the pages that the kernel reports as written.

Prints two tables. The first is about the workloads M, G and L: the cost of a tick (mode "changes") and of a keyframe to
the simulation's thread. With pages this includes the faults of its own writes. The second is about one field: a share of
its pages is written in each tick, at random or one after the other. All ways take turns in one process: a drift
of the machine affects all equally. Times on shared machines are noisy: compare only within a line.

    python tools/bench/tracking.py [--json FILE] [--size-mb 256] [--rounds 3] [--quick]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
import workloads
from rich.console import Console
from rich.table import Table

from recorder.format.blocks.full_keyframe import gather_changes
from recorder.session.change_source import find_source
from recorder.session.pages.page_watch import PageReader
from recorder.session.pages.paged_tick_changes import PagedTicks
from recorder.session.pages.userfaultfd import PAGE_BYTES, obstacle
from recorder.session.pages.watch_cost import WatchCost
from recorder.storage.parallel_copy import copy_side_by_side
from recorder.writer.buffer_pool import BufferPool
from sim import Field, Schema, State
from sim.kernel.changes.row_changes import ChangeSource
from sim.kernel.state import Snapshot

KEYFRAME_TICKS, FULL_EVERY = 300, 10
SHARES = (0.001, 0.01, 0.03, 0.1, 0.2, 0.3, 1.0)
Way = Literal["marks", "scan", "pages"]
WAYS: tuple[Way, ...] = ("marks", "scan", "pages")


class Always(WatchCost):
    """Considers every watch worth its cost, in order to measure that cost."""

    def is_worth_it(self, cost: int, saved: int) -> bool:  # noqa: ARG002 - whatever it costs
        """Always."""
        return True


class Sheet:
    """One field. A share of its pages is written in each tick."""

    def __init__(self, size_mb: int, share: float, *, is_scattered: bool) -> None:
        self.marks_writes = False
        self.state = State(Schema(Field("x", "i8", (size_mb << 17,))))
        self.state["x"][:] = 1
        self.random = np.random.default_rng(1)
        self.page_count = len(self.state["x"]) * 8 // PAGE_BYTES
        self.written, self.is_scattered = max(1, round(share * self.page_count)), is_scattered

    def step(self, _: Any) -> None:
        """Add one to a number in each of the pages to write."""
        if self.is_scattered:
            pages = self.random.permutation(self.page_count)[: self.written]
        else:
            pages = (np.arange(self.written) + self.random.integers(self.page_count)) % self.page_count
        self.state["x"][pages * (PAGE_BYTES // 8)] += 1


@attrs.frozen
class Line:
    """The cost of one way of tracking on one workload, in microseconds of the simulation's thread.

    Attributes:
        what: the workload and the measured operation.
        way: one of WAYS.
        step_us: its own step, without tracking.
        above_us: extra time of its steps while it is tracked, from one query to the next: mostly faults.
        asked_us: time to query and copy the changes, and to start again.
    """

    what: str
    way: str
    step_us: float
    above_us: float
    asked_us: float

    @property
    def sum_us(self) -> float:
        """The total cost of tracking."""
        return self.above_us + self.asked_us


def timed(act: Callable[..., Any], *arguments: Any) -> float:
    """Processor time of a call in microseconds, without that of other threads."""
    start_ns = time.thread_time_ns()
    act(*arguments)
    return (time.thread_time_ns() - start_ns) / 1000


def median(values: list[float]) -> float:
    """The median of the measurements."""
    return float(np.median(values))


def ticks(what: str, world: Any, *, count: int, rounds: int, always: bool) -> Iterator[Line]:
    """Measure the cost of finding each tick's changes. always: watch pages even if that is not worth it."""
    ways: list[Way] = [way for way in WAYS if way != "marks" or not isinstance(world, Sheet)]
    steps: dict[str, list[float]] = {way: [] for way in ("none", *ways)}
    asked: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        world.marks_writes = False
        steps["none"] += [timed(world.step, None) for _ in range(count)][count // 3 :]
        for way in ways:
            world.marks_writes = way == "marks"
            source = find_source(world, way).ticks(world.state)
            if always and isinstance(source, PagedTicks):
                source._watch_cost = Always()  # noqa: SLF001 - there is no other way to see it
            for tick in range(count):
                step_us, ask_us = timed(world.step, None), timed(source.take, world.state)
                if tick >= count // 3:  # By then it has decided if it is worth it.
                    steps[way].append(step_us)
                    asked[way].append(ask_us)
            source.close()
    own = median(steps["none"])
    for way in ways:
        yield Line(what, way, own, median(steps[way]) - own, median(asked[way]))


def fault_us(world: Any, *, count: int, rounds: int) -> float:
    """Measure the cost of the first write to a page: steps after all pages were protected, in turns with others."""
    reader = PageReader.open(world.state.arena)
    assert reader is not None
    bare, watched, pages = [], [], []
    for _ in range(rounds):
        bare += [
            timed(world.step, None) for _ in range(count)
        ]  # From the second tick on, all pages are written in a tick.
        for _ in range(count):
            reader.take()
            watched.append(timed(world.step, None))
            written = reader.look()
            pages.append(float(len(written)) if written is not None else 0.0)
    reader.close()
    return (median(watched) - median(bare)) / median(pages)


def keyframes(name: str, world: Any, *, rounds: int, interval: int) -> Iterator[Line]:
    """Measure the cost of finding and copying changes for keyframes, one in FULL_EVERY of them full.

    There is one fault per page from one full keyframe to the next. They are counted: among thousands of steps they are
    too few to show in the times.
    """
    buffers, each_us = BufferPool(), fault_us(world, count=20, rounds=rounds)
    deltas: dict[str, list[float]] = {way: [] for way in WAYS}
    fulls: dict[str, list[float]] = {way: [] for way in WAYS}
    steps, pages = [], 0.0
    for turn in range(rounds + 1):
        for way in WAYS:
            world.marks_writes = way == "marks"
            source = find_source(world, way).whole(world.state)
            source.reset(world.state.snapshot())
            reader = PageReader.open(world.state.arena) if way == "pages" else None
            if reader is not None:
                reader.take()
            for number in range(1, FULL_EVERY + 1):
                steps += [timed(world.step, None) for _ in range(interval)]
                is_full = number == FULL_EVERY
                written = reader.look() if reader is not None and is_full else None
                pages = float(len(written)) if written is not None else pages
                put_us = timed(put, world.state, source, buffers, is_full)
                if turn:  # The first one allocates the memory that all others reuse.
                    (fulls if is_full else deltas)[way].append(put_us)
            if reader is not None:
                reader.close()
            source.close()
    for kind, asked in (("delta", deltas), ("full", fulls)):
        for way in WAYS:
            above_us = each_us * pages / FULL_EVERY if way == "pages" else 0.0
            yield Line(
                f"{name}: a {kind} keyframe, every {interval} ticks", way, median(steps), above_us, median(asked[way])
            )


def put(state: State, source: ChangeSource, buffers: BufferPool, full: bool) -> None:  # noqa: FBT001 - timed gives no names
    """Do the work of recorder.session.keyframe_policy on the simulation's thread, and free the memory at once."""
    if full and source.needs_baseline:
        memory = buffers.take(state.layout.size_bytes)
        copy_side_by_side([(memory, state.arena)])
        source.reset(Snapshot(state.layout, memory))
        buffers.give(memory)
        return
    fields = source.changed_fields()
    changes = gather_changes(state.arena, state.layout, fields, buffers.take, copy_side_by_side)
    for memory in changes.taken():
        buffers.give(memory)
    if full:
        source.reset(None)


def show(title: str, lines: list[Line]) -> None:
    """One table."""
    table = Table(title=title)
    for heading in ("what", "way", "step µs", "faults µs", "asking µs", "sum µs", "÷ scan"):
        table.add_column(heading, justify="left" if heading in {"what", "way"} else "right")
    scans = {line.what: line.sum_us for line in lines if line.way == "scan"}
    for line in lines:
        figures = (f"{value:,.0f}" for value in (line.step_us, line.above_us, line.asked_us, line.sum_us))
        table.add_row(line.what, line.way, *figures, f"{line.sum_us / scans[line.what]:.2f}")
    Console(width=130).print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--size-mb", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="M and G only, few ticks")
    arguments = parser.parse_args()
    why = obstacle()
    if why is not None:
        raise SystemExit(f"nothing to compare: {why}")
    lines: list[Line] = []
    interval = 30 if arguments.quick else KEYFRAME_TICKS
    for name in "MG" if arguments.quick else "MGL":
        world = workloads.make(name)
        lines += ticks(f"{name}: a tick", world, count=60, rounds=arguments.rounds, always=False)
        lines += keyframes(name, world, rounds=arguments.rounds, interval=interval)
    show("Workloads", lines)
    shares: list[Line] = []
    for share in SHARES:
        for is_scattered in (True, False):
            what = f"{arguments.size_mb} MB, {share:.1%} of pages {'here and there' if is_scattered else 'in a row'}"
            sheet = Sheet(arguments.size_mb, share, is_scattered=is_scattered)
            shares += ticks(what, sheet, count=9, rounds=arguments.rounds, always=True)
    show("A tick by the share of pages written, watched whether worth it or not", shares)
    if arguments.json is not None:
        found = {"machine": platform.platform(), "lines": [attrs.asdict(line) for line in (*lines, *shares)]}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
