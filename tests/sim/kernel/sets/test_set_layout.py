"""Sets rebuilt from their tables: exact now and after further operations; tables of liars are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kernel.sets import set_layout
from sim.kernel.sets.set_layout import UNKNOWN, SetTable, fingerprint, frozen, rebuild, table_of

MAKERS: dict[str, Callable[[random.Random], Any]] = {
    "small integers": lambda draws: draws.randrange(300),
    "large integers": lambda draws: draws.randrange(1 << 60),
    "multiples of 1024": lambda draws: draws.randrange(300) * 1024,
    "negative and positive": lambda draws: draws.randrange(-300, 300),
    "floats": lambda draws: draws.random() * 100,
    "grid cells": lambda draws: (draws.randrange(20), draws.randrange(20)),
    "texts": lambda draws: f"u{draws.randrange(300)}",
    "objects": lambda draws: object(),  # noqa: ARG005 - one signature for all
}
HISTORIES = 150


def operate(value: set[Any], draws: random.Random, pool: list[Any]) -> None:
    """Apply one random operation to a set."""
    kind, element = draws.random(), draws.choice(pool)
    if kind < 0.5:
        value.add(element)
    elif kind < 0.8:
        value.discard(element)
    elif kind < 0.9 and value:
        value.pop()
    elif kind < 0.93:
        value |= set(draws.sample(pool, 10))
    elif kind < 0.96:
        value -= set(draws.sample(pool, 30))
    elif kind < 0.97:
        value &= set(draws.sample(pool, 150))
    elif kind < 0.975:
        value.clear()


def same(one: Any, other: Any) -> bool:
    """Return True if two sets iterate through the very same objects in the same order."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def rebuilt(value: set[Any]) -> set[Any]:
    """A copy of a set made from its table as plain data and its elements in order."""
    made: set[Any] = set()
    rebuild(made, SetTable.from_plain(table_of(value).to_plain()), list(value))
    return made


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_rebuilt_set_is_the_live_one_now_and_later(make: Callable[[random.Random], Any]) -> None:
    """After random histories the table is equal; after 100 more operations, pop included, so is the order."""
    for seed in range(HISTORIES):
        draws = random.Random(seed)
        pool = [make(draws) for _ in range(200)]
        live: set[Any] = set()
        for _ in range(draws.randrange(3, 400)):
            operate(live, draws, pool)
        made = rebuilt(live)
        assert table_of(made) == table_of(live)
        one, other = random.Random(seed), random.Random(seed)
        for _ in range(100):
            operate(live, one, pool)
            operate(made, other, pool)
            assert same(live, made), seed


def test_this_interpreter_reads_tables_from_memory() -> None:
    """The self-test passes on every Python that is tested, so that the tests above test what they say."""
    assert set_layout.layout_is_known()


def test_rebuilding_from_the_elements_alone_is_not_enough() -> None:
    """The reason for all of this: most sets of grid cells iterate otherwise when they are made from their elements."""
    wrong = 0
    for seed in range(100):
        draws = random.Random(seed)
        live = {(draws.randrange(20), draws.randrange(20)) for _ in range(draws.randrange(1, 250))}
        elements = list(live)
        wrong += not same(set(elements), live)
    assert wrong > 50


@given(st.lists(st.tuples(st.booleans(), st.integers(-(1 << 65), 1 << 65) | st.integers(0, 40)), max_size=120))
@settings(max_examples=200, deadline=None)
def test_any_history_of_integers_is_rebuilt(history: list[tuple[bool, int]]) -> None:
    """Adding and removing in any order, also of integers that collide."""
    live: set[int] = set()
    for is_added, number in history:
        (live.add if is_added else live.discard)(number)
    made = rebuilt(live)

    assert table_of(made) == table_of(live)
    assert same(made, live)
    while live:
        assert made.pop() is live.pop()


@pytest.mark.parametrize("count", [50_000, 39_000, 200_000])
def test_a_large_set_is_rebuilt_in_time_proportional_to_it(count: int) -> None:
    """The number of comparisons does not grow with the square of the size."""
    live = {number * 3 for number in range(count)}

    assert same(rebuilt(live), live)


def test_a_finger_beyond_the_table_is_rebuilt() -> None:
    """A large set that was popped and cleared keeps its finger, which counts when it grows again."""
    live = set(range(1000))
    for _ in range(700):
        live.pop()
    live.clear()
    live.add(5)
    made = rebuilt(live)

    assert table_of(made).finger == table_of(live).finger == 700
    for value in (live, made):
        value.update(range(900))
    assert made.pop() == live.pop() != 0


def test_no_method_of_an_element_meets_an_object_of_ours() -> None:
    """Elements are compared with each other alone."""
    met = set()

    class Cell:
        def __init__(self, number: int) -> None:
            self.number = number

        def __hash__(self) -> int:
            return self.number % 7

        def __eq__(self, other: object) -> bool:
            met.add(type(other))
            return isinstance(other, Cell) and other.number == self.number

    live = {Cell(number) for number in range(30)}
    made = rebuilt(live)

    assert same(made, live)
    assert met == {Cell}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_frozenset_is_made_again(make: Callable[[random.Random], Any]) -> None:
    """In the same order, and with the same table; however it was made."""
    for seed in range(HISTORIES):
        draws = random.Random(seed)
        pool = [make(draws) for _ in range(200)]
        some, others = draws.sample(pool, draws.randrange(150)), draws.sample(pool, draws.randrange(150))
        history = set(some)
        history.difference_update(others)
        for live in (
            frozenset(some),
            frozenset(history),
            frozenset(some) | frozenset(others),
            frozenset(some) - frozenset(others),
            frozenset(some) - frozenset(others[:10]),
            frozenset(some) & frozenset(others),
            frozenset(dict.fromkeys(some)),
        ):
            made = frozen(list(live), table_of(live))
            assert same(made, live)
            assert table_of(made) == table_of(live)


def test_a_frozenset_is_made_in_the_right_order_or_refused() -> None:
    """Without a table, and with elements that were swapped on the tape."""
    assert frozen([0, 1, 2]) == frozenset(range(3))
    with pytest.raises(ValueError, match="hash otherwise here"):
        frozen([2, 1, 0])
    with pytest.raises(ValueError, match="hash otherwise here"):
        frozen([1, 1])


def test_elements_that_hash_otherwise_are_refused() -> None:
    """Such as texts under a different hash seed: the set is left empty."""
    live = set(range(20))
    made: set[int] = set()
    with pytest.raises(ValueError, match="hash otherwise here"):
        rebuild(made, table_of(live), list(range(19, -1, -1)))
    assert made == set()
    with pytest.raises(ValueError, match="expected 20 elements of a set, got 3"):
        rebuild(made, table_of(live), [1, 2, 3])
    with pytest.raises(ValueError, match="hash otherwise here"):
        rebuild(made, table_of(live), [1] * 20)


def test_a_fingerprint_changes_with_the_table_alone() -> None:
    """Each change of elements, dummies or finger changes it; reading does not."""
    live = set(range(100, 400))
    prints = [fingerprint(live)]
    for change in (lambda: live.discard(150), lambda: live.add(150), live.pop, lambda: live.update(range(1000))):
        change()
        prints.append(fingerprint(live))

    assert prints[0] != prints[1]
    assert prints[1] != prints[2]
    assert len(set(prints)) >= 4
    assert prints[-1] == fingerprint(live) != fingerprint(set(live) - {7})
    list(live)
    assert prints[-1] == fingerprint(live)
    assert fingerprint(live) != fingerprint({*live, 5000})


LIES: list[Any] = [
    None, [], [7, 0, []], [7, 0, [], [], []], [7, 0, [0.0], []], [7, 0, [True], []], [7, True, [], []],
    [7, 0, [8], []], [7, 0, [-1], []], [7, 0, [1, 1], []], [7, 0, [2, 1], []], [7, 0, [1], [1]], [7, 0, [], [9]],
    [7, 0, [0, 1, 2, 3, 4], []], [8, 0, [0], []], [3, 0, [0], []], [0, 1, [], []], [0, 0, [1], []], [7, -1, [], []],
    [7, 1 << 30, [], []], [(1 << 40) - 1, 0, [1], []], [(1 << 26) - 1, 0, [1], []], [15, 0, [], []], [-1, 0, [], []],
]  # fmt: skip


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_a_table_that_no_set_has_is_refused(lie: Any) -> None:
    """A tape is not trusted: ValueError, and no memory is asked for in proportion to a lie."""
    with pytest.raises(ValueError, match="expected the table of a set"):
        SetTable.from_plain(lie)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_possible_table_gives_this_table_or_an_error(data: st.DataObject) -> None:
    """Random places and dummies: integers whose hash is their place are put there; all else is refused."""
    mask = (8 << data.draw(st.integers(0, 4))) - 1
    places = sorted(data.draw(st.sets(st.integers(0, mask), min_size=1, max_size=max(1, mask // 2))))
    cut = data.draw(st.sets(st.sampled_from(places)))
    plain = [mask, data.draw(st.integers(0, 100)), [one for one in places if one not in cut], sorted(cut)]
    try:
        table = SetTable.from_plain(plain)
    except ValueError:
        return
    made: set[int] = set()
    rebuild(made, table, list(table.places))
    assert table_of(made) == table


# --- without reading memory


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter whose sets have another layout."""
    monkeypatch.setattr(set_layout, "layout_is_known", lambda: False)


@pytest.mark.usefixtures("slow")
def test_without_a_layout_the_order_of_iteration_is_kept_or_refused() -> None:
    """Sets that adding in order gives are rebuilt; others raise, and never iterate otherwise."""
    outcomes = {True: 0, False: 0}
    for seed in range(100):
        draws = random.Random(seed)
        live: set[Any] = {(draws.randrange(20), draws.randrange(20)) for _ in range(draws.randrange(1, 100))}
        made: set[Any] = set()
        assert table_of(live) is UNKNOWN
        try:
            rebuild(made, SetTable.from_plain(UNKNOWN.to_plain()), list(live))
        except ValueError:
            outcomes[False] += 1
            assert made == set()
        else:
            outcomes[True] += 1
            assert same(made, live)
    assert min(outcomes.values()) > 5


@pytest.mark.usefixtures("slow")
def test_without_a_layout_a_fingerprint_is_the_order() -> None:
    """It changes with an element or the order."""
    live = {1, 2, 3}
    before = fingerprint(live)
    assert before == fingerprint(live)
    live.add(4)
    assert before != fingerprint(live)


def test_a_table_of_another_interpreter_is_taken_for_the_order_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout on the tape that cannot be read here does not matter, if the set iterates as recorded."""
    live = set(range(50))
    table = table_of(live)
    monkeypatch.setattr(set_layout, "layout_is_known", lambda: False)
    made: set[int] = set()
    rebuild(made, table, list(live))

    assert same(made, live)


def test_the_test_at_first_use_notices_another_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the words of the head in another order, or tables that are rebuilt otherwise, memory is not read."""
    test = set_layout.layout_is_known.__wrapped__
    with monkeypatch.context() as patch:
        patch.setattr(set_layout, "_dict_size", lambda places: places)
        assert not test()
    with monkeypatch.context() as patch:
        patch.setattr(set_layout, "_set_finger", lambda value, finger: None)  # noqa: ARG005
        assert not test()
    with monkeypatch.context() as patch:
        patch.setattr(set_layout.sys.implementation, "name", "pypy")
        assert not test()
    assert test()
