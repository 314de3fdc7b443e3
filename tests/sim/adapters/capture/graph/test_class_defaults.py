"""Objects that lack an attribute of which their class has a value: what they have themselves is saved, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.adapters.capture.digest.value_digest import ValueSubject, digest_values

from object_graphs.classes import Spare
from object_graphs.odd_classes import Ending, HalfSpare, Lone
from object_graphs.pitfalls import assert_exact
from object_graphs.sources import case

MANY = 110  # More are looked at in another way than few.
OBJECTS: dict[str, Callable[[], list[Any]]] = {
    "one": lambda: [Spare(1)],
    "many": lambda: list(map(Spare, range(MANY))),
    "one attribute": lambda: [Lone()],
    "slots beside": lambda: [HalfSpare(1)],
    "ends that are seen": lambda: list(map(Ending, range(3))),
    "dicts made": lambda: [one for one in map(Spare, range(MANY)) if vars(one)],
    "some dicts made": lambda: [one for one in map(Spare, range(MANY)) if one.uid % 3 or vars(one)],
}
SWAPS = (
    "one.near = 7; del one.near; one.other = 5",
    "del one.near; one.other = None",
    "del one.near; one.other = None; del one.other; one.near = None",
    "del one.near; one.extra0 = None",
    "del one.near; one.other = None; s.held.append(type(one)(1))",
    "s.held.append(type(one)(1)); one = s.held[-1]; del one.near; one.other = None",
    "del one.near; one.other = None; s.held.append(one); s.held.insert(0, type(one)(2)); del s.held[1]",
)


@pytest.mark.sample(12)
@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("name", OBJECTS)
def test_an_attribute_that_only_the_class_has_any_more(name: str, swap: str) -> None:
    """Deleted in the step in which the same object gets another: also one of the very value that the class has."""
    middle = "one = s.held[len(s.held) // 2]; one.near = 1"
    assert_exact(case(OBJECTS[name], f"one = s.held[-1]; {swap}", "s.result = 1", f"{middle}; {swap}"))


class Unit:
    """Its last attribute has a default."""

    path: Any = None

    def __init__(self) -> None:
        self.hp, self.near, self.path = 1, 2, None


def test_the_digest_tells_a_value_of_the_class_from_one_of_the_object() -> None:
    """The three refer to equal objects in one order; but the path of one is that of its class, and it has a goal."""
    units, readers = [Unit(), Unit(), Unit()], {}
    del units[1].path
    units[1].goal = None  # type: ignore[attr-defined]
    found = [digest_values(ValueSubject({"unit": one}, readers=readers)) for one in units]
    assert found[0] == found[2] != found[1]
