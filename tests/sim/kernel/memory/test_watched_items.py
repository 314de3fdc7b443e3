"""Attributes that are watched by the memory of an object: each change is seen, and nothing is read that is not there."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from sim.kernel.memory.quick_dicts import make_quick
from sim.kernel.memory.watched_items import Pair, count_pairs, is_as_it_was, watch_holder, watch_items

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 13), reason="objects of later Pythons keep their own values")
NAMES = tuple(f"name{number}" for number in range(12))


class Unit:
    """Twelve attributes."""

    def __init__(self) -> None:
        for number, name in enumerate(NAMES):
            setattr(self, name, object() if number % 2 else float(number))


class Other(Unit):
    """Another class of such objects."""


def unit() -> Unit:
    """One whose dict has a table of its own."""
    made = Unit()
    make_quick(vars(made))
    return made


def watch(one: Unit, names: tuple[str, ...], others: tuple[str, ...] = ()) -> list[Pair]:
    """The pairs for attributes as they are."""
    attributes = vars(one)
    pairs = watch_items(attributes, {name: attributes[name] for name in names}, others)
    assert len(pairs) == count_pairs(attributes, {*names, *others}) > 0
    holder = watch_holder(one)
    assert holder is not None
    return [holder, *pairs]


def rebuild(one: Any) -> None:
    """The same items in another table, one under another name."""
    items = list(vars(one).items())
    vars(one).clear()
    vars(one).update([(f"{name}!" if name == NAMES[3] else name, value) for name, value in items])


CHANGES: dict[str, Callable[[Any], object]] = {
    "a store": lambda one: setattr(one, NAMES[3], object()),
    "an equal value": lambda one: setattr(one, NAMES[2], float("2")),
    "a removed one": lambda one: delattr(one, NAMES[3]),
    "one that is not watched": lambda one: delattr(one, NAMES[7]),
    "a new one": lambda one: setattr(one, "new", 1),
    "one goes and one comes": lambda one: (delattr(one, NAMES[11]), setattr(one, "new", one.name10)),
    "another dict": lambda one: setattr(one, "__dict__", dict(vars(one))),
    "another class": lambda one: setattr(one, "__class__", Other),
    "a name for another": rebuild,
    "cleared": lambda one: vars(one).clear(),
    "many": lambda one: vars(one).update(dict.fromkeys(map(str, range(500)))),
    "a key that is no text": lambda one: vars(one).update({1: 2}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("names", [NAMES, NAMES[1:5], (NAMES[2], NAMES[3], NAMES[10])], ids=["all", "a range", "some"])
def test_changes_are_seen(change: str, names: tuple[str, ...]) -> None:
    """Whichever of them are watched."""
    one = unit()
    kept = dict(vars(one))  # All values stay alive: no address is used twice.
    pairs = watch(one, names)
    assert is_as_it_was(pairs)
    CHANGES[change](one)
    assert not is_as_it_was(pairs)
    assert len(kept) == len(NAMES)


def test_other_attributes_may_change() -> None:
    """Stores to what is not watched end no watch, unless all are; stores of the same object end none."""
    one = unit()
    pairs = watch(one, NAMES[3:9], (NAMES[10],))
    for _ in range(50):
        one.name1 = one.name11 = object()
        one.name5 = one.name5
        assert is_as_it_was(pairs)
    one.name10 = object()
    assert not is_as_it_was(pairs)


def test_values_that_are_not_there_are_not_watched() -> None:
    """Other values, names that are missing, and what has no table of its own."""
    one = unit()
    attributes = vars(one)
    assert watch_items(attributes, {NAMES[1]: object()}) == []
    assert watch_items(attributes, {**attributes, NAMES[2]: float("2")}) == []
    assert watch_items(attributes, {"missing": None}) == []
    shared: list[Any] = [{}, vars(Unit()), {1: 2}, {"a": 1, 2: 3}, dict[str, Any](), type("Kind", (dict,), {})(a=1)]
    for other in shared:
        assert watch_items(other, dict(other)) == []
        assert count_pairs(other, set(other)) == 0


def test_random_changes() -> None:
    """After any changes, equal pairs say that each watched attribute is the very same object; and nothing else does."""
    chance = random.Random(7)
    for _ in range(300):
        one = unit()
        vars(one).update(dict.fromkeys(map(str, range(chance.choice((0, 1, 30, 300))))))
        names = tuple(name for name in NAMES if chance.random() < 0.6) or NAMES[:1]
        values = {name: vars(one)[name] for name in names}
        for index in range(chance.choice((0, 0, 200))):
            vars(one).pop(str(index), None)
        pairs = watch_items(vars(one), values)
        if not pairs:
            continue  # Some of the first places in its table are empty.
        kept = [dict(vars(one))]
        for _ in range(chance.randrange(4)):
            name = chance.choice(NAMES)
            setattr(one, name, vars(one)[name] if chance.random() < 0.5 else object())
            kept.append(dict(vars(one)))
        is_same = all(vars(one)[name] is value for name, value in values.items())
        assert is_as_it_was(pairs) is is_same or (len(names) == len(vars(one)) and is_same)
