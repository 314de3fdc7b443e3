"""Objects at rest: no change of theirs is missed, whatever it looks like to the garbage collector."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from sim.adapters import adapt
from sim.adapters.capture.graph.objects_at_rest import ObjectsAtRest
from sim.adapters.capture.graph.rows import ObjectRows

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


@pytest.mark.parametrize("count", [1, 2, 48, 49, 300])
@pytest.mark.parametrize("name", CHANGES)
def test_each_change_is_seen(name: str, count: int) -> None:
    """In any of the objects; without a change they are at rest. 48 objects are 192 references, the limit of a loop."""
    rows = make_rows(count, new_class())
    rows.read()
    at_rest = ObjectsAtRest.of(rows)
    assert at_rest is not None, "this Python's layout is not known: nothing is tested"
    assert at_rest.are_of(rows)
    assert at_rest.are_of(rows)
    CHANGES[name](random.choice(rows.objects))
    assert not at_rest.are_of(rows)


def test_other_objects_are_not_at_rest() -> None:
    """One more, one less."""
    rows = make_rows(3, new_class())
    at_rest = ObjectsAtRest.of(rows)
    assert at_rest is not None
    rows.insert([3], [rows.cls()])
    assert not at_rest.are_of(rows)
    at_rest = ObjectsAtRest.of(rows)
    assert at_rest is not None
    rows.remove([0])
    assert not at_rest.are_of(rows)


class Field:
    """Units, of which one changes in some steps, as the inputs say."""

    def __init__(self) -> None:
        self.units = [Unit() for _ in range(60)]

    def step(self, change: str) -> None:
        if change:
            CHANGES[change](self.units[7])


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "another dict"])
def test_a_recording_that_rests_and_changes(tmp_path: Path, name: str) -> None:
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
