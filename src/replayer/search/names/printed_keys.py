"""Keys of dicts that are neither texts nor whole numbers, by the text that is printed of them: ``price[Good.SILK]``.

Nothing of such a text is evaluated. It is compared with the text of each key that is there, without regard to spaces.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from replayer.search.member import MemberValue

KEYS_CACHED = 4_096  # Texts of keys that are parsed once.
BASES: tuple[type, ...] = (str, bytes, int, float, complex)  # A value of a class derived from one is recorded as it.


def key_text(node: ast.expr) -> str | None:
    """The text of a key, in the form in which keys are compared; None for a node that no key is printed as."""
    return ast.unparse(node) if _is_key(node) else None


def _is_key(node: ast.expr) -> bool:
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.Attribute(value=inner):
            return _is_key(inner)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() | complex())):
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(value=complex())):
            return _is_key(left)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return all(map(_is_key, parts))
        case ast.Call(func=ast.Name() | ast.Attribute() as function, args=parts, keywords=named):
            return _is_key(function) and all(map(_is_key, (*parts, *(one.value for one in named))))
    return False


def is_printed_as(step: str, text: str) -> bool:
    """Return True if a step of a path, with its brackets, is the key of this text."""
    return step == f"[{text}]" or (step.startswith("[") and _compared(step[1:-1]) == text)


def can_be_typed(step: str) -> bool:
    """Return True for a step of a path that can be typed as it is printed: no text that was cut, no nameless object."""
    return not step.startswith("[") or _compared(step[1:-1]) is not None


@lru_cache(KEYS_CACHED)
def _compared(text: str) -> str | None:
    try:
        return key_text(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def index_of(text: str) -> tuple[int, ...] | None:
    """The indices that a key stands for in an array: those of ``[(0, 1)]``; None for any other key."""
    try:
        value = ast.literal_eval(text) if text.startswith("(") else None
    except (SyntaxError, ValueError):
        return None
    is_index = isinstance(value, tuple) and bool(value) and all(type(part) is int for part in value)
    return value if is_index else None


def key_in(holder: Mapping[Any, Any], text: str) -> Any:
    """The key of a live dict that is printed so. Raises KeyError if it has none."""
    for key in holder:
        shown = _printed(key)
        if shown is not None and is_printed_as(f"[{shown}]", text):
            return key
    raise KeyError(text)


def _printed(key: Any) -> str | None:
    """The text of a live key, as a tape's key is printed; None for one that has none of its own."""
    kind = type(key)
    if isinstance(key, enum.Enum):
        return repr(MemberValue.of(key))
    if isinstance(key, np.generic):
        return repr(key.item())
    if key is None or kind is bool or kind in BASES:
        return repr(key)
    if isinstance(key, tuple):
        parts = [_printed(part) for part in key]
        if None in parts:
            return None
        comma = "," if kind is tuple and len(parts) == 1 else ""
        return f"{'' if kind is tuple else kind.__name__}({', '.join(map(str, parts))}{comma})"
    if isinstance(key, type):
        return key.__name__
    base = next((base for base in BASES if isinstance(key, base)), None)
    return repr(key) if base is None else f"{kind.__name__}({base(key)!r})"
