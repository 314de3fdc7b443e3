"""Values outside the instances that hold objects of one: another instance gets its own, or it is said that it did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import leaky_worlds
import pytest

from recorder.ambient.ambient_diff import find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots
from recorder.ambient.transplant import give_values, not_taken


class Unit:
    """One of a herd."""

    def __init__(self, place: int) -> None:
        self.place = place


class Herd(leaky_worlds.One):
    """Objects that a module may know."""

    def __init__(self) -> None:
        super().__init__()
        self.units = [Unit(place) for place in range(3)]


def given(monkeypatch: pytest.MonkeyPatch, known: Callable[[Herd], Any]) -> tuple[Herd, frozenset[str]]:
    """A second instance that was given what the module knows of a first one, and the names that it did not take."""
    first, second = Herd(), Herd()
    roots = Roots(Herd)
    roots.add_types({Unit})
    monkeypatch.setattr(leaky_worlds, "KNOWN", known(first), raising=False)
    live = take_ambient(roots, first)
    monkeypatch.setattr(leaky_worlds, "KNOWN", type(known(first))())
    copy = take_ambient(roots, second)
    candidates = [one for one in find_candidates(live, copy) if "KNOWN" in one.name and one.kind != "alias"]
    assert candidates
    give_values(live, copy, second.state, candidates)
    return second, not_taken(live, take_ambient(roots, second), candidates)


def test_keys_are_the_objects_of_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the same path."""
    second, lacking = given(monkeypatch, lambda herd: {herd.units[2]: 5, herd.units[0]: 7, "name": 1})
    assert (leaky_worlds.KNOWN, lacking) == (  # type: ignore[attr-defined]
        {second.units[2]: 5, second.units[0]: 7, "name": 1},
        frozenset(),
    )


def test_addresses_are_those_of_the_objects_of_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all keys are some."""
    second, _ = given(monkeypatch, lambda herd: {id(one): one.place for one in herd.units})
    assert {id(one): one.place for one in second.units} == leaky_worlds.KNOWN  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "known",
    [
        lambda herd: {herd.units[0]: 1, Unit(9): 2},
        lambda herd: {id(herd.units[0]): 1, 12345: 2},
        lambda herd: {herd.units[1]},
        lambda herd: [herd.units[1]],
        lambda herd: {"last": [herd.units[1]]},
    ],
    ids=["an object that has left", "an address of one that has ended", "set", "list", "dict of lists"],
)
def test_what_stays_the_live_runs_is_not_taken(known: Callable[[Herd], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks equal, and a step does not find the copy's objects in it: of its effect nothing is known."""
    assert given(monkeypatch, known)[1] == {"module leaky_worlds: KNOWN"}
