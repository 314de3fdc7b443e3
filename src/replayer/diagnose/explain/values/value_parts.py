"""The parts of a value by their paths, as short texts, and the parts in which two values differ."""

from __future__ import annotations

import enum
import itertools
import random
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from recorder.ambient.c_memory import is_numbers, numbers_in
from recorder.text import counted
from replayer.diagnose.explain.held.generator_variables import UNDER_WAY, variables_of
from replayer.diagnose.explain.held.instance_objects import InstanceObjects
from replayer.diagnose.explain.texts.item_names import item_names
from replayer.diagnose.explain.texts.value_texts import MembersByName, text_of
from replayer.diagnose.explain.value_hash import (
    Digester,
    attributes_of,
    is_cache,
    is_data,
    is_whole_text,
    rule_of,
)
from sim.enum_members import member_name, shown_attributes
from sim.kernel.state import Snapshot, State

PARTS_MAX = 2000  # Of one value: the outermost ones. More are neither kept nor shown.
ELEMENTS_MAX = 32  # Of an array: a larger one is one part.
TOTAL_MAX = 100_000  # Of all small values of a trace, and as many of all large ones: about 10 MB each.

Parts = dict[str, str]  # By path, relative to the value: "[14].hp".
ORDER = "order of "
_SIZED = " of "  # In the title of a container.
_NOTHING_HELD = InstanceObjects()
_KEYS_SHOWN = 8
_ATTRIBUTES_SHOWN = 2
_ITEMS_SHOWN = 2  # Of a list of objects, in another order; and the attributes of each.
_ITEM_ATTRIBUTES = 3
_ITEM = re.compile(r"\[\d+\]")
_ATTRIBUTE = re.compile(r"\.\w+")


def has_parts(value: Any) -> bool:
    """Return True for a container or an object whose attributes can be read."""
    if isinstance(value, list | tuple | dict | set | frozenset | deque | enum.Enum):
        return True
    if isinstance(value, np.ndarray | np.generic | State | Snapshot | str | bytes | int | float | complex):
        return False
    if is_numbers(type(value)):
        return True
    if type(value) is random.Random:  # Its text shows its whole state.
        return False
    return value is not None and is_data(value) and not is_cache(value) and bool(attributes_of(value))


def is_of_parts(value: Any) -> bool:
    """Return True for a value of which parts_of gives more than one text: also a generator, by its variables."""
    return has_parts(value) or isinstance(value, UNDER_WAY)


def parts_of(value: Any, held: InstanceObjects = _NOTHING_HELD) -> Parts:
    """The parts of a value, the outermost first, up to PARTS_MAX. It runs no code of the user's. held: see text_of."""
    parts: Parts = {}
    waiting: deque[tuple[str, Any]] = deque([("", value)])
    seen: dict[int, str] = {}
    while waiting and len(parts) < PARTS_MAX:
        path, part = waiting.popleft()
        if isinstance(part, UNDER_WAY):
            parts |= _leaves(path, part, held)
            waiting.extend((f"{path}: {name}", one) for name, one in variables_of(part, is_whole_text).items())
        elif is_numbers(type(part)):
            parts |= _numbers(path, part)
        elif not has_parts(part):
            parts |= _leaves(path, part, held)
        elif id(part) in seen:
            # Each member exists once, wherever it is.
            parts[path] = member_name(part) or f"the object at {seen[id(part)] or 'the top'}"
        else:
            seen[id(part)] = path
            parts[path] = _title(part)
            if isinstance(part, dict) and len(part) > 1:
                parts[f"{ORDER}{path}"] = _order(part)
            waiting.extend(inner_parts(path, part, held))
    return parts


def objects_of(value: Any, leaves: tuple[type, ...] = ()) -> dict[str, Any]:
    """The containers and objects in a value, and it itself, by the paths of parts_of. It runs no code of the user's.

    leaves: further types, whose values have no parts.
    """
    found: dict[str, Any] = {}
    waiting: deque[tuple[str, Any]] = deque([("", value)])
    seen: set[int] = set()
    while waiting and len(found) < PARTS_MAX:
        path, part = waiting.popleft()
        if isinstance(part, leaves):
            found[path] = part
        elif has_parts(part):
            found[path] = part
            if id(part) not in seen:
                seen.add(id(part))
                waiting.extend(inner_parts(path, part))
    return found


def differing_parts(first: Parts, second: Parts) -> list[tuple[str, str, str]]:
    """Path and both texts of the parts that differ, the outermost first; "absent" for one that a value lacks.

    Parts of a part that one of the two lacks are left out. An order counts if nothing else differs.
    """
    differing: list[tuple[str, str, str]] = []
    orders: list[tuple[str, str, str]] = []
    replaced: list[str] = []  # Something else is in its place: what only one of the two has inside it says no more.
    is_complete = max(len(first), len(second)) < PARTS_MAX
    for path in dict.fromkeys([*first, *second]):
        texts = first.get(path), second.get(path)
        if texts[0] == texts[1]:
            continue
        if path.startswith(ORDER):
            orders.append((path, texts[0] or "", texts[1] or ""))
        elif None not in texts or (is_complete and not any(is_inside(path, outer) for outer in replaced)):
            differing.append((path, texts[0] or "absent", texts[1] or "absent"))
            if not all(text is not None and _SIZED in text for text in texts):
                replaced.append(path)
    if is_complete:
        differing = _as_orders(differing, first, second)
    return differing or [order for order in orders if order[1] and order[2]]


def _as_orders(differing: list[tuple[str, str, str]], first: Parts, second: Parts) -> list[tuple[str, str, str]]:
    """The same, with one order in the place of the differing parts of a list that holds equal objects in another order."""
    found: list[tuple[str, str, str]] = []
    lists: dict[str, tuple[str, str] | None] = {}
    for path, one, other in differing:
        outer = [path[: match.start()] for match in _ITEM.finditer(path)]
        for whole in outer:
            if whole not in lists:
                lists[whole] = _orders_of(whole, first, second)
        ordered = next((whole for whole in outer if lists[whole] is not None), None)
        if ordered is None:
            found.append((path, one, other))
        elif (order := lists[ordered]) is not None and (told := (f"{ORDER}{ordered}", *order)) not in found:
            found.append(told)
    return found


def _orders_of(whole: str, first: Parts, second: Parts) -> tuple[str, str] | None:
    """The objects in a list, in both orders, from the first that differs on; None for one that holds others, or plain values."""
    title = first.get(whole, "")
    if title != second.get(whole) or not title.startswith(("a list of ", "a deque of ")):
        return None
    one, other = (_items_in(whole, parts) for parts in (first, second))
    if sorted(map(repr, one)) != sorted(map(repr, other)):
        return None
    start = next((number for number, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]), None)
    names = _telling_names(one)
    if start is None or not names:
        return None
    texts = [
        ", ".join(_item_text(item, names) for item in items[start : start + _ITEMS_SHOWN]) for items in (one, other)
    ]
    before, after = "… " if start else "", ", …" if len(one) > start + _ITEMS_SHOWN else ""
    return f"{before}{texts[0]}{after}", f"{before}{texts[1]}{after}"


def _items_in(whole: str, parts: Parts) -> list[dict[str, str]]:
    """The parts of each item of a list, with paths that begin at the item."""
    items: dict[str, dict[str, str]] = {}
    for path, text in parts.items():
        if (match := _ITEM.match(path, len(whole))) is not None and path.startswith(whole):
            items.setdefault(match[0], {})[path[match.end() :]] = text
    return list(items.values())


def _telling_names(items: list[dict[str, str]]) -> list[str]:
    """The first attributes that differ among the objects in a list; none for one that holds anything else."""
    names = [path for path in dict.fromkeys(path for item in items for path in item) if _ATTRIBUTE.fullmatch(path)]
    telling = [name for name in names if len({item.get(name) for item in items}) > 1]
    return telling[:_ITEM_ATTRIBUTES] if all(set(item) & set(names) for item in items) else []


def _item_text(item: dict[str, str], names: list[str]) -> str:
    """An object in a list with some of its attributes, such as Event(time=3, who=5)."""
    shown = ", ".join(f"{name[1:]}={item[name]}" for name in names if name in item)
    return f"{item.get('', '').removeprefix('a ')}({shown})"


def is_inside(path: str, outer: str) -> bool:
    """Return True for the path of a part of what another path leads to."""
    return path.startswith(outer) and path[len(outer) : len(outer) + 1] in {"[", ".", "{", ":"}


def named_part(name: str, path: str) -> str:
    """The name of a part of a named value: units and [14].hp give units[14].hp."""
    return f"{ORDER}{name}{path.removeprefix(ORDER)}" if path.startswith(ORDER) else f"{name}{path}"


def inner_parts(path: str, value: Any, held: InstanceObjects = _NOTHING_HELD) -> Iterator[tuple[str, Any]]:
    """The parts of a container or an object, with their paths. held: its objects name keys that are their addresses."""
    match value:
        case enum.Enum():
            yield from ((f"{path}.{name}", part) for name, part in shown_attributes(attributes_of(value)).items())
        case MembersByName():
            yield from ((f"{path}.{name}", part) for name, part in value.items())
        case list() | tuple() | deque():
            names = item_names(value)
            yield from ((f"{path}{names.get(number, f'[{number}]')}", part) for number, part in enumerate(value))
        case set() | frozenset():
            yield from ((f"{path}{{{text}}}", _PRESENT) for text in sorted(map(text_of, value)))
        case Mapping() if isinstance(value, dict):
            yield from ((f"{path}[{held.address_text(key) or text_of(key)}]", part) for key, part in value.items())
        case _:
            yield from ((f"{path}.{name}", part) for name, part in attributes_of(value).items())


def order_text(values: set[Any] | frozenset[Any]) -> str:
    """The first members of a set in its order, objects with their first attributes."""
    texts = [_member_text(value) for value in itertools.islice(values, _KEYS_SHOWN)]
    return ", ".join(texts) + (", …" if len(values) > _KEYS_SHOWN else "")


def _member_text(value: Any) -> str:
    plain = [(name, one) for name, one in attributes_of(value).items() if isinstance(one, str | int | float)]
    if not plain or isinstance(value, np.ndarray | str | int | float | enum.Enum):
        return text_of(value)
    shown = ", ".join(f"{name}={text_of(one)}" for name, one in plain[:_ATTRIBUTES_SHOWN])
    return f"{type(value).__name__}({shown})"


class _Present:
    """An element of a set: it is named, and has no other text."""


_PRESENT = _Present()


def _leaves(path: str, value: Any, held: InstanceObjects) -> Parts:
    if value is _PRESENT:
        return {path: "present"}
    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        return {path: text_of(value, held)}
    array = np.asarray(value)
    if array.ndim > 0 and array.size <= ELEMENTS_MAX:
        title = {path: f"{'×'.join(map(str, array.shape))} {array.dtype}"}
        return title | {f"{path}{list(index)}": text_of(array[index].item()) for index in np.ndindex(array.shape)}
    return {path: f"{text_of(array)} with hash {Digester().digest(array):016x}"}


def _numbers(path: str, value: Any) -> Parts:
    """The values of numbers of ctypes. They are read at once: an item of an array is a new object whenever it is asked for."""
    inside = itertools.islice(numbers_in(value), PARTS_MAX)
    return {path: f"a {type(value).__name__}"} | {f"{path}{inner}": text_of(one) for inner, one in inside}


def _title(value: Any) -> str:
    if (name := member_name(value)) is not None:
        return name
    if isinstance(value, MembersByName):
        return f"an Enum{_SIZED}{counted(len(value), 'member')}"
    if isinstance(value, list | tuple | dict | set | frozenset | deque):
        return ", ".join(filter(None, [f"a {type(value).__name__}{_SIZED}{len(value):,}", rule_of(value)]))
    return f"a {type(value).__name__}"


def _order(value: dict[Any, Any]) -> str:
    """The order of the keys; of many, the first ones and a hash of all."""
    texts = [text_of(key) for key in list(value)[:PARTS_MAX]]
    more = f", … with hash {Digester().digest(texts):016x}" if len(texts) > _KEYS_SHOWN else ""
    return ", ".join(texts[:_KEYS_SHOWN]) + more
