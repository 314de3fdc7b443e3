"""Restore the objects of a Mesa model in place, by pickle where the user trusts it: the counterpart of encode.py."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

from mesa.discrete_space import CellCollection

from sim.adapters.capture.rng_state import generator_from_plain
from sim.adapters.capture.values import decode_value, is_array
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.adapters.mesa.encode import ALL_CELLS, CACHES, COLLECTION, KEPT, KIND_BITS, OF_THE_MODEL, ObjectKind, Places


def rewire(places: Places, topology: bytes) -> None:
    """Restore the connections of the cells. Raises NotCapturedError if the cells are different ones."""
    listed = decode_value(topology)
    if [cell.coordinate for cell in places.cells] != [coordinate for coordinate, _ in listed]:
        raise NotCapturedError(
            "the cells of the model differ from those of the recorded model: make it with the recorded arguments"
        )
    for cell, (_, connections) in zip(places.cells, listed, strict=True):
        cell.connections = {key: places.cells[index] for key, index in connections}
        vars(cell).pop("neighborhood", None)
        for name in ("get_neighborhood", "_neighborhood"):
            clear = getattr(getattr(type(cell), name, None), "cache_clear", None)
            if clear is not None:
                clear()


def load_model(places: Places, data: bytes, pickled: Any) -> None:
    """Restore a model from the bytes of dump_model. pickled: a TrustedPickler.

    Raises NotCapturedError if the state cannot be loaded, or is that of a different model.
    """
    size = int.from_bytes(data[:8], "little")
    values, generators = decode_value(data[8 : 8 + size])
    unpickler = pickled.unpickler(_GraphUnpickler, io.BytesIO(data[8 + size :]), places, values, generators)
    try:
        classes = unpickler.load()
        unpickler.agents = [cls.__new__(cls) for cls in classes]
        attributes, states, spaces, (lists, capacities, properties, cell_attributes) = (
            unpickler.load() for _ in range(4)
        )
    except Exception as error:
        raise NotCapturedError(f"the state of {type(places.model).__name__} cannot be loaded: {error}") from error
    if (len(spaces), len(lists)) != (len(places.spaces), len(places.cells)):
        raise NotCapturedError(
            "the spaces of the model differ from those of the recorded model: make it with the recorded arguments"
        )
    for agent, state in zip(unpickler.agents, states, strict=True):
        _set_state(agent, state, values)
    for cell, inside, capacity in zip(places.cells, lists, capacities, strict=True):
        cell._agents[:] = inside  # noqa: SLF001 - in place: the neighbours' caches hold this list
        cell.capacity = capacity
    for index, cell in enumerate(places.cells):
        cell.properties = properties.get(index, {})
        caches = {name: value for name, value in vars(cell).items() if name in CACHES}
        vars(cell).clear()
        vars(cell).update(cell_attributes.get(index, {}), **caches)
    for (_, space), (own, layers) in zip(places.spaces, spaces, strict=True):
        _set_space(space, own, layers)
    _set_attributes(places, attributes)


def _set_state(agent: Any, state: Any, values: list[Any]) -> None:
    if type(state) is list:
        number, *attribute_values = state
        vars(agent).update(zip(values[number >> KIND_BITS], attribute_values, strict=True))
    elif hasattr(agent, "__setstate__"):
        agent.__setstate__(state)
    else:
        attributes, slots = state if type(state) is tuple else (state, None)
        vars(agent).update(attributes or {})
        for name, value in (slots or {}).items():
            setattr(agent, name, value)


def _set_space(space: Any, own: dict[str, Any], layers: dict[str, Any]) -> None:
    present = vars(space)
    present_layers = present.get("_mesa_property_layers", {})
    if present_layers.keys() != layers.keys():
        raise NotCapturedError(
            f"expected the recorded property layers {', '.join(layers)}, got {', '.join(present_layers)}: "
            "make the model with the recorded arguments"
        )
    for name in present.keys() - own.keys() - {"_cells", "cell_klass", "_mesa_property_layers", *CACHES}:
        del present[name]
    present.update(own)
    for name, attributes in layers.items():
        layer = vars(present_layers[name])
        for attribute, value in attributes.items():
            now = layer.get(attribute)
            if is_array(value) and is_array(now) and (value.shape, value.dtype) == (now.shape, now.dtype):
                now[...] = value  # In place: other references to the layer's array stay valid.
            else:
                layer[attribute] = value


def _set_attributes(places: Places, saved: dict[str, Any]) -> None:
    present = vars(places.model)
    kept = {*OF_THE_MODEL, *places.collectors, *places.functions}
    for name in present.keys() - saved.keys() - kept:
        del present[name]
    present.update(saved)
    for name in places.collectors:
        _empty(present[name])


def _empty(collector: Any) -> None:
    """Clear the data that a data collector gathered in a different course of the model."""
    for gathered in collector.model_vars.values():
        gathered.clear()
    for table in collector.tables.values():
        for column in table.values():
            column.clear()
    collector._agent_records.clear()  # noqa: SLF001 - there is no other way to them
    getattr(collector, "_agenttype_records", {}).clear()


class _GraphUnpickler:
    def __init__(self, buffer: io.BytesIO, places: Places, values: list[Any], generators: list[Any]) -> None:
        super().__init__(buffer)  # type: ignore[call-arg]  # A class with an unpickler as second base.
        self.agents: list[Any] = []
        present = [*places.generators, *[None] * len(generators)]
        self._places = places
        self._values = values
        # By the id of the members: these, and the set that was made of them.
        self._sets: dict[int, tuple[Any, set[Any] | frozenset[Any]]] = {}
        self._by_kind: dict[int, Callable[[int], Any]] = {
            ObjectKind.VALUE: self._value,
            ObjectKind.AGENT: lambda index: self.agents[index],
            ObjectKind.CELL: places.cells.__getitem__,
            ObjectKind.CELL_LIST: lambda index: places.cells[index]._agents,  # noqa: SLF001
            ObjectKind.GENERATOR: [
                generator_from_plain(plain, one) for plain, one in zip(generators, present, strict=False)
            ].__getitem__,
            ObjectKind.PLACE: places.places.__getitem__,
            ObjectKind.NAMED: lambda index: _named(places.model, values[index]),
            ObjectKind.FUNCTION: lambda index: vars(places.model)[values[index]],
        }

    def persistent_load(self, pid: int | list[Any] | tuple[Any, ...]) -> Any:
        """The object or value of this number, see ObjectKind; or the set of these members."""
        if type(pid) is not int:
            return self._set(pid)
        return self._by_kind[pid & ((1 << KIND_BITS) - 1)](pid >> KIND_BITS)

    def _set(self, members: Any) -> Any:
        if type(members) is tuple:
            return self._sets.setdefault(id(members), (members, frozenset(members)))[1]
        made: Any = self._sets.setdefault(id(members), (members, set()))[1]
        # A member that holds the set asks for it while the members are loaded: the others come later, as in pickle.
        made.update(members)
        members.clear()  # Each is put into it once: what a method does to the set during the load stays done.
        return made

    def _value(self, index: int) -> Any:
        value = self._values[index]
        cells = self._places.cells
        match value:
            case (str() as what, int(generator), tuple(numbers)) if what == COLLECTION:
                inside = {cells[number]: cells[number]._agents for number in numbers}  # noqa: SLF001
                value = CellCollection(inside, random=self.persistent_load(generator))
                self._places.asked[value] = None
            case (str() as what, int(number), tuple(arguments), tuple(words)) if what == KEPT:
                value = cells[number].get_neighborhood(*arguments, **dict(zip(words[::2], words[1::2], strict=True)))
                self._places.asked[value] = (KEPT, number, arguments, words)
            case (str() as what, int(number)) if what == ALL_CELLS:
                value = self._places.spaces[number][1].all_cells
            case _:
                return value
        self._values[index] = value
        return value


def _named(model: Any, name: str) -> Any:
    """A class or function of the model's module, by its name; the module itself may have a different name here."""
    named: Any = sys.modules[type(model).__module__]
    for part in name.split("."):
        named = getattr(named, part)
    return named
