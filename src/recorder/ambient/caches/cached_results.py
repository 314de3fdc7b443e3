"""The results that a functools.lru_cache keeps, with the arguments of the calls, and a new cache that keeps others.

Python has no way to ask a cache for them. The garbage collector is asked what the cache refers to: the keys and the results,
the oldest first. What it answers is checked; where it is not as expected, the results are not known.
"""

from __future__ import annotations

import enum
import functools
import gc
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np

from recorder.ambient.value_kinds import kind_of

RESULTS_MAX = 2_000  # Of one cache; those of a larger one are not known.
COPIED_BYTES_MAX = 1 << 20  # Of the copies of one cache's results: each walk of the surroundings makes them again.
_ITEM_BYTES = 32  # That an item of a list or a dict counts for.
_DEPTH_MAX = 20  # Of what holds itself, no copy ends.
_BUILT_IN_KEYS = frozenset((bool, int, float, complex, str, bytes, type(None)))
NOT_COPIED: Any = object()  # Stands for the content of a result that is not copied.
_UNSET: Any = object()


class NoCounterpartError(Exception):
    """Another instance has nothing in the place of a value."""


@attrs.frozen(eq=False)
class KeptResult:
    """A call whose result is kept.

    Attributes:
        content: of a result that holds plain values only: a copy, since a list, a dict or an array may change. Of a
            tuple that holds others too: the contents of its items. Else NOT_COPIED.
    """

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any
    content: Any = NOT_COPIED


class _Fed:
    """A function that can be fed with its next result. Without attributes of its own, which its cache would take over."""

    __slots__ = ("function", "next")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.next: Any = _UNSET

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if self.next is not _UNSET:
            return self.next
        return self.function(*arguments, **keywords)


def results_of(cache: Any) -> list[KeptResult] | None:
    """The results that a cache keeps, the oldest first; None if they cannot be read."""
    pairs = _pairs(cache)
    if pairs is None:
        return None
    is_typed = cache.cache_parameters()["typed"]
    copies = _Copies()
    return [KeptResult(*_call_of(key, is_typed=is_typed), result, copies.of(result)) for key, result in pairs]


def with_counterparts(results: Iterable[KeptResult], counterpart: Callable[[Any, Any], Any]) -> list[KeptResult]:
    """The results with the values of another instance; those are left out that have none in it.

    counterpart: of a value and of its content; it raises NoCounterpartError.
    """
    found = []
    for one in results:
        try:
            arguments = tuple(counterpart(value, value) for value in one.arguments)
            keywords = {name: counterpart(value, value) for name, value in one.keywords.items()}
            found.append(KeptResult(arguments, keywords, counterpart(one.result, one.content)))
        except (NoCounterpartError, RecursionError):  # Of arguments that lie deep inside of each other.
            continue
    return found


def copied(value: Any) -> Any:
    """A copy of a value that holds nothing but plain values, so that the copy is as good; NOT_COPIED of any other."""
    return _Copies().of(value)


class _CannotCopyError(Exception):
    """A value is not plain inside, or too large or too deep."""


class _Copies:
    """Copies of what one cache keeps, up to a size of all together. No code of the user runs: nothing is hashed by it."""

    def __init__(self) -> None:
        self._bytes_left = COPIED_BYTES_MAX

    def of(self, value: Any, depth: int = 0) -> Any:
        """The content of a result, as KeptResult has it."""
        try:
            return self._copy(value, depth)
        except _CannotCopyError:
            if type(value) is not tuple or depth >= _DEPTH_MAX:
                return NOT_COPIED
        try:
            self._take(_ITEM_BYTES * (1 + len(value)))
        except _CannotCopyError:
            return NOT_COPIED
        return tuple(self.of(one, depth + 1) for one in value)

    def _copy(self, value: Any, depth: int) -> Any:
        """The value itself where nothing in it can change. Raises _CannotCopyError."""
        kind = type(value)
        if kind_of(kind) == "atom":
            return value
        if kind is np.ndarray and not value.dtype.hasobject:
            self._take(value.nbytes)
            return value.copy()
        if depth >= _DEPTH_MAX:
            raise _CannotCopyError
        if kind is dict:
            return self._copy_of_dict(value, depth)
        base = next((one for one in (tuple, frozenset) if issubclass(kind, one)), kind)
        if base not in (list, set, tuple, frozenset):
            raise _CannotCopyError
        items = list(base.__iter__(value))
        self._take(_ITEM_BYTES * (1 + len(items)))
        made = [self._copy(one, depth + 1) for one in items]
        is_same = all(one is item for one, item in zip(made, items, strict=True))
        if kind is list or (kind is tuple and not is_same):
            return kind(made)
        if not is_same:
            raise _CannotCopyError
        return value.copy() if kind is set else value

    def _copy_of_dict(self, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
        self._take(_ITEM_BYTES * (1 + len(value)))
        made = value.copy()
        for key, one in value.items():
            if self._copy(key, depth + 1) is not key:
                raise _CannotCopyError
            own = self._copy(one, depth + 1)
            if own is not one:
                if not _is_hashed_by_python(key):
                    raise _CannotCopyError
                made[key] = own
        return made

    def _take(self, size: int) -> None:
        if size > self._bytes_left:
            raise _CannotCopyError
        self._bytes_left -= size


def _is_hashed_by_python(key: Any) -> bool:
    """Return True for a key whose hash and comparison are none of the user's code."""
    kind = type(key)
    if kind is tuple:
        return all(map(_is_hashed_by_python, key))
    is_enum = issubclass(kind, enum.Enum) and (kind.__hash__, kind.__eq__) == (enum.Enum.__hash__, object.__eq__)
    return kind in _BUILT_IN_KEYS or is_enum


def filled(cache: Any, results: Iterable[KeptResult]) -> Any:
    """A new cache of the same function that keeps these results."""
    fed = _Fed(cache.__wrapped__)
    made = functools.lru_cache(**cache.cache_parameters())(fed)
    functools.update_wrapper(made, cache.__wrapped__)
    for one in results:
        fed.next = one.result
        made(*one.arguments, **one.keywords)
    fed.next = _UNSET
    return made


def _pairs(cache: Any) -> list[tuple[Any, Any]] | None:
    count = cache.cache_info().currsize
    if count > RESULTS_MAX:
        return None
    held = gc.get_referents(cache)
    is_bounded = cache.cache_parameters()["maxsize"] is not None
    table = next(
        (
            one
            for one in held
            if type(one) is dict
            and one is not vars(cache)
            and len(one) == count
            and (not is_bounded or _has_links(one))
        ),
        None,
    )
    if count == 0 or table is None:
        return [] if count == 0 else None
    if not is_bounded:
        return list(table.items())
    keys = {id(key) for key in table}
    pairs = [
        (key, result)
        for key, result, kind in zip(held, held[1:], held[2:], strict=False)
        if id(key) in keys and type(kind) is type and kind.__name__ == "_lru_list_elem"
    ]
    return pairs if len(pairs) == len({id(key) for key, _ in pairs}) == count else None


def _has_links(table: dict[Any, Any]) -> bool:
    """Return True for the table of a bounded cache, which a result that is a dict of the same size is not."""
    return all(type(one).__name__ == "_lru_list_elem" for one in table.values())


def _call_of(key: Any, *, is_typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call by its key: a number or a text alone, or a tuple with a mark in front of the keywords."""
    if type(key) is not tuple:
        return (key,), {}
    mark = _mark()
    count = next((place for place, part in enumerate(key) if part is mark), None)
    if count is None:
        return key[: len(key) // 2] if is_typed else key, {}
    named = key[count + 1 :]
    if is_typed:  # The types of all values come last.
        named = named[: 2 * ((len(named) - count) // 3)]
    return key[:count], dict(zip(named[::2], named[1::2], strict=True))


@functools.cache
def _mark() -> Any:
    probe = functools.lru_cache(None)(lambda **_: None)
    probe(a=1)
    pairs = _pairs(probe)
    return pairs[0][0][0] if pairs else _UNSET
