"""The objects that the graph refers to and does not hold, by identity: they are saved elsewhere, or not at all.

They are the same in most steps, which costs a look at each of them.

What the user left out is not among them: an attribute that is saved may hold the same object, whose content counts. The
graph holds that object as if the other attribute did not exist.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any

from sim.adapters.capture.graph.values.names_elsewhere import NamesElsewhere
from sim.adapters.capture.survey import LEFT_OUT, Structure

_SIMPLE = (type(None), bool, int, float, str, bytes, tuple, enum.Enum)
_LEFT_ALONE = ("kept", "drawing", "fixed", "unknown")

Place = tuple[str, dict[str, Any], str]  # The full name of an attribute, the dict that holds it, and its name there.


class KnownObjects:
    """The names of such objects, found again when one of them is another object."""

    def __init__(
        self,
        structure: Structure,
        objects: Mapping[str, Any],
        elsewhere: Iterable[Place],
        generator_parts: Mapping[str, Any],
    ) -> None:
        """objects: the layers. elsewhere: attributes with a field of their own. generator_parts: what these consist of."""
        self._kept = places_left_alone(structure, objects)
        self._left_out = frozenset(
            f"{layer.name}.{one.name}"
            for layer in structure.layers
            for one in layer.attributes
            if one.detail == LEFT_OUT and one.category == "kept"
        )
        self._elsewhere = list(elsewhere)
        self._places = [(attributes, name) for _, attributes, name in (*self._kept, *self._elsewhere)]
        self._others = {id(one): name for name, one in {**generator_parts, **objects}.items()}
        self._identities: list[int] = [-1]
        self._names = NamesElsewhere()

    def names(self) -> NamesElsewhere:
        """The full names by identity; the same dict as before if all objects are. The caller does not change it."""
        values = [attributes.get(name) for attributes, name in self._places]
        identities = list(map(id, values))  # Not the objects: nothing here may keep them alive.
        if identities != self._identities:
            kept = {
                identity: full
                for (full, _, _), identity, value in zip(self._kept, identities, values, strict=False)
                if not issubclass(type(value), _SIMPLE)
            }
            named = {identity: full for identity, full in kept.items() if full not in self._left_out}
            held = {id(attributes[name]): full for full, attributes, name in self._elsewhere}
            self._identities, self._names = identities, NamesElsewhere(named | held | self._others)
            self._names.left_out = frozenset(identity for identity, full in kept.items() if full in self._left_out)
        return self._names


def places_left_alone(structure: Structure, objects: Mapping[str, Any]) -> list[Place]:
    """The attributes that are not saved."""
    return [
        (f"{layer.name}.{one.name}", vars(objects[layer.name]), one.name)
        for layer in structure.layers
        for one in layer.attributes
        if one.category in _LEFT_ALONE
    ]


def kept_values(structure: Structure, objects: Mapping[str, Any]) -> dict[str, Any]:
    """The objects that are not saved themselves, but that saved ones may refer to, by their full names."""
    found = ((full, held.get(name)) for full, held, name in places_left_alone(structure, objects))
    return {full: value for full, value in found if not issubclass(type(value), _SIMPLE)}
