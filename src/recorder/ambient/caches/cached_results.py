"""The results that a functools.lru_cache keeps, with the arguments of the calls, and a new cache that keeps others.

Python has no way to ask a cache for them. The garbage collector is asked what the cache refers to: the keys and the results,
the oldest first. What it answers is checked; where it is not as expected, the results are not known.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np

from recorder.ambient.value_kinds import is_plain

RESULTS_MAX = 2_000  # Of one cache; those of a larger one are not known.
_UNSET: Any = object()


class NoCounterpartError(Exception):
    """Another instance has nothing in the place of a value."""


@attrs.frozen(eq=False)
class KeptResult:
    """A call whose result is kept.

    Attributes:
        content: of a list, a dict or an array as a result: a copy, since that may change; else the result.
    """

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any
    content: Any = None


class _Fed:
    """A function that can be fed with its next result."""

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
    return [KeptResult(*_call_of(key, is_typed=is_typed), result, copied(result)) for key, result in pairs]


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
        except NoCounterpartError:
            continue
    return found


def copied(value: Any) -> Any:
    """A copy of a list, a dict, a set or an array that holds plain values or more of these; any other value itself."""
    kind = type(value)
    if is_plain(value):
        return value
    if kind in (list, set, tuple):
        return kind(map(copied, value))
    if kind is dict:
        return {key: copied(one) for key, one in value.items()}
    return value.copy() if kind is np.ndarray and not value.dtype.hasobject else value


def is_plain_inside(value: Any) -> bool:
    """Return True for a value that holds nothing but plain values, so that a copy of it is as good."""
    kind = type(value)
    if kind in (list, set, tuple):
        return all(map(is_plain_inside, value))
    if kind is dict:
        return all(map(is_plain, value)) and all(map(is_plain_inside, value.values()))
    return is_plain(value) or (kind is np.ndarray and not value.dtype.hasobject)


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
    table = next((one for one in held if type(one) is dict and one is not vars(cache) and len(one) == count), None)
    if count == 0 or table is None:
        return [] if count == 0 else None
    if cache.cache_parameters()["maxsize"] is None:
        return list(table.items())
    keys = {id(key) for key in table}
    pairs = [
        (key, result)
        for key, result, kind in zip(held, held[1:], held[2:], strict=False)
        if id(key) in keys and type(kind) is type and kind.__name__ == "_lru_list_elem"
    ]
    return pairs if len(pairs) == len({id(key) for key, _ in pairs}) == count else None


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
