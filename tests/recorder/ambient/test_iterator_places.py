"""Iterators of many kinds, in all places: comparing them leaves them as they are, and they are put back where they stood."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import leaky_worlds
import pytest

from recorder.ambient.ambient import Ambient
from recorder.ambient.ambient_diff import find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.replacement.named_values import ABSENT, child_of
from recorder.ambient.roots import Roots

MAKERS: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([3, 1, 2, 5, 8, 13, 21]),
    "tuple": lambda: iter((3, 1, 2, 5, 8, 13, 21)),
    "count": lambda: itertools.count(5, 2),
    "cycle of a text": lambda: itertools.cycle("abcd"),
    "cycle of a list": lambda: itertools.cycle([3, 1, 2]),
    "cycle of a map": lambda: itertools.cycle(map(abs, [-1, 2, -3])),
    "zip": lambda: zip(itertools.count(), itertools.cycle((1, 2, 3)), strict=False),
    "enumerate": lambda: enumerate(itertools.cycle("abc")),
    "map": lambda: map(abs, itertools.cycle((-1, -4, 2))),
    "filter": lambda: filter(None, itertools.cycle((0, 4, 2))),
    "chain": lambda: itertools.chain((1, 2), itertools.cycle("ab")),
    "islice": lambda: itertools.islice(itertools.cycle((1, 2, 3)), 1, 100, 2),
    "accumulate": lambda: itertools.accumulate(itertools.cycle((1, 2, 3))),
    "product": lambda: itertools.product((1, 2, 3), "abc"),
    "reversed": lambda: reversed([1, 2, 3, 4, 5, 6, 7]),
    "cycle of a cycle": lambda: itertools.cycle(itertools.islice(itertools.cycle((1, 2)), 3)),
}
Pair = collections.namedtuple("Pair", "turns size")  # noqa: PYI024 - as programs have them


class Holder:
    """An object of a module."""

    turns: Any


Read = Callable[[], Iterator[Any]]


def _closure(held: Any) -> Callable[[], Any]:
    return lambda: held


def _default(held: Any) -> tuple[Any, Read]:
    def draw(turns: Any = held) -> Any:
        return turns

    return draw, lambda: leaky_worlds.KEPT.__defaults__[0]  # type: ignore[attr-defined]


def _named_default(held: Any) -> tuple[Any, Read]:
    def draw(*, turns: Any = held) -> Any:
        return turns

    return draw, lambda: leaky_worlds.KEPT.__kwdefaults__["turns"]  # type: ignore[attr-defined]


def _attribute(held: Any) -> tuple[Any, Read]:
    holder = Holder()
    holder.turns = held
    return holder, lambda: leaky_worlds.KEPT.turns  # type: ignore[attr-defined]


def _class(held: Any) -> tuple[Any, Read]:
    kind = type("Kept", (), {"turns": held, "__module__": "leaky_worlds"})
    return kind, lambda: leaky_worlds.KEPT.turns  # type: ignore[attr-defined]


def _function(held: Any) -> tuple[Any, Read]:
    def draw() -> None:
        pass

    draw.turns = held  # type: ignore[attr-defined]
    return draw, lambda: leaky_worlds.KEPT.turns  # type: ignore[attr-defined]


PLACES: dict[str, Callable[[Any], tuple[Any, Read]]] = {
    "module": lambda held: (held, lambda: leaky_worlds.KEPT),  # type: ignore[attr-defined]
    "class": _class,
    "closure": lambda held: (_closure(held), lambda: leaky_worlds.KEPT()),  # type: ignore[attr-defined] # noqa: PLW0108
    "default": _default,
    "default by name": _named_default,
    "attribute": _attribute,
    "function attribute": _function,
    "list": lambda held: ([held], lambda: leaky_worlds.KEPT[0]),  # type: ignore[attr-defined]
    "dict": lambda held: ({"a": held}, lambda: leaky_worlds.KEPT["a"]),  # type: ignore[attr-defined]
    "deque": lambda held: (collections.deque([held]), lambda: leaky_worlds.KEPT[0]),  # type: ignore[attr-defined]
    "tuple": lambda held: ((1, held), lambda: leaky_worlds.KEPT[1]),  # type: ignore[attr-defined]
    "named tuple": lambda held: (Pair(held, 1), lambda: leaky_worlds.KEPT.turns),  # type: ignore[attr-defined]
    "tuples": lambda held: (((held,), 2), lambda: leaky_worlds.KEPT[0][0]),  # type: ignore[attr-defined]
    "partial": lambda held: (functools.partial(next, held), lambda: leaky_worlds.KEPT.args[0]),  # type: ignore[attr-defined]
    "keyword": lambda held: (functools.partial(dict, a=held), lambda: leaky_worlds.KEPT.keywords["a"]),  # type: ignore[attr-defined]
    "tuple in a closure": lambda held: (_closure((held,)), lambda: leaky_worlds.KEPT()[0]),  # type: ignore[attr-defined]
    "tuple in a default": lambda held: (_default((held,))[0], lambda: leaky_worlds.KEPT.__defaults__[0][0]),  # type: ignore[attr-defined]
}


def surroundings(roots: Roots | None = None) -> Ambient:
    """Everything outside the state."""
    return take_ambient(roots or Roots(leaky_worlds.MutableDefault), None)


def taken(iterator: Iterator[Any], count: int) -> list[Any]:
    """The next values."""
    return list(itertools.islice(iterator, count))


PAIRS = {(kind, place) for kind in MAKERS for place in ("module", "closure", "tuple")} | {
    (kind, place) for kind in ("cycle of a text", "zip") for place in PLACES
}


@pytest.mark.parametrize(("kind", "place"), sorted(PAIRS))
def test_an_iterator_in_any_place_is_put_back_where_it_stood(
    kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, as for several copies. The live one is then in its place again, and goes on as one that was never looked at."""
    for moved in (0, 4):
        original, twin = MAKERS[kind](), MAKERS[kind]()
        kept, read = PLACES[place](original)
        monkeypatch.setattr(leaky_worlds, "KEPT", kept, raising=False)
        taken(original, moved)
        taken(twin, moved)
        roots = Roots(leaky_worlds.MutableDefault)
        before = surroundings(roots)
        before.put_back()
        assert read() is original  # It has not moved.

        seen = taken(original, 2)
        assert seen == taken(twin, 2)
        after = surroundings(roots)
        for _ in range(2):
            before.put_back()
            assert find_candidates(before, surroundings(roots)) == []
            # What runs the user's code is not built over what has moved, and what is built gives the same again.
            if "of a map" not in kind:
                assert taken(read(), 2) == seen
            after.put_back()
        assert read() is original
        assert taken(original, 2) == taken(twin, 2)


def test_an_iterator_with_two_names_is_one_after_it_was_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """One name is that of a tuple's item, the other of what a zip goes through."""
    turns = itertools.cycle((1, 2, 3))
    monkeypatch.setattr(leaky_worlds, "KEPT", (turns,), raising=False)
    monkeypatch.setattr(leaky_worlds, "PAIRS", zip("abcdefgh", turns, strict=False), raising=False)
    before = surroundings()
    assert next(leaky_worlds.PAIRS) == ("a", 1)  # type: ignore[attr-defined]
    next(turns)
    before.put_back()

    assert next(leaky_worlds.KEPT[0]) == 1  # type: ignore[attr-defined]
    assert next(leaky_worlds.PAIRS) == ("a", 2)  # type: ignore[attr-defined]
    assert next(leaky_worlds.KEPT[0]) == 3  # type: ignore[attr-defined]


class Locked(dict[str, Any]):
    """Refuses to be read like a dict."""

    def __getitem__(self, key: str) -> Any:
        raise PermissionError(key)

    def __missing__(self, key: str) -> Any:
        raise PermissionError(key)


class Sealed(list[Any]):
    """Refuses to be read like a list."""

    def __getitem__(self, index: Any) -> Any:
        raise PermissionError(index)


@pytest.mark.parametrize(("holder", "name"), [(Locked(), "turns"), (Sealed([None]), 0)])
def test_a_container_of_the_users_is_not_asked(holder: Any, name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The iterator in it is put back by the methods of the plain container."""
    turns = itertools.cycle((1, 2, 3))
    next(kind for kind in (dict, list) if isinstance(holder, kind)).__setitem__(holder, name, turns)
    monkeypatch.setattr(leaky_worlds, "KEPT", holder, raising=False)
    before = surroundings()
    assert next(turns) == 1
    before.put_back()
    [held] = dict.values(holder) if isinstance(holder, dict) else list.__iter__(holder)
    assert next(held) == 1
    assert child_of(holder, ("item", "absent" if name == "turns" else 5)) is ABSENT
