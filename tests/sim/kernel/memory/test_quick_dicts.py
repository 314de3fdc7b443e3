"""Attributes stay as quick as Python makes them where a ``__dict__`` was asked for; and nothing else changes."""

from __future__ import annotations

import dis
import sys
import types
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import recorder
from sim.kernel.memory.quick_dicts import make_quick

WARM_UP, CALLS = 20, 200  # Python specialises the code in the first calls, and gives that up after some failures.
QUICK = {"LOAD_ATTR_INSTANCE_VALUE", "LOAD_ATTR_WITH_HINT"}
pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="the names of specialised code are of 3.11 to 3.13")


class Unit:
    """Three attributes."""

    def __init__(self) -> None:
        self.first, self.second, self.third = 1.5, 2.5, 3.5

    def step(self) -> float:
        """Write one of them."""
        self.second += 1.0
        return self.second


def read_of(one: Any) -> set[str]:
    """All the ways in which Python reads an attribute of an object, once it has found one."""
    names: dict[str, Any] = {}
    exec("def read(one): return one.first, one.second, one.third", names)  # Nothing is known of its code yet.
    function: types.FunctionType = names["read"]
    ways: set[str] = set()
    for number in range(WARM_UP + CALLS):
        function(one)
        if number >= WARM_UP:
            ways.update(step.opname for step in dis.get_instructions(function, adaptive=True))
    return {name for name in ways if name.startswith("LOAD_ATTR")}


def test_quick_after_its_dict_was_asked_for() -> None:
    """As before; the items and their order are as before, too."""
    unit = Unit()
    attributes = vars(unit)
    make_quick(attributes)
    assert read_of(unit) <= QUICK
    assert list(vars(unit).items()) == [("first", 1.5), ("second", 2.5), ("third", 3.5)]
    assert vars(unit) is attributes
    unit.fourth = 4  # type: ignore[attr-defined]
    assert list(attributes) == ["first", "second", "third", "fourth"]
    make_quick(attributes)
    assert list(attributes) == ["first", "second", "third", "fourth"]


def test_recorded_objects_are_quick(tmp_path: Path) -> None:
    """An object that is recorded reads its attributes as one that is not."""
    unit, other = Unit(), Unit()
    with recorder.tape_of(recorder.record(unit, tmp_path / "a.tape", quiet=True, trial_ms=0)) as tape:
        tape.step()
        assert read_of(unit) <= QUICK
    assert read_of(other) <= QUICK


@pytest.mark.parametrize("attributes", [{}, {"one": 1}, {1: 2, "one": 1}, OrderedDict(b=1, a=2)], ids=repr)
def test_other_dicts_are_left_alone(attributes: dict[Any, Any]) -> None:
    """Empty ones, those of no object, and those of other classes."""
    before, kind = list(attributes.items()), type(attributes)
    make_quick(attributes)
    assert list(attributes.items()) == before
    assert type(attributes) is kind


def test_objects_of_one_class_do_not_share_what_was_changed() -> None:
    """Others of the class, with a dict or without, have their own attributes in their own order."""
    units = [Unit() for _ in range(4)]
    vars(units[1])
    make_quick(vars(units[0]))
    units[0].third = 9.0
    del units[0].first
    assert list(vars(units[0]).items()) == [("second", 2.5), ("third", 9.0)]
    for other in units[1:]:
        assert list(vars(other).items()) == [("first", 1.5), ("second", 2.5), ("third", 3.5)]
