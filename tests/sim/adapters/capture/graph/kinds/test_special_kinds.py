"""Each special kind: taken at any position and made again, it continues as the live object does."""

from __future__ import annotations

import array
import copy
import functools
import itertools
import random
import warnings
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest

from sim.adapters.capture.digest.value_digest import ValueSubject, digest_values
from sim.adapters.capture.graph.kinds.special_kinds import KINDS, KINDS_BY_NAME

Makers = dict[str, Callable[[], Any]]


class Items:
    """A sequence without ``__iter__``."""

    def __getitem__(self, index: int) -> int:
        if index >= 9:
            raise IndexError
        return index * 3


def again(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """The object made again from its plain data; parts of special kinds are made again, all others are shared."""
    memo = {} if memo is None else memo
    kind = KINDS.get(type(value))
    if kind is None:
        return value
    if id(value) not in memo:
        plain, parts = kind.take(value)
        plain = as_on_a_tape(plain)
        made_parts = [again(part, memo) for part in parts]
        made = KINDS_BY_NAME[kind.name].make(plain, made_parts)
        kind.finish(made, plain, made_parts)
        memo[id(value)] = made
    return memo[id(value)]


def as_on_a_tape(plain: Any) -> Any:
    """Plain data through MessagePack, where only lists are containers; integers may have any size."""
    if type(plain) is list:
        return [as_on_a_tape(one) for one in plain]
    assert plain is None or type(plain) in (bool, int, float, str, bytes)
    return plain if type(plain) is int else msgpack.unpackb(msgpack.packb(plain))


def state_of(value: Any) -> Any:
    """The plain data of a value, with those of its parts, and the identities of parts that are not special."""
    kind = KINDS.get(type(value))
    if kind is None:
        return id(value) if isinstance(value, list | dict | Items) else (type(value).__name__, repr(value))
    plain, parts = kind.take(value)
    return kind.name, plain, [state_of(part) for part in parts]


LIST, TUPLE, TEXT = [[1], [2], [3], [4], [5]], ([1], 2.0, "x", None), "abcde"
DICT = {"a": [1], "b": [2], 3: [3], (4,): [4]}
ARRAY = array.array("h", range(7))
BYTES = bytearray(b"bytes")
ITERATORS: Makers = {
    "a list": lambda: iter(LIST), "an empty list": lambda: iter([]), "reversed list": lambda: reversed(LIST),
    "a tuple": lambda: iter(TUPLE), "a text": lambda: iter(TEXT), "a text that is not ASCII": lambda: iter("äöü"),
    "bytes": lambda: iter(b"bytes"), "bytearray": lambda: iter(BYTES), "array": lambda: iter(ARRAY),
    "reversed tuple": lambda: reversed(TUPLE), "reversed text": lambda: reversed(TEXT),
    "reversed bytes": lambda: reversed(b"bytes"),
    "range": lambda: iter(range(3, 30, 7)), "falling range": lambda: iter(range(30, 3, -7)),
    "reversed range": lambda: reversed(range(9)), "empty range": lambda: iter(range(0)),
    "range at the end of 64 bits": lambda: iter(range(0, (1 << 63) - 1, 1 << 61)),
    "range at the other end": lambda: iter(range(0, -(1 << 63), -(1 << 61))),
    "long range": lambda: iter(range(1 << 64, -(1 << 65), -(1 << 63))),
    "keys": lambda: iter(DICT), "values": lambda: iter(DICT.values()), "items": lambda: iter(DICT.items()),
    "reversed keys": lambda: reversed(DICT), "reversed values": lambda: reversed(DICT.values()),
    "reversed items": lambda: reversed(DICT.items()), "a Counter": lambda: iter(Counter("hello")),
    "a defaultdict": lambda: iter(defaultdict(list, {1: [2]}).values()), "an empty dict": lambda: iter({}),
    "enumerate": lambda: enumerate(LIST, 5), "enumerate from 2**70": lambda: enumerate(TEXT, 1 << 70),
    "enumerate of enumerate": lambda: enumerate(enumerate(DICT)),
    "count": itertools.count, "count from -5": lambda: itertools.count(-5), "count by 3": lambda: itertools.count(7, 3),
    "count of floats": lambda: itertools.count(0.5, 0.25), "count back": lambda: itertools.count(5, -1),
    "count to the end of 64 bits": lambda: itertools.count((1 << 63) - 4), "large count": lambda: itertools.count(1 << 80),
    "repeat": lambda: itertools.repeat(LIST), "repeat a few times": lambda: itertools.repeat("x", 4),
    "repeat never": lambda: itertools.repeat("x", 0), "repeat a type": lambda: itertools.repeat(itertools.repeat, 3),
    "cycle": lambda: itertools.cycle(LIST), "cycle of one": lambda: itertools.cycle("a"),
    "cycle of nothing": lambda: itertools.cycle(()), "cycle of keys": lambda: itertools.cycle(DICT),
    "chain": lambda: itertools.chain(LIST, TUPLE, "ab", range(3)), "empty chain": itertools.chain,
    "chain of a list": lambda: itertools.chain.from_iterable([LIST, TUPLE]),
    "items of an object": lambda: iter(Items()), "a callable": lambda: iter([5, 4, 3, 2, 1].pop, 4),
}  # fmt: skip


@pytest.mark.parametrize("make", ITERATORS.values(), ids=ITERATORS)
@pytest.mark.parametrize("steps", range(13))
def test_an_iterator_continues_from_its_position(make: Callable[[], Any], steps: int) -> None:
    """At each position, and exhausted: the elements are the same objects, state and digest of values are equal."""
    live = make()
    for _ in range(steps):
        next(live, None)
    before = state_of(live)
    made = again(live)

    assert KINDS[type(made)] is KINDS[type(live)]
    assert state_of(live) == before == state_of(made)
    digests = [digest_values(ValueSubject({"root": [one]})).digest for one in (live, made)]
    assert digests[0] == digests[1]
    shares_its_source = type(live).__name__ == "callable_iterator"
    for _ in range(0 if shares_its_source else 14):
        one, other = next(live, Ellipsis), next(made, Ellipsis)
        assert one is other or (one == other and type(one) is type(other) and not isinstance(one, list))
        assert state_of(live) == state_of(made)


def test_an_iterator_over_a_list_follows_its_changes() -> None:
    """The list has grown, or has shrunk below the index and grows again; forwards and backwards."""
    for start in (iter, reversed):
        for index, change in itertools.product(range(6), (-6, -3, -1, 0, 1, 3)):
            held = [[number] for number in range(6)]
            live: Any = start(held)
            for _ in range(index):
                next(live)
            if change < 0:
                del held[change:]
            else:
                held.extend([0] * change)
            contents = list(held)
            made = again(live)
            assert held == contents
            assert state_of(made) == state_of(live)
            held.extend(range(4))
            assert list(made) == list(live)


@pytest.mark.parametrize("kind", [bytearray, lambda content: array.array("b", content)], ids=["bytearray", "array"])
def test_an_iterator_over_bytes_follows_their_changes(kind: Callable[[bytes], Any]) -> None:
    """They have shrunk below the index, and grow again."""
    held = kind(b"abcdef")
    live = iter(held)
    for _ in range(5):
        next(live)
    del held[2:]
    index, parts = KINDS[type(live)].take(live)
    made = KINDS[type(live)].make(index, parts)
    KINDS[type(live)].finish(made, index, parts)
    held.extend(kind(b"uvwxyz"))

    assert list(made) == list(live) == list(kind(b"xyz"))


def test_an_iterator_in_the_dict_that_it_walks_through_is_made_before_its_contents() -> None:
    """The dict is empty when the iterator is made, and then holds the iterator."""
    live: dict[str, Any] = {"a": 1, "b": 2}
    live["walk"] = iter(live)
    live["c"] = 3
    live["walk"] = iter(live.items())
    next(live["walk"])
    kind = KINDS[type(live["walk"])]
    plain, (walked,) = kind.take(live["walk"])
    assert walked is live
    made: dict[str, Any] = {}
    iterator = kind.make(plain, [made])
    assert made == {}
    made.update({**live, "walk": iterator})
    kind.finish(iterator, plain, [made])

    assert [key for key, _ in made["walk"]] == [key for key, _ in live["walk"]] == ["b", "walk", "c"]


def test_an_iterator_over_a_full_dict_leaves_it_as_it_is() -> None:
    """Making one over a dict that has its contents already changes neither them nor their order."""
    for size in (0, 1, 5, 200):
        walked = {f"k{number}": number for number in range(size)}
        before = list(walked.items())
        for start in (iter, lambda held: iter(held.items()), reversed):
            live = start(walked)
            for _ in range(size // 2):
                next(live)
            made = again(live)
            assert list(walked.items()) == before
            assert list(made) == list(live)


@pytest.mark.parametrize("change", ["add", "remove", "replace a key that was passed"])
def test_an_iterator_over_a_dict_that_has_changed_is_refused(change: str) -> None:
    """It would raise in the live run; the message says what to do."""
    walked = dict.fromkeys(range(6))  # It has room for more, so that its entries stay at their places.
    live = iter(walked)
    next(live)
    if change == "add":
        walked[9] = None
    elif change == "remove":
        del walked[4]
    else:
        del walked[0]
        walked[9] = None
    with pytest.raises(TypeError, match=r"over a dict that has changed since: delete the iterator"):
        KINDS[type(live)].take(live)


def test_an_iterator_over_a_dict_with_a_replaced_key_that_was_not_passed_is_exact() -> None:
    """The rest is what the live iterator gives."""
    walked = dict.fromkeys(range(5))
    live = iter(walked)
    next(live)
    del walked[3]
    walked[9] = None

    assert list(again(live)) == list(live) == [1, 2, 4, 9]


@pytest.mark.parametrize("owner", [{"a": 1}, OrderedDict(a=1, b=2), defaultdict(int, {3: 4})], ids=repr)
@pytest.mark.parametrize("name", ["keys", "values", "items"])
def test_a_view_of_a_dict_is_a_view_of_the_same_dict(owner: Any, name: str) -> None:
    """It shows what is added later."""
    live = getattr(owner, name)()
    made = again(live)
    owner["new"] = 5

    assert type(made) is type(live)
    assert list(made) == list(live)


def test_a_shared_iterator_stays_shared() -> None:
    """Two cycles and an enumerate over one iterator take elements from each other, after as before."""
    shared = iter(LIST * 3)
    live = [itertools.cycle(shared), enumerate(shared), itertools.chain(shared, "ab")]
    for one in live:
        next(one)
    memo: dict[int, Any] = {}
    made = [again(one, memo) for one in live]
    for one, other in itertools.islice(itertools.cycle(zip(live, made, strict=True)), 20):
        assert next(one, None) == next(other, None)


def test_the_deprecated_methods_of_itertools_do_not_reach_the_user(recwarn: pytest.WarningsRecorder) -> None:
    """Neither taking nor making warns."""
    for make in (itertools.count, lambda: itertools.cycle(LIST), lambda: itertools.chain(LIST, TUPLE)):
        live = make()
        next(live)
        again(live)

    assert list(recwarn) == []


def test_a_warning_that_is_shown_once_stays_shown_once() -> None:
    """Taking a cycle does not reset the memory of warnings, as warnings.catch_warnings does."""
    live = itertools.cycle(LIST)
    for _ in range(8):
        next(live)
    KINDS[itertools.cycle].take(live)
    registry: dict[Any, Any] = {}
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(3):
            KINDS[itertools.cycle].take(live)
            warnings.warn_explicit("once", UserWarning, "file", 1, registry=registry)
    assert len(shown) == 1


def test_the_slow_way_of_a_cycle_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the memory of a cycle is not known, its deprecated method shows the index."""
    from sim.adapters.capture.graph.kinds import itertools_kinds

    assert itertools_kinds.cycle_is_known()
    for count, steps in itertools.product(range(4), range(9)):
        live = itertools.cycle(iter(LIST[:count]))
        for _ in range(steps):
            next(live, None)
        fast = state_of(live)
        with monkeypatch.context() as patch:
            patch.setattr(itertools_kinds, "cycle_is_known", lambda: False)
            assert state_of(live) == fast


# --- bytes


VIEWS: Makers = {
    "all": lambda: memoryview(BYTES), "bytes": lambda: memoryview(b"abcdef"), "a part": lambda: memoryview(BYTES)[1:4],
    "reversed": lambda: memoryview(BYTES)[::-1], "every second": lambda: memoryview(BYTES)[1::2],
    "read-only": lambda: memoryview(BYTES).toreadonly(), "array": lambda: memoryview(ARRAY),
    "reversed array": lambda: memoryview(ARRAY)[5:1:-2], "one": lambda: memoryview(ARRAY)[3:4],
    "bytes of an array": lambda: memoryview(ARRAY).cast("B")[3:9], "numbers": lambda: memoryview(bytearray(16)).cast("i")[1:],
    "empty": lambda: memoryview(BYTES)[2:2], "empty numbers": lambda: memoryview(bytearray(16)).cast("d")[1:1],
    "nothing": lambda: memoryview(bytearray()), "booleans": lambda: memoryview(bytearray(3)).cast("?"),
    "characters": lambda: memoryview(bytearray(b"xyz")).cast("c")[::-1], "empty array": lambda: memoryview(array.array("d")),
}  # fmt: skip


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_a_memoryview_shows_the_same_memory(make: Callable[[], Any]) -> None:
    """Its format, order and owner are the same; a write through one is seen through the other."""
    live = make()
    kind = KINDS[memoryview]
    plain, parts = kind.take(live)
    made = kind.make(as_on_a_tape(plain), parts)

    assert made.obj is live.obj
    assert kind.take(made)[0] == plain
    assert (made.tolist(), made.format, made.strides, made.readonly) == (
        live.tolist(), live.format, live.strides, live.readonly,
    )  # fmt: skip
    if len(live) and not live.readonly:
        before, live[0] = live[0], live[-1]
        assert made.tolist() == live.tolist()
        live[0] = before


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (array.array("w" if "w" in array.typecodes else "u", "a"), "of characters"),
        (memoryview(np.arange(3)), "over ndarray"),
        (memoryview(bytearray(4)).cast("B", (2, 2)), "memoryview over bytearray"),
        (enumerate(x for x in ()), "enumerate over a generator"),
        (itertools.cycle(map(int, ())), "cycle of a map"),
        (itertools.chain.from_iterable(x for x in ()), "chain of a generator"),
        (reversed(type("L", (), {"__len__": lambda _: 2, "__getitem__": lambda _, index: index})()), r"reversed\(\) of a L"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_cannot_be_saved_is_refused_with_its_kind(value: Any, message: str) -> None:
    """The message names it and says what to do."""
    with pytest.raises(TypeError, match=message):
        KINDS[type(value)].take(value)


def test_a_released_memoryview_is_refused() -> None:
    """It shows nothing any more."""
    view = memoryview(b"a")
    view.release()
    with pytest.raises(TypeError, match="was released: delete it"):
        KINDS[memoryview].take(view)


@pytest.mark.parametrize("value", [bytearray(b"ab\0"), bytearray(), ARRAY, array.array("d", [0.5, -0.0])], ids=repr)
def test_bytes_and_numbers_are_copied(value: Any) -> None:
    """The content and type are equal, the object is another."""
    made = again(value)

    assert made is not value
    assert (type(made), repr(made)) == (type(value), repr(value))


# --- what a tape may claim


PARTS: list[list[Any]] = [[], [[]], [[1, 2]], [()], ["ab"], [b"ab"], [{}], [{1: 2}], [5], [5, 6], [None], [iter([])],
                          [iter([]), iter([])], [Items()], [print], [OrderedDict()], [np.random.PCG64(1)],
                          [np.random.SeedSequence(1)], [bytearray(b"abcd")], [object()]]  # fmt: skip
PLAIN: list[Any] = [None, [], [0], [1], [-1], [True], [False], [None], [1 << 70], [1 << 40], [2, 0], [0, 0], [3, 1], [1, 1],
                    [1.5], ["x"], [[]], [0, 5, 0, False], [0, 5, 1, False], [0, 1 << 70, 1, False], b"", b"abc", "x",
                    ["b", 1, b"ab"], ["d", 8, b"ab"], ["O", 8, b""], ["", 1, b""], ["B", 0, 4, 1, False],
                    ["B", 0, 5, 1, False], ["B", -1, 2, 1, True], ["B", 3, 4, -1, False], ["B", 0, 1, 0, False],
                    ["i", 0, 1, 3, False], ["B", 0, 1 << 70, 1, False], [bytes(2500), None], [bytes(2500), "x"],
                    [b"\xff" * 2500, None], [bytes(3), None], ["PCG64", []], ["PCG64", [["state", 1]]], ["MT19937", []],
                    ["os", []], [True, "x"], [True, 0.5], ["int", 5, [], 4, 0], ["int", -5, [], 4, 0],
                    ["list", [1, -1], [], 4, 0], ["int", 5, [-1], 4, 0], ["int", 5, [], 1 << 40, 0],
                    ["int", [5], [], 4, 0], ["eval", 5, [], 4, 0], ["int", 5, [], 4, 1 << 50],
                    [[7, 0, [0], []]], [[7, 0, [9], []]], [0, True], [2, 5]]  # fmt: skip


@pytest.mark.parametrize("name", KINDS_BY_NAME)
def test_a_lie_about_a_state_is_refused(name: str) -> None:
    """Each kind takes its own data alone; everything else is a ValueError, and costs no memory."""
    kind = KINDS_BY_NAME[name]
    refused = 0
    for plain, parts in itertools.product(PLAIN, PARTS):
        given = [copy.copy(part) if isinstance(part, list | dict) else part for part in parts]
        try:
            kind.finish(kind.make(plain, given), plain, given)
        except ValueError:
            refused += 1

    assert refused > 600


def test_no_method_of_a_users_class_is_called() -> None:
    """Objects that stand where an iterator, a list or a number should stand."""
    called = []

    class Spy:
        def __getattribute__(self, name: str) -> Any:
            called.append(name)
            return object.__getattribute__(self, name)

        def __iter__(self) -> Any:
            called.append("__iter__")
            return iter([])

        def __len__(self) -> int:
            called.append("__len__")
            return 3

        def __index__(self) -> int:
            called.append("__index__")
            return 3

        def __getitem__(self, index: int) -> int:
            called.append("__getitem__")
            return index

    for kind in KINDS_BY_NAME.values():
        if kind.is_weak:  # Their members are hashed: by methods of the classes of the user's own objects.
            continue
        for plain, count in itertools.product(PLAIN, (1, 2)):
            parts: list[Any] = [Spy()] * count
            try:
                kind.finish(kind.make(plain, parts), plain, parts)
            except ValueError:
                continue

    assert called == []


def test_names_of_kinds_are_unique() -> None:
    """Classes with the same name on a tape have the same kind."""
    kinds = {kind.name: kind for kind in KINDS.values()}
    assert all(kinds[kind.name] is kind for kind in KINDS.values())
    assert random.Random in KINDS


# --- partials


def test_a_partial_is_made_again_with_its_dict_of_keywords() -> None:
    """What it calls, its bound values and attributes; the dict of values by keyword is the same object."""
    live = functools.partial(divmod, 7)
    live.mark = LIST  # type: ignore[attr-defined]
    named = functools.partial(sorted, reverse=True)
    kind = KINDS[functools.partial]
    for value in (live, named):
        plain, parts = kind.take(value)
        made = kind.make(as_on_a_tape(plain), parts)
        assert (made.func, made.args, made.keywords) == (value.func, value.args, value.keywords)
        assert vars(made) == vars(value)
        assert made is not value
    assert kind.make(*kind.take(named)).keywords is named.keywords
    assert kind.make(*kind.take(live))(2) == (3, 1)


def test_a_partial_that_no_partial_gives_is_refused() -> None:
    """What cannot be called, values that are no tuple, keywords that are no dict."""
    kind = KINDS[functools.partial]
    for plain, parts in (
        ([False, []], [5, ()]), ([False, []], [len, [1]]), ([True, []], [len, ()]), ([True, []], [len, (), [1]]),
        ([False, ["a"]], [len, ()]), ([False, [1]], [len, (), 2]), ([0, []], [len, ()]), (None, [len, ()]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="expected the state of a partial"):
            kind.make(plain, parts)
