"""Write the attributes of objects into an arena after each step: the part of capturing that costs time in every step.

Most of the work is a cheap check, for all attributes of a layer at once, that they are the same objects as before. A
different object with an equal text or number of the same type counts as the same. Only attributes that often change are
checked one by one. Arrays and generators are copied each time. All small ones are written with one store: they are
adjacent in the arena (hot fields), and their memory is joined as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_not, itemgetter
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.foreign_fields import ForeignEntry, foreign_entry, have_shared_memory
from sim.adapters.capture.rng_state import generator_memory, pcg_bytes
from sim.adapters.capture.survey import (
    KIND_NUMBERS,
    NEVER_SET,
    TEXT_KINDS,
    Attribute,
    Structure,
    cell_of,
    field_name,
    has_own_memory,
    is_quiet_by_equality,
)
from sim.kernel.schema import Field
from sim.kernel.state import State

STEPS_FIELD, KINDS_FIELD = "steps", "kinds"
BLOB_BYTES_MIN = 256
HOT_BYTES_MAX = 1 << 12  # Larger arrays are copied one by one.

_WATCHED = ("cell", "constant", "object", "same", "fixed", "drawing")


@attrs.define(eq=False)
class _Watch:
    """One layer: its attributes, and the values of those that do not move."""

    holder: Any
    cls: type
    attributes: dict[str, Any]
    size: int
    get: Callable[[Any], tuple[Any, ...]] | None
    values: tuple[Any, ...]

    def has_moved(self) -> bool:
        """Return True if a watched attribute has a different value, or the number of attributes has changed."""
        attributes = self.attributes
        if len(attributes) != self.size or vars(self.holder) is not attributes or type(self.holder) is not self.cls:
            return True
        if self.get is None:
            return False
        try:
            values = self.get(attributes)
        except KeyError:  # An attribute was removed.
            return True
        return any(map(is_not, values, self.values)) and self._has_unequal(values)

    def _has_unequal(self, values: tuple[Any, ...]) -> bool:
        """Return True if a value is not just a different object for an equal text or number."""
        for value, before in zip(values, self.values, strict=True):
            if value is before:
                continue
            # The types first: True is equal to 1, and 0.5 to an array of one element.
            if type(value) is not type(before) or not is_quiet_by_equality(before) or value != before:
                return True
        self.values = values
        return False


@attrs.define(eq=False)
class _Cell:
    """A number, and its index in the memory of its letter."""

    attributes: dict[str, Any]
    name: str
    letter: str
    memory: Any
    index: int
    kind_index: int
    kind: type
    value: Any


@attrs.define(eq=False)
class _Array:
    """An array: its index among the joined parts, or the view that it is copied to."""

    attributes: dict[str, Any]
    name: str
    value: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    part: int | None
    view: Any
    detached: bool


class StepPacker:
    """A packer of one structure into one arena.

    Attributes:
        before: the value of each attribute when the packer was made, by the names of the layer and the attribute.
    """

    def __init__(
        self,
        state: State,
        structure: Structure,
        objects: dict[str, Any],
        is_restless: Callable[[tuple[str, str], Attribute], bool],
        detached: frozenset[str],
    ) -> None:
        """is_restless: true for an attribute that is expected to move. detached: layers whose arrays are copies."""
        self.before: dict[tuple[str, str], Any] = {}
        self.arena = state.arena
        self._watches: list[_Watch] = []
        self._moving_cells: list[_Cell] = []
        self._cells: list[_Cell] = []
        self._arrays: list[_Array] = []
        self._generators: list[tuple[dict[str, Any], str, Any, int | None]] = []
        self._foreign: list[ForeignEntry] = []
        self._kinds = state[KINDS_FIELD]
        self._memory = state.arena.data
        self._by_letter = {"i": self._memory.cast("q"), "f": self._memory.cast("d")}
        slots = state.layout.slots
        self._start = self._end = slots[STEPS_FIELD].offset
        self._parts: list[Any] = []
        self._add_hot(bytes(8), slots[STEPS_FIELD].offset, 8)
        for layer in structure.layers:
            attributes = vars(objects[layer.name])
            for attribute in layer.attributes:
                name = attribute.name
                if attribute.category == "foreign":
                    entry = foreign_entry(field_name(layer.name, name), attributes, name, attribute.detail, state)
                    self._foreign.append(entry)
                elif attribute.category in ("cell", "array", "generator"):
                    slot = slots[field_name(layer.name, name)]
                    value = attributes[name]
                    if attribute.category == "cell":
                        moves = is_restless((layer.name, name), attribute)
                        self._add_cell(attributes, attribute, slot, value, moves=moves)
                    elif attribute.category == "array":
                        self._add_array(attributes, name, slot, value, state, detached=layer.name in detached)
                    else:
                        self._add_generator(attributes, name, slot, value)
            self._watches.append(self._watch(layer.name, layer.attributes, objects[layer.name], is_restless))

    # --- each step

    def pack(self, steps: int) -> bool:
        """Write the values that have moved. Return False, with some unwritten, if one is of a different kind."""
        for watch in self._watches:
            if watch.has_moved():
                return False
        try:
            if not (self._pack_cells() and self._pack_arrays() and self._pack_generators()):
                return False
            if self._foreign and not self._pack_foreign():
                return False
        except KeyError:
            return False  # An attribute was removed and a different one added: their number is unchanged.
        self._parts[0] = steps.to_bytes(8, "little")
        self._memory[self._start : self._end] = b"".join(self._parts)
        return True

    def _pack_cells(self) -> bool:
        for cell in self._moving_cells:
            value = cell.attributes[cell.name]
            if value is not cell.value and not self._write(cell, value):
                return False
        return True

    def _pack_arrays(self) -> bool:
        for array in self._arrays:
            value = array.attributes[array.name]
            if value is not array.value:
                if not self._is_like(array, value):
                    return False
                array.value = value
                if array.part is not None:
                    self._parts[array.part] = value
            elif value.shape != array.shape or value.dtype is not array.dtype or not value.flags.writeable:
                return False  # NumPy lets all three be set.
            if array.part is None:
                array.view[...] = value if array.dtype.kind not in TEXT_KINDS else _bytes_of(value)
        return True

    def _pack_generators(self) -> bool:
        for attributes, name, generator, part in self._generators:
            if attributes[name] is not generator:
                return False
            if part is not None:
                self._parts[part] = pcg_bytes(generator)
        return True

    def _pack_foreign(self) -> bool:
        replaced = any(entry.attributes[entry.name] is not entry.before for entry in self._foreign)
        if replaced and have_shared_memory(self._foreign):
            return False
        return all(entry.write() for entry in self._foreign)

    def pack_all(self, steps: int) -> bool:
        """Write all values, including those that do not move."""
        for cell in self._cells:
            self._kinds[cell.kind_index] = KIND_NUMBERS[cell.kind]
            cell.memory[cell.index] = _as_number(cell.value)
        return self.pack(steps)

    def _write(self, cell: _Cell, value: Any) -> bool:
        """Write a new number into its cell. Return False if it does not fit."""
        kind = type(value)
        if kind is not cell.kind:
            if value is not None and cell_of(value) != cell.letter:
                return False
            self._kinds[cell.kind_index] = KIND_NUMBERS[kind]
            cell.kind = kind
        elif kind is int and cell_of(value) is None:
            return False
        cell.memory[cell.index] = _as_number(value)
        cell.value = value
        return True

    def _is_like(self, array: _Array, value: Any) -> bool:
        """Return True if a new array can replace the array that was packed before."""
        if type(value) is not np.ndarray or value.dtype is not array.dtype or value.shape != array.shape:
            return False
        if not value.flags.writeable:
            return False
        if value.ndim > 1 and not value.flags.c_contiguous:
            return False
        if array.detached:
            return bool(value.flags.c_contiguous)
        if value.base is not None and not (has_own_memory(value) and value.flags.c_contiguous):
            return False
        for other in self._arrays:
            if not other.detached and other is not array and value is other.attributes.get(other.name):
                return False  # One array under two names: only the rest can express that.
        return True

    # --- made once

    def _add_hot(self, part: Any, offset: int, size: int) -> int:
        """Add a part to the memory that is written with one store, and return its number."""
        if offset > self._end:
            self._parts.append(bytes(offset - self._end))
        self._parts.append(part)
        self._end = offset + size
        return len(self._parts) - 1

    def _add_cell(
        self, attributes: dict[str, Any], attribute: Attribute, slot: Any, value: Any, *, moves: bool
    ) -> None:
        memory = self._by_letter[attribute.detail]
        cell = _Cell(
            attributes, attribute.name, attribute.detail, memory, slot.offset // 8, len(self._cells), type(value), value
        )
        self._cells.append(cell)
        if moves:
            self._moving_cells.append(cell)

    def _add_array(
        self, attributes: dict[str, Any], name: str, slot: Any, value: Any, state: State, *, detached: bool
    ) -> None:
        part = self._add_hot(value, slot.offset, slot.size_bytes) if is_hot(slot.size_bytes) else None
        view = state[slot.name] if part is None else None
        self._arrays.append(_Array(attributes, name, value, value.shape, value.dtype, part, view, detached))

    def _add_generator(self, attributes: dict[str, Any], name: str, slot: Any, value: Any) -> None:
        memory = generator_memory(value)
        if memory is None:
            part = self._add_hot(pcg_bytes(value), slot.offset, slot.size_bytes)
            self._generators.append((attributes, name, value, part))
            return
        offset = slot.offset
        for words in memory:
            self._add_hot(words, offset, words.nbytes)
            offset += words.nbytes
        self._generators.append((attributes, name, value, None))

    def _watch(
        self,
        layer: str,
        listed: tuple[Attribute, ...],
        holder: Any,
        is_restless: Callable[[tuple[str, str], Attribute], bool],
    ) -> _Watch:
        attributes, watched = vars(holder), list[str]()
        for attribute in listed:
            if attribute.category in ("kept", "clock", "unknown"):
                continue
            key, value = (layer, attribute.name), attributes[attribute.name]
            self.before[key] = value
            if attribute.category not in _WATCHED and attribute.detail != NEVER_SET:
                continue  # Each of them is checked when it is copied.
            if not is_restless(key, attribute):
                watched.append(attribute.name)
        get = _getter(watched)
        return _Watch(holder, type(holder), attributes, len(attributes), get, get(attributes) if get else ())


def _as_number(value: Any) -> Any:
    """The number for the memory of a cell, which does not accept NumPy's booleans."""
    if value is None:
        return 0
    return int(value) if type(value) is np.bool_ else value


def _bytes_of(texts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(texts)[..., None].view(np.uint8)


def is_hot(size_bytes: int) -> bool:
    """Return True if an array of this size is written together with the other small ones."""
    return 0 < size_bytes <= HOT_BYTES_MAX


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]] | None:
    if not names:
        return None
    return itemgetter(*names) if len(names) > 1 else itemgetter(names[0], names[0])


def array_field(name: str, dtype: str, shape: Sequence[int]) -> Field:
    """The field for an array; an array of texts is stored as bytes."""
    made = np.dtype(dtype)
    return Field(name, "u1", (*shape, made.itemsize)) if made.kind in TEXT_KINDS else Field(name, made, tuple(shape))


def room_for(content: bytes) -> int:
    """The capacity of a blob: a power of two, so that it does not depend on earlier contents."""
    return max(BLOB_BYTES_MIN, 1 << (len(content) - 1).bit_length())
