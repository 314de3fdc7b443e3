"""Types of NumPy's arrays as plain data: a text, or a list for one with fields."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sim.adapters.capture.graph.unsavable import UnsavableError

_TEXT = re.compile(r"[<>|=]?[biufcSUmMV]\d{1,9}(\[\w{1,20}\])?")
_NUMBERS = "use arrays of numbers, or a list"
OBJECTS = "|O"

ArrayType = np.dtype[Any]


def array_type_to_plain(dtype: ArrayType) -> Any:
    """The plain data of a type. Raises UnsavableError for one that cannot be made again.

    Bytes between fields are refused: a copy need not have those of its original, so equal arrays would differ.
    """
    if dtype.kind == "O":
        return OBJECTS
    if dtype.metadata is not None or dtype.hasobject:
        raise UnsavableError(f"it is an array of {dtype}", _NUMBERS)
    if dtype.fields is not None:
        names = list(dtype.names or ())
        fields = [dtype.fields[name] for name in names]
        if any(len(field) != 2 for field in fields):
            raise UnsavableError(f"it is an array of {dtype}", "leave out the titles of the fields")
        sizes, ends = [field[0].itemsize for field in fields], 0
        for size, field in zip(sizes, fields, strict=True):
            if field[1] != ends:
                break
            ends += size
        if ends != dtype.itemsize or dtype.isalignedstruct:
            raise UnsavableError(
                f"it is an array of {dtype}, with gaps between its fields, or aligned", "use a type without align=True"
            )
        return ["fields", names, [array_type_to_plain(field[0]) for field in fields]]
    if dtype.subdtype is not None:
        return ["several", array_type_to_plain(dtype.subdtype[0]), list(dtype.subdtype[1])]
    if not _TEXT.fullmatch(dtype.str):
        raise UnsavableError(f"it is an array of {dtype}", _NUMBERS)
    return dtype.str


def array_type_from_plain(plain: Any) -> ArrayType:
    """The type that array_type_to_plain described. Raises ValueError for anything else."""
    match plain:
        case str(text) if text == OBJECTS:
            return np.dtype(object)
        case str(text) if _TEXT.fullmatch(text):
            return np.dtype(text)
        case ["fields", list(names), list(types)] if all(isinstance(name, str) for name in names):
            return np.dtype(
                [(name, array_type_from_plain(one)) for name, one in zip(names, types, strict=True) if one != OBJECTS]
            )
        case ["several", one, list(shape)] if one != OBJECTS:
            return np.dtype((array_type_from_plain(one), tuple(shape)))
    raise ValueError(f"expected the type of an array, got {str(plain)[:40]}")
