"""Shards as actors of an engine: the states of one process, also if shards die or are slow. Processes stand for machines."""

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

from recorder.cluster.process_actors import ProcessEngine
from recorder.cluster.shard_actors import ShardActors
from recorder.processes.shards.shard_processes import ShardProcesses
from sim.scenario.scenario_file import load_scenario
from sim.sharding import ShardLostError, ShardRun
from sim.worlds.meadow import WORLD

from project_paths import ROOT
from ray_cluster import alone


class NoMachineLeft(ProcessEngine):
    """Starts no actor."""

    def start(self, *_: Any) -> Any:
        raise OSError("no machine is left")


def test_shards_as_actors_give_the_states_of_one_and_survive_kills() -> None:
    """A player, seeds, swarms and links cross borders; two shards are killed."""
    plain: dict[str, Any] = load_scenario("boom-and-crash").config
    engine, inputs_at, draws = ShardActors(ProcessEngine()), WORLD.inputs(plain), random.Random(5)
    run = SideBySide(plain, 3, engine=engine)
    run.run(inputs_at, 6)
    for kills in (1, 2):
        os.kill(engine.process_ids[draws.randrange(3)], signal.SIGKILL)
        run.run(inputs_at, 2)
        assert run.many.shards.restarts == kills
    run.many.close()
    assert engine.process_ids == []


def test_what_a_shard_raises_reaches_the_caller() -> None:
    column = Column(6)
    run = ShardRun(ColumnPlan(6), 3, column.state, ShardActors(ProcessEngine()))
    run.step(1)
    before = column.state.hash()
    with pytest.raises(ZeroDivisionError, match="shard 1 met 13"):
        run.step(13)
    assert column.state.hash() == before
    run.step(2)
    run.close()


@pytest.mark.parametrize("odd", [0, 2])
def test_shards_that_disagree_about_exchanges_are_refused(odd: int) -> None:
    column = Column(6)
    run = ShardRun(UnevenPlan(odd), 3, column.state, ShardActors(ProcessEngine()))
    run.step(1)
    before = column.state.hash()
    with pytest.raises(RuntimeError, match="after 1 exchanges some shards wait for messages that others do not send"):
        run.step(7)
    assert column.state.hash() == before


def test_actors_that_do_not_start_end_the_run_in_one_line() -> None:
    run = ShardRun(ColumnPlan(6), 2, Column(6).state, ShardActors(NoMachineLeft()))
    with pytest.raises(ShardLostError, match="shard 0 of 2 did not start: no machine is left"):
        run.step(1)


@pytest.mark.parametrize("kind", ["processes", "actors"])
def test_a_slow_shard_is_named(kind: str) -> None:
    """It is stopped until it is named; the states are those of one process."""
    notices: list[str] = []

    def notice(text: str) -> None:
        notices.append(text)
        if f"(process {stopped}, " in text:
            os.kill(stopped, signal.SIGCONT)

    engine = ShardProcesses(on_notice=notice) if kind == "processes" else ShardActors(ProcessEngine(), on_notice=notice)
    one, many = Column(9), Column(9)
    run = ShardRun(ColumnPlan(9), 3, many.state, engine)
    stopped = 0
    for tick in range(4):
        one.step(tick)
        run.step(tick)
        if tick == 1:
            engine._slow_s, stopped = 0.2, engine.process_ids[1]
            os.kill(stopped, signal.SIGSTOP)
    assert one.state.hash() == many.state.hash()
    run.close()
    named = f"shard 1 of 3 (process {stopped}, rows 3 to 5) is slow"
    assert named in [text.partition(": ")[0] for text in notices]


ON_RAY = """
import os, signal, sys
import ray
from sharded_runs import SideBySide
from recorder.cluster.ray_actors import RayActorEngine
from recorder.cluster.shard_actors import ShardActors
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD

ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 << 20, log_to_driver=False,
         _node_ip_address="127.0.0.1", _temp_dir=sys.argv[1])
try:
    plain = load_scenario("boom-and-crash").config
    engine, inputs_at = ShardActors(RayActorEngine()), WORLD.inputs(plain)
    run = SideBySide(plain, 3, engine=engine)
    run.run(inputs_at, 5)
    os.kill(engine.process_ids[1], signal.SIGKILL)
    run.run(inputs_at, 5)
    assert run.many.shards.restarts == 1
    run.many.close()
finally:
    ray.shutdown()
print("as one process")
"""


def test_shards_on_ray(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A shard is killed; Ray is started for it without a network, and ended. Skipped where Ray is not installed."""
    pytest.importorskip("ray")
    paths = [str(ROOT / "src"), str(ROOT / "tests" / "support"), *sys.path]
    finished = subprocess.run(
        alone(sys.executable, "-c", ON_RAY, str(tmp_path_factory.mktemp("ray"))),
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(tmp_path_factory.mktemp("ray-run")),
    )
    assert finished.stdout.endswith("as one process\n"), finished.stderr[-3000:]
