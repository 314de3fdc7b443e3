"""State missing in a keyframe is found, with any number of processes and any order of ticks."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replayer
from recorder import DesyncError, Recorder, SimulationFailedError
from recorder.format.blocks.block import HEADER_BYTES
from replayer.timeline.verify import verify_tape
from sim import Field, Schema, State

from small_worlds import Walkers, record

pytestmark = pytest.mark.share(0.18)


class OwnGenerator:
    """Keeps its random generator in an attribute, not in the state."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (5,))))
        self.random = np.random.Generator(np.random.PCG64(1))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["x"][:] += self.random.integers(0, 100, 5)


class GlobalGenerator:
    """Draws from the random module."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8")))
        random.seed(5)

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["x"][()] += random.randrange(100)


class HiddenCounter:
    """Counts in an attribute, which matters at every tick."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8")))
        self.count = 0

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.count += 1
        self.state["x"][()] += self.count


@pytest.mark.parametrize(
    ("factory", "jobs"),
    [
        *((OwnGenerator, 1), (GlobalGenerator, 2), (HiddenCounter, 4)),
        *(
            pytest.param(factory, jobs, marks=pytest.mark.long)
            for factory, jobs in ((OwnGenerator, 2), (OwnGenerator, 4), (GlobalGenerator, 1), (GlobalGenerator, 4))
        ),
        *(pytest.param(HiddenCounter, jobs, marks=pytest.mark.long) for jobs in (1, 2)),
    ],
)
def test_hidden_state_is_found_at_the_first_keyframe(tmp_path: Path, factory: Any, jobs: int) -> None:
    """The tick after the first keyframe is bad every time, and the note states that keyframes lack something."""
    path = tmp_path / "run.tape"
    record(path, factory(), [None] * 60, keyframe_interval_ticks=20)
    for _ in range(3):
        report = verify_tape(path, factory, jobs=jobs)

        assert report.first_bad == 21
        assert "hidden state takes part" in str(report.findings[0].note)


def test_hashes_in_a_desync_differ_even_if_it_does_not_come_again(tmp_path: Path) -> None:
    """A state changed by the user is a desync whose replayed hash is that of the changed state."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), [[]] * 30, keyframe_interval_ticks=20)
    with replayer.Timeline(path, Walkers) as run:
        run.seek(8)
        run.state["x"][3] = 10**6
        with pytest.raises(DesyncError, match="code outside of the step changed the state") as caught:
            run.step()

        assert caught.value.expected_hash != caught.value.actual_hash
        assert run.seek(9).state_hash == caught.value.expected_hash


class Greedy:
    """Modifies its inputs."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "i8")))

    def step(self, inputs: list[int]) -> None:
        while inputs:
            self.state["sum"][()] += inputs.pop()


def test_a_step_may_change_what_it_is_given(tmp_path: Path) -> None:
    """Repeated seeks over the same ticks pass the recorded inputs each time."""
    path = tmp_path / "run.tape"
    live = record(path, Greedy(), [[tick, 1] for tick in range(50)], keyframe_interval_ticks=100)
    with replayer.Timeline(path, Greedy) as run:
        for tick in (50, 10, 50, 30, 11):
            run.seek(tick)
            assert run.state.arena.tobytes() == live[tick]


def flip_keyframe(path: Path, tick: int) -> None:
    """Damage the content of the keyframe of a tick."""
    with replayer.Tape(path) as tape:
        place = next(place for place in tape.keyframes if place.tick == tick)
    data = bytearray(path.read_bytes())
    data[place.entry.offset + HEADER_BYTES + 3] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("tick", [0, 20, 40])
def test_a_damaged_keyframe_hides_no_tick_from_verification(tmp_path: Path, tick: int) -> None:
    """All ticks that can be reached are verified; the damage is a problem, not a desync."""
    path = tmp_path / "run.tape"
    record(path, Walkers(), [[]] * 60, keyframe_interval_ticks=20, full_every=1)
    flip_keyframe(path, tick)
    report = verify_tape(path, Walkers)

    assert (report.first_bad, report.ok, report.status) == (None, False, "corrupt")
    assert report.verified_ticks == (61 if tick else 41)  # Of tick 20 a keyframe and a frame agree.
    with replayer.Timeline(path, Walkers) as run:
        assert run.seek(45).tick == 45


@pytest.mark.seldom(0.15)
def test_a_desync_behind_a_damaged_keyframe_is_found(tmp_path: Path) -> None:
    """The interval of a damaged keyframe is verified from the keyframe before."""

    class Wrong(Walkers):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            if self.state["rng"][2] == 25 * 40:
                self.state["x"][0] += 1

    path = tmp_path / "run.tape"
    record(path, Walkers(), [[]] * 60, keyframe_interval_ticks=20)
    flip_keyframe(path, 20)

    assert verify_tape(path, Wrong).first_bad == 25


def test_a_world_that_cannot_be_made_is_reported_once_for_any_number_of_processes(tmp_path: Path) -> None:
    """The error of the constructor is raised unchanged, not as a broken worker."""
    from sim import UnknownWorldError

    path = tmp_path / "run.tape"
    record(path, Walkers(), [[]] * 60, keyframe_interval_ticks=20)
    for jobs in (1, 2):
        with pytest.raises(UnknownWorldError):
            verify_tape(path, None, jobs=jobs)


def test_what_a_step_raises_reaches_the_caller(tmp_path: Path) -> None:
    """An exception in a worker is raised again, with its origin."""

    class Failing(Walkers):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            raise ZeroDivisionError("no food")

    path = tmp_path / "run.tape"
    record(path, Walkers(), [[]] * 5)
    with pytest.raises(
        SimulationFailedError, match=r"tick 1: the step raised ZeroDivisionError: no food \(test_tapes_of_hid"
    ) as caught:
        verify_tape(path, Failing)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "in step" in caught.value.__cause__.__notes__[0]


def test_a_dump_that_cannot_be_written_does_not_hide_the_desync(tmp_path: Path) -> None:
    """The desync is reported, and its note gives the reason why there is no dump."""
    path = tmp_path / "run.tape"
    record(path, HiddenCounter(), [None] * 60, keyframe_interval_ticks=20)
    (tmp_path / "file").write_text("")
    report = verify_tape(path, HiddenCounter, dump_folder=tmp_path / "file")

    assert (report.first_bad, report.dump_path) == (21, None)
    assert "the dump could not be written" in str(report.findings[0].note)


def test_a_simulation_may_replace_its_state(tmp_path: Path) -> None:
    """After a new State, deltas are based on it: every keyframe is right."""

    class Renewed(Walkers):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            if int(self.state["rng"][2]) == 30 * 40:
                snapshot = self.state.snapshot()
                self.state = State(snapshot.layout.schema)
                self.state.restore(snapshot)

    path = tmp_path / "run.tape"
    record(path, Renewed(), [[]] * 60, keyframe_interval_ticks=10, changes="scan")

    assert verify_tape(path, Renewed).ok


def test_an_interrupt_after_the_step_ends_the_recording(tmp_path: Path) -> None:
    """No frame follows a tick whose frame was not written."""
    walkers = Walkers()
    with Recorder(tmp_path / "run.tape", walkers, between_steps=False) as tape:  # Its hash comes after the step alone.
        tape.step([])
        original, walkers.state.hash = walkers.state.hash, lambda: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            tape.step([])
        walkers.state.hash = original  # type: ignore[method-assign]
        with pytest.raises(SimulationFailedError):
            tape.step([])
    with replayer.Timeline(tmp_path / "run.tape", Walkers) as run:
        assert run.last_tick == 1
        assert run.verify().ok


def test_an_interrupt_before_the_step_ends_nothing(tmp_path: Path) -> None:
    """What lies between two steps is hashed before the second one, which has not begun then."""
    walkers = Walkers()
    with Recorder(tmp_path / "run.tape", walkers, between_steps=True) as tape:
        tape.step([])
        original, walkers.state.hash = walkers.state.hash, lambda: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            tape.step([])
        walkers.state.hash = original  # type: ignore[method-assign]
        tape.step([])
    with replayer.Timeline(tmp_path / "run.tape", Walkers) as run:
        assert run.last_tick == 2
        assert run.verify().ok
