"""Two texts in a standard form are compared by the values in them: each path has these two values, and none is left out."""

from __future__ import annotations

import ast
import copy
import json
import random
import re
from typing import Any

import msgpack
import numpy as np
import pytest

from sim.adapters import adapt
from sim.adapters.object_view.documents import SIZE_MAX, VALUES_MAX, read_documents
from sim.adapters.object_view.object_comparison import (
    ObjectDifference,
    document_differences,
    object_differences,
)
from sim.adapters.object_view.object_tree import tree_of

SCALARS = (
    None,
    True,
    False,
    0,
    1,
    1.0,
    -0.0,
    1 << 70,
    0.1,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "a",
    "absent",
    "1",
    "é\n",
)
KEYS = ("a", "b", "c", "a b", "é", "0", "", "it's", 'a"b', "a (2)", "a.b", "[1]", "\x1b", "\\")
STEP = re.compile(r"\.(\w+)|\[(-?\d+)\]|\[('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\]")
MISSING = object()


def compared(one: Any, two: Any) -> list[ObjectDifference] | None:
    """The differences of two texts called t."""
    found = document_differences("t", one, two, 3)
    return None if found is None else list(found)


def lines(one: Any, two: Any) -> list[str]:
    """The same as lines."""
    return [one.text(("first", "second")) for one in compared(one, two) or ()]


def steps_of(path: str) -> list[Any]:
    """The keys and indices of a path below t, read without the code that writes them."""
    assert path.startswith("t")
    steps: list[Any] = []
    at = 1
    while at < len(path):
        found = STEP.match(path, at)
        assert found is not None, path
        name, index, key = found.groups()
        steps.append(name if name is not None else int(index) if index is not None else ast.literal_eval(key))
        at = found.end()
    return steps


def value_at(document: Any, steps: list[Any]) -> Any:
    """The value in a document, or MISSING."""
    for step in steps:
        if isinstance(document, dict if isinstance(step, str) else list):
            inside = step in document if isinstance(step, str) else step < len(document)
            document = document[step] if inside else MISSING
        else:
            document = MISSING
    return document


def same(one: Any, two: Any) -> bool:
    """Return True for equal values of equal types, in any order of keys."""
    return MISSING not in (one, two) and json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)


def made(chance: random.Random, depth: int) -> Any:
    """A document; at depth 0 a plain value."""
    kind = chance.randrange(3) if depth else 0
    inner = [made(chance, depth - chance.randint(1, depth)) for _ in range(chance.randrange(6))] if kind else []
    if kind == 1:
        return dict(zip(chance.sample(KEYS, len(inner)), inner, strict=True))
    return inner if kind else chance.choice(SCALARS)


def changed(document: Any, chance: random.Random) -> Any:
    """A copy with a few changes."""
    document = copy.deepcopy(document)
    for _ in range(chance.randrange(4)):
        holders = [document]
        for holder in holders:
            inner = holder.values() if isinstance(holder, dict) else holder
            holders += [one for one in inner if isinstance(one, dict | list)]
        holder = chance.choice(holders)
        new = chance.choice([0, 1, 1.0, True, None, "x", -0.0, [], {}, [1, 2], {"a": 1}, float("nan")])
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        what = chance.randrange(4)
        if what == 0 and keys:
            holder[chance.choice(keys)] = new
        elif what == 1 and keys:
            del holder[chance.choice(keys)]
        elif what == 2 and isinstance(holder, dict):
            holder[chance.choice(KEYS)] = new
        elif what == 2:
            holder.insert(chance.randrange(len(holder) + 1), new)
        elif isinstance(holder, list):
            chance.shuffle(holder)
        else:
            moved = chance.sample(keys, len(keys))
            pairs = [(key, holder[key]) for key in moved]
            holder.clear()
            holder.update(pairs)
    return document


def check_and_apply(document: Any, other: Any, difference: ObjectDifference, gone: list[list[Any]]) -> None:
    """Check a printed difference against both documents, and take its value over into the first."""
    steps = steps_of(difference.path)
    one, two = value_at(document, steps), value_at(other, steps)
    if difference.kind == "order":
        both = [list(map(repr, value)) for value in (one, two)]
        assert both[0] != both[1]
        if isinstance(one, list):
            assert sorted(both[0]) == sorted(both[1])
            one[:] = two
        return
    assert difference.kind == "value"
    assert not same(one, two)
    for value, text in ((one, difference.first), (two, difference.second)):
        if value is MISSING:
            assert text == "absent"
        elif not isinstance(value, dict | list) and len(repr(value)) < 40:
            assert text in (repr(value), f"{value!r} ({type(value).__name__})")
    if two is MISSING:
        gone.append(steps)
        return
    holder = value_at(document, steps[:-1])
    if isinstance(holder, list) and steps[-1] == len(holder):
        holder.append(two)
    else:
        holder[steps[-1]] = two


def test_each_path_has_these_values_and_no_difference_is_left_out() -> None:
    """The differences, taken over one by one, make the first document the second."""
    chance, kinds = random.Random(random.random()), set()
    for _ in range(1500):
        first = made(chance, 4)
        if not isinstance(first, dict | list):
            continue
        second, indent = changed(first, chance), chance.choice([None, None, None, 1])
        texts = json.dumps(first).encode(), json.dumps(second, indent=indent, ensure_ascii=indent is None).encode()
        found = compared(*texts)
        assert (found is None) == (texts[0] == texts[1])
        kinds |= {one.kind for one in found or ()}
        if found is not None:
            check(first, second, found)
    assert kinds == {"value", "order", "form"}


def check(first: Any, second: Any, found: list[ObjectDifference]) -> None:
    """Check the differences of two documents whose texts differ."""
    assert found, "the texts differ, and nothing is told of it"
    if found[0].kind == "form":
        assert len(found) == 1
        assert json.dumps(first) == json.dumps(second)
        return
    gone: list[list[Any]] = []
    for difference in found:
        check_and_apply(first, second, difference, gone)
    for steps in reversed(gone):
        del value_at(first, steps[:-1])[steps[-1]]
    assert same(first, second)


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (b'{"a": 1}', b'{"a":1}', [("t: all values in this text are equal, it is only written in another way: "
                                   """first '{"a": 1}', second '{"a":1}'""")]),
        (b'{"a": 1.50}', b'{"a": 1.5}', [("t: all values in this text are equal, it is only written in another way: "
                                         """first '{"a": 1.50}', second '{"a": 1.5}'""")]),
        (b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}', ["order of t: first a, b; second b, a"]),
        (b'{"r": [{"m": "walk"}]}', b'{"r": [{"m": "wait"}]}', ["t.r[0].m: first 'walk', second 'wait'"]),
        (b'{"a b": [1]}', b'{"a b": [1.0]}', ["t['a b'][0]: first 1, second 1.0"]),
        (b"[true, null]", b"[1, 0]", ["t[0]: first True, second 1", "t[1]: first None, second 0"]),
        (b'{"a": 1, "a": 2}', b'{"a": 1, "a": 3}', ["t.a (2): first 2, second 3"]),
        (b'{"a": 1, "a": 2}', b'{"a": 2}', ["t.a: first 1, second 2", "t.a (2): first 2, second absent"]),
        (b'{"a": NaN, "b": 0.0}', b'{"a": NaN, "b": -0.0}', ["t.b: first 0.0, second -0.0"]),
        (b'{"a": 1e400}', b'{"a": 1e500}', ["t.a: first 1e400, second 1e500"]),
        (b"[0.1]", b"[0.10000000000000000001]", ["t[0]: first 0.1, second 0.10000000000000000001"]),
        (b"[9007199254740993]", b"[9007199254740992]", ["t[0]: first 9007199254740993, second 9007199254740992"]),
        (b"{}", b"[]", ["t: first {}, second []"]),
        ('{"é": 1}', '{"é": 2}', ["t.é: first 1, second 2"]),
        (json.dumps('{"a": 1}').encode(), json.dumps('{"a": 2}').encode(), ["t.a: first 1, second 2"]),
        (msgpack.packb({"a": [1, b"\0"]}), msgpack.packb({"a": [2, b"\0"]}), ["t.a[0]: first 1, second 2"]),
        (msgpack.packb([{"a": 1}]), msgpack.packb([{"a": 2}]), ["t[0].a: first 1, second 2"]),
    ],
)  # fmt: skip
def test_what_is_said_of_two_texts(one: Any, two: Any, said: list[str]) -> None:
    """Also of doubled keys, numbers that no float holds, and texts that only their form tells apart."""
    assert lines(one, two) == said


def test_a_number_of_too_many_digits_breaks_nothing() -> None:
    """Python refuses to convert them."""
    digits = b"7" * 5000
    (line,) = lines(b"[1%s]" % digits, b"[2%s]" % digits)
    assert line.startswith("t[0]: first 17")
    assert ", second 27" in line


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (b'{"a": 1}', b'{"a": 2'),
        (b'{"a": 1} x', b'{"a": 2} x'),
        (b'{"a": "\xff"}', b'{"a": "\xfe"}'),
        (b"12", b"13"),
        (b'"a"', b'"b"'),
        (b"[" * 100_000 + b"1" + b"]" * 100_000, b"[" * 100_000 + b"2" + b"]" * 100_000),
        (b'["%s1"]' % (b"x" * SIZE_MAX), b'["%s2"]' % (b"x" * SIZE_MAX)),
        (b'{"a": 1}', msgpack.packb({"a": 2})),
        (msgpack.packb([1, 2]), msgpack.packb([1, 3])),  # Three bytes that may as well be three numbers.
        (b"\x81\xa1a\xd0\x01", b"\x81\xa1a\xd0\x02"),  # As no encoder writes it: 1 and 2 have a shorter form.
        (b"\x82\xa1a\x01\xa1a\x02", b"\x82\xa1a\x01\xa1a\x03"),  # A key twice.
        (msgpack.packb({"a": 1}) + b"\0", msgpack.packb({"a": 2}) + b"\0"),
        (b"cposix\nsystem\n.", b"cposix\nsyslog\n."),
    ],
)  # fmt: skip
def test_what_is_no_document_on_one_side_is_not_read_as_one(one: bytes, two: bytes) -> None:
    """Nothing is claimed of bytes that only look like one."""
    assert compared(one, two) is None


def test_a_row_of_bytes_may_have_an_unused_end() -> None:
    """An array of a state has one size, and the text in it has not."""
    one, two = (np.frombuffer(text.ljust(40, b"\0"), np.uint8) for text in (b'{"n": 9}', b'{"n": 10}'))
    assert lines(one, two) == ["t.n: first 9, second 10"]
    assert compared(one.astype(np.int64), two.astype(np.int64)) is None


class Patrol:
    """It keeps what it knows as texts."""

    def __init__(self, mode: str) -> None:
        self.text = json.dumps({"robots": [{"mode": mode}]})
        self.kept = self.text.encode()
        self.note = f"[{mode}"

    def step(self, _: Any) -> None:
        """Do nothing."""


def test_texts_of_captured_objects_are_compared_by_their_values() -> None:
    """The text of an attribute is a place for values like any other."""
    trees = []
    for mode in ("walk", "wait"):
        tree = tree_of(adapt(Patrol(mode)).state.snapshot())
        assert tree is not None
        trees.append(tree)
    assert sorted(one.text(("first", "second")) for one in object_differences(trees[0], trees[1], 3)) == [
        "kept.robots[0].mode: first 'walk', second 'wait'",
        "note: first '[walk', second '[wait'",
        "text.robots[0].mode: first 'walk', second 'wait'",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [('{"a": 1}', '"{\\"a\\": 1}"'), ("[0, 1]", "[-0, 1]")],
    ids=["written once more", "a sign"],
)
def test_texts_that_other_readers_tell_apart_are_not_called_equal(first: str, second: str) -> None:
    """The form alone does not differ: of one, a reader gets a text where it gets an object of the other."""
    found = document_differences("text", first, second, 8)
    assert found is None or [one.kind for one in found] == ["value"]


def test_a_text_of_too_many_values_is_compared_as_bytes() -> None:
    """At the limit it is read; beyond it, reading would take seconds."""
    for count, is_read in ((VALUES_MAX + 1, True), (VALUES_MAX + 2, False)):
        text = f"[{','.join('0' * count)}]"
        assert (read_documents(text, text[:-2] + "1]") is not None) is is_read
