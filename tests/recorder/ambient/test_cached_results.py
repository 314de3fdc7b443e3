"""What a cache keeps is copied within limits, without the user's code, and read of no other dict."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recorder.ambient.caches.cached_results import COPIED_BYTES_MAX, NOT_COPIED, filled, results_of


class Loud:
    """Tells of each call of its hash."""

    calls = 0

    def __hash__(self) -> int:
        Loud.calls += 1
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other


class LoudText(str):
    """A text with a hash of its own."""

    __slots__ = ()

    def __hash__(self) -> int:
        Loud.calls += 1
        return 2


def with_parent() -> Any:
    """A node and its child, which know each other."""
    node: dict[str, Any] = {"name": "trunk"}
    node["children"] = [{"name": "twig", "parent": node}, {"name": "leaf", "parent": node}]
    return node


def chain() -> Any:
    """Pairs inside of pairs."""
    made: Any = []
    for number in range(5_000):
        made = (number, made)
    return made


def contents(make: Callable[[int], Any], count: int = 1) -> list[Any]:
    """What is known of the first results of a function."""
    cache = functools.lru_cache(make)
    for number in range(count):
        cache(number)
    return [one.content for one in results_of(cache) or ()]


@pytest.mark.parametrize("make", [with_parent, lambda: [Loud()], lambda: np.array([None])])
def test_what_no_copy_can_stand_for_is_not_copied(make: Callable[[], Any]) -> None:
    """A structure that holds itself has no end."""
    assert contents(lambda _: make()) == [NOT_COPIED]


def test_a_deep_chain_of_pairs_is_not_followed_to_its_end() -> None:
    """It is cut, where a copy would need as many calls as it has pairs."""
    [content] = contents(lambda _: chain())
    depth = 0
    while type(content) is tuple:
        depth, content = depth + 1, content[1]
    assert content is NOT_COPIED
    assert depth < 100


def test_a_plain_result_is_copied() -> None:
    """So that it can be put in as it was, also where the run has changed it since then."""
    kept = {"row": [1, {2}], "array": np.ones(2)}
    [content] = contents(lambda _: kept)
    kept["row"][1].add(3)  # type: ignore[index]
    assert content["row"] == [1, {2}]
    assert content["array"] is not kept["array"]


def test_the_users_hash_is_not_called() -> None:
    """A walk of the surroundings runs none of the user's code."""
    ring, names, lists = {Loud()}, {LoudText("a"): 1}, {LoudText("a"): [1]}
    Loud.calls = 0
    [content] = contents(lambda _: (ring, names, lists))
    assert Loud.calls == 0
    assert content == (NOT_COPIED, names, NOT_COPIED)


def test_the_copies_of_one_cache_have_a_limit() -> None:
    """Each walk makes them again, so large results would cost more than the step."""
    size = COPIED_BYTES_MAX // 2 - 10
    copied = [one is not NOT_COPIED for one in contents(lambda number: np.zeros(size + number, "u1"), 4)]
    assert copied == [True, True, False, False]


def test_a_result_that_is_a_dict_is_not_taken_for_the_table() -> None:
    """A bounded cache with one result, which is a dict with one item."""
    cache = functools.lru_cache(maxsize=8)(lambda name: {"only": name})
    cache("a")
    [kept] = results_of(cache) or [None]
    assert kept is not None
    assert (kept.arguments, kept.content) == (("a",), {"only": "a"})


def test_a_cache_that_was_filled_has_the_attributes_of_its_function() -> None:
    """And none of what filled it."""
    cache = functools.lru_cache(with_parent)
    assert set(vars(filled(cache, []))) == set(vars(cache))
