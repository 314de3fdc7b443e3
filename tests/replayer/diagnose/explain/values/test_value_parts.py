"""The parts of values, against a plain comparison of the values themselves."""

from __future__ import annotations

import copy
import ctypes
import enum
import random
import time
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import pytest

from replayer.diagnose.explain.held.instance_objects import InstanceObjects
from replayer.diagnose.explain.texts.value_texts import text_of
from replayer.diagnose.explain.value_hash import Digester
from replayer.diagnose.explain.values.class_data import asked_of_class
from replayer.diagnose.explain.values.value_parts import (
    ELEMENTS_MAX,
    PARTS_MAX,
    differing_parts,
    named_part,
    order_text,
    parts_of,
)


class Unit:
    def __init__(self, hp: Any) -> None:
        self.hp = hp


class Cell(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint8), ("at", ctypes.c_int16 * 2))

    def __init__(self, kind: int = 0, first: int = 0) -> None:
        super().__init__(kind)
        self.at[0] = first


class Slotted:
    __slots__ = ("left", "unset")

    def __init__(self, left: Any) -> None:
        self.left = left


class Place(NamedTuple):
    row: int
    column: int


class Gear(enum.Enum):
    LOW = 1
    TOP = 2


class Further(enum.Enum):
    LOW = 1
    MID = 2
    TOP = 3


class Good(enum.Enum):
    IRON = 1

    def __init__(self, _: int) -> None:
        self.price = 4


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Rank(enum.IntEnum):
    PAWN = 1


def test_members_of_enumerations_are_shown_as_code_names_them() -> None:
    """Python keeps a value, a name and a place of each in attributes of its own."""
    assert differing([Gear.LOW], [Gear.TOP]) == [("[0]", "Gear.LOW", "Gear.TOP"), ("[0].value", "1", "2")]
    assert parts_of(Good.IRON) == {"": "Good.IRON", ".value": "1", ".price": "4"}
    assert parts_of({"a": Right.WRITE}) == {"": "a dict of 1", "['a']": "Right.WRITE", "['a'].value": "2"}
    assert text_of(Right(0)) == "Right(0)"
    assert parts_of(Rank.PAWN) == {"": "Rank.PAWN", ".value": "1"}
    assert parts_of({Gear.LOW, Gear.TOP}) == {"": "a set of 2", "{Gear.LOW}": "present", "{Gear.TOP}": "present"}
    assert order_text({Gear.LOW}) == "Gear.LOW"


def test_the_place_of_a_member_among_the_others_does_not_count() -> None:
    """Another version may have inserted one before it."""
    more = enum.Enum("Gear", {"NONE": 0, "LOW": 1, "TOP": 2}, module=__name__)  # type: ignore[misc]
    assert Digester().digest(more["TOP"]) == Digester().digest(Gear.TOP)
    assert Digester().digest(more["TOP"]) != Digester().digest(Gear.LOW)


def differing(first: Any, second: Any) -> list[tuple[str, str, str]]:
    """The parts in which two values differ."""
    return differing_parts(parts_of(first), parts_of(second))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([Unit(1), Unit(2.5)], [Unit(1), Unit(3.5)], [("[1].hp", "2.5", "3.5")]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, [("order of ", "'a', 'b'", "'b', 'a'")]),
        ({"a": 1}, {"a": 1, "b": [3]}, [("", "a dict of 1", "a dict of 2"), ("['b']", "absent", "a list of 1")]),
        (
            asked_of_class(Gear, "gears")["gears"],
            asked_of_class(Further, "gears")["gears"],
            [("", "an Enum of 2 members", "an Enum of 3 members"), (".TOP", "2", "3"), (".MID", "absent", "2")],
        ),
        ({3, 4}, {4, 5}, [("{3}", "present", "absent"), ("{5}", "absent", "present")]),
        ([Unit(None)], [Unit([1])], [("[0].hp", "None", "a list of 1")]),
        (Slotted(deque([1])), Slotted(deque([2])), [(".left[0]", "1", "2")]),
        ((np.zeros(2),), (np.array([0.0, -0.0]),), [("[0][1]", "0.0", "-0.0")]),
        ([True], [1], [("[0]", "True", "1")]),
        (
            [Unit(1), Unit(2), Unit(3)],
            [Unit(1), Unit(3), Unit(2)],
            [("order of ", "… Unit(hp=2), Unit(hp=3)", "… Unit(hp=3), Unit(hp=2)")],
        ),
        ([[4], [5]], [[5], [4]], [("[0][0]", "4", "5"), ("[1][0]", "5", "4")]),
        ([Unit(1), Unit(2)], [Unit(2), Unit(2)], [("[0].hp", "1", "2")]),
        ([1, 2], [2, 1], [("[0]", "1", "2"), ("[1]", "2", "1")]),
        ((Cell * 3)(), (Cell * 3)((), (4, 2)), [("[1].kind", "0", "4"), ("[1].at[0]", "0", "2")]),
        ([Place(1, 2)], [Place(1, 3)], [("[0].column", "2", "3")]),
        (time.gmtime(0), time.gmtime(7200), [(".tm_hour", "0", "2")]),
        ([], [], []),
    ],
)
def test_parts_that_differ_are_named(first: Any, second: Any, expected: list[tuple[str, str, str]]) -> None:
    """In both directions; what one of the two lacks is absent there, without its own parts."""
    assert differing(first, second)[: len(expected)] == expected
    assert {path for path, _, _ in differing(second, first)} >= {path for path, _, _ in expected}


def test_a_key_that_is_the_address_of_an_object_is_named_by_it() -> None:
    """Of one that the instance holds; another number stays a number."""
    unit, other = Unit(1), Unit(2)
    held = InstanceObjects({id(one): (name, one) for name, one in (("Game.units[0]", unit), ("Game.wind", 2.5))})
    assert parts_of({id(unit): 3}, held)["[id(Game.units[0])]"] == "3"
    assert parts_of({id(other): 3}, held)[f"[{id(other)}]"] == "3"


def test_random_changes_are_named_and_nothing_else() -> None:
    """One number of a nested value is changed: exactly its path is named."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(50):
        value = [{"units": [Unit(draw.random()) for _ in range(5)], "size": draw.randrange(9)} for _ in range(4)]
        changed = copy.deepcopy(value)
        one, other = draw.randrange(4), draw.randrange(5)
        units: Any = changed[one]["units"]
        units[other].hp += 1
        before: Any = value[one]["units"]
        expected = (f"[{one}]['units'][{other}].hp", repr(before[other].hp), repr(units[other].hp))
        assert differing(value, changed) == [expected]
        assert differing(value, copy.deepcopy(value)) == []


def test_cycles_and_shared_objects_end() -> None:
    """An object that was met before is named by its first path; two objects in its place are a difference."""
    unit, ring = Unit(1), Unit(None)
    ring.hp = ring
    assert parts_of(ring)[".hp"] == "the object at the top"
    assert differing([unit, unit], [unit, Unit(1)]) == [("[1]", "the object at [0]", "a Unit")]


@pytest.mark.parametrize("size", [ELEMENTS_MAX, ELEMENTS_MAX + 1])
def test_large_arrays_are_one_part(size: int) -> None:
    """Up to the limit each element is one; a larger one is told by its hash."""
    first, second = np.zeros(size), np.zeros(size)
    second[-1] = 1
    [(path, left, right)] = differing([first], [second])
    assert path == (f"[0][{size - 1}]" if size <= ELEMENTS_MAX else "[0]")
    assert left != right


def test_parts_beyond_the_limit_are_not_called_absent() -> None:
    """Of a value with too many parts only those are compared that both have."""
    many, more = list(range(PARTS_MAX - 1)), list(range(PARTS_MAX))
    assert len(parts_of(many)) == PARTS_MAX
    assert len(parts_of(more)) == PARTS_MAX
    assert differing(many, more) == [("", f"a list of {PARTS_MAX - 1:,}", f"a list of {PARTS_MAX:,}")]
    assert differing([0], []) == [("", "a list of 1", "a list of 0"), ("[0]", "0", "absent")]


def test_a_part_has_the_name_of_its_value() -> None:
    """An order is named before the value."""
    assert named_part("units", "[14].hp") == "units[14].hp"
    assert named_part("bag", "order of ") == "order of bag"


def test_a_member_that_a_value_holds_twice_is_named_each_time() -> None:
    """It is one object wherever it is: that a second place leads to the first one says nothing."""
    mood = enum.Enum("Mood", ["CALM", "LOUD"])
    parts = parts_of([mood["CALM"], mood["CALM"], mood["LOUD"]])
    assert [parts[f"[{number}]"] for number in range(3)] == ["Mood.CALM", "Mood.CALM", "Mood.LOUD"]
