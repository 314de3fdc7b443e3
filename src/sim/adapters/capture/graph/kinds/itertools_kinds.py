"""The iterators count, repeat, cycle and chain of itertools at an exact position, without their deprecated methods."""

from __future__ import annotations

import ctypes
import decimal
import functools
import itertools
import numbers
import re
import struct
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from sim.adapters.capture.graph.kinds.kind_protocol import Plain, StrongKind, held_by, is_a, wrong_data
from sim.adapters.capture.graph.unsavable import UnsavableError

COUNT_TEXT = re.compile(r"count\((-?\d+)\)")
IsIterator = Callable[[Any], bool]  # True for iterators that can be saved: iter() of them calls no user's method.


def _refused(name: str, inner: Any) -> UnsavableError:
    return UnsavableError(f"{name} of a {type(inner).__qualname__}", "keep the elements and an index instead")


class Count(StrongKind):
    """``itertools.count``: the next number and the step."""

    name = "count"

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The two numbers, with their types."""
        held = held_by(value)
        if len(held) == 2:
            return [], (held[0], held[1])
        found = COUNT_TEXT.fullmatch(repr(value))  # A number of 64 bits, kept as such; the step is 1.
        return [], (int(found[1]) if found else sys.maxsize, held[0])  # The largest one is shown as "<NULL>".

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """Another counter from the same number."""
        match plain, parts:
            case [], [start, step] if all(is_a(one, (numbers.Number, decimal.Decimal)) for one in (start, step)):
                return itertools.count(start, step)
        raise wrong_data(self.name)


class Repeat(StrongKind):
    """``itertools.repeat``: the element, and how often it still comes."""

    name = "repeat"

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The number of times, None for ever, and the element."""
        try:
            times = value.__length_hint__()
        except TypeError:
            times = None
        return [times], tuple(held_by(value))

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """Another one of the same element."""
        match plain, parts:
            case [None], [element]:
                return itertools.repeat(element)
            case [int(times)], [element] if type(times) is int and 0 <= times <= sys.maxsize:
                return itertools.repeat(element, times)
        raise wrong_data(self.name)


class Cycle(StrongKind):
    """``itertools.cycle``: in its first pass an iterator and the elements it gave; later these and an index."""

    name = "cycle"

    def __init__(self, is_iterator: IsIterator) -> None:
        self._is_iterator = is_iterator

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """A number for the pass, an index and the parts.

        First pass, and the first pass of an unpickled cycle that only looks for its end: [0 or 1, 0], the iterator and
        the elements. Later: [2, index] and the elements.
        """
        *inner, saved = held_by(value)
        index, is_done = _cycle_state(value)
        if not inner:
            return [2, index], tuple(saved)
        if not self._is_iterator(inner[0]):
            raise _refused(self.name, inner[0])
        return [int(is_done), 0], (inner[0], *saved)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A cycle at this position."""
        match plain, [*parts]:
            case [2, int(index)], elements if type(index) is int and 0 <= index < max(1, len(elements)):
                value = itertools.cycle(elements)
                for _ in range(len(elements) + (index or len(elements) or 1)):  # The end is found by the step after it.
                    next(value, None)
                return value
            case [(0 | 1) as is_done, 0], [inner, *elements] if self._is_iterator(inner):
                value = itertools.cycle(inner)
                _set_state(value, (elements, is_done))
                return value
        raise wrong_data(self.name)


class Chain(StrongKind):
    """``itertools.chain``: the iterator of iterables, and the one in work."""

    name = "chain"

    def __init__(self, is_iterator: IsIterator) -> None:
        self._is_iterator = is_iterator

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """Up to two iterators: first that of iterables."""
        parts = held_by(value)
        for one in parts:
            if not self._is_iterator(one):
                raise _refused(self.name, one)
        return [], tuple(parts)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """A chain at this position."""
        match plain, [*parts]:
            case [], []:
                exhausted: Any = itertools.chain()
                next(exhausted, None)
                return exhausted
            case [], [source, *active] if len(active) <= 1 and all(map(self._is_iterator, parts)):
                value = itertools.chain.from_iterable(source)
                if active:
                    _set_state(value, (source, active[0]))
                return value
        raise wrong_data(self.name)


def _set_state(value: Any, state: Any) -> None:
    """Set the state of an iterator of itertools; deprecated since 3.12, and there is no other way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        value.__setstate__(state)


# --- the index of a cycle, which no method shows

_CYCLE = struct.Struct("PPni")  # The iterator, the elements, the index, and if the first pass only looks for its end.


def _cycle_state(value: Any) -> tuple[int, bool]:
    return _cycle_in_memory(value) if cycle_is_known() else _cycle_reduced(value)


def _cycle_in_memory(value: Any) -> tuple[int, bool]:
    _, _, index, is_done = _CYCLE.unpack(ctypes.string_at(id(value) + object.__basicsize__, _CYCLE.size))
    return index, bool(is_done)


def _cycle_reduced(value: Any) -> tuple[int, bool]:
    """The slow way. It resets the memory of warnings that were shown once: so it is not the only one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        _, (inner,), (saved, is_done) = value.__reduce__()
    if len(held_by(value)) == 2:
        return 0, bool(is_done)
    left = inner.__length_hint__()  # It was made over the elements, at the index.
    return (len(saved) - left if left else 0), False


@functools.cache
def cycle_is_known() -> bool:
    """Return True if the memory of a cycle shows what its deprecated method says, in each state: tested once."""
    if sys.implementation.name != "cpython":
        return False
    for count in range(4):
        probe = itertools.cycle(range(count))
        for _ in range(10):
            if len(held_by(probe)) == 1 and _cycle_in_memory(probe) != _cycle_reduced(probe):
                return False
            next(probe, None)
    return True
