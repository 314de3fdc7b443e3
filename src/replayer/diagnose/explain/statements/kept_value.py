"""What a name outside the state stood for, so that it can be compared and put back."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from recorder.ambient.outside.code_parts.places import Place
from replayer.diagnose.explain.before_step.changeable_values import attributes_of, has_attributes

_LEVELS_MAX = 4
_PLAIN = (int, float, complex, str, bytes)


class KeptValue:
    """What a name stood for, with the content of what can be changed in place."""

    def __init__(self, place: Place, spared: Collection[int] = ()) -> None:
        """spared: the identities of what is not to be put back, though this name may lead to it, too."""
        self._place, self._value = place, place.value()
        self._parts = [(one, kept) for one, kept in _parts(self._value) if id(one) not in spared]

    @property
    def identities(self) -> set[int]:
        """Of what can be changed in place."""
        return {id(one) for one, _ in self._parts}

    def is_other(self) -> bool:
        """Return True if the name stands for another value now, or the content of that one is another."""
        return not _is_same(self._place.value(), self._value) or any(_is_other(one, kept) for one, kept in self._parts)

    def put_back(self) -> None:
        """Give the name, and what was changed in place, what they had. Raises what objects raise that refuse it."""
        for one, kept in self._parts:
            if _is_other(one, kept):
                _put(one, kept)
        if self._place.value() is not self._value:
            setattr(self._place.holder, self._place.key, self._value)


def _parts(root: Any) -> Iterator[tuple[Any, Any]]:
    """What can be changed in place, with its content: copies of arrays and bytes, else references, which stay alive."""
    waiting, seen = [(root, 0)], set[int]()
    while waiting:
        value, level = waiting.pop()
        if level >= _LEVELS_MAX or id(value) in seen:
            continue
        seen.add(id(value))
        kept = _content(value)
        if kept is not None:
            yield value, kept
        inner = kept.values() if isinstance(kept, dict) else kept if isinstance(kept, list) else ()
        inner = value if isinstance(value, tuple) else inner
        waiting += ((one, level + 1) for one in inner)


def _content(value: Any) -> Any:
    """The content of what can be changed in place; None for anything else."""
    # By the methods of Python's own classes: those of the user's classes may do anything.
    if isinstance(value, np.ndarray):
        return np.array(value, copy=True, subok=False)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return dict(dict.items(value))
    if isinstance(value, list):
        return list(list.__iter__(value))
    if isinstance(value, deque):
        return list(deque.__iter__(value))
    if isinstance(value, set):
        return list(set.__iter__(value))
    return attributes_of(value) if has_attributes(value) else None


def _is_other(value: Any, kept: Any) -> bool:
    now = _content(value)
    if isinstance(kept, np.ndarray):
        if (now.dtype, now.shape) != (kept.dtype, kept.shape):
            return True
        return bool(now.tobytes() != kept.tobytes())
    if isinstance(kept, bytes):
        return bool(now != kept)
    if isinstance(value, set):
        return {id(one) for one in now} != {id(one) for one in kept}
    if isinstance(kept, dict):
        return len(now) != len(kept) or any(
            not _is_same(one, other) or not _is_same(now[one], kept[other])
            for one, other in zip(now, kept, strict=True)
        )
    return len(now) != len(kept) or any(not _is_same(one, other) for one, other in zip(now, kept, strict=True))


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and type(one) in _PLAIN and repr(one) == repr(other))


def _put(value: Any, kept: Any) -> None:
    if isinstance(value, np.ndarray):
        if (value.dtype, value.shape) != (kept.dtype, kept.shape):
            # Never shown: the trial counts for nothing.
            raise TypeError
        value[...] = kept
    elif isinstance(value, bytearray):
        value[:] = kept
    elif isinstance(value, dict):
        dict.clear(value)
        dict.update(value, kept)
    elif isinstance(value, list):
        list.__setitem__(value, slice(None), kept)
    elif isinstance(value, deque):
        deque.clear(value)
        deque.extend(value, kept)
    elif isinstance(value, set):
        set.clear(value)
        set.update(value, kept)
    else:
        for name in attributes_of(value).keys() - kept.keys():
            object.__delattr__(value, name)
        for name, one in kept.items():
            object.__setattr__(value, name, one)
