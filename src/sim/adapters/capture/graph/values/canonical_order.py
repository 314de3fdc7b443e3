"""An order of the elements of a set that is the same in every process, whatever their hashes are."""

from __future__ import annotations

import enum
import functools
import types
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sim.adapters.capture.graph.names.attribute_names import names_of, read_slowly
from sim.adapters.capture.graph.names.python_class import base_of
from sim.adapters.capture.graph.values.immutable_values import encode_immutable
from sim.kernel.class_names import module_of

_SIMPLE = (type(None), bool, int, float, complex, str, bytes, np.generic)
_FUNCTIONS = types.FunctionType | types.BuiltinFunctionType
_DEPTH = 4  # Of what is compared to order objects that are new in this step.


def canonical_order(elements: Iterable[Any], node_at: Callable[[int], tuple[int, Any] | None]) -> list[Any]:
    """Elements in an order that does not depend on their hashes: nodes by number, others by what they hold."""

    def key(value: Any) -> tuple[int, int, str]:
        node = node_at(id(value))
        return (0, node[0], "") if node is not None else (1, 0, _content_of(value, _DEPTH))

    return sorted(elements, key=key)


def _content_of(value: Any, depth: int) -> str:
    """What a value holds, as a text that is equal in every process."""
    kind = type(value)
    name = f"{module_of(kind)}.{kind.__qualname__}"
    if depth and isinstance(value, np.ndarray):
        return f"{name}{value.dtype}{value.shape}{value.tobytes().hex()}"
    if depth and isinstance(value, list | tuple | deque):
        return f"{name}[{', '.join(_content_of(one, depth - 1) for one in value)}]"
    if depth and isinstance(value, set | frozenset):
        return f"{name}{{{', '.join(sorted(_content_of(one, depth - 1) for one in value))}}}"
    if depth and isinstance(value, dict):
        items = (f"{_content_of(key, depth - 1)}: {_content_of(one, depth - 1)}" for key, one in value.items())
        return f"{name}{{{', '.join(items)}}}"
    if depth and kind is functools.partial:
        bound = [_content_of(one, depth - 1) for one in (value.args, value.keywords)]
        return f"{name}({_name_of_called(value.func)}, {', '.join(bound)})"
    if isinstance(value, enum.Enum):
        return f"{name} {value.name}"
    if depth and not isinstance(value, type) and base_of(kind) is not None:
        listed = sorted(names_of(value), key=str)
        parts = zip(listed, read_slowly(value, listed), strict=True)
        return f"{name}({', '.join(f'{key}={_content_of(one, depth - 1)}' for key, one in parts)})"
    if isinstance(value, _SIMPLE):
        return f"{name} {value!r}"
    plain = encode_immutable(value)
    return name if plain is None else f"{name} {plain!r}"


def _name_of_called(value: Any) -> str:
    """The name of a function or method; of anything else that can be called its class."""
    named = value.__func__ if isinstance(value, types.MethodType) else value
    return str(named.__qualname__) if isinstance(named, type | _FUNCTIONS) else type(value).__qualname__
