"""Saving by pickle, with trust=True: equal content gives equal bytes, and nothing is recorded that cannot be loaded."""

from __future__ import annotations

import datetime as dt
import enum
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import adapt, fields
from sim.kernel.simulation import restore

ALL_SQUARES = (1 << 64) - 1  # Too large for a cell: it is written with the rest.


class Place(NamedTuple):
    x: int
    name: str


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


def dtype_of(text: Any) -> np.dtype[Any]:
    """A dtype that is a separate object, as loaded dtypes are."""
    return np.dtype(text, copy=True)


class Noted:
    """One entry of a history; slots, so that it has to be pickled."""

    __slots__ = ("now",)

    def __init__(self, now: Any) -> None:
        self.now = now


class Board:
    """Keeps a history of a value that recurs as the same object or as an equal one."""

    def __init__(self, value: Any, other: Any) -> None:
        self.first = [value, other]  # Held by the object, not saved separately.
        self.now = value
        self.past: list[Noted] = []

    def step(self, _: Any) -> None:
        self.past.append(Noted(self.now))
        self.now = self.first[len(self.past) // 2 % 2]
        if len(self.past) > 9:
            self.past.clear()


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "value",
    [
        ALL_SQUARES,
        np.float64(0.5),
        np.int64(7),
        (1, 2),
        (1 << 70, 2.5),
        1.5,
        None,
        np.str_("a"),
        frozenset((1, 2)),
        1j,
        "equal",
        b"equal",
        Place(1, "inside and alone"),
        Colour.RED,
        (Colour.RED, 2),
        (range(3), 1),
        (slice(1, 2), 1),
        Decimal("0.1"),
        Fraction(1, 3),
        np.datetime64("2020-01-01"),
        (dtype_of("f8"), 1),
        (dtype_of(">i4"), 1),
        (dtype_of([("a", "f8"), ("b", "f8")]), 1),
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        frozenset((Colour.RED, Colour.GREEN)),
        Path("a"),
        (Place(1, "a"), frozenset((Place(1, "b"), Place(2, "b")))),
        (re.compile("a"), 1),
        UUID(int=1),
        ZoneInfo("UTC"),
    ],
    ids=lambda value: type(value).__name__,  # The text of a set depends on the hash seed of the process.
)
def test_what_is_pickled_depends_on_the_content_alone(value: Any) -> None:
    """The bytes do not depend on which of several equal, immutable values are one object."""

    def make() -> Any:
        other = value.name if isinstance(value, Place) else (value,) if isinstance(value, int) else 3
        return adapt(Board(value, other), fields("now", "past"), trust=True)

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
            assert copy.state.hash() == hashes[tick], f"loaded at tick {start}: tick {tick} differs"


class Evasive:
    """Answers for missing attributes with its own name: no attribute can be read before they exist."""

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

    def __init__(self, members: list[Any]) -> None:
        self.everybody = members

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state)
        self.everybody.append(self)


class Registry:
    def __init__(self) -> None:
        self.everybody: list[Any] = []
        self.everybody.append(Registering(self.everybody))

    def step(self, _: Any) -> None:
        self.everybody.append(Registering(self.everybody))


def test_objects_whose_class_answers_for_missing_attributes_are_restored(tmp_path: Path) -> None:
    """No code of the class runs while an object is made: pickle cannot load such an object."""
    recorded = recorder.record(Crowd(), tmp_path / "run.tape", fields(), quiet=True)
    for _ in range(5):
        recorded.step(None)
    recorded.close()
    with replayer.open(tmp_path / "run.tape", world=lambda: adapt(Crowd(), fields())) as run:
        run.seek(3)
        assert run.simulation.subject.agents[0].number == 6
        assert run.verify().ok


def test_a_trial_load_does_not_change_the_object(tmp_path: Path) -> None:
    """The recorded run equals the run without a recorder."""
    crowd, alone = Registry(), Registry()
    recorded = recorder.record(crowd, tmp_path / "run.tape", fields(), trust=True, quiet=True, trial_ms=0)
    for _ in range(5):
        recorded.step(None)
        alone.step(None)
    recorded.close()
    assert len(crowd.everybody) == len(alone.everybody)


def test_big_numbers_that_a_history_shares_do_not_spoil_a_replay(tmp_path: Path) -> None:
    """A history of large integers records, verifies and seeks: the pieces of a chess board are such numbers."""

    def make() -> Any:
        return adapt(Board(ALL_SQUARES, 5), fields("now", "past"), trust=True)

    with recorder.Recorder(tmp_path / "run.tape", make(), keyframe_interval_ticks=16) as tape:
        for _ in range(100):
            tape.step(None)
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert run.verify().ok


class Rock:
    """An object with an array, and so with a dtype."""

    def __init__(self, number: int) -> None:
        self.place = np.zeros(2)
        self.kinds = [np.dtype("f8"), dtype_of("f8"), np.arange(number, dtype=dtype_of("i8"))]
        self.spot = np.float32(number)


class Quarry:
    """Gains a second rock at tick 23."""

    def __init__(self) -> None:
        self.t = 0
        self.rocks = [Rock(0)]

    def step(self, _: Any) -> None:
        self.t += 1
        if self.t % 23 == 0:
            self.rocks.append(Rock(self.t))
        self.rocks[-1].place += 0.5


def test_an_object_with_an_array_that_is_appended_later_is_no_desync(tmp_path: Path) -> None:
    """A loaded array has its own dtype object, a new array has NumPy's: both give equal bytes."""

    def make() -> Any:
        return adapt(Quarry(), fields(), trust=True)

    recorded = recorder.record(Quarry(), tmp_path / "run.tape", fields(), trust=True, quiet=True,
                               keyframe_interval_ticks=16)  # fmt: skip
    places = [[]]
    for _ in range(100):
        recorded.step(None)
        places.append([rock.place.tolist() for rock in recorded.rocks])
    recorded.close()
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        report = run.verify()
        assert report.ok, f"called a desync from tick {report.first_bad} on"
        for tick in (100, 22, 23, 70):
            run.seek(tick)
            rocks = run.simulation.subject.rocks
            assert [rock.place.tolist() for rock in rocks] == places[tick]
            assert rocks[0].kinds[0] is rocks[0].place.dtype is np.dtype("f8")


class Herd:
    """A set of objects, whose order is that of their addresses."""

    def __init__(self, *, at_first: int) -> None:
        self.members = {Rock(number) for number in range(at_first)}

    def step(self, _: Any) -> None:
        self.members.add(Rock(len(self.members)))


def test_a_set_of_objects_has_its_members_after_a_seek(tmp_path: Path) -> None:
    """Its order is that of addresses, and no part of the state: a step that only asks for members replays exactly."""
    recorded = recorder.record(Herd(at_first=2), tmp_path / "run.tape", fields(), quiet=True, keyframe_interval_ticks=8)
    for _ in range(40):
        recorded.step(None)
    recorded.close()
    with replayer.open(tmp_path / "run.tape", world=lambda: adapt(Herd(at_first=0), fields())) as run:
        for tick in (39, 3, 17):
            run.seek(tick)
            assert sorted(int(rock.spot) for rock in run.simulation.subject.members) == list(range(2 + tick))
        assert run.verify().ok
