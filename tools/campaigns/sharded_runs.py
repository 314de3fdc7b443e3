"""Run shipped scenarios of the meadow from beginning to end in 1 to N shards, beside one process; compare every tick.

Compared are the arena (rows, ids, free rows and capacities included), the hash, the events, the energy ledger, the
figures and the end. The shards run in this process, by the same messages as between processes. With --kills, they are
processes, which are killed at random ticks; the states must stay the same.

    python tools/campaigns/sharded_runs.py [--scenario NAME ...] [--shards N ...] [--ticks N] [--kills N] [--seed N]

Exit code 1 if anything differed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from recorder.processes.shards.shard_processes import ShardProcesses
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.model.energy_ledger import Ledger
from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow


def differs(one: Meadow, many: ShardedMeadow, ledgers: tuple[Ledger, Ledger]) -> str | None:
    """Return what differs, or None."""
    if not np.array_equal(one.state.arena, many.state.arena):
        fields = [name for name in one.state if not np.array_equal(one.state[name], many.state[name])]
        return f"the state: {', '.join(fields) or 'capacities'}"
    for what, same in (
        ("the hash", one.state.hash() == many.state.hash()),
        ("the events", one.events() == many.events()),
        ("the ledger", ledgers[0].entries == ledgers[1].entries),
        ("the figures", one.telemetry() == many.telemetry()),
        ("the end", one.ended() == many.ended()),
    ):
        if not same:
            return what
    return None


def compare(name: str, count: int, ticks: int | None, kills: random.Random | None, kill_ticks: int) -> tuple[bool, str]:
    """Run one scenario; return whether all was the same, and a line about it."""
    loaded = load_scenario(name)
    inputs_at, begun_s = loaded.world.inputs(loaded.config), time.perf_counter()
    engine = ShardProcesses() if kills is not None else None
    ledgers = Ledger(), Ledger()
    one = Meadow(loaded.config, ledger=ledgers[0])
    many = ShardedMeadow(loaded.config, count, engine=engine, ledger=ledgers[1])
    one.events_wanted = many.events_wanted = True
    last = min(ticks or loaded.ticks, loaded.ticks)
    killed_at = set(kills.sample(range(2, last), min(kill_ticks, last - 2))) if kills is not None else set[int]()
    for tick in track(range(1, last + 1), f"{name} in {count}", transient=True):
        if tick in killed_at and engine is not None and kills is not None:
            os.kill(kills.choice(engine.process_ids), signal.SIGKILL)
        inputs: Any = inputs_at(tick)
        one.step(inputs)
        many.step(inputs)
        found = differs(one, many, ledgers)
        if found is not None:
            many.close()
            return False, f"tick {tick}: {found} differs"
        if one.ended() is not None:
            last = tick
            break
    many.close()
    killed = f", {many.shards.restarts} kills" if kills is not None else ""
    seconds = time.perf_counter() - begun_s
    return True, f"ticks 1 to {last} the same{killed}, hash {one.state.hash():016x}, {seconds:.0f} s"


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scenario", nargs="+", default=["quiet-meadow", "boom-and-crash", "arms-race", "large"])
    parser.add_argument("--shards", nargs="+", type=int, default=list(range(1, 8)))
    parser.add_argument("--ticks", type=int, help="by default all of the scenario")
    parser.add_argument("--kills", type=int, default=0, help="how many shards are killed in each run")
    parser.add_argument("--seed", type=int, default=0, help="of the kills")
    arguments = parser.parse_args()
    console, failed = Console(), False
    for name in arguments.scenario:
        for count in arguments.shards:
            kills = random.Random(f"{arguments.seed} {name} {count}") if arguments.kills else None
            same, line = compare(name, count, arguments.ticks, kills, arguments.kills)
            failed |= not same
            console.print(f"{name}, {count} shards: {line}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
