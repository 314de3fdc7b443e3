"""Find the values that hash alike in every process, so that a set of them can be rebuilt in any process."""

from __future__ import annotations

import dataclasses
import decimal
import fractions
import sys
import types
from typing import Any

import numpy as np

_NUMBERS = (int, float, complex, decimal.Decimal, fractions.Fraction, np.number, np.bool_)


def _hashes_of_numbers() -> frozenset[Any]:
    kinds = (int, float, complex, decimal.Decimal, fractions.Fraction, *set(np.sctypeDict.values()))
    return frozenset(kind.__hash__ for kind in kinds if issubclass(kind, _NUMBERS))


_HASHES_OF_NUMBERS = _hashes_of_numbers()


def hashes_alike(value: Any) -> bool:
    """Return True if the hash of value is a function of its content alone, equal in every process.

    True for numbers, for tuples, frozensets and dataclasses of such values, and for their subclasses that hash alike.
    False for texts, bytes and dates, whose hashes depend on the hash seed, and for objects that hash by their address.
    """
    hash_method: Any = type(value).__hash__
    if hash_method in _HASHES_OF_NUMBERS:
        return bool(value == value)  # noqa: PLR0124 - a nan hashes by its address
    if value is None:
        return sys.version_info >= (3, 12)  # Before, its hash was its address.
    if hash_method is tuple.__hash__ or hash_method is frozenset.__hash__:
        return all(map(hashes_alike, value))
    if "__dataclass_fields__" in type(value).__dict__ and _is_generated(hash_method):
        names = (one.name for one in dataclasses.fields(value) if (one.compare if one.hash is None else one.hash))
        return all(hashes_alike(getattr(value, name)) for name in names)
    return False


def _is_generated(method: Any) -> bool:
    """Return True for a method that dataclasses generated; a method of the user's own may hash anything."""
    return isinstance(method, types.FunctionType) and method.__code__.co_filename == "<string>"
