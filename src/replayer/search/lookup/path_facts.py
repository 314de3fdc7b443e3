"""Facts about values of recorded objects over the ticks of an interval, by their paths: bounds, and values that stay the same.

Each value is read as a question reads it, so what is known of it holds for the question. A path that has no value at one of
the ticks, or another kind of value, has no bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from replayer.search.lookup.zone import Zone, zone_of
from replayer.search.names.value_names import EVERY, ValueName
from replayer.search.search_errors import ExpressionError, UndefinedError
from replayer.search.state_values import StateValues, opened_value
from replayer.search.watched_value import ABSENT, AskedValue, are_same, parse_name
from sim.kernel.state import State

VALUES_MAX = 200  # Of an interval: each is read at each tick.
LISTS_MAX = 64  # Names such as units[:].hp, next to these.
DEPTH = 4  # Objects inside objects.
ARRAY_MAX = 1 << 16  # Values of an array that is looked at.


class PathFacts:
    """Collects the facts of one interval, tick by tick.

    Attributes:
        kept: the paths whose values have been the same at all ticks so far; a question asks for them one by one.
    """

    def __init__(self, tick: int, state: State) -> None:
        """state: of the first tick. It decides which paths are followed."""
        values = StateValues(tick, state, {})
        self._names = _names(values)
        self._zones: dict[str, Zone | None] = {}
        self._before: dict[str, Any] = {}
        self.kept: set[str] = set(self._names)
        self._add(values, measures=True)

    def add(self, tick: int, state: State, *, measures: bool) -> None:
        """Add the state of the next tick. measures: False for that of the next interval, to which a step leads."""
        self._add(StateValues(tick, state, {}), measures=measures)

    def _add(self, values: StateValues, *, measures: bool) -> None:
        for text, name in self._names.items():
            try:
                value: Any = values(name)
            except UndefinedError:
                value = ABSENT
            except ExpressionError:
                value = None
            if text in self._before and _is_equal(self._before[text], value):
                continue  # Most values stay as they are at most ticks.
            if measures:
                self._measure(text, value)
            if text in self.kept and (text in self._before or _watched(name, value) is None):
                before = _watched(name, self._before.get(text))
                if before is None or not are_same(before, _watched(name, value)):
                    self.kept.discard(text)
            self._before[text] = value

    def _measure(self, text: str, value: Any) -> None:
        zone = zone_of(value) if not isinstance(value, list | dict) and value is not ABSENT else None
        if text in self._zones:
            before = self._zones[text]
            is_alike = before is not None and zone is not None and len(before.shape) == len(zone.shape)
            list_of = text.partition("[:]")[0]  # Values of all items of one list are equally many.
            zone = before.with_other(zone, list_of) if is_alike and before is not None and zone is not None else None
        self._zones[text] = zone

    def zones(self) -> dict[str, Zone]:
        """The zones of the paths that have had a number, or numbers, at each tick."""
        return {text: zone for text, zone in self._zones.items() if zone is not None}


def _is_equal(one: Any, other: Any) -> bool:
    """Return True if two readings are certainly the same value."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return are_same(one, other)
    return type(one) is type(other) and isinstance(one, int | str | bytes) and one == other


def _watched(name: ValueName, value: Any) -> Any:
    """The value as a watch of it reads it; None for one that cannot be watched."""
    if value is ABSENT:
        return ABSENT
    if value is None or EVERY in name.steps:
        return None
    try:
        return AskedValue(name).plain(value)
    except ExpressionError:
        return None


def _names(values: StateValues) -> dict[str, ValueName]:
    """The paths of the first values of a state, and of the attributes of all items of its first lists."""
    tree = values.objects()
    if tree is None:
        return {}
    paths: dict[str, None] = {}
    lists: dict[str, None] = {}
    for entry in tree.entries:
        for path, is_of_list in _below(entry.step, entry.value, DEPTH):
            chosen, limit = (lists, LISTS_MAX) if is_of_list else (paths, VALUES_MAX)
            if len(chosen) < limit:
                chosen[path] = None
            if len(paths) >= VALUES_MAX and len(lists) >= LISTS_MAX:
                break
    names: dict[str, ValueName] = {}
    for text in (*paths, *lists):
        name = _parsed(text)
        if name is not None:
            names[text] = name
    return names


def _parsed(text: str) -> ValueName | None:
    """The name of a path; None for one that a question writes in another way."""
    try:
        before, is_of_list, after = text.partition("[:]")
        name = parse_name(f"{before}[0]{after}" if is_of_list else text)
    except ExpressionError:
        return None
    if is_of_list:
        place = len(parse_name(before).steps)
        name = ValueName((*name.steps[:place], EVERY, *name.steps[place + 1 :]))
    return name if str(name) == text else None


def _below(path: str, value: Any, depth: int) -> Iterator[tuple[str, bool]]:
    """The paths of the values below a value, itself included; and True for a path of all items of a list."""
    opened = opened_value(value)
    if opened is None or isinstance(opened, np.ndarray):
        if opened is None or opened.size <= ARRAY_MAX:
            yield path, False
        return
    if opened.is_set or not depth:
        return
    if opened.is_list and not opened.is_dict:
        yield path, False  # An array, if all items are numbers.
        for step in _steps_of_first(opened):
            yield f"{path}[:]{step}", True
    for entry in opened.entries:
        yield from _below(f"{path}{entry.step}", entry.value, depth - 1)


def _steps_of_first(opened: Any) -> list[str]:
    """The steps to the values of the first item of a list."""
    first = opened_value(opened.entries[0].value) if opened.entries else None
    if first is None or isinstance(first, np.ndarray) or first.is_set:
        return []
    return [entry.step for entry in first.entries if opened_value(entry.value) is None]
