"""Write the attributes of objects into an arena after each step: the part of capturing that costs time in every step.

A function that is made for the structure looks at all attributes and writes them (step_plan.py). Most of them are the
same objects as before. A different object with an equal text counts as the same. Numbers are written where they are
another object, arrays and generators each time. All small ones are written with one store: they are adjacent in the arena
(hot fields), and their memory is joined as it is. Large arrays, and whatever else is rare, are written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.foreign_fields import ForeignEntry, foreign_entry, have_shared_memory
from sim.adapters.capture.own_memory import TEXT_KINDS
from sim.adapters.capture.plan.arena_fields import as_number, bytes_of, is_hot, is_quiet_by_equality
from sim.adapters.capture.plan.moving_attributes import MovingAttributes
from sim.adapters.capture.plan.packed_attributes import PackedArray, PackedCell, WatchedAttribute
from sim.adapters.capture.plan.step_plan import (
    ArrayValue,
    LayerPlan,
    NumberValue,
    PlannedMemory,
    StepPlan,
    WatchedValue,
)
from sim.adapters.capture.rng_state import generator_memory, pcg_bytes, seeds_of
from sim.adapters.capture.survey import KIND_NUMBERS, NEVER_SET, Attribute, Structure, cell_of, field_name
from sim.kernel.state import State

STEPS_FIELD, KINDS_FIELD = "steps", "kinds"

_REPLACEABLE = ("constant", "object", "same", "fixed")
_NDARRAY = np.ndarray
_WATCHED = (*_REPLACEABLE, "drawing")
MISFITS = (KeyError, ValueError)  # An attribute was removed and a different one added; or a value does not fit.
_WRITTEN_BY_HAND = (type(None), np.bool_)  # The memory of a cell does not accept them.


class StepPacker:
    """A packer of one structure into one arena.

    Attributes:
        before: the value of each attribute whose replacement matters, when the packer was made, by the names of the
            layer and the attribute.
        moving: which attributes move, as far as it is known.
        look: writes the values that have moved, in nearly all steps: see StepPlan.look.
        watches_rest: true if pack looks at the values that the graph holds, too.
        rest_has_moved: true if these have to be captured: one of them is another object, or they are not looked at.
    """

    def __init__(
        self,
        state: State,
        structure: Structure,
        objects: dict[str, Any],
        detached: frozenset[str],
        has_own_memory: Callable[[Any], bool],
        replaced: StepPacker | None,
    ) -> None:
        """detached: layers whose arrays are copies. replaced: a packer that is used no more, and keeps nothing alive."""
        self.moving: MovingAttributes = MovingAttributes() if replaced is None else replaced.moving
        self._plan: Any = None  # A StepPlan.
        if replaced is not None:
            replaced.end()
        self.before: dict[tuple[str, str], Any] = {}
        self.arena = state.arena
        self._structure, self._objects = structure, objects
        self._has_own_memory = has_own_memory  # See Surveyor.
        self._cells: dict[tuple[str, str], PackedCell] = {}
        self._arrays: dict[tuple[str, str], PackedArray] = {}
        self._large: list[PackedArray] = []  # Those that are copied one by one.
        self._attached: list[PackedArray] = []  # Those that are no copies.
        self._generators: list[tuple[dict[str, Any], str, Any, int]] = []
        self._seeds: list[tuple[Any, int]] = []  # Seed sequences, and the parts for the numbers of their children.
        self._steady: set[tuple[int, str]] = set()  # Generators whose memory is joined: only another object matters.
        self._foreign: list[ForeignEntry] = []
        self._kinds = state[KINDS_FIELD]
        self._memory = state.arena.data
        self._integers = self._memory.cast("q")
        self._by_letter = {"i": self._integers, "f": self._memory.cast("d")}
        slots = state.layout.slots
        self._start = self._end = slots[STEPS_FIELD].offset
        self._parts: list[Any] = []
        self._steps_place = self._start // 8
        self._start = self._end = self._start + 8
        for layer in structure.layers:
            attributes = vars(objects[layer.name])
            for attribute in layer.attributes:
                name = attribute.name
                if attribute.category in _REPLACEABLE:
                    self.before[layer.name, name] = attributes[name]
                elif attribute.category == "foreign":
                    entry = foreign_entry(field_name(layer.name, name), attributes, name, attribute.detail, state)
                    self._foreign.append(entry)
                elif attribute.category in ("cell", "array", "generator"):
                    slot = slots[field_name(layer.name, name)]
                    value = attributes[name]
                    if attribute.category == "cell":
                        self._add_cell(layer.name, attribute, slot, value)
                    elif attribute.category == "array":
                        self._add_array(layer.name, attributes, name, slot, value, state, layer.name in detached)
                    else:
                        self._add_generator(attributes, name, slot, value)
        self._has_had_nodes = False
        self._make_plan({}, None)
        self.rest_has_moved = True

    # --- what is looked at

    def rest_was_captured(self, roots: Sequence[Any], *, holds_nodes: bool) -> None:
        """Look at the values that the graph holds, given in order, from now on, as long as none of them is a node.

        A node may have changed in any step, and nothing else may keep it alive.
        """
        self._has_had_nodes = self._has_had_nodes or holds_nodes
        if self.watches_rest is self._has_had_nodes:
            self._make_plan(self._known_values(), None if self._has_had_nodes else roots)
        self.rest_has_moved = self._has_had_nodes

    def _known_values(self) -> dict[tuple[str, int], Any]:
        known = {(watched.name, id(watched.attributes)): watched.number for watched in self._watched}
        return {key: self._plan.value(number) for key, number in (known | self._numbers).items()}

    def _plan_again(self) -> None:
        """Make a plan in which attributes that moved often have lines of their own; the next one after twice as many looks."""
        self.moving.learn((self._structure.layers[layer].name, name) for layer, name in self._plan.moved())
        rest = [self._plan.value(one.number) for one in self._watched if one.is_rest]
        self._make_plan(self._known_values(), rest if self.watches_rest else None)

    def follow(self, objects: Mapping[str, Any]) -> None:
        """Look at other objects of the same form in place of those of these layers; see replaced_objects.py."""
        for index, (holder, cls, attributes) in enumerate(self._layers):
            name = self._structure.layers[index].name
            if name not in objects:
                continue
            now = objects[name]
            own = vars(now)
            self._plan.set_holder(index, now)
            self._layers[index] = (now, cls, own)
            for number, one in enumerate(self._watched):
                if one.attributes is attributes:
                    self._watched[number] = attrs.evolve(one, attributes=own)
                    if not one.is_rest:
                        self._plan.set_value(one.number, own[one.name])
                elif self._plan.value(one.number) is holder and one.attributes[one.name] is now:
                    self._plan.set_value(one.number, now)
            for key in [key for key in self._numbers if key[1] == id(attributes)]:
                self._numbers[key[0], id(own)] = self._numbers.pop(key)
        for layer, name in self.before:
            now = objects.get(f"{layer}.{name}")
            if now is not None:
                self.before[layer, name] = now
        self._objects = {**self._objects, **objects}
        self.rest_has_moved = True

    def _make_plan(self, known: dict[tuple[str, int], Any], roots: Sequence[Any] | None) -> None:
        """known: the values that were seen before; the present ones of all others count as seen."""
        self.watches_rest = roots is not None
        rest = iter(roots or ())
        self._watched: list[WatchedAttribute] = []
        self._numbered: dict[int, PackedCell] = {}
        self._planned: dict[int, PackedArray] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        layers: list[LayerPlan] = []
        number = 0
        for layer in self._structure.layers:
            holder = self._objects[layer.name]
            attributes = vars(holder)
            watched: list[WatchedValue] = []
            for one in layer.attributes:
                root = next(rest, None) if one.category == "rest" else None
                is_rest = one.category == "rest" and one.detail != NEVER_SET
                is_steady = one.category in _WATCHED or (id(attributes), one.name) in self._steady
                if is_steady or (one.detail == NEVER_SET if not is_rest else self.watches_rest):
                    value = root if is_rest else known.get((one.name, id(attributes)), attributes[one.name])
                    watched.append(WatchedValue(one.name, value))
                    self._watched.append(WatchedAttribute(number, attributes, one.name, is_rest))
                    number += 1
            numbers: list[NumberValue] = []
            for one in layer.attributes:
                if one.category == "cell":
                    cell = self._cells[layer.name, one.name]
                    value = known.get((one.name, id(attributes)), attributes[one.name])
                    kind = None if cell.kind in _WRITTEN_BY_HAND else cell.kind
                    numbers.append(NumberValue(one.name, value, cell.letter, cell.index, kind))
                    self._numbered[number] = cell
                    self._numbers[one.name, id(attributes)] = number
                    number += 1
            arrays: list[ArrayValue] = []
            for one in layer.attributes:
                array = self._arrays.get((layer.name, one.name))
                if array is not None and array.part is not None:
                    value = known.get((one.name, id(attributes)), attributes[one.name])
                    is_lone = array.detached or len(self._attached) == 1
                    arrays.append(ArrayValue(one.name, value, array.part, is_lone))
                    self._planned[number] = array
                    self._numbers[one.name, id(attributes)] = number
                    number += 1
            layers.append(LayerPlan(holder, watched, numbers, arrays, self.moving.names_in(layer.name)))
        self._layers = [(layer.holder, type(layer.holder), vars(layer.holder)) for layer in layers]
        self._sizes = [len(attributes) for _, _, attributes in self._layers]
        to = PlannedMemory(self._memory, slice(self._start, self._end), self._parts, self._steps_place, self._seeds)
        others = self._pack_others if self._large or self._generators or self._foreign else None
        before = self._plan
        self._plan = StepPlan(
            layers, self._by_letter, to, self._write, self._may_replace, others, self.moving.close_looks_max
        )
        self.look = self._plan.look
        if before is not None:
            before.end()

    def arrays_before(self) -> Iterator[Any]:
        """The arrays that were written last, as long as nothing has replaced them."""
        yield from (array.value for array in self._large)
        yield from map(self._plan.value, self._planned)

    def faces(self) -> dict[int, Any]:
        """The arrays that stand for a hidden base, now or before what replaced them, by the identity of the base."""
        return {id(one.base): one for array in self._attached for one in array.faces()}

    def end(self) -> None:
        """Keep nothing alive any more: a packer, its plan and the plan's function refer to each other."""
        self._plan.end()
        vars(self).clear()

    def _settle(self) -> bool:
        """Accept watched values that are other objects and mean the same, or that the graph captures.

        Make another plan for the values that were seen if this one is worn. Return False if there is nothing of that, or if
        anything else is different.
        """
        for (holder, cls, attributes), size in zip(self._layers, self._sizes, strict=True):
            if type(holder) is not cls or vars(holder) is not attributes or len(attributes) != size:
                return False
        has_accepted = False
        for watched in self._watched:
            value, before = watched.attributes[watched.name], self._plan.value(watched.number)
            if value is before:
                continue
            # The types first: True is equal to 1, and 0.5 to an array of one element.
            if type(value) is not type(before) or not is_quiet_by_equality(before) or value != before:
                if not watched.is_rest:
                    return False
                self.rest_has_moved = True
            self._plan.set_value(watched.number, value)
            has_accepted = True
        if self._plan.is_worn:
            self._plan_again()
            return True
        return has_accepted

    def replaced(self) -> str | None:
        """The name of an attribute that came, went or was replaced since the last step. Numbers and arrays do not count."""
        names = {id(held[2]): layer.name for layer, held in zip(self._structure.layers, self._layers, strict=True)}
        for (holder, cls, attributes), size in zip(self._layers, self._sizes, strict=True):
            if type(holder) is not cls or vars(holder) is not attributes or len(attributes) != size:
                return names[id(attributes)]
        for one in self._watched:
            before, value = self._plan.value(one.number), one.attributes.get(one.name, self)
            is_equal = type(value) is type(before) and is_quiet_by_equality(before) and value == before
            if not (one.is_rest or value is before or is_equal):
                return f"{names[id(one.attributes)]}.{one.name}"
        return None

    # --- each step

    def pack(self, steps: int) -> bool:
        """Write the values that have moved. Return False, with some unwritten, if one is of a different kind."""
        try:
            return self.look(steps) or self.settle(steps)
        except MISFITS:
            return False

    def settle(self, steps: int) -> bool:
        """As look, where that has returned False."""
        return self._settle() and self.look(steps)

    def _pack_others(self) -> bool:
        is_packed = self._pack_large() and (not self._generators or self._pack_generators())
        return is_packed and (not self._foreign or self._pack_foreign())

    def _pack_large(self) -> bool:
        for array in self._large:
            value = array.attributes[array.name]
            if value is not array.value:
                if not self._is_like(array, value):
                    return False
                array.value = value
            elif value.shape != array.shape or value.dtype is not array.dtype or not value.flags.writeable:
                return False  # NumPy lets all three be set.
            array.view[...] = value if array.dtype.kind not in TEXT_KINDS else bytes_of(value)
        return True

    def _pack_generators(self) -> bool:
        for attributes, name, generator, part in self._generators:
            if attributes[name] is not generator:
                return False
            self._parts[part] = pcg_bytes(generator)
        return True

    def _pack_foreign(self) -> bool:
        replaced = any(entry.attributes[entry.name] is not entry.before for entry in self._foreign)
        if replaced and have_shared_memory(self._foreign):
            return False
        return all(entry.write() for entry in self._foreign)

    def pack_all(self, steps: int) -> bool:
        """Write all values, including those that do not move."""
        for number, cell in self._numbered.items():
            self._kinds[cell.kind_index] = KIND_NUMBERS[cell.kind]
            cell.memory[cell.index] = as_number(self._plan.value(number))
        return self.pack(steps)

    def _write(self, number: int, value: Any) -> bool:
        """Write a new number of another type into its cell. Return False if it does not fit."""
        cell, kind = self._numbered[number], type(value)
        if value is not None and cell_of(value) != cell.letter:
            return False
        if kind is not cell.kind:
            self._kinds[cell.kind_index] = KIND_NUMBERS[kind]
            cell.kind = kind
            self._plan.set_kind(number, None if kind in _WRITTEN_BY_HAND else kind)
        cell.memory[cell.index] = as_number(value)
        return True

    def _may_replace(self, number: int, value: Any) -> bool:
        return self._is_like(self._planned[number], value)

    def _is_like(self, array: PackedArray, value: Any) -> bool:
        """Return True if a new array can replace the array that was packed before."""
        if type(value) is not _NDARRAY or value.dtype is not array.dtype or value.shape != array.shape:
            return False
        flags = value.flags  # NumPy makes an object of them each time.
        if not flags.writeable:
            return False
        if array.detached:
            return bool(flags.c_contiguous)
        if value.base is not None:
            if not (flags.c_contiguous and self._has_own_memory(value)):
                return False
        elif value.ndim > 1 and not flags.c_contiguous:
            return False
        for other in self._attached:  # In each step: a generator takes longer.
            if other is not array and value is other.attributes.get(other.name):
                return False  # One array under two names: only the rest can express that.
        array.noted(value)
        return True

    # --- made once

    def _add_hot(self, part: Any, offset: int, size: int) -> int:
        """Add a part to the memory that is written with one store, and return its number."""
        if offset > self._end:
            self._parts.append(bytes(offset - self._end))
        self._parts.append(part)
        self._end = offset + size
        return len(self._parts) - 1

    def _add_cell(self, layer: str, attribute: Attribute, slot: Any, value: Any) -> None:
        memory = self._by_letter[attribute.detail]
        cell = PackedCell(attribute.detail, memory, slot.offset // 8, len(self._cells), type(value))
        self._cells[layer, attribute.name] = cell

    def _add_array(
        self,
        layer: str,
        attributes: dict[str, Any],
        name: str,
        slot: Any,
        value: Any,
        state: State,
        detached: bool,  # noqa: FBT001
    ) -> None:
        part = self._add_hot(value, slot.offset, slot.size_bytes) if is_hot(slot.size_bytes) else None
        view = state[slot.name] if part is None else None
        kept = value if part is None else None
        made = PackedArray(attributes, name, kept, value.shape, value.dtype, part, view, detached).noted(value)
        self._arrays[layer, name] = made
        if part is None:
            self._large.append(made)
        if not detached:
            self._attached.append(made)

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
        children = self._add_hot(bytes(8), offset, 8)
        self._seeds.append((seeds_of(value.bit_generator), children))
        self._steady.add((id(attributes), name))
