"""A capture that is exact because it repeats the run, and faults to plant into it: the test of the test.

A machine that compares graphs can fail in two ways: it reports a difference where there is none, or it overlooks one.
"""

from __future__ import annotations

import copy
import random
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.schema import Blob, Schema
from sim.kernel.state import State

from object_graphs.changes import objects_of
from object_graphs.classes import WALL, Cell, Half, Narrow, Rank, Special, Thing, Tile, Wall
from object_graphs.world import World, make_world

Fault = Callable[[World], None]


class Repeated:
    """Saves the inputs since the start; restores by repeating them.

    Attributes:
        subject: the world; another object after each restore.
    """

    marks_writes = False

    def __init__(self, after_restoring: Fault, after_a_step: Fault) -> None:
        self.subject = make_world()
        self._after_restoring, self._after_a_step = after_restoring, after_a_step
        self._inputs: list[Any] = []
        self.state = State(Schema(Blob("inputs")))
        self._write()

    def step(self, inputs: Any) -> None:
        """Step and save."""
        self.subject.step(inputs)
        self._inputs.append([list(one) for one in inputs])
        self._after_a_step(self.subject)
        self._write()

    def _write(self) -> None:
        self.state.set_blob("inputs", encode_plain(self._inputs))

    def after_restore(self) -> None:
        """Repeat the inputs, and apply the fault."""
        self._inputs = decode_plain(self.state.blob("inputs"))
        self.subject = make_world()
        for inputs in self._inputs:
            self.subject.step(inputs)
        self._after_restoring(self.subject)


def nothing(world: World) -> None:
    """No fault."""


def repeated(after_restoring: Fault = nothing, after_a_step: Fault = nothing) -> Repeated:
    """A fresh simulation, with these faults."""
    return Repeated(after_restoring, after_a_step)


def _replace(world: World, new: Callable[[Any], Any]) -> None:
    """Replace values in attributes, lists and dicts. new returns the value itself where it leaves it."""
    for one in objects_of(world):
        if isinstance(one, list):
            one[:] = map(new, one)
        elif isinstance(one, dict):
            for key, value in one.items():
                one[key] = new(value)
        elif hasattr(one, "__dict__") and not isinstance(one, Cell | Tile):
            for name, value in vars(one).items():
                setattr(one, name, new(value))


def true_as_one(world: World) -> None:
    _replace(world, lambda value: 1 if value is True else value)


def zero_without_sign(world: World) -> None:
    _replace(world, lambda value: 0.0 if type(value) is float and value == 0 else value)


def rank_as_number(world: World) -> None:
    _replace(world, lambda value: int(value) if type(value) is Rank else value)


def wall_is_copied(world: World) -> None:
    _replace(world, lambda value: Wall() if value is WALL else value)


def method_of_the_base_class(world: World) -> None:
    def new(value: Any) -> Any:
        is_method = type(value) is types.MethodType and isinstance(value.__self__, Special)
        return types.MethodType(Thing.act, value.__self__) if is_method else value

    _replace(world, new)


def weak_reference_dies(world: World) -> None:
    _replace(world, lambda value: weakref.ref(Thing(0)) if type(value) is weakref.ref else value)


def alias_is_lost(world: World) -> None:
    seen: set[int] = set()

    def new(value: Any) -> Any:
        if type(value) in (Thing, list) and id(value) in seen:
            return copy.copy(value)
        seen.add(id(value))
        return value

    _replace(world, new)


def equal_objects_are_one(world: World) -> None:
    seen: dict[Tile, Tile] = {}
    _replace(world, lambda value: seen.setdefault(value, value) if type(value) is Tile else value)


def dict_order_is_lost(world: World) -> None:
    for one in objects_of(world):
        if type(one) is dict and len(one) > 1:
            one[next(iter(one))] = one.pop(next(iter(one)))


def sets_from_their_elements(world: World) -> None:
    for one in objects_of(world):
        if type(one) is set:
            elements = list(one)
            one.clear()
            one.update(elements)


def deleted_attribute_returns(world: World) -> None:
    for one in objects_of(world):
        if type(one) is Thing and not hasattr(one, "near"):
            one.near = None


def class_change_is_lost(world: World) -> None:
    for one in objects_of(world):
        if type(one) is Special and hasattr(one, "extra0"):
            one.__class__ = Thing


def slots_of_the_base_are_lost(world: World) -> None:
    for one in objects_of(world):
        if type(one) is Half and hasattr(one, "b"):
            del one.b


def empty_slot_is_none(world: World) -> None:
    for one in objects_of(world):
        if isinstance(one, Narrow) and not hasattr(one, "b"):
            one.b = None


def view_is_copied(world: World) -> None:
    _replace(world, lambda value: value.copy() if type(value) is np.ndarray and value.base is not None else value)


def gauss_is_lost(world: World) -> None:
    for one in objects_of(world):
        if type(one) is random.Random:
            one.gauss_next = None  # type: ignore[attr-defined]


def half_a_draw_is_lost(world: World) -> None:
    for one in objects_of(world):
        if type(one) is np.random.Generator and "has_uint32" in one.bit_generator.state:
            one.bit_generator.state = {**one.bit_generator.state, "has_uint32": 0}


def iterator_at_the_end_of_its_list(world: World) -> None:
    """What __setstate__ does to one whose list has shrunk."""
    for one in objects_of(world):
        if type(one) is type(iter([])) and len(one.__reduce__()) == 3:
            one.__setstate__(min(one.__reduce__()[2], len(one.__reduce__()[1][0])))


def deque_without_length(world: World) -> None:
    _replace(world, lambda value: deque(value) if type(value) is deque and value.maxlen is not None else value)


def ordered_dict_is_a_dict(world: World) -> None:
    _replace(world, lambda value: dict(value) if type(value) is OrderedDict else value)


def team_loses_a_member(world: World) -> None:
    for one in objects_of(world):
        if hasattr(one, "members") and one.members:
            one.members.discard(min(one.members, key=lambda member: member.uid))


def cycle_starts_again(world: World) -> None:
    import itertools

    def new(value: Any) -> Any:
        return itertools.cycle(sorted(next(value) for _ in range(3))) if type(value) is itertools.cycle else value

    _replace(world, new)


HELD: list[Any] = []


def objects_are_held(world: World) -> None:
    HELD[:] = objects_of(world)  # As a capture does that compares identities.


AFTER_RESTORING: dict[str, tuple[Fault, str]] = {  # With the feature in which it shows.
    one.__name__: (one, feature)
    for one, feature in (
        (true_as_one, "basic"),
        (zero_without_sign, "basic"),
        (alias_is_lost, "basic"),
        (dict_order_is_lost, "basic"),
        (deleted_attribute_returns, "basic"),
        (class_change_is_lost, "reshape"),
        (equal_objects_are_one, "dataclasses"),
        (rank_as_number, "values"),
        (deque_without_length, "containers"),
        (ordered_dict_is_a_dict, "containers"),
        (sets_from_their_elements, "sets"),
        (slots_of_the_base_are_lost, "slots"),
        (empty_slot_is_none, "slots"),
        (view_is_copied, "arrays"),
        (gauss_is_lost, "randoms"),
        (half_a_draw_is_lost, "randoms"),
        (iterator_at_the_end_of_its_list, "iterators"),
        (cycle_starts_again, "iterators"),
        (method_of_the_base_class, "functions"),
        (weak_reference_dies, "weak"),
        (wall_is_copied, "singletons"),
        (team_loses_a_member, "teams"),
    )
}
AFTER_A_STEP: dict[str, tuple[Fault, str]] = {"objects_are_held": (objects_are_held, "weak")}
