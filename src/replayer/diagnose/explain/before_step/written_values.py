"""Candidates that give attributes what code of the program gives them, as its text tells: constants, and other attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from replayer.diagnose.explain.before_step.assigned_values import groups_of, set_to
from replayer.diagnose.explain.before_step.changeable_values import (
    Change,
    ValuePlace,
    are_same,
    is_plain,
    last_attribute,
)
from replayer.diagnose.explain.before_step.changing_lines import Written

SOURCES_MAX = 40  # Places from which one attribute is taken.


def as_written(root: Any, places: Sequence[ValuePlace], written: Written) -> Iterator[Change]:
    """Plain attributes as code that the step is not seen to run writes them; then those of one object together."""
    by_name: defaultdict[str, list[Any]] = defaultdict(list)
    for place in places:
        if is_plain(place.before) and place.path:
            by_name[last_attribute(place.path)].append(place.before)
    constants: list[Change] = []
    others: list[Change] = []
    for place in places:
        if not place.path or place.path[-1][0] != "attribute" or not is_plain(place.before):
            continue
        name = last_attribute(place.path)
        constants += _changes(root, place, [_computed(place.before, *one) for one in written.constants.get(name, ())])
        taken = [value for source in written.attributes.get(name, ()) for value in by_name[source][:SOURCES_MAX]]
        others += _changes(root, place, [value for value in taken if type(value) is type(place.before)])
    yield from constants
    yield from groups_of(constants)
    yield from others


def _changes(root: Any, place: ValuePlace, values: Sequence[Any]) -> list[Change]:
    found: list[Change] = []
    seen = [place.before]
    for value in values:
        if value is NotImplemented or any(are_same(value, one) for one in seen):
            continue
        seen.append(value)
        found.append(set_to(root, place, value))
    return found


def _computed(before: Any, sign: str, value: Any) -> Any:
    """What a statement with a constant makes of a value; NotImplemented if it cannot be run, or makes no plain value."""
    if not is_plain(value):
        return NotImplemented
    if sign == "=":
        return value
    try:
        match sign:
            case "+":
                return before + value
            case "-":
                return before - value
            case "*":
                return before * value
            case _:
                return before / value
    except (TypeError, ValueError, ArithmeticError):
        return NotImplemented
