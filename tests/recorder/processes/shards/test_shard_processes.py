"""Shards in processes: the states of one process, also if shards are killed; no process is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sharded_runs import SideBySide
from split_columns import Column, ColumnPlan, UnevenPlan

from recorder.processes.shards.shard_processes import ShardProcesses
from sim.scenario.scenario_file import load_scenario
from sim.sharding import ShardRun
from sim.worlds.meadow import WORLD, Meadow


def is_running(process: int) -> bool:
    """Return True if there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.seldom(0.15)
def test_shards_in_processes_give_the_states_of_one_and_survive_kills() -> None:
    """The killed ones are named by their exit codes inside; outside, nothing but time is lost."""
    plain: dict[str, Any] = load_scenario("boom-and-crash").config
    engine, inputs_at, draws = ShardProcesses(), WORLD.inputs(plain), random.Random(5)
    run = SideBySide(plain, 2, engine=engine)
    run.run(inputs_at, 10)
    first = engine.process_ids
    for kills in (1, 2):
        os.kill(engine.process_ids[draws.randrange(2)], signal.SIGKILL)
        run.run(inputs_at, 4)
        assert run.many.shards.restarts == kills
    last = engine.process_ids
    run.many.close()
    assert not any(is_running(process) for process in first + last)
    assert engine.process_ids == []


def test_what_a_shard_raises_reaches_the_caller_and_ends_all() -> None:
    """Another step would start them again, from the last complete tick."""
    column, engine = Column(6), ShardProcesses()
    run = ShardRun(ColumnPlan(6), 3, column.state, engine)
    run.step(1)
    before, processes = column.state.hash(), engine.process_ids
    with pytest.raises(ZeroDivisionError, match="shard 1 met 13"):
        run.step(13)
    assert column.state.hash() == before
    assert not any(is_running(process) for process in processes)
    run.close()


@pytest.mark.parametrize("odd", [0, 2])
@pytest.mark.seldom(0.15)
def test_shards_that_disagree_about_exchanges_are_refused(odd: int) -> None:
    """In the second step; none waits without end."""
    column = Column(6)
    run = ShardRun(UnevenPlan(odd), 3, column.state, ShardProcesses())
    run.step(1)
    before = column.state.hash()
    with pytest.raises(RuntimeError, match="after 1 exchanges some shards wait for messages that others do not send"):
        run.step(7)
    assert column.state.hash() == before
    run.close()


UNGUARDED = """
from recorder.processes.shards.shard_processes import ShardProcesses
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow

meadow = ShardedMeadow(load_scenario("boom-and-crash").config, 2, engine=ShardProcesses())
meadow.step(None)
print(meadow.state.hash(), meadow.shards.restarts)
"""


def test_a_script_without_a_guard_is_not_run_again_in_each_shard(tmp_path: Path) -> None:
    """The plan is of a module, so the shards need nothing of the script."""
    (tmp_path / "script.py").write_text(UNGUARDED)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    plain = Meadow(load_scenario("boom-and-crash").config)
    plain.step(None)
    assert (done.stdout, done.stderr) == (f"{plain.state.hash()} 0\n", "")
