"""Tapes with the changes of each tick, of simulations that no step repeats: the recorded states are found all the same."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import recorder
import replayer
from recorder.errors import DesyncError
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State

TICKS = 60

pytestmark = pytest.mark.filterwarnings("ignore:.*give another state than the recorded one:UserWarning")


class Noise:
    """Draws from the process's generator: no replay gives the same."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("noise", "f8", (3,))))

    def step(self, inputs: float) -> None:
        self.state["noise"][:] = [random.random() + inputs for _ in range(3)]


class Swarm:
    """The same as a plain object."""

    def __init__(self) -> None:
        self.places = [0.0] * 3

    def step(self, wind: float = 0.0) -> None:
        self.places = [place + wind + random.random() for place in self.places]


@pytest.fixture
def noise(tmp_path: Path) -> tuple[Path, list[list[float]]]:
    """A tape with keyframes every 20 ticks, and the live values from tick 0 on."""
    path, simulation = tmp_path / "noise.tape", Noise()
    live = [simulation.state["noise"].tolist()]
    with recorder.Recorder(path, simulation, mode="changes", keyframe_interval_ticks=20, trial_ms=0) as tape:
        for tick in range(TICKS):
            tape.step(tick / 100)
            live.append(simulation.state["noise"].tolist())
    return path, live


def test_each_next_tick_is_the_recorded_one(noise: tuple[Path, list[list[float]]]) -> None:
    """Forwards tick by tick, by step(), back, and in between; verify still reports that the steps differ."""
    path, live = noise
    with replayer.open(path, Noise) as run:
        for tick in [*range(TICKS + 1), 30, 31, 32, 31, 30]:
            run.seek(tick)
            assert run.state["noise"].tolist() == live[tick], tick
        assert run.step().tick == 31
        assert run.state["noise"].tolist() == live[31]
        assert run.step_back().tick == 30
        assert [state["noise"].tolist() for state in run[0:TICKS:7]] == live[0:TICKS:7]
    report = verify_tape(path, Noise)
    assert not report.ok
    assert report.first_bad == 1


@pytest.mark.seldom(0.18)
def test_questions_are_answered_from_the_recorded_states(noise: tuple[Path, list[list[float]]], tmp_path: Path) -> None:
    """find, who and extract give what brute force over the live values gives. No line is named for a write."""
    path, live = noise
    high = [tick for tick, values in enumerate(live) if values[1] > 1.2]
    with replayer.open(path, Noise) as run:
        assert list(run.find("noise[1] > 1.2").ticks) == high
        assert list(run.find(lambda state: state["noise"][1] > 1.2).ticks) == high
        write = run.last_write("noise", 1)
        assert (write.tick, write.before, write.after) == (TICKS, live[-2][1], live[-1][1])
        assert write.line is None
    rows = replayer.extract(path, tmp_path / "states", tables="states", world=Noise, jobs=1).table("states").numpy()
    assert np.array_equal(rows["noise"], live)


def test_objects_are_restored_to_each_tick(tmp_path: Path) -> None:
    """A plain object, too, has the live values at each tick."""
    path = tmp_path / "swarm.tape"
    live = [[0.0] * 3]
    with recorder.record(Swarm(), path, mode="changes", trial_ms=0, quiet=True) as swarm:
        for _ in range(TICKS):
            swarm.step(0.5)
            live.append(list(swarm.places))
    with replayer.open(path, Swarm) as run:
        for tick in range(TICKS + 1):
            run.seek(tick)
            assert run.subject.places == live[tick], tick
        assert run.first("places[2] > 20") == next(tick for tick, places in enumerate(live) if places[2] > 20)


def test_without_recorded_changes_a_step_that_differs_is_a_desync(tmp_path: Path) -> None:
    """The mode that repeats inputs has no recorded state between keyframes, so the seek raises."""
    path = tmp_path / "inputs.tape"
    with recorder.Recorder(path, Noise(), trial_ms=0) as tape:
        for _ in range(10):
            tape.step(0.5)
    with replayer.open(path, Noise) as run, pytest.raises(DesyncError):
        run.seek(5)
