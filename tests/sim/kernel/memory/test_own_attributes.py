"""Which attributes objects have themselves: always what their dicts say, and without a dict for any of them."""

from __future__ import annotations

import abc
import gc
import random
import sys
from typing import Any

import pytest

from sim.kernel.memory.own_attributes import OwnWatch, own_attributes

NAMES = ("a", "b", "c", "d")
HIDDEN = ("b", "d")


class Unit:
    """Of some attributes the class has a value, too."""

    b: Any = None
    d: Any = 5


def make_units(count: int, chance: random.Random) -> list[Any]:
    """Objects with some of the attributes, in any order."""
    made = []
    for _ in range(count):
        unit = Unit()
        for name in chance.sample(NAMES, chance.randrange(len(NAMES) + 1)):
            setattr(unit, name, chance.choice((None, 5, "x")))
        made.append(unit)
    return made


def test_one_object() -> None:
    """Compared with what its dict says afterwards."""
    chance = random.Random(7)
    own = own_attributes(Unit, HIDDEN)
    assert own is not None, "this Python's layout is not known: nothing is tested"
    units = make_units(400, chance)
    found = list(map(own.are_in, units))
    assert found == [set(HIDDEN) <= set(vars(one)) for one in units]
    assert len(set(found)) == 2


@pytest.mark.parametrize("count", [1, 2, 20, 31, 32, 33, 500])
def test_many_objects_watched(count: int) -> None:
    """True until one of them loses an attribute; not if one had its dict made before."""
    chance = random.Random(count)
    for change in ("del one.b", "del one.d", "del one.d; one.e = 5", "one.e = 5; del one.b"):
        kind: Any = type("Fresh", (Unit,), {})
        first = kind()
        first.a = first.b = first.d = first.e = None  # A name that is new after many objects gives an object a dict.
        own = own_attributes(kind, HIDDEN)
        assert own is not None
        units = [kind() for _ in range(count)]
        for one in units:
            one.b = one.d = one.a = None
        watch = OwnWatch(own, units)
        assert watch.holds()
        for one in units:
            one.b, one.d = 7, []
        assert watch.holds(), "another value is no loss"
        exec(change, {"one": chance.choice(units)})
        assert not watch.holds(), change
    vars(units[0])["b"] = vars(units[0])["d"] = 7
    assert not OwnWatch(own, units[:1]).holds() or sys.version_info >= (3, 13)


def test_whether_objects_can_have_other_attributes() -> None:
    """As soon as one object of the class got one, any could have it."""

    class Fresh(Unit):
        def __init__(self) -> None:
            self.a, self.b = 1, 2

    first = Fresh()
    own = own_attributes(Fresh, ["b"])
    assert own is not None
    assert own.are_all_of(2)
    assert not own.are_all_of(1)
    del first.a
    assert own.are_all_of(2)
    other = Fresh()
    del other.a
    other.c = 3  # type: ignore[attr-defined]
    assert not own.are_all_of(2)


def test_no_dict_is_made() -> None:
    """An object refers to its values, or to a dict once that was asked for."""
    own = own_attributes(Unit, HIDDEN)
    assert own is not None
    unit = Unit()
    unit.b = unit.d = 3.5
    own.are_in(unit)
    assert OwnWatch(own, [unit]).holds()
    assert gc.get_referents(unit) == [3.5, 3.5, Unit]


class Ends(Unit):
    def __del__(self) -> None:
        raise AssertionError("an object of the class was made")


class Abstract(abc.ABC):
    b: Any = None

    @abc.abstractmethod
    def step(self) -> None: ...


class Slotted:
    __slots__ = ("b", "d")


class Listed(list[Any]):
    b: Any = None


class Refusing:
    """Its own code is not called."""

    b: Any = None

    def __init__(self) -> None:
        raise AssertionError

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError


class Hidden:
    """A property has the name of an attribute that is in the dict."""

    @property
    def b(self) -> Any:
        """Not the attribute."""
        return self.__dict__["b"]

    @b.setter
    def b(self, value: Any) -> None:
        raise AssertionError(value)


@pytest.mark.parametrize("cls", [Ends, Abstract, Slotted, Listed, int])
def test_what_is_not_known(cls: type) -> None:
    """Classes whose objects cannot be made unseen, or have their attributes elsewhere."""
    assert own_attributes(cls, ("b",)) is None


def test_no_code_of_the_class_runs() -> None:
    """Neither its constructor nor its __setattr__, nor the setter of a property."""
    assert own_attributes(Hidden, ("b",)) is None
    assert own_attributes(Refusing, ("b",)) is not None
    assert own_attributes(Unit, [f"n{number}" for number in range(31)]) is None, "so many need a dict"
