"""What a generator or a coroutine that is under way continues with: its variables, as far as they are plain, and its inner iterator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import CoroutineType, FrameType, GeneratorType
from typing import Any, TypeAlias

import numpy as np

from recorder.ambient.iterators import ITERATOR_TYPES, parts_of
from replayer.diagnose.explain.held.random_states import generator_state

MEMBERS_MAX = 2000  # Of a container: a larger one is left out.
LEVELS_MAX = 4  # Containers in containers.

UNDER_WAY = (GeneratorType, CoroutineType)
UnderWay: TypeAlias = "GeneratorType[Any, Any, Any] | CoroutineType[Any, Any, Any]"


def frame_of(value: UnderWay) -> FrameType | None:
    """The frame of a generator or a coroutine; None if it has ended."""
    return value.cr_frame if isinstance(value, CoroutineType) else value.gi_frame


def variables_of(value: UnderWay, is_plain: Callable[[Any], bool]) -> dict[str, Any]:
    """Its variables of plain values, and containers, arrays and random generators of such, by name; and what it yields from.

    Others may be objects of the state, or lead to them: these are compared as such. is_plain: True for a value whose text is all
    of it. The position of a loop inside of it is not known.
    """
    frame = frame_of(value)
    if frame is None:
        return {}
    variables = {name: one for name, one in frame.f_locals.items() if _is_compared(one, is_plain)}
    inner = value.cr_await if isinstance(value, CoroutineType) else value.gi_yieldfrom
    if isinstance(inner, UNDER_WAY) or (type(inner) in ITERATOR_TYPES and _is_compared(inner, is_plain)):
        variables["await" if isinstance(value, CoroutineType) else "yield from"] = inner
    return variables


def _is_compared(value: Any, is_plain: Callable[[Any], bool], level: int = 0) -> bool:
    if is_plain(value) or isinstance(value, np.generic):
        return True
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    if type(value) in ITERATOR_TYPES:
        parts = parts_of(value)
        members: Any = None if parts is None else parts.held
    elif type(value) is dict:
        members = [*value, *value.values()] if len(value) <= MEMBERS_MAX else None
    elif type(value) in {list, tuple, set, frozenset, deque}:
        members = value if len(value) <= MEMBERS_MAX else None
    else:
        return generator_state(value) is not None
    return members is not None and level < LEVELS_MAX and all(_is_compared(one, is_plain, level + 1) for one in members)
