"""Tokens of immutable values for ../value_digest.py: each is self-delimiting, so that joined tokens are unambiguous.

A number counts by its type and its bits: True is not 1, -0.0 is not 0.0, and a nan keeps its payload.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import struct
import uuid
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

_FLOAT, _COMPLEX = struct.Struct("<d"), struct.Struct("<dd")


def text_token(text: str) -> bytes:
    """The token of a text."""
    encoded = text.encode("utf-8", "surrogatepass")
    return b"s%d:" % len(encoded) + encoded


def _bytes_token(content: bytes) -> bytes:
    return b"b%d:" % len(content) + content


def _named(letters: str, text: Callable[[Any], str]) -> Callable[[Any], bytes]:
    """The tokens of a type whose values a text describes completely."""
    prefix = b"x%d:" % len(letters) + letters.encode()
    return lambda value: prefix + text_token(text(value))


_BY_TEXT: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (decimal.Decimal, str),
    (fractions.Fraction, str),
    (dt.date, repr),
    (dt.time, repr),
    (dt.datetime, repr),
    (dt.timedelta, repr),
    (dt.timezone, repr),
    (uuid.UUID, str),
    (pathlib.PurePosixPath, str),
    (pathlib.PureWindowsPath, str),
    (type(pathlib.Path()), str),
    (range, repr),
)

# Exact types: a subclass may hold more than the value.
ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"N",
    bool: lambda value: b"T" if value else b"F",
    int: lambda value: b"i%x;" % value,  # Not decimal: Python limits the digits.
    float: lambda value: b"f" + _FLOAT.pack(value),
    complex: lambda value: b"c" + _COMPLEX.pack(value.real, value.imag),
    str: text_token,
    bytes: _bytes_token,
    type(...): lambda _: b"E",
    type(NotImplemented): lambda _: b"I",
    # Without the module, which differs between versions of Python.
    **{kind: _named(kind.__qualname__, text) for kind, text in _BY_TEXT},
}

_ATOM_TYPES = frozenset(ATOMS)
_WHOLE = frozenset((int, bool))


def number_token(value: np.generic) -> bytes:
    """The token of a NumPy scalar."""
    content = value.tobytes()
    name = dtype_name(value.dtype)
    return b"n%d:%d:" % (len(name), len(content)) + name + content


def dtype_name(dtype: np.dtype[Any]) -> bytes:
    """The text of a dtype, with its fields."""
    return (dtype.str if dtype.names is None else repr(dtype)).encode()


def is_pure(value: Any) -> bool:
    """Return True for an immutable value without any mutable object inside."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) in ATOMS or isinstance(one, np.generic | enum.Enum):
            continue
        if type(one) is not frozenset and not (isinstance(one, tuple) and is_compound(one)):
            return False
        waiting += one
    return True


def is_compound(value: Any) -> bool:
    """Return True for a tuple or frozenset that counts by its content: it has no attributes and, if a set, is pure."""
    kind = type(value)
    if kind is tuple:
        return True
    if kind is frozenset:
        return is_pure(value)
    return issubclass(kind, tuple) and (kind.__dictoffset__ == 0 or not vars(value))


def are_pure(elements: Collection[Any]) -> bool:
    """Return True if all elements are immutable values without any mutable object inside."""
    return _ATOM_TYPES.issuperset(map(type, elements)) or all(map(is_pure, elements))


def all_hash_alike(elements: Collection[Any]) -> bool:
    """Return True if the hash of each element is the same in every process."""
    return _WHOLE.issuperset(map(type, elements)) or all(map(hashes_alike, elements))


def hashes_alike(value: Any) -> bool:
    """Return True if the hash of a value is the same in every process: the order in a set is then a part of the state.

    Texts are hashed with a seed of the process, other objects by their address, and so are None and nan by some Pythons.
    """
    waiting = [value]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind is tuple:
            waiting += one
        elif kind is complex:
            waiting += (one.real, one.imag)
        elif kind is float or isinstance(one, np.floating):
            if math.isnan(one):
                return False
        elif kind is not int and kind is not bool and not isinstance(one, np.integer | np.bool_):
            return False
    return True
