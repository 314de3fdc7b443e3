"""Positions of iterators are read without moving them, and built again."""

from __future__ import annotations

import collections
import decimal
import fractions
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from recorder.ambient import iterators
from recorder.ambient.iterators import SKIPPED_MAX, copy_of, parts_of, position_of, upcoming, upcoming_text
from recorder.ambient.members import SetContent

MAKERS: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([3, 1, 2, 5]),
    "tuple": lambda: iter((3, 1, 2, 5)),
    "text": lambda: iter("abcd"),
    "bytes": lambda: iter(b"abcd"),
    "range": lambda: iter(range(4, 40, 7)),
    "long range": lambda: iter(range(1 << 70, (1 << 70) + 5)),
    "dict": lambda: iter({"a": 1, "b": 2, "c": 3, "d": 4}),
    "items": lambda: iter({"a": 1, "b": 2, "c": 3, "d": 4}.items()),
    "set": lambda: iter({8, 16, 24, 32}),
    "deque": lambda: iter(collections.deque([1, 2, 3, 4])),
    "reversed list": lambda: reversed([1, 2, 3, 4]),
    "reversed dict": lambda: reversed({"a": 1, "b": 2, "c": 3, "d": 4}),
    "enumerate": lambda: enumerate([5, 6, 7, 8], 3),
    "zip": lambda: zip([1, 2, 3, 4], "abcd", strict=True),
    "count": lambda: itertools.count(5, 2),
    "cycle": lambda: itertools.cycle([3, 1, 2]),
    "chain": lambda: itertools.chain([1, 2], (3, 4), "ab"),
    "islice": lambda: itertools.islice(itertools.cycle([3, 1, 2]), 4, None, 2),
    "repeat": lambda: itertools.repeat(7, 4),
    "product": lambda: itertools.product([1, 2], "ab"),
    "permutations": lambda: itertools.permutations([1, 2, 3]),
    "combinations": lambda: itertools.combinations([1, 2, 3, 4], 2),
    "zip_longest": lambda: itertools.zip_longest([1, 2, 3, 4], [5]),
    "nested": lambda: enumerate(zip(itertools.chain([1, 2], [3, 4]), itertools.cycle([5, 6]), strict=False)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_gives_what_the_iterator_gives(name: str) -> None:
    """At each position, the end included; the iterator stays where it is."""
    for moved in range(6):
        iterator, other = MAKERS[name](), MAKERS[name]()
        for one in (iterator, other):
            list(itertools.islice(one, moved))

        assert upcoming(iterator) == list(itertools.islice(copy_of(iterator), 3))
        assert position_of(iterator) == position_of(other)
        rest = list(itertools.islice(copy_of(iterator), 12))
        assert rest == list(itertools.islice(iterator, 12)) == list(itertools.islice(other, 12))


@pytest.mark.parametrize("name", MAKERS)
def test_positions_differ_once_an_iterator_moves(name: str) -> None:
    """By one value. A repetition of one value differs by its rest."""
    iterator, moved = MAKERS[name](), MAKERS[name]()
    next(moved)
    assert position_of(iterator) != position_of(moved)


@pytest.mark.parametrize(
    "iterator",
    [
        (number for number in range(3)),
        map(abs, [1]),
        itertools.compress(itertools.cycle([1]), itertools.cycle([0])),  # It would never give a value.
        itertools.islice(itertools.cycle([1]), SKIPPED_MAX + 1, None),
        zip([1], map(abs, [2]), strict=False),
        itertools.chain([1], iter([2]), [3]),  # It would move the one inside.
        itertools.chain.from_iterable([[1], iter([2])]),
        itertools.chain.from_iterable([number] for number in range(3)),
        itertools.cycle(iter([object()])),
    ],
)
def test_what_would_run_the_users_code_or_take_long_is_not_drained(iterator: Iterator[Any]) -> None:
    """The next values are not known; those of objects are shown by their types."""
    if isinstance(iterator, itertools.cycle):
        assert upcoming_text(iterator) == "a object, a object, a object"
    else:
        assert (copy_of(iterator), upcoming(iterator)) == (None, None)


class Money(int):
    """A number of the user's."""

    def __repr__(self) -> str:
        raise PermissionError


NUMBERS = {
    "decimal": decimal.Decimal("1.5"),
    "fraction": fractions.Fraction(1, 3),
    "float32": np.float32(1.5),
    "complex": 1.5j,
    "nan": float("nan"),
    "inf": float("inf"),
    "user's": Money(3),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_count_of_any_number_is_looked_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by its text alone, as of Python 3.14 on. Where the number is Python's own or NumPy's, another position differs."""
    counts = [itertools.count(NUMBERS[name]) for _ in range(2)]
    assert position_of(counts[0]) == position_of(counts[1])
    next(counts[1])
    if iterators._HAS_REDUCE and name in ("decimal", "fraction", "float32", "complex"):
        assert position_of(counts[0]) != position_of(counts[1])
    monkeypatch.setattr(iterators, "_HAS_REDUCE", False)
    assert position_of(counts[0])[:2] == ("iterator", "count")


def test_an_islice_up_to_the_limit_is_drained() -> None:
    """The limit itself counts as near."""
    assert upcoming(itertools.islice(itertools.count(), SKIPPED_MAX, None)) == [SKIPPED_MAX + more for more in range(3)]


def test_an_iterator_over_a_dict_that_changed_is_known_by_its_type() -> None:
    """It can give nothing more."""
    keys = {"a": 1, "b": 2}
    iterator = iter(keys)
    keys["c"] = 3
    assert parts_of(iterator) is None
    assert position_of(iterator) == ("iterator", "dict_keyiterator", None, None)


def test_a_set_gets_the_order_of_any_history() -> None:
    """In place, into a set that was used; it then behaves as the first one did."""
    seed = random.randrange(1 << 32)
    generator = random.Random(seed)
    for _ in range(60):
        live: set[int] = set()
        for _ in range(generator.randrange(1, 200)):
            if live and generator.random() < 0.45:
                live.discard(generator.choice(sorted(live)))
            else:
                live.add(generator.randrange(1000) * 8)
        content, target = SetContent.of(live), {-1}
        target.update(sorted(live, reverse=True))
        content.put(target)
        assert list(target) == list(live), seed
        for number in range(40):
            for one in (live, target):
                one.add(number * 24)
        assert list(target) == list(live), seed
