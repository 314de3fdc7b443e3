"""Graphs that are saved exactly, each with changes that a capture may overlook. In sources, ``s`` is the subject."""

from __future__ import annotations

import functools
import itertools
import random
import weakref
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np

from object_graphs.classes import (
    MISSING,
    WALL,
    Cell,
    Data,
    Fixed,
    Half,
    Kind,
    Loose,
    Made,
    Marks,
    Narrower,
    Point,
    Rank,
    Size,
    Slim,
    Special,
    Thing,
    Tile,
    halve,
)
from object_graphs.odd_classes import (
    Asking,
    Counting,
    Grumpy,
    Hashed,
    Mode,
    Strict,
    Trail,
    chain,
    cut_iterator,
    identity_set,
    knot,
    memory_of_two,
    ring,
    shuffled,
    shuffled_set,
    two_of_one_source,
)
from object_graphs.pitfalls import Case, sharing
from object_graphs.sources import case

NAN = float("nan")


THINGS = [
    Thing(1),
    Special(2),
    Data(1.5, [1]),
    Slim(1, 2),
    Made(1, 2),
    Loose(3),
    Fixed(1, 2),
    Half(3),
    Narrower(4),
    Cell(1, 2),
]
SAME = "[[one is other for one in s.held] for other in s.held]"
PRESENT = "(type(s.held).__name__, repr(s.held))"


EXACT: dict[str, Case] = {
    # Equal is not the same.
    "an attribute that is True, 1, 1.0, -0.0, 0.0, False": case(
        True,
        "s.held = 1",
        "s.held = 1.0",
        "s.held = -0.0",
        "s.held = 0.0",
        "s.held = 0",
        "s.held = False",
        seen=PRESENT,
    ),
    "an item of a list that is True, 1, 1.0": case([True], "s.held[0] = 1", "s.held[0] = 1.0", "s.held[0] = True"),
    "a value of a dict that is 0.0, -0.0, 0": case({"k": 0.0}, "s.held['k'] = -0.0", "s.held['k'] = 0"),
    "a key of a dict that is 1, True, 1.0": case({1: 2}, "s.held = {True: 2}", "s.held = {1.0: 2}"),
    "a key of a kept dict that is replaced by an equal one": case({1: 2}, "del s.held[1]; s.held[True] = 2"),
    "a tuple that is (1,), (True,), (1.0,)": case([(1,)], "s.held[0] = (True,)", "s.held[0] = (1.0,)"),
    "a member of a set that is 1, True": case({1, 5}, "s.held.discard(1); s.held.add(True)"),
    "a nan that stays, and one with a sign": case([NAN], "s.held[0] = -s.held[0]", "s.held.append(float('nan'))"),
    "big integers": case([2**63, -(2**63) - 1], "s.held[0] = 2**20000 + 1", "s.held[0] -= 1"),
    "an int, a text and a NumPy number of one value": case([1], "s.held[0] = '1'", "s.held[0] = np.int64(1)"),
    "texts with surrogates and a null": case(["\ud800", "a\0b"], "s.held[0] += 'x'"),
    # Attributes.
    "None that becomes an object and back": case(None, "s.held = Thing(1)", "s.held = None", "s.held = Thing(2)"),
    "an attribute of an inner object that appears and goes": case(
        [Thing(1), Thing(2)], "s.held[0].extra = [1]", "del s.held[0].extra", "s.held[1].extra = None"
    ),
    "an attribute of the outermost object that appears and goes": case(
        1, "s.new = [Thing(1)]", "del s.new", "s.new = 2"
    ),
    "delete and set with an equal count": case([Thing(1)], "del s.held[0].near; s.held[0].far = 3"),
    "attributes in another order": case([Thing(1)], "n = s.held[0].n; del s.held[0].n; s.held[0].n = n"),
    "__dict__ replaced": case([Thing(1)], "s.held[0].__dict__ = {'b': 1, 'a': s.held}", "s.held[0].b = 2"),
    "__class__ replaced": case(
        [Thing(1)], "s.held[0].__class__ = Special", "s.held[0].act()", "s.result = s.held[0].bag"
    ),
    "vars() asked for in a step": case([Thing(1)], "vars(s.held[0])['n'] = 5", "s.held[0].n = 6"),
    "attributes whose names are no identifiers": case(
        [Thing(1)], "setattr(s.held[0], 'a.b[0] c', 1); setattr(s.held[0], '', 2); setattr(s.held[0], 'größe', 3)"
    ),
    "slots of two classes, some unset": case(
        [Narrower(1)], "s.held[0].b = s.held", "del s.held[0].a", "s.held[0].c = 1; del s.held[0].b"
    ),
    "slots and a __dict__": case([Half(1)], "s.held[0].b = 2; s.held[0].extra = 3", "del s.held[0].b"),
    "a frozen object that is shared": case(
        lambda: sharing(Fixed(1, [2]), lambda one: [one, {"k": one}, (one,)]), "s.held[0].near.append(3)"
    ),
    "equal frozen objects that are not the same one": case(
        lambda: [Cell(1), Cell(1), Tile(1), Tile(1), Fixed(1), Fixed(1)],
        "s.held += [s.held[0], Cell(1), s.held[3], Tile(1)]",
        "s.held[1] = s.held[0]; s.held.append(Fixed(1))",
        seen=SAME,
    ),
    "equal frozen objects as keys, in tuples and named tuples": case(
        lambda: sharing(Tile(1), lambda one: [one, {one: 1}, {Tile(1): 1}, (Tile(1), one), Point(one, Tile(1))]),
        "s.held[1] = {Tile(1): s.held[0]}",
        "s.held[2][s.held[3][1]] = 5",
        "s.held[4] = s.held[4]._replace(y=s.held[0])",
        seen="[one is s.held[0] for one in (*s.held[1], *s.held[2], *s.held[3], *s.held[4])]",
    ),
    "equal partials, which are not the same one": case(
        lambda: [functools.partial(halve, 8), functools.partial(halve, 8)],
        "s.held += [s.held[1], functools.partial(halve, 8)]",
        "s.held.remove(s.held[1]); s.result = [one() for one in s.held]",
        "s.held[0].keywords['x'] = s.held",
        "s.held[0].mark = 5; s.held[1].keywords['x'] = 9",
        "del s.held[0].mark; s.held[0].keywords.clear()",
        seen=f"({SAME}, [(one.args, len(one.keywords), vars(one)) for one in s.held])",
        walks=False,
    ),
    "equal partials as keys and in sets": case(
        lambda: {functools.partial(halve, 1): 1, functools.partial(halve, 1): 2},
        "s.held[functools.partial(halve, 1)] = 3; s.held[functools.partial(halve, x=1)] = 4",
        "del s.held[[*s.held][1]]; s.result = {functools.partial(halve, n) for n in (1, 1, 2, 3, 4, 5)}",
        "s.result -= {one for one in s.result if one.args == (3,)}; s.held = {one: 1 for one in [*s.held][1:]}",
        seen="(len(s.held), len(set(s.held)), sorted(one() for one in s.result or ()))",
        walks=False,
    ),
    "a class derived from deque with a largest length": case(
        lambda: [Trail([1], 3), Trail([2]), Trail((), 0)],
        *["s.held[0].append(s.t); s.held[1].append(s.t); s.held[2].append(5)"] * 4,
        "s.held[0].mark = s.held; s.held.append(Trail(s.held[0], 2))",
        seen="[(list(one), one.maxlen) for one in s.held]",
    ),
    "a defaultdict that gets another factory": case(
        lambda: [defaultdict(list, {1: [2]}), defaultdict(list)],
        "s.held[0].default_factory = int",
        "s.held[0][3] += 1; s.held[1][2].append(s.held)",
        "s.held[0].default_factory = None; s.held.append(s.held[0])",
        "s.held[0].default_factory = s.held[1].default_factory; s.held[0][9].append(1)",
        seen="[one.default_factory for one in s.held]",
    ),
    "keys that hash by an attribute, taken out before it changes": case(
        lambda: [Hashed(1), {}, set()],
        "s.held[1][s.held[0]] = 1; s.held[2].add(s.held[0])",
        "s.held[0].near = s.held",
        "s.held[1].clear(); s.held[2].clear(); s.held[0].x = 7; s.held[1][s.held[0]] = 2; s.held[2].add(s.held[0])",
        "s.held[1][Hashed(1)] = 3",
        seen="([key.x for key in s.held[1]], s.held[0] in s.held[1], s.held[0] in s.held[2])",
    ),
    "the order of sets of objects whose own method hashes numbers": case(
        lambda: [shuffled(Hashed(n * 7 % 64) for n in range(40)), frozenset(Hashed(n * 5 % 32) for n in range(20)), []],
        "s.held[2].append(s.held[0].pop()); s.held[0].add(Hashed(64))",
        "s.held[0] |= {Hashed(n * 11 % 97 + 64) for n in range(30)}",
        "[s.held[0].discard(one) for one in list(s.held[0])[::3]]; s.held[0].add(Hashed(8))",
        seen="[[one.x for one in held] for held in s.held]",
        walks=False,
    ),
    "partials as factories of defaultdicts": case(
        lambda: defaultdict(functools.partial(defaultdict, functools.partial(list)), {1: 2}),
        "s.held[5][6].append(7)",
        "s.held[5][8].append(s.held[5])",
        "s.held[9][1].append(1)",
        seen="{key: dict(one) if key != 1 else one for key, one in s.held.items() if key != 5}",
        walks=False,
    ),
    "equal frozen objects in sets and frozensets": case(
        lambda: sharing(Tile(3), lambda one: [one, {one, Tile(11), Tile(19)}, {Tile(3)}, frozenset({one, Tile(7, 1)})]),
        "s.held[1].discard(Tile(3)); s.held[1].add(Tile(3)); s.held[2] = {s.held[0]}",
        "s.held[3] = frozenset({Tile(3), Cell(3, frozenset({s.held[0]}))})",
        "s.held[1] |= {Tile(n, n) for n in range(20)}",
        seen="[[one is s.held[0] for one in held] for held in s.held[1:]]",
    ),
    "a frozen object in the frozenset that it refers to": case(
        lambda: [knot(1), knot(1)], "s.held.append(s.held[0])", "s.held[0] = knot(2)", seen=SAME
    ),
    # Anywhere.
    "objects of all kinds in a list": case(THINGS, "s.held.reverse()", "s.held.pop()", "s.held[4].x = 8"),
    "objects in a tuple, a deque, an OrderedDict, a defaultdict": case(
        lambda: [(Thing(1),), deque([Thing(2)], maxlen=2), OrderedDict(k=Thing(3)), defaultdict(list, {1: [Thing(4)]})],
        "s.held[0][0].n = 1; s.held[1].append(s.held[0][0])",
        "s.held[1].append(5); s.held[2].move_to_end('k'); s.held[3]['new'].append(s.held)",
    ),
    "objects as keys, by value and by identity": case(
        lambda: {Cell(1, 2): 1, Thing(1): 2, Point(1, 2): 3, Fixed(1): 4},
        "[setattr(one, 'n', 5) for one in s.held if isinstance(one, Thing)]; s.held[Thing(2)] = 6",
        "s.result = s.held[Cell(1, 2)]; s.held.pop(next(iter(s.held)))",
    ),
    "a Counter and its order": case(lambda: Counter("hello"), "s.held['l'] -= 5", "s.held.update('oh')"),
    "objects deep inside": case({"a": [{"b": (1, [Thing(1)])}]}, "s.held['a'][0]['b'][1][0].n = s.held['a']"),
    "births and deaths": case(
        lambda: {i: Thing(i) for i in range(5)},
        "del s.held[1], s.held[3]",
        "s.held[9] = Thing(9)",
        "s.held[1] = Thing(10)",
    ),
    # Sharing.
    "one list twice": case(lambda: [[1]] * 2, "s.held[0].append(2)", "s.held[1] = [1, 2]", "s.held[0].append(3)"),
    "a list that holds itself through a tuple and a dict": case(ring, "s.held.append(s.held[1])"),
    "an object that refers to the outermost one": case([Thing(1)], "s.held[0].near = s", "s.held.append(s)"),
    "a cycle that dies": case(lambda: [chain(3)], "s.held[0].inner.inner.inner = s.held[0]", "s.held[0] = None"),
    # By name.
    "members of enumerations": case(
        [Kind.A, Rank.LOW, Marks.RED | Marks.BLUE, Mode.ON], "s.held[0] = Kind.B", "s.held[1] = 1"
    ),
    "named tuples": case(
        [Point(1, [2]), Size(1)], "s.held[0].y.append(3)", "s.held[1] = s.held[1]._replace(height=s.held)"
    ),
    "an object that is a module's global": case(
        [WALL, MISSING, 1], "s.held[2] = WALL", seen="[one is WALL for one in s.held] + [s.held[1] is MISSING]"
    ),
    "modules": case(lambda: [itertools, 1], "s.held[1] = next(s.held[0].count(5))", "s.held.append(s.held[0])"),
    "functions and classes": case(lambda: [halve, Thing, len], "s.held[0] = Special", "s.held.append(s.held[1](5))"),
    "bound methods": case(
        lambda: sharing(Special(1), lambda one: [one, one.act]),
        "s.result = s.held[1]()",
        "s.held[1] = s.step",
        "s.held[0].n = 3",
    ),
    # Sets.
    "a set with a history": case(
        shuffled_set, *["s.result = s.held.pop(); s.held.add((s.t, 30))"] * 6, seen="list(s.held)"
    ),
    "a set with the same elements and another table": case(
        lambda: {1, 2, 3},
        "s.held.update(range(100)); s.held -= set(range(4, 100)); s.held.discard(0)",
        "s.held.add(9 * 8); s.held.add(8)",
        "s.result = s.held.pop()",
        seen="list(s.held)",
    ),
    "a set that was popped": case(
        lambda: set(range(50)), "[s.held.pop() for _ in range(20)]", "s.held.update((1, 2)); s.result = s.held.pop()"
    ),
    "a set of colliding numbers": case(lambda: {8, 16, 0, -1, -2, 2**61 - 1}, "s.held.discard(8)", "s.held.add(24)"),
    "an empty set with a large table": case(
        lambda: set(range(99)), "s.held -= set(range(99))", "s.held.update((99, 3, 35))"
    ),
    "a set of objects that is only asked in": case(
        identity_set,
        "s.result = s.held[0][2] in s.held[1]; s.held[1].discard(s.held[0][2])",
        "s.held[1].add(s.held[0][3])",
        seen="[one in s.held[1] for one in s.held[0]]",
    ),
    # Iterators.
    "a list iterator after the end of its list": case(
        cut_iterator, "s.held[0] += [7, 8, 9]", "s.result = next(s.held[1])"
    ),
    "a used up iterator": case(
        lambda: sharing([], lambda one: [one, iter(one)]),
        "s.result = next(s.held[1], 5)",
        "s.held[0].append(1)",
        "s.result = next(s.held[1], 5)",
    ),
    "count, cycle and repeat": case(
        lambda: [itertools.count(3, 2), itertools.cycle([1, 2, 3]), itertools.repeat(5, 4)],
        *["s.result = [next(one, None) for one in s.held]"] * 6,
    ),
    "a count beyond 64 bits, and of floats": case(
        lambda: [itertools.count(2**70), itertools.count(0.5, 0.25)], *["s.result = [*map(next, s.held)]"] * 2
    ),
    "iterators over a tuple, a range, a text, a reversed list, a dict": case(
        lambda: [
            iter((1, [2], 3)),
            iter(range(9)),
            iter("abc"),
            reversed([1, 2, 3]),
            iter({1: 2, 3: 4}),
            iter({1: [2], 3: 4}.items()),
        ],
        *["s.result = [next(one, None) for one in s.held]"] * 4,
    ),
    # Arrays and generators.
    "views of memory that nothing else holds": case(memory_of_two, "s.held[0][3] = 99", "s.held[1] = s.held[1].copy()"),
    "a view and its owner in different places": case(
        lambda: sharing(np.arange(5), lambda one: [one, Thing(1, one[::-1])]), "s.held[1].n[0] = 9", "s.held[0] += 1"
    ),
    "arrays of all shapes": case(
        lambda: [
            np.zeros(()),
            np.zeros((0, 3)),
            np.asfortranarray(np.arange(6).reshape(2, 3)),
            np.arange(3, dtype=">i2"),
            np.array(["a", "é"]),
            np.array([b"x"]),
            np.array(["2020-01-01"], "M8[D]"),
            np.array([1j, -0.0]),
        ],
        "s.held[0][...] = 2; s.held[2][0, 1] = 7",
        "s.held[3] += 1; s.held[2].flags.writeable = False",
    ),
    "an array that takes another dtype or shape": case(
        lambda: [np.zeros(3)], "s.held[0] = s.held[0].astype(int)", "s.held[0] = s.held[0].reshape(3, 1)"
    ),
    "generators anywhere": case(
        lambda: {"a": [random.Random(1)], "b": (np.random.default_rng(2),), "c": Thing(1, np.random.RandomState(3))},
        *["s.result = (s.held['a'][0].gauss(0, 1), s.held['b'][0].integers(9, dtype='u4'), s.held['c'].n.normal())"]
        * 3,
    ),
    "two generators of one source": case(two_of_one_source, *["s.result = [one.random() for one in s.held]"] * 2),
    "a generator that spawns others": case(
        lambda: np.random.default_rng(5),
        *["s.result = [float(np.random.default_rng(one).random()) for one in s.held.bit_generator._seed_seq.spawn(2)]"]
        * 3,
        "s.held = np.random.default_rng(6)",
        *["s.result = s.held.bit_generator._seed_seq.spawn(1)[0].spawn_key"] * 2,
    ),
    "a generator beside its bit generator and its seeds": case(
        lambda: np.random.default_rng(5),
        "s.bits = s.held.bit_generator",
        "s.result = (int(s.bits.random_raw()), s.held.random())",
        "s.seeds = [s.bits._seed_seq]",
        "s.result = s.seeds[0].spawn(1)[0].spawn_key",
        "s.other = np.random.Generator(s.bits)",
        "s.result = (s.other.random(), s.held.random())",
        "del s.held",
        "s.result = (s.other.random(), int(s.bits.random_raw()), s.bits._seed_seq.spawn(1)[0].spawn_key)",
    ),
    # Large containers, which are assumed not to change.
    "many rows of an array": case(
        lambda: np.zeros((300, 4)),
        "s.rows = list(s.held)",
        "s.rows[7][1] = 3.0",
        "s.one = s.held[9]",
        "s.one[0] = 2.0; s.held[9, 3] = 4.0",
        seen="[bool(np.shares_memory(one, s.held)) for one in getattr(s, 'rows', [])][:3]",
    ),
    "many arrays that are written in place": case(
        lambda: {number: np.zeros(2) for number in range(210)},
        "s.held[5][0] = 1.0",
        "s.t += 0",
        "s.held[6][1] += 2.0",
    ),
    "many generators and a part of one": case(
        lambda: [np.random.default_rng(number) for number in range(250)],
        "s.bits = [s.held[3].bit_generator]",
        "s.result = (int(s.bits[0].random_raw()), s.held[3].random())",
    ),
    "two generators of one bit generator, of which one is made again": case(
        lambda: np.random.default_rng(5),
        "s.other = np.random.Generator(s.held.bit_generator)",
        "s.held = np.random.default_rng(6)",
        "s.result = (s.other.random(), s.held.random())",
        "s.result = (s.other.random(), s.held.random())",
    ),
    "a row of a large table": case(
        lambda: [[0] * 30 for _ in range(20)],
        "s.row = s.held[3]",
        "s.row[0] = 1",
        "s.held[3][1] = 2",
        "s.row = s.held[4]",
        "s.row[2] = 3",
        seen="[hasattr(s, 'row') and s.row is one for one in s.held]",
    ),
    "one of many arrays": case(
        lambda: [np.zeros(3) for _ in range(210)],
        "s.now = s.held[7]",
        "s.now[0] = 1",
        "s.now = s.held[8]",
        "s.held[8][1] = 2",
        seen="[hasattr(s, 'now') and s.now is one for one in s.held[6:10]]",
    ),
    "a generator in a large container": case(
        lambda: sharing(np.random.default_rng(1), lambda one: [[0] * 300, one]),
        "s.rng = s.held[1]",
        "s.result = s.rng.random()",
        "s.result = s.held[1].random()",
        seen="hasattr(s, 'rng') and s.rng is s.held[1]",
    ),
    # Weak references.
    "weak references": case(
        lambda: sharing(Thing(1), lambda one: [one, weakref.ref(one), weakref.ref(Thing(2))]),
        "s.held[1]().n = 5",
        "s.held[0] = None",
        "s.result = s.held[1]() is None",
        seen="[one() is None for one in s.held[1:]]",
    ),
    # Methods of the user's classes that a capture must not call.
    "__init__, __setstate__ and __reduce__ are not called": case(
        lambda: [Counting()], "s.held.append(s.held[0])", "s.held[0].value = [1]"
    ),
    "__setattr__ that raises": case(lambda: [Strict()], "vars(s.held[0])['value'] = 2", "vars(s.held[0]).clear()"),
    "__getattr__ that answers everything": case(
        lambda: [Asking()], "s.held[0].value = 2", "s.result = s.held[0].other"
    ),
    "objects that cannot be compared, hashed, measured, shown": case(
        lambda: [Grumpy(), Grumpy()], "s.held[0].value = s.held[1]", "s.held.pop(0)"
    ),
    # Size.
    **{
        f"a linked list of {count:,} objects": case(
            lambda count=count: chain(count),
            "s.held = Chain(s.held)",
            "s.held = s.held.inner.inner",
            seen="depth_of(s.held)",
            walks=False,
        )
        for count in (2_000, 10_000)
    },
    "100,000 integers": case(
        lambda: list(range(10**5)),
        "s.held[50_000] = -1",
        "s.held.append(0.5)",
        "del s.held[3]",
        seen="(len(s.held), zlib.crc32(repr(s.held).encode()))",
        walks=False,
    ),
    "5,000 objects": case(
        lambda: [chain(1) for _ in range(5_000)],
        "s.held[500].inner = s.held[3]",
        "del s.held[3]; s.held.append(Chain(0.5))",
        "s.held.reverse()",
        seen="list(map(depth_of, s.held))",
        walks=False,
    ),
    "a set of 100,000 numbers": case(
        lambda: set(range(0, 10**6, 10)),
        "s.held.remove(500)",
        "s.held.add(7)",
        seen="(len(s.held), zlib.crc32(repr(list(s.held)).encode()))",
        walks=False,
    ),
    "a tuple of 100,000 numbers": case(
        lambda: tuple(range(10**5)),
        "s.held = (*s.held[:7], None, *s.held[7:])",
        seen="(len(s.held), zlib.crc32(repr(s.held).encode()))",
        walks=False,
    ),
    "a million integers": case(
        lambda: list(range(10**6)),
        "s.held[500_000] = -1",
        "s.held.append(0.5)",
        "del s.held[3]",
        seen="(len(s.held), zlib.crc32(repr(s.held).encode()))",
        walks=False,
    ),
}
