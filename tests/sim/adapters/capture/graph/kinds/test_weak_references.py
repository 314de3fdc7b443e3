"""Weak references and their containers made again: they refer to the same objects, and keep none alive."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from sim.adapters.capture.graph.kinds.special_kinds import KINDS


class Unit:
    """Hashed by its address."""

    def act(self) -> Unit:
        return self

    def rest(self) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class Cell:
    """Hashed by its content."""

    x: int
    y: int


def stray(unit: Unit) -> Unit:
    """Not in the class of a unit."""
    return unit


def again(live: Any) -> Any:
    """The object made again over the same members."""
    kind = KINDS[type(live)]
    plain, parts = kind.take(live)
    made = kind.make(plain, parts)
    kind.finish(made, plain, parts)
    assert type(made) is type(live)
    assert kind.take(made) == (plain, parts) or isinstance(live, weakref.WeakSet)
    return made


def test_a_reference_refers_to_the_same_object_and_does_not_keep_it() -> None:
    """It is the very reference that weakref.ref gives; when the object goes, both are dead."""
    unit = Unit()
    live = weakref.ref(unit)
    made = again(live)
    assert made is live
    del unit
    gc.collect()

    assert made() is None
    assert again(live)() is None
    assert KINDS[weakref.ref].take(live) == ([], ())


def test_a_method_is_found_by_the_class_of_its_object() -> None:
    """Alive it is the same method, dead it is None."""
    unit = Unit()
    live = weakref.WeakMethod(unit.act)
    made = again(live)
    assert made == live
    assert made()() is unit
    del unit
    gc.collect()

    assert made() is None
    assert again(made)() is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda unit: weakref.ref(unit, print), "a weak reference with a callback: make it without one"),
        (lambda unit: weakref.WeakMethod(unit.act, print), "a WeakMethod with a callback"),
        (lambda unit: weakref.WeakMethod(stray.__get__(unit)), "a WeakMethod of a function"),
    ],
)
def test_callbacks_are_refused(make: Callable[[Unit], Any], message: str) -> None:
    """They are code that nothing on a tape describes."""
    unit = Unit()
    live = make(unit)
    with pytest.raises(TypeError, match=message):
        KINDS[type(live)].take(live)


def test_a_dead_method_with_a_callback_is_a_dead_method() -> None:
    """Its callback has been called, and is not called again."""
    unit = Unit()
    live = weakref.WeakMethod(unit.act, lambda _: None)
    del unit
    gc.collect()

    assert again(live)() is None


def test_a_weak_set_iterates_as_the_live_one() -> None:
    """Members that hash by their content have their places; more are added and go in the same order."""
    cells = [Cell(x, y) for x in range(12) for y in range(12)]
    live: weakref.WeakSet[Cell] = weakref.WeakSet()
    for number in range(0, 144, 2):
        live.add(cells[number])
    for number in range(0, 144, 6):
        live.discard(cells[number])
    made = again(live)
    assert list(map(id, made)) == list(map(id, live))
    for number in range(0, 144, 3):
        live.add(cells[number])
        made.add(cells[number])
    del cells[5:]
    gc.collect()

    assert list(made) == list(live)
    assert len(made) == len(live) < 10


def test_a_weak_set_of_objects_has_its_members_in_any_order() -> None:
    """Their order is that of addresses: the data says that there is none."""
    units = [Unit() for _ in range(20)]
    live = weakref.WeakSet(units)
    kind = KINDS[weakref.WeakSet]
    plain, parts = kind.take(live)
    assert plain == [None]
    made = kind.make(plain, parts[::-1])
    kind.finish(made, plain, parts[::-1])
    assert set(made) == set(units)
    del units, parts
    gc.collect()

    assert len(made) == len(live) == 0


@pytest.mark.parametrize("kind", [weakref.WeakValueDictionary, weakref.WeakKeyDictionary])
def test_a_weak_dict_has_its_entries_in_order(kind: Any) -> None:
    """The weak half goes with its objects, the other half is kept alive."""
    units = [Unit() for _ in range(9)]
    others = [Unit() for _ in range(9)]
    live = kind()
    for unit, other in zip(units, others, strict=True):
        live[unit] = other
    live[units[0]] = live.pop(units[0])
    live[units[1]] = live.pop(units[1])
    made = again(live)
    assert list(made.items()) == list(live.items())
    plain, parts = KINDS[kind].take(live)
    strong = KINDS[kind].strong_parts(plain, parts)
    assert list(strong) == list(live.keys() if kind is weakref.WeakValueDictionary else live.values())
    del parts, strong, unit, other
    del (units if kind is weakref.WeakKeyDictionary else others)[3:]
    gc.collect()

    assert len(made) == len(live) == 3
    assert list(made.items()) == list(live.items())


def test_references_keep_no_part_and_other_kinds_keep_all() -> None:
    """A set and a reference name no strong parts; an iterator names its list."""
    unit, held = Unit(), [1]
    for live in (weakref.ref(unit), weakref.WeakSet([unit]), weakref.WeakMethod(unit.act)):
        plain, parts = KINDS[type(live)].take(live)
        assert KINDS[type(live)].is_weak
        assert parts == (unit,)
        assert KINDS[type(live)].strong_parts(plain, parts) == ()
    kind = KINDS[type(iter(held))]
    plain, parts = kind.take(iter(held))
    assert not kind.is_weak
    assert kind.strong_parts(plain, parts) == (held,)
