"""The places in a simulation's objects that other code may have changed before a step: paths, and their values in three states."""

from __future__ import annotations

import enum
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Literal

import attrs
import numpy as np

from recorder.ambient.outside.own_code import is_librarys
from sim.kernel.state import State

PLACES_MAX = 20_000
LEVELS_MAX = 8
MISSING: Any = type("Missing", (), {"__repr__": lambda _: "missing"})()

Step = tuple[Literal["attribute", "item"], Any]
Path = tuple[Step, ...]
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: of a class that a class statement made.


@attrs.frozen(eq=False)
class ValuePlace:
    """One value before the step, and what two later states have at the same path.

    Attributes:
        path: from the outermost object.
        before: the value before the step.
        recorded, replayed: those at the next recorded keyframe; MISSING if there is none there.
    """

    path: Path
    before: Any
    recorded: Any
    replayed: Any


def places_of(before: Any, recorded: Any = MISSING, replayed: Any = MISSING) -> list[ValuePlace]:
    """The places below three outermost objects, outer ones first; each object once."""
    places: list[ValuePlace] = []
    waiting = deque([ValuePlace((), before, recorded, replayed)])
    seen: dict[int, Any] = {}  # With the values themselves: another one could get the id of one that has gone.
    while waiting and len(places) < PLACES_MAX:
        place = waiting.popleft()
        places.append(place)
        if id(place.before) in seen or len(place.path) >= LEVELS_MAX:
            continue
        seen[id(place.before)] = place.before
        others = [_partner(place.before, other) for other in (place.recorded, place.replayed)]
        for step, value in parts_of(place.before):
            found = [other.get(step, MISSING) for other in others]
            waiting.append(ValuePlace((*place.path, step), value, *found))
        added = _added(place, others)
        places += [ValuePlace((*place.path, step), MISSING, others[0][step], MISSING) for step in added]
    return places


def _added(place: ValuePlace, others: list[dict[Step, Any]]) -> list[Step]:
    """The attributes and keys that the recorded state alone has; a list tells this by its content."""
    if isinstance(place.before, list | deque):
        return []
    mine = dict(parts_of(place.before))
    return [step for step in others[0] if step not in mine and step not in others[1]]


def parts_of(value: Any) -> Iterator[tuple[Step, Any]]:
    """The items and attributes of a value, each with its step. No code of the user's runs."""
    if isinstance(value, State):
        yield from ((("item", name), value[name]) for name in list(value.layout.slots))
        return
    if isinstance(value, dict):
        yield from ((("item", key), dict.__getitem__(value, key)) for key in dict.keys(value) if is_plain(key))
    elif isinstance(value, list | deque):
        yield from ((("item", place), item) for place, item in enumerate(value))
    if has_attributes(value):
        yield from ((("attribute", name), held) for name, held in attributes_of(value).items())


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes that an object keeps itself, in its dict and its slots."""
    kept = dict(getattr(value, "__dict__", None) or {})
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items():
            if type(slot) is MemberDescriptorType and name not in kept:
                try:
                    kept[name] = slot.__get__(value)
                except AttributeError:
                    continue  # Nothing was assigned to it.
    return {name: held for name, held in kept.items() if type(held) is not GetSetDescriptorType}


def has_attributes(value: Any) -> bool:
    """Return True for an object of a class that the user wrote, or that of an installed package."""
    kind = type(value)
    if not kind.__flags__ & _HEAP_TYPE or isinstance(
        value, type | enum.Enum | np.ndarray | Random | np.random.Generator
    ):
        return False
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return bool(file) and not is_librarys(file)


def _partner(mine: Any, other: Any) -> dict[Step, Any]:
    """The parts of the value that another state has there, by the steps of mine; items of a list by what they are named by."""
    if other is MISSING or type(mine) is not type(other):
        return {}
    parts = dict(parts_of(other))
    if not isinstance(mine, list | deque):
        return parts
    key = naming_attribute([*mine], [*other])
    if key is None:
        return parts if len(mine) == len(other) else {}
    by_name = {attributes_of(item)[key]: item for item in other}
    return {
        ("item", place): by_name[name]
        for place, item in enumerate(mine)
        if (name := attributes_of(item)[key]) in by_name
    }


def naming_attribute(*groups: list[Any]) -> str | None:
    """An attribute of which each item of a list has its own number or text, in each of these lists; None without."""
    first = groups[0][0] if groups[0] else None
    for name, value in attributes_of(first).items() if has_attributes(first) else ():
        if type(value) not in (int, str):
            continue
        values = [[attributes_of(item).get(name, MISSING) for item in group] for group in groups]
        if all(type(one) is type(value) for group in values for one in group) and all(
            len(set(group)) == len(group) for group in values
        ):
            return name
    return None


def is_plain(value: Any) -> bool:
    """Return True for a value that no code can change."""
    if type(value) in (tuple, frozenset):
        return all(map(is_plain, value))
    return type(value) in _PLAIN or isinstance(value, enum.Enum | np.generic)


def is_generator(value: Any) -> bool:
    """Return True for a random generator."""
    return isinstance(value, Random | np.random.Generator)


def are_same(one: Any, other: Any) -> bool:
    """Return True for two equal values of one type that are plain, or lists, sets, dicts or arrays of such."""
    if type(one) is not type(other):
        return False
    if type(one) is float:
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, tuple | list | deque):
        return len(one) == len(other) and all(map(are_same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(are_same, one.values(), other.values()))
    if is_plain(one) or isinstance(one, set):
        return bool(one == other)
    return False


# --- at a path


def value_at(root: Any, path: Path) -> Any:
    """The value at a path. Raises LookupError or AttributeError if there is none."""
    value = root
    for kind, name in path:
        value = value[name] if kind == "item" else attributes_of(value)[name]
    return value


def put_at(root: Any, path: Path, value: Any) -> None:
    """Set the value at a path, or delete it (MISSING), without running code of the user's."""
    holder, (kind, name) = value_at(root, path[:-1]), path[-1]
    if kind == "attribute" and value is MISSING:
        object.__delattr__(holder, name)
    elif kind == "attribute":
        object.__setattr__(holder, name, value)
    elif isinstance(holder, State):
        holder[name][...] = value
    elif value is MISSING:
        del holder[name]
    else:
        holder[name] = value


def path_text(root: Any, path: Path) -> str:
    """A path for people: ``Game.units[3].hp``."""
    steps = (f".{name}" if kind == "attribute" else f"[{name!r}]" for kind, name in path)
    return type(root).__name__ + "".join(steps)


def last_attribute(path: Path) -> str:
    """The last attribute on a path, by which code names the value; the empty text if there is none."""
    return next((str(name) for kind, name in reversed(path) if kind == "attribute"), "")


Apply = Callable[[Any], None]


@attrs.frozen(eq=False)
class Change:
    """A candidate: a change that other code may have made before the step.

    Attributes:
        text: the place and the change, for people.
        names: of the attributes that code would name to change it.
        apply: makes it, below the outermost object.
        paths: of what it changes.
        parts: the changes that it consists of, if these can be made alone.
    """

    text: str
    names: tuple[str, ...]
    apply: Apply
    paths: tuple[Path, ...]
    parts: tuple[Change, ...] = ()
