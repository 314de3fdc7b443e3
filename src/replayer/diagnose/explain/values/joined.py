"""Let names lead to one object again, or to two, as a test of what load() splits or joins."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from recorder.ambient.replacement.named_values import set_child
from sim.kernel.simulation import Simulation

Names = tuple[str, str]


def join_names(simulation: Simulation, pairs: Iterable[Names]) -> None:
    """Let the second name of each pair lead to the object of the first one, where both lead to objects."""
    for name, holder, first, _ in _held(simulation, pairs):
        set_child(holder, name, first)


def separate_names(simulation: Simulation, pairs: Iterable[Names]) -> None:
    """Let the second name of each pair lead to a copy of the object, where both lead to one."""
    for name, holder, first, second in _held(simulation, pairs):
        if first is second:
            set_child(holder, name, copy.copy(second))


def _held(simulation: Simulation, pairs: Iterable[Names]) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Of each pair of names that lead to objects: the second one's last step, the object that it is in, and both objects."""
    ambient = take_instance(simulation)
    paths = {name_of(path): path for path in (*ambient.objects, *ambient.aliases)}
    for names in pairs:
        if not paths.keys() >= set(names):
            continue
        first, second = (ambient.objects[ambient.aliases.get(paths[name], paths[name])] for name in names)
        path = paths[names[1]]
        holder = ambient.objects.get(path[:-1])
        if holder is not None:
            yield path[-1], holder, first, second
