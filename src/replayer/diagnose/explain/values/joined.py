"""Let names lead to one object again, or to two, as a test of what load() splits or joins."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from recorder.ambient.ambient import set_child
from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from sim.kernel.simulation import Simulation


def join_names(simulation: Simulation, pairs: Iterable[tuple[str, str]]) -> None:
    """Let the second name of each pair lead to the object of the first one, where both lead to objects."""
    ambient = take_instance(simulation)
    paths = {name_of(path): path for path in (*ambient.objects, *ambient.aliases)}
    for first, second in pairs:
        if first not in paths or second not in paths:
            continue
        path, holder = paths[second], ambient.objects.get(paths[second][:-1])
        if holder is not None:
            real = ambient.aliases.get(paths[first], paths[first])
            set_child(holder, path[-1], ambient.objects[real])


def separate_names(simulation: Simulation, pairs: Iterable[tuple[str, str]]) -> None:
    """Let the second name of each pair lead to a copy of the object, where both lead to one."""
    ambient = take_instance(simulation)
    paths = {name_of(path): path for path in (*ambient.objects, *ambient.aliases)}
    for first, second in pairs:
        if first not in paths or second not in paths:
            continue
        path, holder = paths[second], ambient.objects.get(paths[second][:-1])
        real = ambient.aliases.get(path, path)
        if holder is not None and real == ambient.aliases.get(paths[first], paths[first]):
            set_child(holder, path[-1], copy.copy(ambient.objects[real]))
