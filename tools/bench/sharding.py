"""Measure what shards cost: a tick of the meadow in one process, and in shards, on square worlds of several sizes.

Worlds are scaled from the scenario large. For each number of shards three times of a tick are given:
  path      the longest shard of each segment between two exchanges, summed: what no machine can do faster; the shards
            run in turn in this process, and the time of the thread is taken
  processes the step of shards in processes, with pipes between them, and the pieces of all sent to this process
  state     the same, and the whole state put together from the pieces: what a recording takes, which hashes each tick
  work      the processor time of all of these processes and this one, for the last of these three, as a mean
The others are medians; the runs take turns, a tick each. A busy machine lengthens the times of processes most, since each
exchange waits for the last of them; path and work do not depend on what else runs. --path-only leaves the processes out.

With --exchanges FILE, made by shard_exchanges.py --json, it also prints the model of a tick in N shards with a core for each: the
path, the exchanges at the price of the engine, and the whole state, made by the slowest piece and put together by one process.

    python tools/bench/sharding.py [--sides N ...] [--shards N ...] [--ticks N] [--path-only] [--exchanges FILE]
                                   [--quick] [--json FILE]
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
from multiprocessing.reduction import ForkingPickler
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
        exchanges, message_bytes: of a tick, and of a message between two shards; means.
        whole: the slowest piece, and the whole state put together in this process: milliseconds of the thread.
    """

    side: int
    one: float
    one_thread: float
    path: dict[int, float] = attrs.field(factory=dict)
    processes: dict[int, float] = attrs.field(factory=dict)
    state: dict[int, float] = attrs.field(factory=dict)
    work: dict[int, float] = attrs.field(factory=dict)
    exchanges: dict[int, float] = attrs.field(factory=dict)
    message_bytes: dict[int, float] = attrs.field(factory=dict)
    whole: dict[int, float] = attrs.field(factory=dict)


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
    """Shards in turn in this process; the time of the slowest of each segment counts.

    Attributes:
        exchanges, message_bytes, whole: of each step, as those of Result.
    """

    def __init__(self, plain: dict[str, Any], count: int) -> None:
        self._plan = MeadowPlan.of(plain)
        self._stripes = self._plan.stripes(count)
        self._shards = [self._plan.shard(number, self._stripes) for number in range(count)]
        self._state = Meadow(plain).state
        whole = self._state.snapshot()
        for shard in self._shards:
            shard.load(whole)
        self.exchanges, self.message_bytes, self.whole = list[float](), list[float](), list[float]()

    def step(self, inputs: Any) -> float:
        """Advance by a tick; return the milliseconds of the path."""
        steps: list[Exchange] = [shard.step(StepOrder(inputs)) for shard in self._shards]
        total, sent, exchanges = 0.0, list[int](), 0
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
                break
            exchanges += 1
            sent += [
                len(ForkingPickler.dumps(message))
                for number, outbox in enumerate(outboxes)
                for other, message in enumerate(outbox)
                if other != number
            ]
            inboxes = [list(messages) for messages in zip(*outboxes, strict=True)]
        self.exchanges.append(exchanges)
        self.message_bytes.append(sum(sent) / max(len(sent), 1))
        self._put_together()
        return total * 1e3

    def _put_together(self) -> None:
        slowest, pieces = 0.0, []
        for shard in self._shards:
            begun = time.thread_time()
            pieces.append(shard.piece())
            slowest = max(slowest, time.thread_time() - begun)
        begun = time.thread_time()
        self._plan.assemble(self._state, self._stripes, pieces)
        self.whole.append((slowest + time.thread_time() - begun) * 1e3)


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


def measure(side: int, counts: list[int], ticks: int, *, path_only: bool = False) -> Result:
    """Measure one size."""
    plain = scaled(side)
    inputs_at = WORLD.inputs(plain)
    runs: dict[tuple[str, int], Callable[[Any], float]] = {
        ("one", 1): timed(Meadow(plain).step),
        ("one_thread", 1): timed(Meadow(plain).step, time.thread_time),
    }
    meadows, engines, work = [], dict[int, ShardProcesses](), dict[int, float]()
    paths = {count: CriticalPath(plain, count) for count in counts}
    for count in counts:
        runs["path", count] = paths[count].step
        if path_only:
            continue
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
    for count, path in paths.items():
        result.exchanges[count] = statistics.mean(path.exchanges[UNCOUNTED_TICKS:])
        result.message_bytes[count] = statistics.mean(path.message_bytes[UNCOUNTED_TICKS:])
        result.whole[count] = statistics.median(path.whole[UNCOUNTED_TICKS:])
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
    table = Table(
        "cells", "one process", "shards", "path", "exchanges", "message", "whole", "processes", "state", "work"
    )
    for result in results:
        for count in result.path:
            shown = [
                f"{times[count]:.1f} ms, {one / times[count]:.2f} ×" if count in times else "-"
                for one, times in (
                    (result.one_thread, result.path),
                    (result.one, result.processes),
                    (result.one, result.state),
                    (result.one_thread, result.work),
                )
            ]
            sent = f"{result.exchanges[count]:.1f}", f"{result.message_bytes[count] / 1e3:.1f} kB"
            own = f"{result.side}²", f"{result.one_thread:.1f} ms", str(count), shown[0], *sent
            table.add_row(*own, f"{result.whole[count]:.1f} ms", *shown[1:])
    return table


def exchange_ms(rows: list[dict[str, Any]], engine: str, count: int, size_bytes: float) -> float:
    """The least time of an exchange on an engine, between the measured sizes of messages, of the nearest number of shards."""
    own = [row for row in rows if row["engine"] == engine]
    nearest = min({row["shards"] for row in own}, key=lambda shards: abs(shards - count))
    points = sorted((row["bytes"], row["least"]) for row in own if row["shards"] == nearest)
    (small, base), (large, more) = points[0], points[-1]
    return float(base + max(more - base, 0.0) * size_bytes / (large - small))


def model_of(results: list[Result], rows: list[dict[str, Any]]) -> Table:
    """A tick in N shards with a core for each, on each engine, and how many times as fast as one process.

    The steps alone, then with the whole state of each tick, as a recording takes it.
    """
    engines = sorted({row["engine"] for row in rows})
    table = Table("cells", "one process", "shards", *engines)
    for result in results:
        for count in result.path:
            shown = []
            for engine in engines:
                exchange = exchange_ms(rows, engine, count, result.message_bytes[count])
                steps = result.path[count] + result.exchanges[count] * exchange
                recorded = steps + result.whole[count]
                shown.append(
                    f"{steps:.0f} ms, {result.one_thread / steps:.2f} ×; recorded {recorded:.0f} ms, "
                    f"{result.one_thread / recorded:.2f} ×"
                )
            table.add_row(f"{result.side}²", f"{result.one_thread:.1f} ms", str(count), *shown)
    return table


def main() -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sides", nargs="+", type=int, default=[128, 256, 512, 1024])
    parser.add_argument("--shards", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--ticks", type=int, default=20)
    parser.add_argument("--path-only", action="store_true", help="without processes")
    parser.add_argument("--exchanges", type=Path, help="what shard_exchanges.py --json has measured")
    parser.add_argument("--quick", action="store_true", help="one small size, few ticks")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.sides, arguments.shards, arguments.ticks = [64], [2], 4
    console = Console()
    results = []
    for side in arguments.sides:
        results.append(measure(side, arguments.shards, arguments.ticks, path_only=arguments.path_only))
        console.print(table_of(results[-1:]))
    if arguments.exchanges:
        console.print(model_of(results, json.loads(arguments.exchanges.read_text())["rows"]))
    if arguments.json:
        facts = {"cores": os.cpu_count(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({**facts, "results": [attrs.asdict(result) for result in results]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
