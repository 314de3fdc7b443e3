"""Attributes are set without code of the class, and without a dict that would make each later step slower."""

from __future__ import annotations

import gc
from typing import Any

from sim.adapters.capture.graph.attribute_setters import setter_of
from sim.adapters.find_adapter import adapt
from sim.adapters.plain_object.adapter import fields
from sim.kernel.simulation import restore


class Plain:
    """Its attributes are set as its own."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError("code of the class was run")


class Hidden:
    """A property has the name of an attribute."""

    @property
    def x(self) -> int:
        """Not the attribute."""
        return -1

    @x.setter
    def x(self, _: int) -> None:
        raise AssertionError("code of the class was run")


class Slotted:
    """One attribute in a slot, others in a dict."""

    __slots__ = ("__dict__", "x")


def test_no_code_of_the_class_is_run() -> None:
    for cls in (Plain, Hidden, Slotted):
        one = cls.__new__(cls)
        setter_of(cls, ("x", "y"))(one, (1, 2))
        held = object.__getattribute__(one, "__dict__")
        slot = Slotted.x.__get__(one) if cls is Slotted else held["x"]  # type: ignore[attr-defined]
        assert (slot, held["y"]) == (1, 2)


class Unit:
    """A part of the game."""

    def __init__(self, x: int) -> None:
        self.x, self.y, self.near = x, -x, [x]


class Game:
    """Holds units."""

    def __init__(self) -> None:
        self.units = [Unit(number) for number in range(5)]

    def step(self, _: Any = None) -> None:
        """Move all."""
        for unit in self.units:
            unit.x += 1


def test_restored_objects_have_no_dict() -> None:
    """As the objects that __init__ made, where this Python keeps attributes in the objects themselves."""
    simulation = adapt(Game(), fields())
    simulation.step(None)
    saved = simulation.state.snapshot()
    other = adapt(Game(), fields())
    restore(other, saved)
    fresh, units = Unit(0), other.subject.units
    assert [unit.x for unit in units] == [1, 2, 3, 4, 5]
    assert {len(gc.get_referents(unit)) for unit in units} == {len(gc.get_referents(fresh))}
