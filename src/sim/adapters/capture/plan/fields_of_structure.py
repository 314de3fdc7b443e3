"""The fields for the attributes of a structure that have fields of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from sim.adapters.capture.foreign_fields import foreign_fields
from sim.adapters.capture.plan.arena_fields import array_field, is_hot
from sim.adapters.capture.rng_state import PCG_WORDS
from sim.adapters.capture.survey import Structure, field_name
from sim.kernel.schema import Blob, Field


def fields_of(structure: Structure, objects: Mapping[str, Any]) -> tuple[list[Field | Blob], list[Field | Blob], int]:
    """The fields of arrays and generators, all others, and the number of those that are cells. objects: by their layers."""
    hot: list[Field | Blob] = []
    entries: list[Field | Blob] = []
    cells = 0
    for layer in structure.layers:
        for attribute in layer.attributes:
            name = field_name(layer.name, attribute.name)
            if attribute.category == "cell":
                entries.append(Field(name, f"{attribute.detail}8"))
                cells += 1
            elif attribute.category == "array":
                array = array_field(name, *attribute.detail)
                size_bytes = math.prod(array.shape) * array.dtype.itemsize
                hot.append(attrs.evolve(array, hot=is_hot(size_bytes)))
            elif attribute.category == "foreign":
                entries += foreign_fields(name, vars(objects[layer.name])[attribute.name])
            elif attribute.category == "generator":
                hot.append(Field(name, "u8", (PCG_WORDS,), hot=True))
    return hot, entries, cells
