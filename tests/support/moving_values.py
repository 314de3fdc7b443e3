"""A random simulation whose values move: between attributes of two objects, a list and a dict, come and gone, seen twice.

How a value is written depends on where it is: a number, an array and a generator have a field in an attribute, a large
container is kept apart as long as it does not change, an object in an attribute has fields of its own. All else are nodes of
a graph. A value that moves, or is changed by its user after a seek, changes sides.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import numpy as np

NAMES, INNER_NAMES = "abcdef", "xy"
DEPTH_MAX = 2
_ABSENT = "absent"


class Part:
    """An object with attributes."""

    def __init__(self, value: Any = 0) -> None:
        self.v = value


class Slotted:
    """An object with slots."""

    __slots__ = ("v", "w")

    def __init__(self, value: Any = 0) -> None:
        self.v = value
        self.w: Any = None


def made(draw: random.Random, t: int, depth: int = 0) -> Any:
    """A new value of a random kind."""
    large = draw.choice((2, 300, 3000))  # Containers of more than 200 are kept apart.
    makers = [
        lambda: np.random.default_rng(t),
        lambda: np.random.Generator(np.random.PCG64(t)),
        lambda: random.Random(t),
        lambda: np.random.RandomState(t),
        lambda: Part(t),
        lambda: Slotted(t),
        lambda: list(range(t, t + large)),
        lambda: {key: float(key) for key in range(large)},
        lambda: {(key, t) for key in range(draw.choice((3, 40)))},
        lambda: deque([t, t + 1], maxlen=draw.choice((None, 4))),
        lambda: "s" * (t % 5),
        lambda: t + 0.5,
        lambda: t,
        lambda: (1 << 70) + t,
        lambda: None,
        lambda: bool(t % 2),
        lambda: np.float64(t),
        lambda: np.arange(4.0) + t,
        lambda: (np.arange(6) + t).reshape(2, 3),
        lambda: bytes([t % 256]) * 3,
    ]
    if depth < DEPTH_MAX:
        makers += [
            lambda: [made(draw, t, depth + 1) for _ in range(2)],
            lambda: (made(draw, t, depth + 1), t),
            lambda: {"a": made(draw, t, depth + 1)},
            lambda: Part(made(draw, t, depth + 1)),
        ]
    return draw.choice(makers)()


class Moving:
    """The simulation.

    Attributes:
        names, inner_names: of the attributes, and of those of the inner object, in which values are kept.
    """

    names, inner_names = NAMES, INNER_NAMES

    def __init__(self, seed: int) -> None:
        self.t = 0
        self.rng = random.Random(seed)
        self.log: list[Any] = []
        self.by: dict[int, Any] = {}
        self.part: Any = Part()
        self._fill(random.Random(seed + 1))

    def _fill(self, first: random.Random) -> None:
        for name in NAMES:
            if first.random() < 0.7:
                setattr(self, name, made(first, 1))
        self.part.x = made(first, 2)

    def places(self) -> list[tuple[Any, Any]]:
        """Where values are: what holds each, and the name or index in it."""
        found: list[tuple[Any, Any]] = [(vars(self), name) for name in NAMES if name in vars(self)]
        found += [(vars(self.part), name) for name in (*INNER_NAMES, "v") if name in vars(self.part)]
        return [*found, *((self.log, index) for index in range(len(self.log))), *((self.by, key) for key in self.by)]

    def put(self, value: Any) -> None:
        """Keep a value anywhere."""
        where = self.rng.randrange(8)
        if where < 4:
            setattr(self, self.rng.choice(self.names), value)
        elif where < 5:
            setattr(self.part, self.rng.choice(self.inner_names), value)
        elif where < 7:
            self.log.append(value)
        else:
            self.by[self.rng.randrange(3)] = value

    def step(self, _: Any = None) -> None:
        """Some moves and changes."""
        self.t += 1
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            self._move(self.rng.randrange(12))
        places = self.places()
        for held, name in self.rng.sample(places, min(2, len(places))):
            self._change(held[name])

    def _move(self, kind: int) -> None:
        rng, places = self.rng, self.places()
        if kind < 3:
            self.put(made(rng, self.t))
        elif kind < 6 and places:
            held, name = rng.choice(places)
            self.put(held[name])
            if rng.random() < 0.4 and held is not self.log:
                held.pop(name, None)
        elif kind == 6 and places:
            held, name = rng.choice(places)
            del held[name]
        elif kind == 7:
            self.log.clear()
        elif kind == 8 and rng.random() < 0.3:
            self.part = Part()
        elif kind == 9 and len(places) > 1:
            (held, name), (other, key) = rng.sample(places, 2)
            held[name], other[key] = other[key], held[name]
        elif places:
            held, name = rng.choice(places)
            self._change(held[name])

    def _change(self, value: Any) -> None:
        """Change a value in its place."""
        rng, t = self.rng, self.t
        match value:
            case np.random.Generator():
                value.random() if rng.random() < 0.8 else value.spawn(1)
            case random.Random():
                value.random()
            case np.random.RandomState():
                value.rand()
            case Part():
                setattr(value, rng.choice("vuz"), rng.choice((t, None, t + 0.5, [t])))
            case Slotted():
                value.v, value.w = t, rng.choice((None, t, [t]))
            case list():
                if rng.random() < 0.5 or not value:
                    value.append(t)
                else:
                    value[rng.randrange(len(value))] = t
            case dict():
                value[rng.randrange(5)] = t
            case set():
                value.add((t, t))
                value.discard((0, 1))
            case deque():
                value.append(t)
            case np.ndarray():
                value.flat[0] = t

    def values(self) -> str:
        """All values, each mutable one by its number where it was met before."""
        met: dict[int, int] = {}
        attributes = [vars(self).get(name, _ABSENT) for name in NAMES]
        return repr([_told(one, met) for one in (attributes, self.part, self.log, self.by, self.t)])


def _told(value: Any, met: dict[int, int]) -> Any:
    if isinstance(value, int | float | str | bytes | None | np.generic):
        return type(value).__name__, repr(value)
    if isinstance(value, tuple):
        return "tuple", [_told(one, met) for one in value]
    if id(value) in met:
        return "as", met[id(value)]
    met[id(value)] = len(met)
    match value:
        case dict():
            parts: Any = [(_told(key, met), _told(one, met)) for key, one in value.items()]
        case list() | deque():
            parts = [getattr(value, "maxlen", None), *(_told(one, met) for one in value)]
        case set():
            parts = list(map(repr, value))
        case np.ndarray():
            parts = value.dtype.str, value.tolist()
        case np.random.Generator():
            seeds: Any = value.bit_generator.seed_seq
            parts = repr(value.bit_generator.state), seeds.n_children_spawned
        case np.random.RandomState() | random.Random():
            parts = repr(value.get_state() if isinstance(value, np.random.RandomState) else value.getstate())
        case Part():
            parts = [(name, _told(one, met)) for name, one in sorted(vars(value).items())]
        case Slotted():
            parts = _told(value.v, met), _told(value.w, met)
        case _:
            raise TypeError(f"not told: {value!r}")
    return type(value).__name__, parts
