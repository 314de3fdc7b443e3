"""Calls with sets: of objects, which are shared with other arguments, and of numbers in the order in which they iterate."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer


class Named:
    """Hashes by its name, which it has when it is made."""

    def __init__(self, name: str) -> None:
        self.name, self.friends = name, set[Any]()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self.name == other.name

    def __hash__(self) -> int:
        return 7 * len(self.name)


class Plain:
    """Hashes by its address."""

    def __init__(self, name: str) -> None:
        self.name, self.friends = name, set[Any]()


@dataclasses.dataclass(frozen=True)
class Point:
    """Hashes by its numbers, alike in every process."""

    x: int


class Kind(enum.Enum):
    """What a unit is."""

    FOOT = 1
    HORSE = 2


class Game:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.home = [Plain("home"), Plain("away")]
        self.kept: list[Any] = []

    def play(self, *values: Any) -> None:
        """Keep the arguments."""
        self.kept.append(values)


def play(path: Path, calls: Callable[[Any], object]) -> None:
    with recorder.record(Game(), path, step="play", quiet=True, trial_ms=0) as game:
        calls(game)


@pytest.mark.parametrize("cls", [Named, Plain])
@pytest.mark.parametrize("kind", [set, frozenset])
def test_objects_in_a_set_are_those_of_the_other_arguments(cls: Any, kind: Any, tmp_path: Path) -> None:
    """In whatever order the set has them; parts of the game are its own."""

    def calls(game: Any) -> None:
        some = [cls("dd"), cls("c"), cls("bbbb"), cls("aaa")]
        game.play(kind(some), *some)
        game.play(kind([*some, game.home[1]]), some)

    play(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(2)
        (group, *some), (whole, again) = run.subject.kept
        assert [one.name for one in some] == ["dd", "c", "bbbb", "aaa"]
        assert {id(one) for one in group} == set(map(id, some))
        assert {id(one) for one in whole} == {*map(id, again), id(run.subject.home[1])}
        assert run.verify().ok


def test_a_set_or_dict_of_an_object_may_lead_back_to_it(tmp_path: Path) -> None:
    """It hashes by an attribute, which it has before it is put into the set."""

    def calls(game: Any) -> None:
        one, other = Named("x"), Named("yy")
        one.friends = {one, other}
        other.friends = {one: "first"}  # type: ignore[assignment]
        game.play(one)

    play(tmp_path / "run.tape", calls)
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(1)
        ((one,),) = run.subject.kept
        assert one in one.friends
        (other,) = one.friends - {one}
        assert other.friends == {one: "first"}
        assert next(iter(other.friends)) is one
        assert run.verify().ok


@pytest.mark.parametrize(
    "value",
    [
        {8, 0},
        {0, 8},
        frozenset([8, 0]),
        {Point(8), Point(0)},
        {frozenset([8, 0]), 3},
        {"a", "b", 8, 0},
        {Kind.HORSE, Kind.FOOT},
    ],
    ids=["eight first", "zero first", "frozen", "of tuples", "a frozen one in it", "texts", "members of an enum"],
)
def test_a_set_iterates_as_the_one_of_the_call(value: Any, tmp_path: Path) -> None:
    """Where its elements hash alike in every process; the tape verifies in any case."""
    order = list(value)
    play(tmp_path / "run.tape", lambda game: [game.play(value), game.play(1, [value, value])])
    with replayer.open(tmp_path / "run.tape", world=Game) as run:
        run.seek(2)
        (one,), (_, (two, three)) = run.subject.kept
        assert (one, two, type(one)) == (value, value, type(value))
        assert all(isinstance(item, int | Point) for item in order) <= (list(one) == order == list(two))
        assert two is three or type(value) is frozenset
        assert run.verify().ok
