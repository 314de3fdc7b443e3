"""Forks in memory: each does what a plain loop does, and touches neither the run nor another fork."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from asked_worlds import Battle, Garden, battle_run, garden_run

import recorder
import replayer
from recorder.errors import MissingTickError
from sim import Field, Schema, State

from small_worlds import Herd

TICKS, INTERVAL = 60, 20


def garden_inputs(seed: int) -> list[Any]:
    """The inputs of garden_run, drawn as it draws them."""
    chance = random.Random(seed)
    return [{"row": chance.randrange(6), "food": 1} if chance.random() < 0.05 else None for _ in range(TICKS)]


def plain_at(seed: int, tick: int) -> Garden:
    """A garden at a tick, by a loop without a recorder."""
    garden = Garden(seed)
    for one in garden_inputs(seed)[:tick]:
        garden.step(one)
    return garden


def assert_same(fork: replayer.Fork, plain: Garden) -> None:
    """All fields are equal, bit by bit."""
    for name in plain.state:
        assert fork.state[name].tobytes() == plain.state[name].tobytes(), name
    assert fork.hash() == plain.state.hash()


def test_a_fork_is_what_a_plain_loop_does(tmp_path: Path) -> None:
    """Forks of one tick and forks of forks, in any order, interleaved; the timeline and the tape are untouched."""
    garden_run(tmp_path / "run.tape", 3, TICKS, INTERVAL)
    before = (tmp_path / "run.tape").read_bytes()
    with replayer.open(tmp_path / "run.tape", Garden) as run:
        run.seek(33)
        plain, other, child = plain_at(3, 33), plain_at(3, 33), plain_at(3, 33)
        with run.fork() as one, run.fork() as two:
            for number in range(7):
                inputs = {"row": number % 6, "food": number}
                one.step(inputs)
                plain.step(inputs)
                two.step()
                other.step(None)
                if number == 3:
                    kept = one.fork()
            for number in range(4):
                child.step({"row": number % 6, "food": number})
            assert_same(one, plain)
            assert_same(two, other)
            assert (one.start_tick, one.tick, kept.start_tick, kept.tick) == (33, 40, 37, 37)
            for _ in range(5):
                kept.step()
                child.step(None)
                assert_same(kept, child)
            kept.restart()
            kept.step({"row": 1, "food": 100})
            assert kept.tick == 38
            kept.close()
            assert_same(one, plain)
        assert (run.tick, run.state.hash()) == (33, run.tape.state_hash(33))
        assert run.seek(40).state_hash == run.tape.state_hash(40)
    assert (tmp_path / "run.tape").read_bytes() == before


def test_with_the_recorded_inputs_a_fork_has_the_recorded_hashes(tmp_path: Path) -> None:
    """Of objects, whose members come and go, if they are saved after each step as well."""
    battle_run(tmp_path / "battle.tape", 3, TICKS, INTERVAL)
    with recorder.Recorder(tmp_path / "herd.tape", Herd(), keyframe_interval_ticks=INTERVAL) as tape:
        for _ in range(TICKS):
            tape.step()
    for name, world in (("battle.tape", Battle), ("herd.tape", Herd)):
        with replayer.open(tmp_path / name, world) as run:
            for at in (0, 13, 20, 41):
                with run.fork(at, saves_each_step=world is Battle) as fork:
                    for tick in range(at + 1, at + 8):
                        fork.step(run.tape.frame(tick).inputs)
                    assert fork.hash() == run.tape.state_hash(at + 7), (name, at)
                    with fork.fork() as further:
                        for tick in range(at + 8, at + 10):
                            further.step(run.tape.frame(tick).inputs)
                        assert further.hash() == run.tape.state_hash(at + 9), (name, at)


def test_the_subject_of_a_fork_is_used_as_the_game_is(tmp_path: Path) -> None:
    """Its methods and attributes, beside others."""
    battle_run(tmp_path / "battle.tape", 3, TICKS, INTERVAL)
    with replayer.open(tmp_path / "battle.tape", Battle) as run:
        run.seek(30)
        plain = [copy.deepcopy(run.subject) for _ in range(2)]
        forks = [run.fork(), run.fork()]
        for fork, game, bonus in zip(forks, plain, (5, 7), strict=True):
            fork.subject.gold["blue"] = game.gold["blue"] = bonus
            for _ in range(9):
                fork.subject.step(bonus)
                game.step(bonus)
        for fork, game in zip(forks, plain, strict=True):
            again = fork.fork()  # Its state holds what the subject has.
            for one in (fork, again):
                assert one.subject.gold == game.gold
                assert [vars(knight) for knight in one.subject.knights] == [vars(knight) for knight in game.knights]
                assert one.subject.rng.getstate() == game.rng.getstate()
        assert run.subject.gold["blue"] == 0
        assert len({id(fork.subject) for fork in forks} | {id(run.subject)}) == 3


class Saving:
    """Saves and loads, and counts how often."""

    saves = 0

    def __init__(self) -> None:
        self.values = [1, 2]

    def save(self) -> bytes:
        """The state."""
        Saving.saves += 1
        return bytes(self.values)

    def load(self, saved: bytes) -> None:
        """Enter a state."""
        self.values = list(saved)

    def step(self, inputs: Any) -> int:
        """Return something."""
        self.values = [sum(self.values) % 251, self.values[0], *self.values[1:5]]
        return self.values[0] + (inputs or 0)


def test_nothing_is_saved_until_the_state_is_asked_for(tmp_path: Path) -> None:
    """Of a simulation with save and load; what its step returns is returned."""
    with recorder.Recorder(tmp_path / "run.tape", Saving(), trial_ms=0) as tape:
        results = [tape.step(1) for _ in range(20)]
    with replayer.open(tmp_path / "run.tape", Saving) as run:
        run.seek(4)
        for _ in range(3):
            with run.fork() as fork:
                before = Saving.saves
                assert [fork.step(1) for _ in range(10)] == results[4:14]
                assert Saving.saves == before
                assert fork.hash() == run.tape.state_hash(14)
                assert Saving.saves == before + 1


def test_a_simulation_is_used_again_after_a_close(tmp_path: Path) -> None:
    """A hundred forks one after the other need one simulation; a closed one refuses to be used."""
    made = []

    def make() -> Garden:
        made.append(Garden())
        return made[-1]

    garden_run(tmp_path / "run.tape", 3, TICKS, INTERVAL)
    with replayer.open(tmp_path / "run.tape", make) as run:
        run.seek(10)
        before = len(made)
        for _ in range(100):
            with run.fork() as fork:
                fork.step()
        assert len(made) == before + 2  # One is moved to read the state.
        for use in (fork.step, fork.hash, fork.snapshot, fork.fork, fork.restart, lambda: fork.subject):
            with pytest.raises(ValueError, match="this fork is closed"):
                use()
        fork.close()


def test_mistakes(tmp_path: Path) -> None:
    """No tick yet, a tick that is not there, and a factory that returns one object."""
    garden_run(tmp_path / "run.tape", 3, TICKS, INTERVAL)
    with replayer.open(tmp_path / "run.tape", Garden) as run:
        with pytest.raises(ValueError, match="seek first"):
            run.fork()
        with pytest.raises(MissingTickError):
            run.fork(61)
        assert run.fork(-1).tick == TICKS
    one = Garden()
    with replayer.open(tmp_path / "run.tape", lambda: one) as run:
        run.seek(3)
        with pytest.raises(ValueError, match="make a new one"):
            run.fork()
    with replayer.open(tmp_path / "run.tape") as run, pytest.raises(LookupError, match="world="):
        run.fork(20)


def test_a_fork_of_a_branch_before_its_fork_is_one_of_the_parent(tmp_path: Path) -> None:
    """With the parent's state."""
    garden_run(tmp_path / "run.tape", 3, TICKS, INTERVAL)
    with replayer.open(tmp_path / "run.tape", Garden) as run, run.branch(tmp_path / "way.tape", at=30) as branch:
        branch.run(40)
    with replayer.open(tmp_path / "way.tape", Garden) as way, way.fork(12) as fork:
        assert_same(fork, plain_at(3, 12))


def test_deepcopy_of_a_state_is_refused_with_the_way_out() -> None:
    """It would be wrong without a word: arrays that the simulation took would not be views of the copy."""
    for one in (Garden(), State(Schema(Field("x", "i8")))):
        with pytest.raises(TypeError, match=r"copy\.deepcopy.*snapshot\(\) and restore it"):
            copy.deepcopy(one)
    snapshot = Garden().state.snapshot()
    assert copy.deepcopy(snapshot).hash() == snapshot.hash()
