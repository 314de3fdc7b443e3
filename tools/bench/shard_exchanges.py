"""Measure what an exchange between shards costs on each engine: nothing is computed, only messages are sent.

Each engine runs shards whose step has as many exchanges as the meadow has, with messages of a few sizes. Given are, for one
exchange of all shards, the processor time of all processes that the engine has started and of this one, as a mean, and the least time
on the clock: the least, because other work on the machine only adds to it. Engines take turns, a few steps each.

  pipes   a process for each shard, with a pipe to each other one: record run --shards
  actors  a process for each shard, whose messages all go through this one: the way of Ray, without Ray
  ray     actors of a Ray that is started here; left out where it is not installed, or without --ray

    python tools/bench/shard_exchanges.py [--shards N ...] [--bytes N ...] [--steps N] [--ray] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

from recorder.cluster.actor_engine import ActorEngine
from recorder.cluster.process_actors import ProcessEngine
from recorder.cluster.ray_actors import RayActorEngine
from recorder.cluster.shard_actors import ShardActors
from recorder.processes.engines.ray_start import RaySettings, connected
from recorder.processes.shards.shard_processes import ShardProcesses
from sim.kernel.schema import Field, Schema
from sim.kernel.state import State
from sim.sharding import Exchange, ShardEngine, Stripes

EXCHANGES = 6  # Of a tick of the meadow without links: seeds, winners, two or three rounds, the end.
STEPS_A_TURN = 4


class Sender:
    """A shard that only sends."""

    def __init__(self, stripes: Stripes, size_bytes: int) -> None:
        self.count, self.message = stripes.count, bytes(size_bytes)

    def load(self, whole: object) -> None:
        """Nothing."""

    def step(self, inputs: Any) -> Exchange:
        """Send the message to all, as often as inputs says."""
        for _ in range(inputs):
            yield [self.message] * self.count

    def piece(self) -> dict[str, Any]:
        """Nothing."""
        return {}


@attrs.frozen
class SenderPlan:
    """Shards that only send."""

    size_bytes: int

    def stripes(self, count: int) -> Stripes:
        """As many rows as shards."""
        return Stripes.divide(count, count, 0)

    def shard(self, number: int, stripes: Stripes) -> Sender:
        """See ShardPlan."""
        del number
        return Sender(stripes, self.size_bytes)

    def assemble(self, *_: Any) -> None:
        """Nothing."""


def processor_s() -> float:
    """The processor time so far of this process and of all that it has started, and they: of threads that still run."""
    parents = dict[int, int]()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            status = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            parents[int(entry.name)] = int(status.rpartition(")")[2].split()[1])

    def is_ours(process: int) -> bool:
        while process not in (0, os.getpid()):
            process = parents.get(process, 0)
        return process != 0

    total_ns = 0
    for process in filter(is_ours, list(parents)):
        for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total_ns += int(thread.read_text(encoding="ascii").split()[0])
    return total_ns / 1e9


@contextlib.contextmanager
def engines(*, with_ray: bool) -> Iterator[dict[str, ActorEngine | None]]:
    """The actor engines by name; None stands for pipes."""
    found: dict[str, ActorEngine | None] = {"pipes": None, "actors": ProcessEngine()}
    if not with_ray:
        yield found
        return
    with connected(RaySettings(None, 2, None), tempfile.mkdtemp(prefix="ray-")):
        yield found | {"ray": RayActorEngine()}


def measure(engine: ActorEngine | None, count: int, size_bytes: int, steps: int) -> tuple[float, float]:
    """Return the milliseconds of processor time and the least ones on the clock, of one exchange."""
    shards: ShardEngine = ShardProcesses() if engine is None else ShardActors(engine)
    plan = SenderPlan(size_bytes)
    shards.start(plan, plan.stripes(count))
    shards.load(State(Schema(Field("x", "i8"))).snapshot())
    shards.step(EXCHANGES)  # Uncounted.
    elapsed = {0: list[float](), EXCHANGES: list[float]()}
    used = dict.fromkeys(elapsed, 0.0)
    for turn in range(0, steps, STEPS_A_TURN):
        for exchanges in (0, EXCHANGES) if turn % (2 * STEPS_A_TURN) else (EXCHANGES, 0):
            before = processor_s()
            for _ in range(STEPS_A_TURN):
                begun = time.perf_counter()
                shards.step(exchanges)
                elapsed[exchanges].append(time.perf_counter() - begun)
            used[exchanges] += processor_s() - before
    shards.close()
    count_of = len(elapsed[EXCHANGES])
    processor = (used[EXCHANGES] - used[0]) / count_of / EXCHANGES
    return processor * 1e3, (min(elapsed[EXCHANGES]) - min(elapsed[0])) / EXCHANGES * 1e3


def main() -> int:
    """Run the bench."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shards", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--bytes", nargs="+", type=int, default=[100, 100_000])
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    table, rows = Table("engine", "shards", "bytes a message", "processor ms", "least ms"), []
    with engines(with_ray=arguments.ray) as found:
        for count in arguments.shards:
            for size in arguments.bytes:
                for name, engine in found.items():
                    processor, least = measure(engine, count, size, arguments.steps)
                    table.add_row(name, str(count), f"{size:,}", f"{processor:.2f}", f"{least:.2f}")
                    rows.append(
                        {"engine": name, "shards": count, "bytes": size, "processor": processor, "least": least}
                    )
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps({"cores": os.cpu_count(), "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
