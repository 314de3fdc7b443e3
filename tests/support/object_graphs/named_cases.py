"""Graphs that are refused or warned of by name, if they are not saved exactly. In sources, ``s`` is the subject."""

from __future__ import annotations

import array
import collections
import datetime as dt
import functools
import itertools
import logging
import operator
import re
import threading
import types
import weakref
import zoneinfo
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path

import numpy as np

from object_graphs.classes import (
    Thing,
    halve,
)
from object_graphs.odd_classes import (
    Bag,
    Hashed,
    OfItsOwn,
    Raising,
    Router,
    Table,
    Text,
    Token,
    nested,
    with_stale_key,
)
from object_graphs.pitfalls import Case, sharing
from object_graphs.sources import case, does

NAN = float("nan")


# --- right, or refused by name, or warned of by name


SAID: dict[str, Case] = {
    "nan as a key": case(lambda: {NAN: 1}, "s.held[s.t] = 2", seen="[key in s.held for key in s.held]", kind=""),
    "nan as a key that is held elsewhere, too": case(
        lambda: [NAN, {NAN: 1}], "s.result = s.held[1].get(s.held[0])", "s.held[0] = -1.0"
    ),
    "nan in a set": case(
        lambda: {NAN, 1}, "s.held.add(float('nan'))", seen="sorted(map(repr, s.held))", walks=False, kind="set"
    ),
    "a nan in a value that becomes a key, among many": case(
        lambda: {number: (number, NAN) for number in range(300)},
        "one = list(s.held.items()); s.held.clear(); s.held.update((value, key) for key, value in one)",
        kind="tuple",
    ),
    "a generator that comes into a large container": case(
        lambda: list(range(300)),
        "s.held[7] = iter(one for one in range(3))",
        seen="len(s.held)",
        walks=False,
        kind="generator",
    ),
    "a WeakSet": case(
        lambda: sharing([Thing(1), Thing(2)], lambda one: [one, weakref.WeakSet(one)]),
        "s.held[0].pop()",
        "s.result = len(s.held[1])",
        seen="len(s.held[1])",
        kind="WeakSet",
        walks=False,
    ),
    "a WeakValueDictionary": case(
        lambda: sharing([Thing(1)], lambda one: [one, weakref.WeakValueDictionary(k=one[0])]),
        "s.held[0].pop()",
        "s.result = len(s.held[1])",
        seen="len(s.held[1])",
        kind="WeakValueDictionary",
        walks=False,
    ),
    "a weak reference with a callback": case(
        lambda: sharing(Thing(1), lambda one: [one, weakref.ref(one, print)]), "s.held[0].n = 2", kind="ref"
    ),
    "__del__ that counts deaths": case(
        list, "s.held.append(Mortal(s))", "s.held.pop()", "s.result = s.deaths", kind="Mortal"
    ),
    "a frozenset of colliding numbers": case(
        lambda: [frozenset([8, 16, 0])], "s.held.append(frozenset([16, 0, 8]))", kind="frozenset"
    ),
    "a frozenset of objects": case(
        lambda: [frozenset([Thing(1)])], "s.held.append(next(iter(s.held[0])))", kind="frozenset"
    ),
    "a list of its own class": case(lambda: [Bag([1, 2])], "s.held[0].append(3); s.held[0].name = 'x'", kind="Bag"),
    "a dict of its own class": case(
        lambda: [Table(a=1)], "s.result = s.held[0]['b']; s.held[0]['c'] = 2", kind="Table"
    ),
    "a text of its own class": case(lambda: [Text("a")], "s.held[0] = Text('b')", kind="Text"),
    "__new__ of its own": case(lambda: [OfItsOwn(1)], "s.held.append(OfItsOwn(2))", kind="OfItsOwn"),
    "a generator that spawns others": case(
        lambda: [np.random.default_rng(3)], *["s.result = s.held[0].spawn(1)[0].random()"] * 3, kind="Generator"
    ),
    "a logger": case(
        lambda: [logging.getLogger("a.b")],
        "s.held.append(1)",
        seen="s.held[0].name",
        walks=False,
        kind="",
    ),
    "a compiled pattern": case(
        lambda: [re.compile("a+")],
        "s.held[0] = s.held[0].match('aa')[0]",
        walks=False,
        seen="str(s.held)",
        kind="Pattern",
    ),
    "a time with a zone": case(
        lambda: [dt.datetime(2020, 3, 29, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("UTC"))],
        "s.held[0] += s.held[0].utcoffset()",
        kind="",
    ),
    "an exception": case(
        lambda: [ValueError("a", 1)], "s.held[0].extra = 5", walks=False, seen="s.held[0].args", kind="ValueError"
    ),
    "a deque iterator": case(
        lambda: sharing(collections.deque([1, 2, 3]), lambda one: [one, iter(one)]),
        *["s.result = next(s.held[1])"] * 3,
        walks=False,
        seen="s.result",
        kind="deque_iterator",
    ),
    "a chain of iterators": case(
        lambda: [itertools.chain([1], iter([2, 3]))],
        *["s.result = next(s.held[0])"] * 3,
        walks=False,
        seen="s.result",
        kind="chain",
    ),
    "a __dict__ that is a value": case(
        lambda: sharing(Thing(1), lambda one: [one, vars(one)]), "s.held[1]['n'] = 5", "s.held[0].n = 6", kind="dict"
    ),
    "a __dict__ with a key that is no text": case(lambda: [Thing(1)], "vars(s.held[0])[5] = 6", kind="Thing"),
    "an attribute that raises when it is read": case(
        lambda: [Raising()], "vars(s.held[0])['value'] = 2", kind="Raising", walks=False, seen="vars(s.held[0])"
    ),
    "memory of a bytearray": case(
        lambda: sharing(bytearray(b"abcd"), lambda one: [one, np.frombuffer(one, "u1")]),
        "s.held[0][1] = 9",
        seen="s.held[1].tolist()",
        kind="array",
    ),
    "an array of objects": case(
        lambda: [np.array([Thing(1), None], object)],
        "s.held[0][0].n = 5",
        "s.held[0][1] = s.held",
        walks=False,
        seen="(s.held[0][0].n, s.held[0][1] is s.held)",
        kind="array",
    ),
    "a structured array": case(
        lambda: [np.zeros(2, [("a", "i4"), ("b", "f8", 2)])], "s.held[0]['b'][1] = 5", kind="array"
    ),
    "a masked array": case(
        lambda: [np.ma.masked_array([1, 2], [0, 1])],
        "s.held[0][0] = 5",
        walks=False,
        seen="(s.held[0].data.tolist(), s.held[0].mask.tolist())",
        kind="MaskedArray",
    ),
    "array.array": case(
        lambda: [array.array("d", [1.5])], "s.held[0].append(2.5)", walks=False, seen="s.held[0].tolist()", kind="array"
    ),
    "SimpleNamespace": case(lambda: [types.SimpleNamespace(a=1)], "s.held[0].b = s.held", kind="SimpleNamespace"),
    "UserDict and ChainMap": case(
        lambda: [collections.UserDict(a=1), collections.ChainMap({}, {"b": 2})], "s.held[1]['c'] = 3", kind=""
    ),
    "functools.partial": case(
        lambda: [functools.partial(halve, 3)], "s.result = s.held[0]()", walks=False, seen="s.held[0]()", kind="partial"
    ),
    "an itemgetter": case(
        lambda: [operator.itemgetter(1)],
        "s.result = s.held[0]([5, 6])",
        walks=False,
        seen="s.held[0]([5, 6])",
        kind="itemgetter",
    ),
    "a method of a list": case(
        lambda: sharing([], lambda one: [one, one.append]),
        "s.held[1](5)",
        walks=False,
        seen="s.held[0]",
        kind="builtin",
    ),
    "a class method": case(
        lambda: [dict.fromkeys], "s.result = s.held[0]('a')", walks=False, seen="s.held[0]('a')", kind=""
    ),
    "enumerate": case(
        lambda: [enumerate([5, 6, 7])],
        *["s.result = next(s.held[0])"] * 2,
        walks=False,
        seen="s.result",
        kind="enumerate",
    ),
    "a dict iterator whose dict was changed": case(
        lambda: sharing({1: 2, 3: 4, 5: 6}, lambda one: [one, iter(one)]),
        "s.result = next(s.held[1])",
        "del s.held[0][1]; s.held[0][7] = 8",
        "s.result = next(s.held[1])",
        walks=False,
        seen="(s.held[0], s.result)",
        kind="iterator",
    ),
    "the subject changes its class": case(
        lambda: 1, "s.__class__ = Turned", "s.held = 2", seen="type(s).__name__", kind="Turned", named="Subject"
    ),
    **{
        f"{kind}s in {kind}s, {depth:,} deep": case(
            lambda depth=depth, wrap=wrap: nested(depth, wrap), change, seen="depth_of(s.held)", walks=False, kind=kind
        )
        for depth in (2_000, 10_000)
        for kind, wrap, change in (
            ("list", lambda one: [one], "s.held = [s.held]"),
            ("tuple", lambda one: (one,), "s.held = (s.held,)"),
            ("dict", lambda one: {"k": one}, "s.held = {'k': s.held}"),
            ("frozenset", lambda one: frozenset([one]), "s.held = frozenset([s.held])"),
        )
    },
    "100,000 keys": case(
        lambda: dict.fromkeys(range(10**5)),
        "s.held[50_000] = -1",
        "del s.held[3]; s.held['x'] = 0.5",
        seen="(len(s.held), zlib.crc32(repr(s.held).encode()))",
        walks=False,
        kind="dict",
    ),
    "a million keys": case(
        lambda: dict.fromkeys(range(10**6)),
        "s.held[500_000] = -1",
        "del s.held[3]; s.held['x'] = 0.5",
        seen="(len(s.held), zlib.crc32(repr(s.held).encode()))",
        walks=False,
        kind="dict",
    ),
}

# --- refused


REFUSED: dict[str, Case] = {
    "a generator": case(lambda: [(one for one in range(3))], kind="generator"),
    "a generator that appears in a step": case(
        lambda: [1], "s.held[0] = 2", "s.held.append(one for one in range(3))", kind="generator"
    ),
    "a generator in an attribute of an object in a dict": case(
        lambda: {"k": [Router()]}, "s.held['k'][0].route = iter(one for one in range(3))", kind="generator"
    ),
    "a lambda": case(lambda: [lambda: 1], kind="function"),
    "a function inside a function": case(lambda: [does("1")], kind="function"),
    "a defaultdict with a lambda": case(lambda: [defaultdict(lambda: 1)], kind="defaultdict"),
    "map over a generator": case(lambda: [map(abs, (one for one in [1]))], kind="map"),
    "a set iterator": case(lambda: [iter({1, 2})], kind="set_iterator"),
    "an open file": case(lambda: [Path(__file__).open(encoding="utf-8")], kind="TextIOWrapper"),  # noqa: SIM115
    "a lock": case(lambda: [threading.Lock()], kind="lock"),
    "a module with a generator": case(lambda: [np.random], kind="module"),
    "a key whose hash changes": case(
        lambda: sharing(Hashed(1), lambda one: [one, {one: 1}]), "s.held[0].x += 1", kind="Hashed"
    ),
    "a key of a part of its own whose hash changes": case(
        lambda: Hashed(1), "s.result = {s.held: 1}", "s.held.x += 1", kind="Hashed", named="result"
    ),
    "a key in a tuple whose hash changes": case(
        lambda: sharing(Hashed(1), lambda one: [one, Counter({(one, 2): 1})]), "s.held[0].x += 1", kind="tuple"
    ),
    "an element whose hash changes": case(
        lambda: sharing(Hashed(1), lambda one: [one, {one, Hashed(5)}]), "s.held[0].x += 1", kind="Hashed"
    ),
    "an element of a part of its own whose hash changes": case(
        lambda: Hashed(1), "s.result = {s.held}", "s.held.x += 1", kind="Hashed", named="result"
    ),
    "a key whose hash has changed before": case(with_stale_key, kind="Hashed"),
    "two nans of NumPy as keys": case(lambda: {np.float64("nan"): 1, np.float64("nan"): 2}, kind="float64"),
    "a nan of NumPy as a key in a step": case(lambda: {1: 1}, "s.held[np.float32('nan')] = 2", kind="float32"),
    "a time that is none as a key": case(lambda: [{np.datetime64("NaT"): 1}], kind="datetime64"),
    "a complex nan as a key": case(lambda: [Counter([complex(1, NAN)])], kind="complex"),
    "a decimal nan as a key": case(lambda: [{Decimal("nan"): 1}], kind="Decimal"),
    "a nan in a tuple as a key": case(lambda: [(1, NAN)], "s.held = {s.held[0]: 1}", kind="tuple"),
    "a nan in a tuple as a key, among many": case(
        lambda: {number: (number, NAN) for number in range(300)},
        "s.held = {s.held[number]: number for number in range(300)}",
        kind="tuple",
    ),
    "a nan of NumPy, or in a tuple, in a set": case(lambda: [{(1, NAN)}], kind="set"),
    "a text that is equal only to itself in a set": case(lambda: [{Token("a")}], kind="set"),
    "a nan in a frozenset": case(lambda: [frozenset({1, np.float64("nan")})], kind="frozenset"),
    "texts as keys that are equal only to themselves": case(lambda: {Token("a"): 1, Token("a"): 2}, kind="Token"),
}
