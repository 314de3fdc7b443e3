"""The value at a path of a live object, as a recorded state has it: the two are compared while a step runs."""

from __future__ import annotations

import dis
import enum
import inspect
import re
import types
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from replayer.search.member import MemberValue
from replayer.search.names.printed_keys import BASES, index_of, key_in
from replayer.search.names.value_names import NameStep, ValueName
from replayer.search.state_values import together
from replayer.search.watched_value import ABSENT

LAYERS_MAX = 20  # Wrappers of an environment that are searched for the object that holds a value.
_NAMED = ("name", "attribute")  # Steps to attributes of an object.
_BY_REPR = (range, slice, re.Pattern, np.dtype)
_SIMPLE = {"RESUME", "LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_ATTR", "RETURN_VALUE", "CACHE", "NOT_TAKEN"}


def layers_of(subject: Any) -> list[Any]:
    """The object, and those that it wraps."""
    layers = [subject]
    while len(layers) < LAYERS_MAX:
        inner = vars(layers[-1]).get("env") if hasattr(layers[-1], "__dict__") else None
        if inner is None:
            return layers
        layers.append(inner)
    return layers


def ways_to(subject: Any, name: ValueName) -> list[tuple[Any, ValueName]]:
    """The objects in which a name may be looked up, each with the name from there on: "CartPole.state" without its class."""
    ways = []
    for root in layers_of(subject):
        ways.append((root, name))
        if len(name.steps) > 1 and str(name.steps[0]) == type(root).__name__:
            ways.append((root, ValueName(name.steps[1:])))
    return ways


def live_value(root: Any, name: ValueName, row: tuple[int, ...], keys: dict[NameStep, Any] | None = None) -> Any:
    """The value at a path of an object; ABSENT if there is none. keys: of printed texts that were found before."""
    value = root
    try:
        for step in name.steps:
            value = getattr(value, str(step.value)) if step.kind in _NAMED else part_at(value, step, keys)
        if row:
            value = value[row] if hasattr(value, "dtype") else value[row[0]]
    except (AttributeError, LookupError, TypeError):
        return ABSENT
    return as_recorded(value)


def part_at(holder: Any, step: NameStep, keys: dict[NameStep, Any] | None = None) -> Any:
    """The item of a list, a dict or an array at a step. Raises LookupError or TypeError if there is none."""
    if step.kind != "printed":
        return holder[step.value]
    text = str(step.value)
    if not isinstance(holder, Mapping):
        index = index_of(text)
        if index is None:
            raise LookupError(text)
        return holder[index]
    keys = {} if keys is None else keys
    if step not in keys or keys[step] not in holder:
        keys[step] = key_in(holder, text)
    return holder[keys[step]]


def as_recorded(value: Any) -> Any:
    """A live value as a reading of a state has it: plain types, members by their names, lists of numbers as arrays."""
    if isinstance(value, enum.Enum):
        return MemberValue.of(value)
    if hasattr(value, "dtype") and not isinstance(value, type):
        return value.item() if not getattr(value, "ndim", 0) else value.copy()
    if isinstance(value, list | tuple | deque):
        return together([as_recorded(part) for part in value])
    if isinstance(value, type | types.FunctionType):
        return value.__qualname__.rpartition(".")[2]
    if isinstance(value, _BY_REPR):
        return repr(value)
    base = next((base for base in BASES if isinstance(value, base)), None)
    return value if base is None or type(value) in (bool, base) else base.__new__(base, value)


# --- properties


def property_text(subject: Any, name: ValueName) -> str | None:
    """A line about a name whose last step is a property of a class, which no tape records; None for other names."""
    for root, rest in ways_to(subject, name):
        *path, last = rest.steps
        holder = root
        try:
            for step in path:
                holder = vars(holder)[str(step.value)] if step.kind in _NAMED else part_at(holder, step)
        except (LookupError, TypeError):
            continue
        found = inspect.getattr_static(type(holder), str(last.value), None)
        if last.kind in _NAMED and isinstance(found, property):
            behind = _returned_by(found)
            before = str(name)[: len(str(name)) - len(str(last))]
            shown = f"{before}.{behind}" if before else behind
            text = f"{name} is a property of {type(holder).__name__}, and only attributes are recorded"
            return f"{text}: it returns {shown}" if behind is not None else text
    return None


def _returned_by(found: property) -> str | None:
    """The attribute that a property returns as it is; None if it does anything else."""
    code = getattr(found.fget, "__code__", None)
    if code is None or len(code.co_names) != 1 or code.co_argcount != 1:
        return None
    is_simple = all(one.opname in _SIMPLE for one in dis.get_instructions(code))
    return str(code.co_names[0]) if is_simple else None
