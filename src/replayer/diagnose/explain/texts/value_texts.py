"""Short texts of values, for people. They run no code of the user's."""

from __future__ import annotations

import random
import weakref
from collections import defaultdict, deque
from contextvars import ContextVar
from types import BuiltinFunctionType, CoroutineType, FunctionType, GeneratorType, MethodType
from typing import Any

import numpy as np

from recorder.ambient.c_memory import is_memory, memory_text
from recorder.ambient.iterators import ITERATOR_TYPES, upcoming_text
from replayer.diagnose.explain.held.generator_variables import frame_of
from replayer.diagnose.explain.held.instance_objects import InstanceObjects
from replayer.diagnose.explain.held.random_states import generator_state
from replayer.diagnose.explain.value_hash import (
    PLAIN,
    Digester,
    current,
    is_cache,
    plain_text,
    rule_of,
    value_text,
)
from sim.enum_members import member_name

TEXT_CHARS_MAX = 80  # Of a value that is shown.
_NOTHING_HELD = InstanceObjects()


class MembersByName(dict[str, Any]):
    """The values of the members of an enumeration, by their names."""


def text_of(value: Any, held: InstanceObjects = _NOTHING_HELD) -> str:
    """A short text of a value, for people. It runs no code of the user's. held: says which object a method is of."""
    if type(value) in PLAIN or isinstance(value, float):
        text = plain_text(value)
    elif isinstance(value, np.ndarray):
        plain = np.asarray(value)
        shape = "×".join(map(str, plain.shape)) or "one"
        text = f"{shape} {plain.dtype}"
        if plain.size <= 6 and not plain.dtype.hasobject:
            text += f" {plain.tolist()}"
    elif isinstance(value, np.generic):
        text = f"{value.dtype} {value.item()!r}"
    elif is_cache(value):
        text = f"a cache of {value.cache_info().currsize}"
    elif type(value) in {list, tuple, dict, set, frozenset}:
        text = _text_of_many(value, held)
    elif type(value) is MembersByName:
        text = _text_of_many(dict(value), held)
    elif type(value) in ITERATOR_TYPES:
        following = upcoming_text(value)
        text = f"an iterator ({type(value).__name__})"
        text += "" if following is None else f" that continues with {following}"
    elif isinstance(value, GeneratorType | CoroutineType):
        kind, frame = ("coroutine" if isinstance(value, CoroutineType) else "generator"), frame_of(value)
        text = f"a {kind} at line {frame.f_lineno}" if frame is not None else f"a {kind} that ended"
    elif isinstance(value, weakref.ref):
        referent = value()
        text = f"a weak reference to {_text_of_referent(referent, held)}"
    elif type(value) is weakref.WeakValueDictionary:
        text = f"a WeakValueDictionary of {text_of(list(vars(value)['data']))}"
    else:
        text = _text_of_other(value, held)
    text = " ".join(text.split())
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def _text_of_referent(value: Any, held: InstanceObjects) -> str:
    if value is None:
        return "an object that has ended"
    return text_of(value, held) if isinstance(value, MethodType) else held.place_with_article(value) or text_of(value)


def _text_of_other(value: Any, held: InstanceObjects) -> str:
    """The text of a value that is neither a number, an array, a container nor an iterator."""
    if (name := member_name(value)) is not None:
        return name
    if (text := value_text(value)) is not None:
        return f"{type(value).__name__} {text}"
    match value:
        case deque() | defaultdict():
            return ", ".join(filter(None, [f"a {type(value).__name__} of {len(value)}", rule_of(value)]))
        case FunctionType() | BuiltinFunctionType() | type():
            return f"the {'class' if isinstance(value, type) else 'function'} {value.__module__}.{value.__qualname__}"
        case MethodType():
            return f"the method {value.__func__.__qualname__}{held.text_of_place(value.__self__)}"
        case ContextVar():
            return " ".join(["a ContextVar", *(f"that is {text_of(one)}" for one in current(value))])
    return memory_text(value) if is_memory(type(value)) else _text_of_generator(value) or f"a {type(value).__name__}"


def _text_of_generator(value: Any) -> str | None:
    """The state of a random generator as text, large parts as hashes; None if value is not a generator."""
    state = generator_state(value)
    if state is None:
        return None
    name = state.pop("bit_generator", type(value).__name__)
    if isinstance(value, random.Random) and not isinstance(value, random.SystemRandom):
        *words, second = value.getstate()
        state = (
            {"state": words}
            if second is None
            else {"state": words, "second number of a pair from gauss()": str(second)}
        )
    digest = Digester().digest
    shown = [
        f"{key} {part}" if type(part) in (int, str) else f"{key} {digest(part):016x}"
        for key, part in state.items()
        if type(part) is not int or part  # Buffers are mostly empty.
    ]
    return f"{name}: {', '.join(shown)}"


def _text_of_many(value: Any, held: InstanceObjects) -> str:
    shown = list(value.items() if isinstance(value, dict) else value)[:8]
    parts = [
        f"{text_of(part[0])}: {text_of(part[1], held)}" if isinstance(value, dict) else text_of(part, held)
        for part in shown
    ]
    inside = ", ".join(parts) + (f", … ({len(value):,})" if len(value) > len(shown) else "")
    left, right = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    return f"{left}{inside}{right}" if value or type(value) in {list, tuple, dict} else "set()"
