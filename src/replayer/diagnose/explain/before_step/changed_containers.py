"""Candidates that change a list, a dict or a random generator before a step: sorted, shuffled, emptied, an item less, a draw more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np

from replayer.diagnose.explain.before_step.changeable_values import (
    MISSING,
    Change,
    Path,
    ValuePlace,
    attributes_of,
    is_generator,
    is_plain,
    last_attribute,
    naming_attribute,
    path_text,
    value_at,
)

ITEMS_MAX = 300  # Of a list whose items are taken out, or moved, one by one.
SECOND_KEYS_MAX = 6
DRAWS_MAX = 128

Order = list[int]


def orders(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """Each list sorted, turned, or in the order of the keyframe; each dict by its keys."""
    for place in places:
        value = place.before
        if isinstance(value, list | deque) and len(value) > 1:
            seen = {tuple(range(len(value)))}
            for text, order in _orders_of(place):
                if tuple(order) not in seen:
                    seen.add(tuple(order))
                    yield _change(root, place, text, partial(_reorder, place.path, order))
        elif isinstance(value, dict) and len(value) > 1:
            for text, keys in _orders_of_dict(place):
                if keys != list(value):
                    yield _change(root, place, text, partial(_reorder_dict, place.path, keys))


def replaced_orders(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """As orders, with a new list in the place of the old one."""
    for place in places:
        if type(place.before) is list and len(place.before) > 1 and place.path and place.path[-1][0] == "attribute":
            for text, order in _orders_of(place):
                yield _change(root, place, f"{text}, as another list", partial(_replace_list, place.path, order))


def emptied(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """Each list, dict and set emptied, or without its first or last item."""
    for place in places:
        value = place.before
        if isinstance(value, list | deque | dict | set) and len(value):
            yield _change(root, place, "emptied", partial(_clear, place.path))
            if isinstance(value, list | deque):
                yield _change(
                    root, place, "without its first item", partial(_reorder, place.path, list(range(1, len(value))))
                )
                yield _change(
                    root, place, "without its last item", partial(_reorder, place.path, list(range(len(value) - 1)))
                )


def without_some(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """Each list without what the keyframe lacks, or without the items that have something in common."""
    for place in places:
        if isinstance(place.before, list | deque) and len(place.before) > 1:
            seen = set()
            for text, kept in _filters(place):
                if 0 < len(kept) < len(place.before) and tuple(kept) not in seen:
                    seen.add(tuple(kept))
                    yield _change(root, place, text, partial(_reorder, place.path, kept))


def fewer_items(root: Any, places: Sequence[ValuePlace]) -> Iterator[Change]:
    """Each list without one of its items, or with one of them moved; each dict without one of its keys."""
    for place in places:
        value = place.before
        if not isinstance(value, list | deque) or not 1 < len(value) <= ITEMS_MAX:
            continue
        everything = range(len(value))
        for gone in everything:
            kept = [one for one in everything if one != gone]
            yield _change(
                root, place, f"without its item {gone}{_named(value[gone])}", partial(_reorder, place.path, kept)
            )
        for moved in everything:
            rest = [one for one in everything if one != moved]
            for order, where in (([*rest, moved], "end"), ([moved, *rest], "beginning")):
                if order != list(everything):
                    text = f"with its item {moved}{_named(value[moved])} at the {where}"
                    yield _change(root, place, text, partial(_reorder, place.path, order))
    for place in places:
        if isinstance(place.before, dict):
            for key in [key for key in place.before if is_plain(key)][:ITEMS_MAX]:
                yield _change(root, place, f"without its key {key!r}", partial(_drop, place.path, key))


def more_draws(root: Any, places: Sequence[ValuePlace], numbers: range) -> Iterator[Change]:
    """Each random generator with more words drawn."""
    generators = [place for place in places if is_generator(place.before)]
    for number in numbers:
        for place in generators:
            text = f"with {number} more word{'s' if number > 1 else ''} of 32 bits drawn"
            yield _change(root, place, text, partial(_draw, place.path, number))
            if number <= 2 and isinstance(place.before, Random):
                text = f"with {number} more draw{'s' if number > 1 else ''} of gauss()"
                yield _change(root, place, text, partial(_draw_gauss, place.path, number))


# --- which orders


def _orders_of(place: ValuePlace) -> Iterator[tuple[str, Order]]:
    items = list(place.before)
    everything = list(range(len(items)))
    if all(map(is_plain, items)):
        yield from _sorted_by("sorted", items, everything)
    else:
        columns = _columns(items)
        for name, column in columns.items():
            yield from _sorted_by(f"sorted by {name}", column, everything)
        yield from _sorted_by_two(columns, everything)
    yield "in reverse order", everything[::-1]
    by_keyframe = _order_at_keyframe(place)
    if by_keyframe is not None:
        yield "in the order of the keyframe", by_keyframe
    yield "with the first item at the end", [*everything[1:], 0]
    yield "with the last item at the beginning", [everything[-1], *everything[:-1]]


def _sorted_by(text: str, column: list[Any], everything: Order) -> Iterator[tuple[str, Order]]:
    order = _sorted(everything, lambda one: column[one])
    if order is not None:
        yield text, order
        yield f"{text}, largest first", sorted(everything, key=lambda one: column[one], reverse=True)


def _sorted_by_two(columns: dict[str, list[Any]], everything: Order) -> Iterator[tuple[str, Order]]:
    """By an attribute that several items share, then by another one; each upwards or downwards."""
    shared = [name for name, column in columns.items() if 1 < _count(column) < len(everything)]
    for first in shared[:SECOND_KEYS_MAX]:
        for second in [name for name in columns if name != first][:SECOND_KEYS_MAX]:
            one, two = columns[first], columns[second]
            for down_first in (False, True):
                for down_second in (False, True):
                    order = _sorted(everything, lambda place, two=two: two[place], reverse=down_second)  # type: ignore[misc]
                    order = order and _sorted(order, lambda place, one=one: one[place], reverse=down_first)  # type: ignore[misc]
                    if order is not None:
                        ways = [", largest first," if down else "" for down in (down_first, down_second)]
                        yield f"sorted by {first}{ways[0]} and {second}{ways[1]}".removesuffix(","), order


def _sorted(everything: Order, key: Callable[[int], Any], *, reverse: bool = False) -> Order | None:
    try:
        return sorted(everything, key=key, reverse=reverse)
    except (TypeError, ValueError):
        return None


def _count(column: list[Any]) -> int:
    try:
        return len(set(column))
    except TypeError:
        return 0


def _columns(items: list[Any]) -> dict[str, list[Any]]:
    """The plain attributes, or items of tuples or dicts, that all items of a list have, by name."""
    rows = [_named_values(item) for item in items]
    shared = [name for name in rows[0] if all(name in row for row in rows)]
    return {name: [row[name] for row in rows] for name in shared if any(row[name] is not None for row in rows)}


def _named_values(item: Any) -> dict[str, Any]:
    if isinstance(item, dict):
        values = {f"[{key!r}]": value for key, value in item.items()}
    elif isinstance(item, tuple | list):
        values = {f"[{place}]": value for place, value in enumerate(item)}
    else:
        values = attributes_of(item)
    return {name: value for name, value in values.items() if is_plain(value)}


def _order_at_keyframe(place: ValuePlace) -> Order | None:
    """The order of the recorded keyframe, if that has all items."""
    if not isinstance(place.recorded, list | deque):
        return None
    now, then = list(place.before), list(place.recorded)
    if all(map(is_plain, (*now, *then))):
        names, wanted = now, then
    else:
        key = naming_attribute(now, then) if then else None
        if key is None:
            return None
        names = [attributes_of(item)[key] for item in now]
        wanted = [attributes_of(item)[key] for item in then]
    if len(set(names)) != len(names) or not set(names) <= set(wanted):
        return None
    places = {name: number for number, name in reversed(list(enumerate(wanted)))}  # Of equal ones, the first.
    return sorted(range(len(now)), key=lambda one: places[names[one]])


def _orders_of_dict(place: ValuePlace) -> Iterator[tuple[str, list[Any]]]:
    keys = list(place.before)
    for text, key in (("sorted by its keys", lambda one: one), ("sorted by its values", lambda one: place.before[one])):
        for reverse in (False, True):
            try:
                ordered = sorted(keys, key=key, reverse=reverse)
            except (TypeError, ValueError):
                break
            yield f"{text}{', largest first' if reverse else ''}", ordered
    if isinstance(place.recorded, dict):
        then = {key: number for number, key in enumerate(place.recorded)}
        if all(key in then for key in keys):
            yield "in the order of the keyframe", sorted(keys, key=lambda one: then[one])


def _filters(place: ValuePlace) -> Iterator[tuple[str, Order]]:
    """Which items remain, by what they have in common."""
    items = list(place.before)
    everything = range(len(items))
    if isinstance(place.recorded, list | deque) and len(place.recorded):
        key = naming_attribute(items, list(place.recorded))
        if key is not None:
            there = {attributes_of(item)[key] for item in place.recorded}
            kept = [one for one in everything if attributes_of(items[one])[key] in there]
            yield "without the items that the keyframe lacks", kept
    for name, column in _columns(items).items():
        values = list(dict.fromkeys(column)) if _count(column) else []
        if type(column[0]) in (int, float):
            yield (
                f"without those whose {name} is not above 0",
                [one for one in everything if column[one] and column[one] > 0],
            )
        for value in values if 1 < len(values) <= SECOND_KEYS_MAX else ():
            yield f"without those whose {name} is {value!r}", [one for one in everything if column[one] != value]
            yield f"without those whose {name} is not {value!r}", [one for one in everything if column[one] == value]


def _named(item: Any) -> str:
    """What an item is named by, for people."""
    if is_plain(item):
        return f" ({item!r})"
    name = next((value for value in attributes_of(item).values() if type(value) in (str, int)), MISSING)
    return "" if name is MISSING else f" ({name!r})"


# --- changes


def _change(root: Any, place: ValuePlace, text: str, apply: Callable[[Any], None]) -> Change:
    return Change(f"{path_text(root, place.path)} {text}", (last_attribute(place.path),), apply, (place.path,))


def _reorder(path: Path, order: Order, root: Any) -> None:
    """The items at these places, in this order; those of the others go."""
    held = value_at(root, path)
    items = [list(held)[place] for place in order]
    held.clear()
    held.extend(items)


def _replace_list(path: Path, order: Order, root: Any) -> None:
    held, holder = value_at(root, path), value_at(root, path[:-1])
    object.__setattr__(holder, path[-1][1], [held[place] for place in order])


def _reorder_dict(path: Path, keys: list[Any], root: Any) -> None:
    held = value_at(root, path)
    items = {key: held[key] for key in keys}
    held.clear()
    held.update(items)


def _clear(path: Path, root: Any) -> None:
    value_at(root, path).clear()


def _drop(path: Path, key: Any, root: Any) -> None:
    del value_at(root, path)[key]


def _draw(path: Path, words: int, root: Any) -> None:
    generator = value_at(root, path)
    if isinstance(generator, Random):
        for _ in range(words):
            generator.getrandbits(32)
    else:
        generator.integers(0, 2**32, size=words, dtype=np.uint32)


def _draw_gauss(path: Path, draws: int, root: Any) -> None:
    for _ in range(draws):
        value_at(root, path).gauss(0, 1)
