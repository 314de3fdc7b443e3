"""Python's own iterators: their positions read without moving them, built again, and shown by what comes next.

An iterator is taken apart by its ``__reduce__``, which leaves it where it is. Itertools lose that method in Python 3.14:
such an iterator is then known by its type alone.
"""

from __future__ import annotations

import ast
import collections
import decimal
import fractions
import itertools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

UPCOMING = 3  # Values that are shown of an iterator.
DEPTH_MAX = 8  # Iterators in iterators.

SKIPPED_MAX = 1000  # Values that a copy of an islice passes over before its next one.

_EMPTY: dict[str, str] = {}
_REVERSIBLE: tuple[Any, ...] = ([], (), _EMPTY, _EMPTY.values(), _EMPTY.items(), collections.deque())
_SOURCES: tuple[Any, ...] = (*_REVERSIBLE, "", b"", set())
_PLAIN_TYPES = frozenset(
    [
        *(type(iter(source)) for source in _SOURCES),
        *(type(iter(range(size))) for size in (1, 1 << 70)),
        *(type(reversed(source)) for source in _REVERSIBLE),
        *(enumerate, zip, itertools.cycle, itertools.chain, itertools.islice, itertools.repeat),
        *(itertools.product, itertools.permutations, itertools.combinations, itertools.combinations_with_replacement),
        itertools.zip_longest,
    ]
)  # What they give depends on no function of the user's, and comes at once.
ITERATOR_TYPES = _PLAIN_TYPES | {
    itertools.count,
    *(map, filter, itertools.accumulate, itertools.takewhile, itertools.dropwhile, itertools.starmap),
    *(itertools.filterfalse, itertools.compress, type(iter(int, 1))),
}
_LIST_ITERATOR: type = type(iter(list[Any]()))
_HELD_TYPES = {list, tuple, str, bytes, dict, set, frozenset, collections.deque, range, int, float, bool, type(None)}
_NUMBER_TYPES = {int, float, bool, type(None), range}
_EXACT_TYPES = {complex, decimal.Decimal, fractions.Fraction}  # Their texts tell them apart.
_HAS_REDUCE = "__reduce__" in vars(itertools.count)  # Until Python 3.13.
_VALUE_TYPES = {*_NUMBER_TYPES, str, bytes}


@attrs.frozen(eq=False)
class IteratorParts:
    """An iterator in parts.

    Attributes:
        make: makes it from the arguments.
        arguments: the sequences and iterators that it goes through.
        state: given to a new one by __setstate__; empty if it needs none.
        is_single: True if the state is its only item, not a tuple.
    """

    make: Callable[..., Any]
    arguments: tuple[Any, ...]
    state: tuple[Any, ...]
    is_single: bool

    @property
    def held(self) -> tuple[Any, ...]:
        """Everything that it holds."""
        return (*self.arguments, *self.state)

    def built(self, held: Sequence[Any]) -> Any:
        """An iterator at this position, over other values in the order of held."""
        count = len(self.arguments)
        made = self.make(*held[:count])
        if self.state:
            # A cycle appends to the list that it is given, or goes through it for ever.
            state = tuple(list(one) if type(one) is list else one for one in held[count:])
            made.__setstate__(state[0] if self.is_single else state)
        return made


def parts_of(iterator: Any) -> IteratorParts | None:
    """Take an iterator apart, which stays where it is; None if that is not possible."""
    if type(iterator) not in ITERATOR_TYPES:
        return None
    if type(iterator) is itertools.count and not _HAS_REDUCE:
        return _count_parts(iterator)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            reduced: Any = iterator.__reduce__()
        make, arguments = reduced[:2]
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: of a dict that has changed since.
        return None
    state = reduced[2] if len(reduced) > 2 else None
    if type(iterator) is itertools.cycle:
        return _cycle_parts(arguments[0], reduced[2])
    if state is None:
        return IteratorParts(make, tuple(arguments), (), is_single=True)
    is_single = not isinstance(state, tuple)
    return IteratorParts(make, tuple(arguments), (state,) if is_single else state, is_single)


def _count_parts(count: Any) -> IteratorParts | None:
    """The parts of a count from its text, without ``__reduce__``; None if they are other than Python's own numbers."""
    try:
        start = ast.literal_eval(f"({repr(count)[len('count(') : -1]},)")
    except Exception:  # noqa: BLE001 - of a number of the user's, whatever its repr raises
        return None
    return IteratorParts(itertools.count, start, (), is_single=True)


def _cycle_parts(inner: Any, state: tuple[list[Any], bool]) -> IteratorParts:
    """The parts of a cycle, with a copy of its elements: who changes its own list, moves it or ends it.

    Once it has all elements it goes through its own list, and Python makes an iterator over that; after its last element it
    begins again, as a cycle does that was built here.
    """
    elements, is_full = state
    own = list(elements)
    if is_full and type(inner) is _LIST_ITERATOR:
        reduced: Any = inner.__reduce__()
        _, (source, *_), *index = reduced
        if not len(source) or (len(source) == len(own) and all(map(operator.is_, source, own))):
            inner = iter(own)
            inner.__setstate__(index[0] if index and len(source) else 0)
    return IteratorParts(itertools.cycle, (inner,), (own, bool(is_full)), is_single=False)


def copy_of(iterator: Any, depth: int = 0) -> Any:
    """An iterator that gives what this one will give; None if that cannot be made without running the user's code."""
    is_plain = type(iterator) in _PLAIN_TYPES or type(iterator) is itertools.count
    parts = parts_of(iterator) if is_plain and depth < DEPTH_MAX else None
    if parts is None or (type(iterator) is itertools.islice and _passes_over_many(parts)):
        return None
    if type(iterator) is itertools.chain and not _goes_through_sequences(parts):
        return None
    held = []
    for one in parts.held:
        if type(one) in ITERATOR_TYPES:
            one = copy_of(one, depth + 1)  # noqa: PLW2901 - it takes the place of the original
            if one is None:
                return None
        elif type(one) not in _HELD_TYPES:
            return None
        held.append(one)
    return parts.built(held)


def _goes_through_sequences(chain: IteratorParts) -> bool:
    """Return True if what a chain goes through next can be iterated without moving or calling anything."""
    parts = parts_of(chain.held[0]) if chain.held else None
    if parts is None:
        return not chain.held  # It is exhausted.
    return all(type(held) in (tuple, list) and all(type(one) in _HELD_TYPES for one in held) for held in parts.held[:1])


def _passes_over_many(parts: IteratorParts) -> bool:
    """Return True for an islice whose next values lie far ahead in its source."""
    if len(parts.arguments) < 4 or not parts.state:
        return False  # It is exhausted.
    following, step = parts.arguments[1], parts.arguments[3]
    return bool(following - parts.state[0] > SKIPPED_MAX or step > SKIPPED_MAX)


def position_of(iterator: Any, depth: int = 0) -> tuple[Any, ...]:
    """A value that is equal for two iterators that stand at the same place: ("iterator", type, what it holds, upcoming).

    Upcoming is the text of the next values; None if they are not known.
    """
    parts = parts_of(iterator) if depth < DEPTH_MAX else None
    held = tuple(_shown(one, depth) for one in parts.held) if parts is not None else None
    return "iterator", type(iterator).__name__, held, upcoming_text(iterator) if depth == 0 else None


def upcoming_text(iterator: Any) -> str | None:
    """The next values of an iterator as a text; None if they are not known."""
    following = upcoming(iterator)
    return None if following is None else ", ".join(map(_text_of, following)) or "nothing"


def _shown(value: Any, depth: int) -> Any:
    if type(value) in ITERATOR_TYPES:
        return position_of(value, depth + 1)
    if (
        type(value) in _EXACT_TYPES
        or (type(value) is float and math.isnan(value))
        or (isinstance(value, np.generic) and type(value).__module__ == "numpy")
    ):
        return repr(value)
    return value if type(value) in _NUMBER_TYPES else type(value).__name__


def _text_of(value: Any) -> str:
    if type(value) is tuple:
        return f"({', '.join(map(_text_of, value))})"
    return repr(value) if type(value) in _VALUE_TYPES else f"a {type(value).__name__}"


def upcoming(iterator: Any) -> list[Any] | None:
    """The next values of an iterator, fewer at its end; None if they are not known. The iterator stays where it is."""
    copy = copy_of(iterator)
    return None if copy is None else list(itertools.islice(copy, UPCOMING))
