"""How verify and extract scale with machines: a simulation of the queue, from constants that tools/bench/cluster.py measures.

Usage: python tools/cluster_plan.py [--measured FILE] [--machines 1,10,100,1000] [--latency-ms 20] [--store-gb-per-s 10]

Each bundle of items waits for three things in turn: the one process that hands out, the store, and a free slot. The sizes of
bundles are chosen by the code that chooses them in a real run. The reason for
the end of scaling is found by trial: each of the constants is made free in turn, and the one that saves most is named.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs

from recorder.processes.engines.bundles import BundleSizes

MACHINES = (1, 10, 100, 1000)
REASONS = {  # A constant, what it is for people.
    "step_s": "the steps themselves",
    "scan_bytes_per_s": "one process reads the tape once, before the work",
    "hand_out_s": "one process hands the bundles out",
    "hand_out_item_s": "one process takes the results",
    "store_bytes_per_s": "the store's throughput",
    "latency_s": "the store's latency",
    "start_s": "the start of the workers",
}


@attrs.frozen
class Plan:
    """The constants of a cluster and of a recording. Times in seconds, rates in bytes a second.

    Attributes:
        cores: slots of a machine.
        step_s: of one tick.
        interval_ticks, bytes_per_tick: of the tapes.
        scan_bytes_per_s: of one process that reads all blocks and their checksums.
        hand_out_s, hand_out_item_s: of the process that hands out, for each bundle, and for each of its items.
        item_s: of a slot for each item besides its ticks: a fork, the simulation made, a keyframe loaded.
        start_s: of a slot, once: Ray's worker, and the interpreter beside it.
        latency_s: of a request to the store.
        machine_bytes_per_s, store_bytes_per_s: throughput of the network of one machine, and of the store.
    """

    cores: int = 8
    step_s: float = 0.0005
    interval_ticks: int = 300
    bytes_per_tick: float = 300.0
    scan_bytes_per_s: float = 1e9
    hand_out_s: float = 0.004
    hand_out_item_s: float = 0.0005
    item_s: float = 0.02
    start_s: float = 4.0
    latency_s: float = 0.02
    machine_bytes_per_s: float = 1.25e9
    store_bytes_per_s: float = 1e10


@attrs.frozen
class Load:
    """The work of a command.

    Attributes:
        name: for people.
        items: how many.
        ticks, read_bytes, written_bytes, requests: of each item.
        read_first_bytes: what the process that hands out reads before the first item.
    """

    name: str
    items: int
    ticks: int
    read_bytes: float
    written_bytes: float
    requests: int
    read_first_bytes: float = 0.0


def loads(plan: Plan) -> list[Load]:
    """Verify one long tape, verify many short ones, extract the states of every tenth tick of many."""
    interval_bytes = plan.interval_ticks * plan.bytes_per_tick
    long_ticks, short_ticks, tapes = 3_000_000, 3_000, 4_000
    short_bytes = short_ticks * plan.bytes_per_tick
    return [
        Load(
            "verify one tape of 3,000,000 ticks",
            long_ticks // plan.interval_ticks,
            plan.interval_ticks,
            interval_bytes,
            0.0,
            2,
            long_ticks * plan.bytes_per_tick,
        ),
        Load("verify 4,000 tapes of 3,000 ticks", tapes, short_ticks, short_bytes, 0.0, 5),
        Load("extract 4,000 tapes of 3,000 ticks", tapes, short_ticks, short_bytes, short_ticks / 10 * 80_000, 7),
    ]


def duration(plan: Plan, load: Load, machines: int) -> float:
    """The seconds from the command to its end."""
    slots = machines * plan.cores
    slot_rate = min(plan.machine_bytes_per_s / plan.cores, plan.store_bytes_per_s)
    begin_s = 0.0
    if load.read_first_bytes:
        rate = min(plan.scan_bytes_per_s, plan.machine_bytes_per_s, plan.store_bytes_per_s)
        begin_s = 3 * plan.latency_s + load.read_first_bytes / rate
    free = [begin_s] * min(slots, load.items)
    started_s = begin_s + plan.start_s + 3 * plan.latency_s  # Ray starts workers for the first bundles.
    handed_s, store_s, end_s = begin_s, begin_s, begin_s
    sizes, waiting = BundleSizes(slots), load.items
    ended: list[tuple[float, int, float]] = []
    while waiting:
        handed_s = max(heapq.heappop(free), handed_s)
        while ended and ended[0][0] <= handed_s:
            _, items, took_s = heapq.heappop(ended)
            sizes.ended(items, took_s)
        items = min(waiting, sizes.size(waiting))
        waiting -= items
        handed_s += plan.hand_out_s + items * plan.hand_out_item_s
        start_s = max(started_s, handed_s)
        size = items * (load.read_bytes + load.written_bytes)
        store_s = max(store_s, start_s) + size / plan.store_bytes_per_s
        moved_s = max(store_s, start_s + size / slot_rate) + items * load.requests * plan.latency_s
        done_s = moved_s + items * (plan.item_s + load.ticks * plan.step_s)
        heapq.heappush(free, done_s)
        heapq.heappush(ended, (done_s, items, done_s - start_s))
        end_s = max(end_s, done_s)
    return end_s


def reason(plan: Plan, load: Load, machines: int) -> str:
    """What limits a command: the constant without which it would be fastest."""
    free = {name: float("inf") if name.endswith("per_s") else 0.0 for name in REASONS}
    times = {}
    for name, value in free.items():
        changed = attrs.evolve(plan, **{name: value})  # type: ignore[arg-type] # All of these are floats.
        times[name] = duration(changed, load, machines)
    return REASONS[min(times, key=times.__getitem__)]


def table(plan: Plan, machines: Sequence[int]) -> list[str]:
    """The lines of a table in Markdown."""
    lines = [
        f"| machines of {plan.cores} cores | time | times as fast as one | limited by |",
        "|--:|--:|--:|---|",
    ]
    for load in loads(plan):
        lines.append(f"| **{load.name}** | | | |")
        one_s = duration(plan, load, 1)
        for count in machines:
            seconds = duration(plan, load, count)
            lines.append(f"| {count:,} | {time_text(seconds)} | {one_s / seconds:,.1f} | {reason(plan, load, count)} |")
    return lines


def time_text(seconds: float) -> str:
    """A duration for people."""
    if seconds < 120:
        return f"{seconds:,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def measured(path: Path) -> dict[str, float]:
    """Constants from the JSON file of tools/bench/cluster.py."""
    facts = json.loads(path.read_text(encoding="utf-8"))
    return {
        "scan_bytes_per_s": facts["scan_bytes_per_s"],
        "hand_out_s": facts["hand_out_ms"] / 1000,
        "hand_out_item_s": facts["hand_out_bundled_ms"] / 1000,
        "item_s": facts["item_local_ms"] / 1000,
        "start_s": facts["ray_start_s"],
    }


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measured", type=Path, help="results of tools/bench/cluster.py --json")
    parser.add_argument("--machines", default=",".join(map(str, MACHINES)))
    parser.add_argument("--latency-ms", type=float)
    parser.add_argument("--store-gb-per-s", type=float)
    parser.add_argument("--step-ms", type=float)
    parsed = parser.parse_args()
    plan = Plan(**(measured(parsed.measured) if parsed.measured is not None else {}))  # type: ignore[arg-type]
    given = {
        "latency_s": parsed.latency_ms and parsed.latency_ms / 1000,
        "store_bytes_per_s": parsed.store_gb_per_s and parsed.store_gb_per_s * 1e9,
        "step_s": parsed.step_ms and parsed.step_ms / 1000,
    }
    plan = attrs.evolve(plan, **{name: value for name, value in given.items() if value is not None})
    print("\n".join(table(plan, [int(count) for count in parsed.machines.split(",")])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
