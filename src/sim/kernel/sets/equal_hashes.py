"""Find the values that hash alike in every process, so that a set of them can be rebuilt in any process."""

from __future__ import annotations

import builtins
import dataclasses
import decimal
import dis
import fractions
import functools
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

    True for numbers, for tuples, frozensets and dataclasses of such values, for their subclasses that hash alike, and for
    objects whose method ``__hash__`` computes with nothing but such values in their attributes.
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
        names = [one.name for one in dataclasses.fields(value) if (one.compare if one.hash is None else one.hash)]
        return all(hashes_alike(getattr(value, name)) for name in names)
    kind: Any = type(value)
    hashed = _hashed_attributes(kind, hash_method) if type(hash_method) is types.FunctionType else None
    return hashed is not None and all(hashes_alike(_attribute(value, name)) for name in hashed)


def _is_generated(method: Any) -> bool:
    """Return True for a method that dataclasses generated; what one of the user's own reads has to be looked at."""
    return isinstance(method, types.FunctionType) and method.__code__.co_filename == "<string>"


# --- methods of users

_CLASSES_KEPT = 1024
_CONSTANT_MAX = 1 << 40  # attrs writes the hash of a text into the code as a constant: it differs in each process.
_ARITHMETIC = frozenset((
    "RESUME", "CACHE", "PUSH_NULL", "PRECALL", "CALL", "BUILD_TUPLE", "BINARY_OP", "UNARY_NEGATIVE", "UNARY_INVERT",
    "RETURN_VALUE",
))  # fmt: skip


@functools.lru_cache(_CLASSES_KEPT)
def _hashed_attributes(kind: Any, method: types.FunctionType) -> tuple[str, ...] | None:
    """The attributes from which alone the method ``__hash__`` of a class computes; None if it may read anything else."""
    names = _names_read(method)
    if not names or kind.__getattribute__ is not object.__getattribute__:
        return None
    return names if all(_is_plain_attribute(kind, name) for name in names) else None


def _names_read(method: types.FunctionType) -> tuple[str, ...] | None:
    """The names in ``self.name``, if the method does nothing but arithmetic, tuples and ``hash()`` with these."""
    itself = method.__code__.co_varnames[:1]
    names: list[str] = []
    before = None
    for one in dis.get_instructions(method):
        match one.opname:
            case "LOAD_FAST":
                is_known = (one.argval,) == itself
            case "LOAD_ATTR":
                is_known = before == "LOAD_FAST"
                names.append(str(one.argval))
            case "LOAD_GLOBAL":
                is_known = _is_hash(method, one.argval)
            case "LOAD_CONST" | "RETURN_CONST":
                is_known = type(one.argval) is float or (type(one.argval) is int and abs(one.argval) < _CONSTANT_MAX)
            case name:
                is_known = name in _ARITHMETIC
        if not is_known:
            return None
        before = one.opname
    return tuple(names)


def _is_hash(method: Any, name: Any) -> bool:
    return name == "hash" and name not in method.__globals__ and method.__builtins__[name] is builtins.hash


def _is_plain_attribute(kind: type, name: str) -> bool:
    """Return True if reading this attribute calls no code of the user: it is in the object's dict, or in a slot."""
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return isinstance(found, types.MemberDescriptorType) or not hasattr(type(found), "__get__")


def _attribute(value: Any, name: str) -> Any:
    """The value of an attribute; for a missing one a text, which does not hash alike."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return ""
