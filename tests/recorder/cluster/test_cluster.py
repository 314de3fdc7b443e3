"""A world run by a server and workers has the states of one process at every tick."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder.cluster import ClusterError, OrganismCluster
from recorder.cluster.assignments import Assignments
from recorder.cluster.organism_worker import OrganismWorker, no_bodies
from recorder.exit_codes import UsageError
from recorder.processes.fork_hazard import forks_refused
from sim.worlds.organisms import Organisms
from sim.worlds.organisms.execution import take_bodies
from sim.worlds.organisms.layout import COLUMNS

from cluster_runs import CONFIG, TICKS, assert_states_to, inputs_at, plain_hashes


@pytest.mark.sample(4)
@pytest.mark.parametrize("workers", range(1, 8))
def test_the_states_are_those_of_one_process_for_any_number_of_workers(workers: int) -> None:
    with OrganismCluster(CONFIG, workers) as cluster:
        assert cluster.simulation.state.hash() == plain_hashes()[0]
        assert_states_to(cluster.simulation, TICKS if workers == 3 else TICKS // 3)
        facts, _ = cluster.describe()
    loads = Counter(facts.assignments.values())
    assert sorted(facts.assignments) == cluster.simulation.state["organisms.id"].tolist()
    assert set(loads) == set(range(workers))  # All of them had work.
    telemetry = cluster.simulation.telemetry()
    for name in ("instructions", "births"):
        assert sum(stats[name] for stats in facts.worker_stats.values()) == telemetry[name]


def test_the_tape_is_that_of_one_process(tmp_path: Path) -> None:
    """Byte for byte, where a recording is deterministic."""

    def record(path: Path, simulation: Organisms) -> bytes:
        with recorder.Recorder(path, simulation, deterministic=True, keyframe_interval_ticks=10) as tape:
            for tick in range(1, 31):
                tape.step(inputs_at(tick))
        return path.read_bytes()

    with OrganismCluster(CONFIG, 3) as cluster:
        ours = record(tmp_path / "cluster.tape", cluster.simulation)
    assert ours == record(tmp_path / "plain.tape", Organisms(CONFIG))


def test_fresh_interpreters_where_a_fork_would_not_work() -> None:
    with forks_refused("a library with threads"), OrganismCluster(CONFIG, 2) as cluster:
        assert_states_to(cluster.simulation, 5)


def test_the_monitoring_history_is_capped() -> None:
    """An entry each history_interval ticks, with the figures of that tick; the last history_max are kept."""
    world, expected = Organisms(CONFIG), []
    for tick in range(1, 31):
        world.step(inputs_at(tick))
        if tick % 4 == 0:
            expected.append({"global_step": tick, **world.telemetry()})
    with OrganismCluster(CONFIG, 2) as cluster:
        assert_states_to(cluster.simulation, 30)
        assert cluster.describe()[0].history == expected[-5:]


def test_inputs_that_are_refused_change_nothing() -> None:
    with OrganismCluster(CONFIG, 2) as cluster:
        assert_states_to(cluster.simulation, 3)
        with pytest.raises(ValueError, match="expected"):
            cluster.simulation.step([{"kind": "dance"}])
        assert cluster.simulation.state.hash() == plain_hashes()[3]
        assert_states_to(cluster.simulation, 6)


@pytest.mark.parametrize("workers", [0, -1, 5000])
def test_a_wrong_number_of_workers_is_refused(workers: int) -> None:
    with pytest.raises(UsageError, match="expected 1 to 1024"):
        OrganismCluster(CONFIG, workers)


# --- a worker alone


def head(**changes: Any) -> dict[str, Any]:
    return {"simulation_id": "sim-1", "epoch": 1, **changes}


def holding(world: Organisms, **changes: Any) -> dict[str, Any]:
    """The message that gives a worker all organisms of a world."""
    columns = {column.name: world.state[f"organisms.{column.name}"] for column in COLUMNS}
    barrier = {"ids": columns["id"], "energy": columns["energy"], "max_energy": columns["max_energy"]}
    return head(do="run", tick=1, level=0, new=take_bodies(columns, slice(None)), **barrier) | changes


@pytest.mark.parametrize("change", [{"simulation_id": "sim-2"}, {"epoch": 2}])
def test_a_worker_of_another_simulation_or_epoch_drops_what_it_has(change: dict[str, Any]) -> None:
    world = Organisms(CONFIG)
    worker = OrganismWorker(0, world.config)
    assert "requests" in worker.answer(holding(world))
    answer = worker.answer(head(do="begin", **change))
    assert (answer["dropped"], answer["of"]) == (6, "sim-1")
    assert len(worker.bodies["id"]) == 0


def test_a_message_of_an_earlier_epoch_is_refused() -> None:
    world = Organisms(CONFIG)
    worker = OrganismWorker(0, world.config)
    worker.answer(holding(world, epoch=3))
    before = worker.bodies["energy"].tolist()
    assert worker.answer(holding(world, epoch=2)) == {"epoch": 2, "worker": 0, "stale": 3}
    assert worker.bodies["energy"].tolist() == before


def test_a_worker_that_lacks_an_organism_says_so() -> None:
    world = Organisms(CONFIG)
    worker = OrganismWorker(0, world.config)
    assert worker.answer(holding(world, new=no_bodies()))["missing"] == 1


# --- assignments


def test_assignments_are_kept_wanted_and_balanced() -> None:
    assignments = Assignments(3)
    assignments.follow(range(1, 7))
    assert assignments.by_worker() == [[1, 4], [2, 5], [3, 6]]
    assignments.follow([1, 2, 4, 7, 8], {7: 0, 8: 99})  # No worker 99: the one with the fewest.
    assert assignments.by_worker() == [[1, 4, 7], [2], [8]]
    assignments.follow([1, 4, 7, 9], {9: 0})
    assignments.balance()
    assert sorted(map(len, assignments.by_worker())) == [1, 1, 2]


def test_a_state_that_was_changed_from_outside_is_an_error() -> None:
    """The server would not know of the change; going back to a tick that it made is none."""
    with OrganismCluster(CONFIG, 2) as cluster:
        assert_states_to(cluster.simulation, 3)
        third = cluster.simulation.state.snapshot()
        assert_states_to(cluster.simulation, 6)
        sixth = cluster.simulation.state.snapshot()
        other = Organisms(CONFIG)
        other.state.restore(third)
        for _ in range(9):
            other.step(None)
        for changed in (third, other.state.snapshot()):
            cluster.simulation.state.restore(changed)
            cluster.simulation.state["pool"][...] += 1 if changed is third else 0
            with pytest.raises(ClusterError, match="was changed from outside"):
                cluster.simulation.step(None)
        cluster.simulation.state.restore(sixth)
        assert_states_to(cluster.simulation, 7)
        cluster.simulation.state.restore(third)
        with pytest.warns(recorder.RecordingWarning, match="back to the beginning"):
            assert_states_to(cluster.simulation, 7)
