"""Values that a dict or set finds by their identity alone, such as nan: nothing else is equal to them.

A restore makes another object of the same bits, which would not be found under the one that is held elsewhere.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np

from sim.adapters.capture.graph.unsavable import UnsavableError

_BY_VALUE = (int, bool, str, bytes, type(None))
_BASES = (tuple, frozenset, str, bytes, int)
_WITH_NAN = (float, complex, np.generic, decimal.Decimal)
_NAN_KINDS = "fcmM"  # The kinds of NumPy's scalars; a time may be NaT.


def found_by_identity(value: Any) -> str | None:
    """What is found by its identity in an immutable value: "nan", or the name of a class without an equality; else None.

    Looked at are tuples and frozensets, too. No method of a user's class is called.
    """
    kind = type(value)
    if kind in _BY_VALUE:
        return None
    if kind is float:
        return "nan" if value != value else None  # noqa: PLR0124 - nan is not equal to itself
    if issubclass(kind, _BASES) and kind.__eq__ is object.__eq__:
        return kind.__qualname__
    if issubclass(kind, tuple | frozenset):
        items = tuple.__iter__(value) if issubclass(kind, tuple) else frozenset.__iter__(value)
        return next((found for one in items if (found := found_by_identity(one)) is not None), None)
    return "nan" if _is_nan(value, kind) else None


def may_be_found_by_identity(kind: type) -> bool:
    """Return False for a class of which no object is."""
    if kind in _BY_VALUE:
        return False
    if issubclass(kind, _BASES) and kind.__eq__ is object.__eq__:
        return True
    return issubclass(kind, _WITH_NAN) or issubclass(kind, tuple | frozenset)


def refuse_found_by_identity(elements: set[Any] | frozenset[Any]) -> None:
    """Raise UnsavableError for a set that has such an element, or one that is nested too deeply to be looked at."""
    try:
        found = next((one for one in map(found_by_identity, elements) if one is not None), None)
    except RecursionError:
        raise UnsavableError("its elements are nested too deeply", "keep the values in a list", elements) from None
    if found is not None:
        advice = "keep None in its place" if found == "nan" else "keep elements that are compared by their values"
        raise UnsavableError(f"{found} in a set is found by its identity alone", advice, elements)


def _is_nan(value: Any, kind: type) -> bool:
    if issubclass(kind, np.generic):
        return value.dtype.kind in _NAN_KINDS and bool(np.isnat(value) if value.dtype.kind in "mM" else np.isnan(value))
    if issubclass(kind, decimal.Decimal):
        return decimal.Decimal.is_nan(value)
    plain: type[float | complex] | None = next((base for base in (float, complex) if issubclass(kind, base)), None)
    return plain is not None and bool(plain.__ne__(value, value))
