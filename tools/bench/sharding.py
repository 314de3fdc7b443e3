"""Measure what shards cost: a tick of the meadow in one process, and in shards, on square worlds of several sizes.

Worlds are scaled from the scenario large. For each number of shards three times of a tick are given:
  path      the longest shard of each segment between two exchanges, summed: what no machine can do faster; the shards
            run in turn in this process, and the time of the thread is taken
  processes the step of shards in processes, with pipes between them, and the pieces of all sent to this process
  state     the same, and the whole state put together from the pieces: what a recording takes, which hashes each tick
  work      the processor time of all of these processes and this one, for the last of these three, as a mean
The others are medians; the runs take turns, a tick each. A busy machine lengthens the times of processes most, since each
exchange waits for the last of them; path and work do not depend on what else runs.

    python tools/bench/sharding.py [--sides N ...] [--shards N ...] [--ticks N] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

from recorder.processes.shards.shard_processes import ShardProcesses
from sim.scenario.scenario_file import load_scenario
from sim.sharding import Exchange
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.shards.meadow_shard import MeadowPlan, StepOrder
from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow

UNCOUNTED_TICKS = 5  # In them numba is imported, and loads or compiles its functions.


@attrs.define
class Result:
    """The times of one size, medians in milliseconds; those in shards by their number.

    Attributes:
        side: of the square, in cells.
        one: a tick in one process.
        one_thread: the time of its thread, with which the path is compared.
        path, processes, state, work: see the module.
    """

    side: int
    one: float
    one_thread: float
    path: dict[int, float] = attrs.field(factory=dict)
    processes: dict[int, float] = attrs.field(factory=dict)
    state: dict[int, float] = attrs.field(factory=dict)
    work: dict[int, float] = attrs.field(factory=dict)


def scaled(side: int) -> dict[str, Any]:
    """The scenario large on a square of this side, with as many plants and swarms a cell."""
    plain = copy.deepcopy(load_scenario("large").config)
    share = (side / plain["grid"]["width"]) ** 2
    plain["grid"] = {**plain["grid"], "width": side, "height": side}
    for table in ("plants", "swarms"):
        plain[table] = [{**one, "count": max(1, int(one["count"] * share))} for one in plain[table]]
    plain["inputs"] = []
    return plain


class CriticalPath:
    """Shards in turn in this process; the time of the slowest of each segment counts."""

    def __init__(self, plain: dict[str, Any], count: int) -> None:
        plan = MeadowPlan.of(plain)
        stripes = plan.stripes(count)
        self._shards = [plan.shard(number, stripes) for number in range(count)]
        whole = Meadow(plain).state.snapshot()
        for shard in self._shards:
            shard.load(whole)

    def step(self, inputs: Any) -> float:
        """Advance by a tick; return the milliseconds of the path."""
        steps: list[Exchange] = [shard.step(StepOrder(inputs)) for shard in self._shards]
        total = 0.0
        inboxes: list[list[Any] | None] = [None] * len(steps)
        while True:
            slowest, outboxes = 0.0, []
            for step, inbox in zip(steps, inboxes, strict=True):
                begun = time.thread_time()
                with contextlib.suppress(StopIteration):
                    outboxes.append(next(step) if inbox is None else step.send(inbox))
                slowest = max(slowest, time.thread_time() - begun)
            total += slowest
            if not outboxes:
                return total * 1e3
            inboxes = [list(messages) for messages in zip(*outboxes, strict=True)]


def processor_s(engine: ShardProcesses) -> float:
    """Return the processor time so far of this thread and of the shards of an engine."""
    hertz, total = os.sysconf("SC_CLK_TCK"), time.thread_time()
    for process in engine.process_ids:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / hertz
    return total


def timed(step: Callable[[Any], Any], clock: Callable[[], float] = time.perf_counter) -> Callable[[Any], float]:
    """Return a step that returns its milliseconds."""

    def run(inputs: Any) -> float:
        begun = clock()
        step(inputs)
        return (clock() - begun) * 1e3

    return run


def measure(side: int, counts: list[int], ticks: int) -> Result:
    """Measure one size."""
    plain = scaled(side)
    inputs_at = WORLD.inputs(plain)
    runs: dict[tuple[str, int], Callable[[Any], float]] = {
        ("one", 1): timed(Meadow(plain).step),
        ("one_thread", 1): timed(Meadow(plain).step, time.thread_time),
    }
    meadows, engines, work = [], dict[int, ShardProcesses](), dict[int, float]()
    for count in counts:
        runs["path", count] = CriticalPath(plain, count).step
        bare = ShardedMeadow(plain, count, engine=ShardProcesses())
        engines[count] = ShardProcesses()
        whole = ShardedMeadow(plain, count, engine=engines[count])
        bare.shards.plan = Unassembled(MeadowPlan.of(plain).encoded)
        runs["processes", count] = timed(shard_step(bare))
        runs["state", count] = timed(whole.step)
        meadows += [bare, whole]
    times: dict[tuple[str, int], list[float]] = {name: [] for name in runs}
    for tick in range(1, ticks + UNCOUNTED_TICKS + 1):
        for name, run in runs.items():
            before = processor_s(engines[name[1]]) if name[0] == "state" else 0.0
            times[name].append(run(inputs_at(tick)))
            if name[0] == "state" and tick > UNCOUNTED_TICKS:
                work[name[1]] = work.get(name[1], 0.0) + processor_s(engines[name[1]]) - before
    for meadow in meadows:
        meadow.close()
    medians = {name: statistics.median(values[UNCOUNTED_TICKS:]) for name, values in times.items()}
    result = Result(side, medians["one", 1], medians["one_thread", 1])
    for (kind, count), median in medians.items():
        if kind in ("path", "processes", "state"):
            getattr(result, kind)[count] = median
    result.work = {count: seconds * 1e3 / ticks for count, seconds in work.items()}
    return result


def shard_step(meadow: ShardedMeadow) -> Callable[[Any], Any]:
    """Return the step of the shards alone."""
    return lambda inputs: meadow.shards.step(StepOrder(inputs))


class Unassembled(MeadowPlan):
    """A plan whose pieces are thrown away."""

    def assemble(self, *_: Any) -> None:
        """Do nothing."""


def table_of(results: list[Result]) -> Table:
    """The times, and how many times as fast as one process each is."""
    table = Table("cells", "one process", "shards", "path", "processes", "with the state", "work")
    for result in results:
        for count in result.path:
            shown = [
                f"{times[count]:.1f} ms, {one / times[count]:.2f} ×"
                for one, times in (
                    (result.one_thread, result.path),
                    (result.one, result.processes),
                    (result.one, result.state),
                    (result.one_thread, result.work),
                )
            ]
            table.add_row(f"{result.side}²", f"{result.one:.1f} ms", str(count), *shown)
    return table


def main() -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sides", nargs="+", type=int, default=[128, 256, 512, 1024])
    parser.add_argument("--shards", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--ticks", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="one small size, few ticks")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sides, arguments.shards, arguments.ticks = [64], [2], 4
    console = Console()
    results = []
    for side in arguments.sides:
        results.append(measure(side, arguments.shards, arguments.ticks))
        console.print(table_of(results[-1:]))
    if arguments.json:
        facts = {"cores": os.cpu_count(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**facts, "results": [attrs.asdict(result) for result in results]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
