"""A random simulation whose arrays see each other's memory: whole, in part, in other shapes, under any names, come and gone.

An array that NumPy makes by reshape is a view of a base that nothing names. A run that was loaded has no such base. Which
array owns the memory, there or here, must make no difference.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from moving_values import Moving, Part

SHARED_MAX = 12  # Arrays of which each pair is asked if it shares memory.

Array = Any
MAKERS: list[Callable[[int], Array]] = [
    lambda t: np.arange(6.0) + t,
    lambda t: (np.arange(6.0) + t).reshape(2, 3),
    lambda t: np.zeros((3, 2)) + t,
    lambda t: (np.arange(24) + t).reshape(2, 3, 4).astype(np.int32).reshape(-1),
    lambda t: (np.arange(1200.0) + t).reshape(3, -1),  # Too large for the part of the memory that is joined.
    lambda t: np.zeros(1200) + t,
    lambda t: np.asfortranarray(np.zeros((3, 2)) + t),
    lambda t: (np.arange(6.0) + t).view(np.int64).reshape(3, 2),
]
VIEWS: list[Callable[[Array], Array]] = [
    lambda x: x.reshape(-1),
    lambda x: x.reshape(-1)[1:3],
    lambda x: x[1:],
    lambda x: x.T,
    lambda x: x[...],
    lambda x: x,
    lambda x: x.reshape((*x.shape, 1)),
    lambda x: x[None],
    lambda x: x.view(np.int64) if x.dtype == np.float64 and x.flags.c_contiguous else x[:1],
]


class Sharing(Moving):
    """The simulation: arrays in attributes, in those of an inner object, in a list and in a dict."""

    names, inner_names = "abmqz", "gh"

    def _fill(self, first: random.Random) -> None:
        for name in "bmq":
            if first.random() < 0.6:
                setattr(self, name, first.choice(MAKERS)(0))
            elif first.random() < 0.5:
                setattr(self, name, None)
        if first.random() < 0.5:
            self.part.g = first.choice(MAKERS)(1)

    def places(self) -> list[tuple[Any, Any]]:
        """Where arrays are: what holds each, and the name or index in it."""
        found: list[tuple[Any, Any]] = []
        for held in (vars(self), vars(self.part)):
            found += [(held, name) for name in sorted(held) if isinstance(held[name], np.ndarray)]
        return [
            *found,
            *((self.log, index) for index in range(len(self.log))),
            *((self.by, key) for key in sorted(self.by)),
        ]

    def _change(self, value: Array) -> None:
        """Write to the memory of an array."""
        if value.size and value.flags.writeable:
            value.flat[self.rng.randrange(value.size)] = self.t

    def _move(self, kind: int) -> None:
        rng, places = self.rng, self.places()
        if kind < 3:
            self.put(rng.choice(MAKERS)(self.t))
        elif kind < 7 and places:
            self._see(*rng.choice(places))
        elif kind == 7 and places:
            held, name = rng.choice(places)
            del held[name]
        elif kind == 8 and places:
            held, name = rng.choice(places)
            if held is vars(self):
                held[name] = rng.choice((None, 3, 2.5))
        elif kind == 9:
            self.log.clear()
        elif kind == 10 and rng.random() < 0.3:
            self.part = Part()
        elif kind == 11 and len(places) > 1:
            (held, name), (other, key) = rng.sample(places, 2)
            held[name], other[key] = other[key], held[name]

    def _see(self, held: Any, name: Any) -> None:
        """Keep a view, and in some cases no longer the array."""
        array = held[name]
        try:
            view = self.rng.choice(VIEWS)(array)
        except ValueError:  # There is no such view of this one.
            view = array
        self.put(view)
        if self.rng.random() < 0.3 and held is not self.log:
            held.pop(name, None)

    def values(self) -> str:
        """All that a step can tell of the arrays: what is where, what is one object, and what shares memory."""
        places = self.places()
        arrays = [held[name] for held, name in places]
        numbers: dict[int, int] = {}
        same = [numbers.setdefault(id(array), number) for number, array in enumerate(arrays)]
        shared = (
            [[np.shares_memory(one, other) for other in arrays] for one in arrays] if len(arrays) < SHARED_MAX else None
        )
        held = [(name, array.dtype.str, array.tolist()) for (_, name), array in zip(places, arrays, strict=True)]
        others = {name: value for name, value in sorted(vars(self).items()) if isinstance(value, int | float | None)}
        return repr((held, same, shared, others))
