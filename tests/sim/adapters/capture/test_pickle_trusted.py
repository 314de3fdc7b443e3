"""What is saved by pickle, trust=True: the same bytes for the same content, and nothing recorded that cannot be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import adapt, fields
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.simulation import restore

ALL_SQUARES = (1 << 64) - 1  # Too large for a cell: it is written with the rest.


class Noted:
    """One entry of a history; slots, so that it has to be pickled."""

    __slots__ = ("now",)

    def __init__(self, now: Any) -> None:
        self.now = now


class Board:
    """Keeps a history of a value that it goes back to now and then, as the same object or as an equal one."""

    def __init__(self, value: Any, other: Any) -> None:
        self.first = [value, other]  # What the class holds, not the state.
        self.now = value
        self.past: list[Noted] = []

    def step(self, _: Any) -> None:
        self.past.append(Noted(self.now))
        self.now = self.first[len(self.past) // 2 % 2]
        if len(self.past) > 9:
            self.past.clear()


@pytest.mark.parametrize(
    "value",
    [ALL_SQUARES, np.float64(0.5), np.int64(7), (1, 2), (1 << 70, 2.5), 1.5, None, np.str_("a"), frozenset((1, 2))],
    ids=str,
)
def test_what_is_pickled_depends_on_the_content_alone(value: Any) -> None:
    """Not on which of two equal values, that nobody can change, happen to be one object."""

    def make() -> Any:
        return adapt(Board(value, (value,) if isinstance(value, int) else 3), fields("now", "past"), trust=True)

    live = make()
    states, hashes = [live.state.snapshot()], [live.state.hash()]
    for _ in range(30):
        live.step(None)
        states.append(live.state.snapshot())
        hashes.append(live.state.hash())
    for start in range(30):
        copy = make()
        restore(copy, states[start])
        for tick in range(start + 1, 31):
            copy.step(None)
            assert copy.state.hash() == hashes[tick], f"loaded at tick {start}: tick {tick} is another"


class Evasive:
    """Answers for attributes that it does not have by naming itself: so it cannot be asked anything before it has them."""

    def __init__(self) -> None:
        self.number = 3

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.number} has no {name}")


class Crowd:
    def __init__(self) -> None:
        self.agents = [Evasive()]

    def step(self, _: Any) -> None:
        self.agents[0].number += 1


class Registering:
    """Puts itself into a list when it is loaded."""

    def __init__(self, everybody: list[Any]) -> None:
        self.everybody = everybody

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state)
        self.everybody.append(self)


class Registry:
    def __init__(self) -> None:
        self.everybody: list[Any] = []
        self.everybody.append(Registering(self.everybody))

    def step(self, _: Any) -> None:
        self.everybody.append(Registering(self.everybody))


def test_what_pickle_writes_and_cannot_load_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    """A recording that no seek can load is found out at its beginning, not when it is needed."""
    with pytest.raises(
        NotCapturedError,
        match=r"Crowd.agents \(list\) cannot be saved, not even by pickle: what was pickled cannot be loaded",
    ):
        recorder.record(Crowd(), tmp_path / "run.tape", fields(), trust=True, quiet=True)
    assert not list(tmp_path.iterdir())


def test_trying_to_load_leaves_the_object_as_it_is(tmp_path: Path) -> None:
    """What is recorded is the run that there would have been without a recorder."""
    crowd, alone = Registry(), Registry()
    recorded = recorder.record(crowd, tmp_path / "run.tape", fields(), trust=True, quiet=True)
    for _ in range(5):
        recorded.step(None)
        alone.step(None)
    recorded.close()
    assert len(crowd.everybody) == len(alone.everybody)


def test_big_numbers_that_a_history_shares_do_not_spoil_a_replay(tmp_path: Path) -> None:
    """Recorded, verified and sought: the pieces of a chess board are such numbers."""

    def make() -> Any:
        return adapt(Board(ALL_SQUARES, 5), fields("now", "past"), trust=True)

    with recorder.Recorder(tmp_path / "run.tape", make(), keyframe_interval_ticks=16) as tape:
        for _ in range(100):
            tape.step(None)
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert run.verify().ok
