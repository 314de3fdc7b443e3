"""Functions that recorded states of Mesa models refer to: the name of this module and theirs are part of those tapes.

A state of a Mesa model holds pickled objects, and a pickle refers to functions by module and name. The bytes are
hashed: a new name would also change the hash of every older recording.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import numpy as np


def _make_array(dtype: str, shape: tuple[int, ...], order: Any, content: bytearray) -> Any:
    made = np.frombuffer(content, dtype) if content else np.zeros(0, dtype)
    return made.reshape(shape, order=order).copy(order)


def _make_view(base: Any, dtype: str, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> Any:
    return np.ndarray(shape, dtype, base, offset, strides)


def _make_empty(kind: type) -> Any:
    return object.__new__(kind)


def _make_used_up_chain() -> Any:
    made: Any = itertools.chain()
    next(made, None)  # Only then it refers to nothing, as one does that a step has used up.
    return made


def _nothing() -> None:
    return None


def _make_reference(target: Any) -> Any:
    return weakref.ref(target) if target is not None else _nothing  # Called, a dead reference gives None.


def _make_method_reference(method: Any) -> Any:
    return weakref.WeakMethod(method) if method is not None else _nothing
