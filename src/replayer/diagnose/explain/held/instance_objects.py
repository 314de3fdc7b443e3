"""Which objects the instance of a step holds before it, and which ones exist elsewhere: a bound method may be of either.

Two instances may be equal, and a list of listeners outside of them may lead to the objects of one of them alone.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from types import CodeType, CoroutineType, FrameType, GeneratorType, MethodType
from typing import Any

from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from recorder.ambient.roots import is_users
from sim.kernel.class_names import module_of
from sim.kernel.memory.weak_counts import ToolReference
from sim.kernel.simulation import Simulation

ELSEWHERE = "outside the instance"
_NO_OBJECTS = (type, MethodType, GeneratorType, CoroutineType)


class InstanceObjects:
    """The objects of a moment, of which some are held by a simulation.

    Attributes:
        named: the first name of each object that the simulation holds, with the object itself, by its id.
    """

    def __init__(
        self,
        named: Mapping[int, tuple[str, Any]] | None = None,
        others: Mapping[int, ToolReference] | None = None,
        suspended: Mapping[int, CodeType] | None = None,
    ) -> None:
        """others: objects that it does not hold, by id. suspended: the code of generators and coroutines, by the frame's id."""
        self.named = dict(named or {})
        self._others = dict(others or {})
        self._suspended = dict(suspended or {})

    @staticmethod
    def of(simulation: Simulation) -> InstanceObjects:
        """The objects of this process now. Where a simulation holds too many, none is known to be elsewhere."""
        instance = take_instance(simulation)
        named = {id(one): (name_of(path), one) for path, one in instance.objects.items()}
        kinds: dict[type, bool] = {}
        others: dict[int, ToolReference] = {}
        suspended: dict[int, CodeType] = {}
        for one in _all_objects():
            kind = type(one)
            if issubclass(kind, GeneratorType | CoroutineType):
                frame = one.cr_frame if isinstance(one, CoroutineType) else one.gi_frame
                if frame is not None:
                    suspended[id(frame)] = frame.f_code
                continue
            if kind not in kinds:
                kinds[kind] = _is_object(kind)
            if instance.is_complete and kinds[kind] and id(one) not in named:
                others[id(one)] = ToolReference(one)
        return InstanceObjects(named, others, suspended)

    def is_elsewhere(self, value: Any) -> bool:
        """Return True for an object that existed before, and that the simulation did not hold."""
        kept = self._others.get(id(value))
        return kept is not None and kept() is value

    def place_of(self, value: Any) -> str:
        """Where an object is: its name in the instance, or ELSEWHERE; empty if it is not known, or was made since."""
        name, one = self.named.get(id(value), ("", None))
        if one is value and name and _is_object(type(value)):
            return name
        return ELSEWHERE if self.is_elsewhere(value) else ""

    def address_text(self, key: Any) -> str:
        """Of a number that is the address of an object in the instance: id(Farm.fields[0]); empty for anything else."""
        name, one = self.named.get(key, ("", None)) if type(key) is int else ("", None)
        return f"id({name})" if name and _is_object(type(one)) else ""

    def place_with_article(self, value: Any) -> str:
        """The same for people: "Farm.fields[0]", "a Field outside the instance"."""
        place = self.place_of(value)
        return f"a {type(value).__name__} {place}" if place == ELSEWHERE else place

    def text_of_place(self, value: Any) -> str:
        """The same as it follows the name of a method: " of Farm.fields[0]"."""
        place = self.place_with_article(value)
        return f" of {place}" if place else ""

    def was_suspended(self, frame: FrameType) -> bool:
        """Return True for the frame of a generator or a coroutine that existed before; asked once, when it first runs."""
        return self._suspended.pop(id(frame), None) is frame.f_code


def _all_objects() -> list[Any]:
    """The objects of this process, with those that were frozen before it was copied."""
    if not gc.get_freeze_count():
        return gc.get_objects()
    was_on = gc.isenabled()
    gc.disable()  # What was garbage in the process that was copied is not to be finalized here.
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    if was_on:
        gc.enable()
    return found


def _is_object(kind: type) -> bool:
    """Return True for a class of the user's whose objects can be told apart."""
    return is_users(module_of(kind)) and not issubclass(kind, _NO_OBJECTS) and bool(kind.__weakrefoffset__)
