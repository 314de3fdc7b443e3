"""Attributes read together: no change is missed, whatever it looks like to the garbage collector."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from gc import get_referents
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from sim.adapters import adapt
from sim.adapters.capture.graph.names.attribute_names import names_of, read_slowly, slot_names
from sim.adapters.capture.graph.referents import AttributeOrder, items_of
from sim.adapters.capture.graph.rows import ObjectRows, StrayError

NAMES = ("a", "b", "c")


class Unit:
    """Of one attribute the class has a value, too."""

    b: Any = None

    def __init__(self) -> None:
        self.a = self.b = self.c = None


class Other(Unit):
    """Another class of such objects."""


def rename(unit: Any) -> None:
    """To a name that no object of the class had before: the same value in the next place."""
    del unit.c
    unit.d = None


def drop_the_one_of_the_class(unit: Any) -> None:
    """The class still answers, with an equal value; a new name takes the place."""
    del unit.b
    unit.d = None


def replace_dict(unit: Any) -> None:
    """An equal dict."""
    unit.__dict__ = {"a": None, "b": None, "c": None}


CHANGES: dict[str, Callable[[Any], None]] = {
    "a value": lambda unit: setattr(unit, "a", 1),
    "a number": lambda unit: setattr(unit, "b", 0.5),
    "no attribute": lambda unit: delattr(unit, "c"),
    "none, but the class has it": lambda unit: delattr(unit, "b"),
    "another name": rename,
    "another name for what the class has": drop_the_one_of_the_class,
    "a new attribute": lambda unit: setattr(unit, "d", None),
    "another class": lambda unit: setattr(unit, "__class__", Other),
    "another dict": replace_dict,
}


def make_rows(count: int, kind: type) -> ObjectRows:
    """Rows of a group of new objects."""
    rows = ObjectRows(kind, NAMES)
    rows.set_objects([kind() for _ in range(count)])
    return rows


def new_class() -> Any:
    """A class of which no object had any attributes yet."""
    return type("Fresh", (Unit,), {})


def is_read_together(rows: ObjectRows) -> bool:
    """Whether the rows are read in one call; if not, nothing of that is tested here."""
    order = AttributeOrder.of(rows.cls, rows.names, slot_names(rows.cls))
    return order is not None and order.read([one for one in rows.objects if not has_dict(one)]) is not None


def has_dict(one: Any) -> bool:
    """Whether an object has a dict by now, found without making one."""
    return any(type(held) is dict for held in get_referents(one))


@pytest.mark.parametrize("with_dict", [0, 1])
@pytest.mark.parametrize("count", [1, 2, 40, 300])
@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_seen(name: str, count: int, with_dict: int) -> None:
    """In any of the objects, one of which may have a dict: other values, or a complaint."""
    rows = make_rows(count, new_class())
    for one in random.sample(rows.objects, with_dict):
        vars(one)
    rows.set_objects(rows.objects)
    before = rows.read()
    assert before == rows.read() == (None,) * (3 * count)
    assert count == with_dict or is_read_together(rows), "this Python's layout is not known: nothing is tested"
    CHANGES[name](random.choice(rows.objects))
    try:
        now = rows.read()
    except StrayError:
        assert name not in ("a value", "a number")
        return
    assert name in ("a value", "a number")
    assert sum(one is not other for one, other in zip(before, now, strict=True)) == 1


class Slots:
    """In an order of their own; a class without a dict."""

    __slots__ = ("a", "b", "c")

    def __init__(self) -> None:
        self.a, self.b, self.c = 1, 2, 3


class MoreSlots(Slots):
    """Slots of two classes."""

    __slots__ = ("__weakref__", "a2")

    def __init__(self) -> None:
        super().__init__()
        self.a2 = 4


class Backwards:
    """The table of names of this class is in another order than the group."""

    def __init__(self) -> None:
        self.c, self.b, self.a = 3, 2, 1


@pytest.mark.parametrize("kind", [Slots, MoreSlots, Backwards])
def test_the_order_of_the_names_is_kept(kind: type) -> None:
    """The collector has an order of its own."""
    names = tuple(sorted(names_of(kind())))
    rows = ObjectRows(kind, names)
    rows.set_objects([kind() for _ in range(50)])
    assert is_read_together(rows)
    assert rows.read() == tuple(value for one in rows.objects for value in read_slowly(one, names))


def test_a_slot_that_is_empty_is_seen() -> None:
    """Nothing else takes its place."""
    rows = ObjectRows(Slots, ("a", "b", "c"))
    rows.set_objects([Slots(), Slots()])
    assert rows.read() == (1, 2, 3, 1, 2, 3)
    del rows.objects[1].b
    with pytest.raises(StrayError):
        rows.read()


class AlikeSlots(Slots):
    """Objects of the other class may become objects of this one."""

    __slots__ = ()


def test_another_class_with_the_same_slots_is_seen() -> None:
    """It has as many references."""
    rows = ObjectRows(Slots, ("a", "b", "c"))
    rows.set_objects([Slots(), Slots()])
    rows.read()
    rows.objects[0].__class__ = AlikeSlots
    with pytest.raises(StrayError):
        rows.read()


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_rows_that_come_and_go_around_an_object_with_a_dict(shift: int) -> None:
    """Its place is known."""
    kind, row = new_class(), 20
    rows = make_rows(40, kind)
    rows.objects[row].a = "with a dict"
    vars(rows.objects[row])
    rows.set_objects(rows.objects)
    rows.insert([row + shift, 30], [kind(), kind()])
    moved = row + (shift <= 0)
    assert rows.read().index("with a dict") == 3 * moved
    assert rows.objects[moved].a == "with a dict"
    rows.remove([moved - 1 if shift <= 0 else moved + 1])
    assert rows.read().index("with a dict") == 3 * row
    rows.remove([row])
    assert "with a dict" not in rows.read()


def test_objects_that_hold_their_own_class() -> None:
    """One that lost an attribute, before one that got a dict and holds the class first: as many references as before."""
    kind = new_class()
    rows = make_rows(3, kind)
    rows.objects[1].a = kind
    assert rows.read() == (None, None, None, kind, None, None, None, None, None)
    del rows.objects[0].c
    vars(rows.objects[1])
    with pytest.raises(StrayError):
        rows.read()


class Same(type):
    """A class of these classes equals all others."""

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return 1


def test_classes_are_told_apart_by_identity() -> None:
    """Classes may say that they are equal."""
    first, second = Same("First", (Unit,), {}), Same("Second", (Unit,), {})
    assert first == second
    rows = make_rows(4, first)
    rows.read()
    rows.objects[2].__class__ = second
    with pytest.raises(StrayError):
        rows.read()


MUTATIONS: list[Callable[[Any], object]] = [
    lambda one: setattr(one, "a", object()),
    lambda one: setattr(one, "c", {}),
    lambda one: setattr(one, "b", [one]),
    vars,
    lambda one: one.__dict__.update(a=object()),
    lambda one: setattr(one, "__dict__", dict(reversed(vars(one).items()))),
    lambda one: (vars(one).pop("b", None), setattr(one, "b", 7)),
    lambda one: setattr(one, "a", type(one)),
    lambda one: setattr(one, "d", 1),
    lambda one: (one.__dict__.pop("c", None), setattr(one, "c", 5)),
    lambda one: delattr(one, "c") if hasattr(one, "c") else None,
]


def test_any_changes_of_any_objects() -> None:
    """What is read is what the objects have, or a complaint that is true, in any order of calls."""
    for _ in range(150):
        kind = new_class()
        rows = make_rows(random.choice([2, 5, 20, 40]), kind)
        for _ in range(12):
            if random.random() < 0.3:
                at = sorted(random.choices(range(len(rows.objects) + 1), k=random.randint(1, 3)))
                rows.insert(at, [kind() for _ in at])
            if random.random() < 0.3 and len(rows.objects) > 2:
                rows.remove(sorted(random.sample(range(len(rows.objects)), k=random.randint(1, 2))))
            for _ in range(random.randint(0, 2)):
                random.choice(MUTATIONS)(random.choice(rows.objects))
            try:
                now = rows.read()
            except StrayError:
                strays = rows.strays()
                assert set(strays) >= {row for row, one in enumerate(rows.objects) if set(names_of(one)) != set(NAMES)}
                rows.remove(strays)
                if not rows.objects:
                    break
                continue
            expected = [object.__getattribute__(one, name) for one in rows.objects for name in NAMES]
            assert list(map(id, now)) == list(map(id, expected))


def test_items_of_containers() -> None:
    """In their order, whatever the collector's is."""
    lists = [[1, 2, 3], [], [None, [4]], [5]]
    assert items_of(lists, list) == (1, 2, 3, None, [4], 5)
    assert items_of([deque([1, 2]), deque(), deque([3])], deque) == (1, 2, 3)
    assert items_of([], list) == ()


class Field:
    """Units, of which one changes in some steps, as the inputs say."""

    def __init__(self) -> None:
        self.units = [Unit() for _ in range(60)]

    def step(self, change: str) -> None:
        if change:
            CHANGES[change](self.units[7])


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "another dict"])
def test_a_recording_with_such_a_change(tmp_path: Path, name: str) -> None:
    """After steps without a change the one that changes an object is on the tape, at its tick."""
    path, field = tmp_path / "run.tape", Field()
    recorded = recorder.record(field, path, quiet=True, trial_ms=0)
    for tick in range(1, 12):
        recorded.step(name if tick == 6 else "")
    recorded.tape.close()  # type: ignore[attr-defined]
    with replayer.open(path, world=lambda: adapt(Field())) as run:
        assert run.verify().ok
        run.seek(11)
        unit = run.subject.units[7]
        assert vars(unit) == vars(field.units[7])
        assert type(unit) is type(field.units[7])
        run.seek(5)
        assert vars(run.subject.units[7]) == {"a": None, "b": None, "c": None}
