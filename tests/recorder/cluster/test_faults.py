"""Any process of a cluster dies at any moment: the run goes back to a checkpoint and has the same states."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recorder.cluster import ClusterError, OrganismCluster
from recorder.cluster.actor_engine import Role
from recorder.cluster.organism_worker import run_worker
from recorder.cluster.process_actors import PipeChannel, ProcessActor, ProcessEngine
from sim.kernel.state import State
from sim.worlds.organisms import Organisms

from cluster_runs import CONFIG, assert_states_to, ensure_all_whole, plain_hashes
from dying_actors import Death, DyingEngine, hang_once, run_with_kills
from killed_drivers import run_with_driver_kills

DEATHS = [
    *[("worker", do, when) for do in ("begin", "run", "save") for when in ("sent", "answered")],
    *[("server", do, when) for do in ("begin", "step", "save", "describe") for when in ("sent", "answered")],
    *[("server at a worker's answer", do, "answered") for do in ("begin", "run", "save")],
]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("who", "do", "when"), DEATHS)
def test_a_death_at_any_message_changes_no_state(who: str, do: str, when: str, tmp_path: Path) -> None:
    folder, marker = tmp_path / "whole", tmp_path / "died"
    engine = DyingEngine(Death(who, do, when, marker))
    notices: list[str] = []
    with OrganismCluster(
        CONFIG, 2, folder=folder, interval_ticks=4, engine=engine, on_notice=notices.append
    ) as cluster:
        assert_states_to(cluster.simulation, 6)
        cluster.describe()
        assert_states_to(cluster.simulation, 10)
    assert marker.exists()
    assert "died" in notices[0]
    assert [one.tick for one in cluster.checkpoints] == [4, 8]
    ensure_all_whole(folder)


@pytest.mark.seldom(0.18)
def test_kills_at_random_moments_change_no_state(tmp_path: Path) -> None:
    killed = run_with_kills(random.randrange(1 << 32), tmp_path, 40, 10)
    assert sum(killed.values()) == 10
    ensure_all_whole(tmp_path)


def test_without_checkpoints_a_run_goes_back_to_its_beginning() -> None:
    notices: list[str] = []
    with OrganismCluster(CONFIG, 2, on_notice=notices.append) as cluster:
        assert_states_to(cluster.simulation, 7)
        os.kill(cluster.describe()[1][1], signal.SIGKILL)
        assert_states_to(cluster.simulation, 9)
    assert notices[0].startswith("worker 0 (process ")
    assert notices[0].endswith("back to the beginning of this run at tick 0, 7 ticks are made again")


def test_inputs_that_the_caller_changes_later_are_made_again_as_they_were() -> None:
    """As a loop does that fills the same list for each tick."""
    plain, gift = Organisms(CONFIG), [{"kind": "feed", "amount": 0}]
    with OrganismCluster(CONFIG, 2, on_notice=lambda _: None) as cluster:
        for tick in range(8):
            gift[0]["amount"] = 100 * tick + 1
            if tick == 5:
                os.kill(cluster.describe()[1][1], signal.SIGKILL)
            for world in (plain, cluster.simulation):
                world.step(gift)
            assert cluster.simulation.state.hash() == plain.state.hash()


def test_all_processes_killed_at_once(tmp_path: Path) -> None:
    with OrganismCluster(CONFIG, 5, folder=tmp_path, interval_ticks=5, on_notice=lambda _: None) as cluster:
        assert_states_to(cluster.simulation, 8)
        for process in reversed(cluster.describe()[1]):
            os.kill(process, signal.SIGKILL)
        assert_states_to(cluster.simulation, 11)


def test_a_damaged_checkpoint_is_not_gone_back_to(tmp_path: Path) -> None:
    notices: list[str] = []
    with OrganismCluster(CONFIG, 2, folder=tmp_path, interval_ticks=5, on_notice=notices.append) as cluster:
        assert_states_to(cluster.simulation, 11)
        next(tmp_path.glob("checkpoint_000000000010_1_worker0.bin")).unlink()
        os.kill(cluster.describe()[1][2], signal.SIGKILL)
        assert_states_to(cluster.simulation, 12)
    assert "is missing" in notices[0]
    assert notices[1].endswith("back to the checkpoint of tick 5, 6 ticks are made again")


@pytest.mark.parametrize(("who", "do"), [("worker", "run"), ("server", "step")])
def test_a_process_that_always_dies_ends_the_run_in_one_line(who: str, do: str) -> None:
    engine = DyingEngine(Death(who, do, "answered", None))
    with (
        OrganismCluster(CONFIG, 2, engine=engine, on_notice=lambda _: None) as cluster,
        pytest.raises(ClusterError, match="tick 1 cannot be made: 5 attempts lost a process"),
    ):
        cluster.simulation.step(None)


def test_a_tick_that_comes_out_differently_is_an_error() -> None:
    """Ticks that are made again after a recovery are compared with those of the first time."""
    with OrganismCluster(CONFIG, 1, on_notice=lambda _: None) as cluster:
        assert_states_to(cluster.simulation, 5)
        cluster._hashes[3] ^= 1
        os.kill(cluster.describe()[1][1], signal.SIGKILL)
        with pytest.raises(ClusterError, match="tick 3 was made again after a recovery and differs: expected the hash"):
            cluster.simulation.step(None)


def test_a_slow_worker_is_named() -> None:
    stopped = 0

    def notice(text: str) -> None:
        notices.append(text)
        if f"process {stopped}," in text:
            os.kill(stopped, signal.SIGCONT)

    notices: list[str] = []
    with OrganismCluster(CONFIG, 3, on_notice=notice, slow_s=0.3) as cluster:
        assert_states_to(cluster.simulation, 2)
        stopped = cluster.describe()[1][3]
        os.kill(stopped, signal.SIGSTOP)
        assert_states_to(cluster.simulation, 4)
    assert any(f"worker 2 (process {stopped}, " in text and "is slow: no answer for" in text for text in notices)


class HangingEngine(ProcessEngine):
    """Starts a worker that waits for nothing, once."""

    marker: Path

    def start(self, role: Role, arguments: tuple[Any, ...]) -> ProcessActor:
        return super().start(hang_once(self.marker, role) if role is run_worker else role, arguments)


@pytest.mark.seldom(0.15)
def test_a_worker_that_waits_for_nothing_is_ended(tmp_path: Path) -> None:
    HangingEngine.marker = tmp_path / "hung"
    notices: list[str] = []
    with OrganismCluster(CONFIG, 2, engine=HangingEngine(), on_notice=notices.append, stuck_s=1.0) as cluster:
        assert_states_to(cluster.simulation, 3)
    assert any("did nothing for 1 s, and was ended" in text for text in notices)


@pytest.mark.seldom(0.15)
def test_a_driver_that_is_killed_leaves_no_process_and_its_run_continues(tmp_path: Path) -> None:
    """The next run begins at the newest checkpoint; record resume continues the tape. All hashes are those of one process."""
    assert run_with_driver_kills(random.randrange(1 << 32), tmp_path, kills=1) <= 1
    ensure_all_whole(tmp_path / "whole")


def interrupt_waiting(patch: pytest.MonkeyPatch) -> None:
    """Raise KeyboardInterrupt while the driver waits for the server."""
    patch.setattr(PipeChannel, "receive", raise_interrupt)


def interrupt_answered(patch: pytest.MonkeyPatch) -> None:
    """Raise it when the answer of the server has come."""
    receive = PipeChannel.receive
    patch.setattr(PipeChannel, "receive", lambda channel: raise_interrupt(receive(channel)))


def interrupt_restoring(patch: pytest.MonkeyPatch) -> None:
    """Raise it when the server has made the tick, and the driver is about to take its state."""
    patch.setattr(State, "restore", raise_interrupt)


def raise_interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("interrupt", [interrupt_waiting, interrupt_answered, interrupt_restoring])
def test_an_interrupt_in_a_step_loses_nothing(
    interrupt: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Ctrl-C does in a notebook: the step is made again, with other inputs."""
    with OrganismCluster(CONFIG, 2, on_notice=lambda _: None) as cluster:
        assert_states_to(cluster.simulation, 6)
        with monkeypatch.context() as patch:
            interrupt(patch)
            with pytest.raises(KeyboardInterrupt):
                cluster.simulation.step([{"kind": "feed", "amount": 1}])  # In truth, tick 7 has no inputs.
        assert cluster.simulation.state.hash() == plain_hashes()[6]
        assert_states_to(cluster.simulation, 12)


def test_a_closed_cluster_says_so() -> None:
    with OrganismCluster(CONFIG, 1) as cluster:
        assert_states_to(cluster.simulation, 1)
    with pytest.raises(ClusterError, match="the cluster is closed"):
        cluster.simulation.step(None)
