"""Iterators over sequences at an exact position: lists, tuples, texts, bytes, ranges, and enumerate over these."""

from __future__ import annotations

import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

from sim.adapters.capture.graph.kinds.kind_protocol import Plain, SpecialKind, StrongKind, is_a, wrong_data
from sim.adapters.capture.graph.unsavable import UnsavableError

BEYOND_MAX = 1 << 24  # A list that has shrunk must grow to this length again for a moment.
INTEGER_MAX = (1 << 63) - 1


@attrs.frozen
class IndexedIterator(StrongKind):
    """An iterator over a sequence, with the index of its next element.

    Attributes:
        name: of the kind.
        owner: the class of the sequence.
        start: makes the iterator, as a method of owner that is called with the sequence.
        empty: a sequence on which the iterator is exhausted at once.
        lengthen: adds that many elements to the sequence; None if its length cannot change.
        is_reversed: the index of an exhausted iterator is -1.
    """

    name: str
    owner: type
    start: Callable[[Any], Iterator[Any]]
    empty: Any
    lengthen: Callable[[Any, int], None] | None = None
    is_reversed: bool = False

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The index and the sequence; nothing if the iterator is exhausted."""
        _, (sequence, *_), *index = value.__reduce__()
        if not index or index[0] < 0:
            return [], ()
        if not is_a(sequence, self.owner):
            raise UnsavableError(
                f"a {self.name} over a {type(sequence).__qualname__}", "keep the sequence and an index instead"
            )
        return [index[0]], (sequence,)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An iterator at the start of its sequence, or an exhausted one."""
        match plain, parts:
            case [], []:
                value = self.start(self.empty)
                next(value, None)
                return value
            case [int(index)], [sequence] if type(index) is int and index >= 0 and is_a(sequence, self.owner):
                return self.start(sequence)
        raise wrong_data(self.name)

    def finish(self, value: Any, plain: Plain, parts: Sequence[Any]) -> None:
        """Set the index. It may lie beyond the end of a sequence that has shrunk: then it grows for a moment."""
        if not parts:
            return
        index, sequence = plain[0], parts[0]
        length = self.owner.__len__(sequence)  # type: ignore[attr-defined]
        missing = index + self.is_reversed - length
        if missing <= 0:
            value.__setstate__(index)
            return
        if self.lengthen is None or missing > BEYOND_MAX:
            raise wrong_data(self.name)
        self.lengthen(sequence, missing)
        value.__setstate__(index)
        self.owner.__delitem__(sequence, slice(length, None))  # type: ignore[attr-defined]


class ItemIterator(StrongKind):
    """An iterator over an object that has ``__getitem__`` and no ``__iter__``."""

    name = "iterator"

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The index and the object; nothing if the iterator is exhausted."""
        _, (sequence, *_), *index = value.__reduce__()
        if index and not _has_items_only(sequence):
            raise UnsavableError(
                f"an iterator over a {type(sequence).__qualname__}", "keep the sequence and an index instead"
            )
        return ([index[0]], (sequence,)) if index else ([], ())

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An iterator at this index."""
        match plain, parts:
            case [], []:
                value = iter(_Empty())
                next(value, None)
                return value
            case [int(index)], [sequence] if type(index) is int and 0 <= index <= INTEGER_MAX:
                if _has_items_only(sequence):
                    value = iter(sequence)
                    value.__setstate__(index)  # type: ignore[attr-defined]
                    return value
        raise wrong_data(self.name)


def _has_items_only(value: Any) -> bool:
    names = {name for kind in type(value).__mro__ for name in vars(kind)}
    return "__getitem__" in names and "__iter__" not in names


class _Empty:
    def __getitem__(self, index: int) -> None:
        raise IndexError(index)


class ReversedItems(StrongKind):
    """``reversed`` of a tuple, a text or bytes; that of a list has a class of its own."""

    name = "reversed"

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The index and the sequence; nothing if the iterator is exhausted."""
        _, (sequence,), *index = value.__reduce__()
        if not index or index[0] < 0:
            return [], ()
        if type(sequence) not in (tuple, str, bytes):
            raise UnsavableError(
                f"reversed() of a {type(sequence).__qualname__}", "keep the sequence and an index instead"
            )
        return [index[0]], (sequence,)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An iterator at this index."""
        match plain, parts:
            case [], []:
                exhausted = reversed(())
                next(exhausted, None)
                return exhausted
            case [int(index)], [sequence] if type(index) is int:
                if type(sequence) in (tuple, str, bytes) and 0 <= index < len(sequence):
                    value: Any = reversed(sequence)
                    value.__setstate__(index)
                    return value
        raise wrong_data(self.name)


class CallableIterator(StrongKind):
    """``iter(function, sentinel)``."""

    name = "callable_iterator"

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The function and the sentinel; nothing if the iterator is exhausted."""
        parts = value.__reduce__()[1]
        return ([True], parts) if len(parts) == 2 else ([False], ())

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """Another iterator of the same function."""
        match plain, parts:
            case [False], []:
                value: Any = iter(int, 0)
                next(value, None)
                return value
            case [True], [function, sentinel] if callable(function):
                return iter(function, sentinel)
        raise wrong_data(self.name)


class RangeIterator(StrongKind):
    """An iterator over a range: what is left of it, as a range."""

    name = "range_iterator"

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """Start, stop and step of the rest."""
        _, (whole,), index = value.__reduce__()
        rest = whole[index or 0 :]
        is_long = type(value) is _LONG_RANGE_ITERATOR
        if not rest:
            return [0, 0, 1, is_long], ()
        # The stop is next to the last element, because a multiple of the step after it might not fit in 64 bits.
        return [rest.start, rest[-1] + (1 if rest.step > 0 else -1), rest.step, is_long], ()

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An iterator over the rest, of the same class."""
        match plain, parts:
            case [start, stop, step, bool(is_long)], [] if (
                all(type(one) is int for one in (start, stop, step)) and step != 0
            ):
                return _iterator_over(range(start, stop, step), is_long=is_long)
        raise wrong_data(self.name)


def _iterator_over(rest: range, *, is_long: bool) -> Any:
    value: Any = iter(rest)
    if is_long == (type(value) is _LONG_RANGE_ITERATOR):
        return value
    if not is_long:
        raise wrong_data(RangeIterator.name)
    # A range that leaves 64 bits somewhere, advanced to its last elements, which do not: it begins far enough before.
    step = rest.step
    before = (1 << 64) // abs(step) + 1
    value = iter(range(rest.start - before * step, rest.stop, step))
    value.__setstate__(before)
    return value


_LONG_RANGE_ITERATOR = type(iter(range(1 << 70)))


class Enumerate(StrongKind):
    """``enumerate`` over an iterator of a kind in this package."""

    name = "enumerate"

    def __init__(self, is_iterator: Callable[[Any], bool]) -> None:
        """is_iterator: True for iterators that can be saved; iter() of these calls no method of a user's class."""
        self._is_iterator = is_iterator

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The next number and the iterator."""
        _, (inner, number) = value.__reduce__()
        if not self._is_iterator(inner):
            raise UnsavableError(
                f"enumerate over a {type(inner).__qualname__}", "keep the iterator and a counter instead"
            )
        return [number], (inner,)

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """Another enumerate of the same iterator."""
        match plain, parts:
            case [int(number)], [inner] if type(number) is int and self._is_iterator(inner):
                return enumerate(inner, number)
        raise wrong_data(self.name)


def _zeros(sequence: array.array[Any], count: int) -> None:
    sequence.frombytes(bytes(count * sequence.itemsize))


_INDEXED: list[tuple[tuple[Any, ...], SpecialKind]] = [
    (
        (iter([]),),
        IndexedIterator(
            "list_iterator", list, list.__iter__, [], lambda held, count: list.extend(held, [None] * count)
        ),
    ),
    (
        (reversed([]),),
        IndexedIterator(
            "list_reverseiterator",
            list,
            list.__reversed__,
            [],
            lambda held, count: list.extend(held, [None] * count),
            is_reversed=True,
        ),
    ),
    ((iter(()),), IndexedIterator("tuple_iterator", tuple, tuple.__iter__, ())),
    ((iter(""), iter("é")), IndexedIterator("str_iterator", str, str.__iter__, "")),
    ((iter(b""),), IndexedIterator("bytes_iterator", bytes, bytes.__iter__, b"")),
    (
        (iter(bytearray()),),
        IndexedIterator(
            "bytearray_iterator",
            bytearray,
            bytearray.__iter__,
            bytearray(),
            lambda held, count: bytearray.extend(held, bytes(count)),
        ),
    ),
    (
        (iter(array.array("b")),),
        IndexedIterator("array_iterator", array.array, array.array.__iter__, array.array("b"), _zeros),
    ),
    ((iter(_Empty()),), ItemIterator()),
    ((reversed(()),), ReversedItems()),
    ((iter(int, 0),), CallableIterator()),
    ((iter(range(0)), iter(range(1 << 70))), RangeIterator()),
]
SEQUENCE_ITERATORS: dict[type, SpecialKind] = {type(one): kind for examples, kind in _INDEXED for one in examples}
