"""The objects of a Mesa model as bytes and back: agents by pickle, what every such model has where it is.

With pickled.py one of the two modules that may pickle, and reached by trust=True alone. What was built with the model
and stays with it (the model itself, its spaces and their cells, property layers, random generators) is never made from
bytes: it is named by where it was found, and loaded in place, so that views, descriptors and caches of neighbours that
point to it go on doing so. Agents are made empty first and filled then, so that no chain of friends is too deep.

What is written is the same for equal contents, in a run that was loaded as in one that was not: texts, numbers of
NumPy's, short tuples and sets of such things are written by value, arrays by their content, events by their order.
"""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - reached by trust=True alone, see above
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import attrs
import mesa
import numpy as np
from mesa.discrete_space import CellCollection, DiscreteSpace

from sim.adapters.generators import generator_from_plain, generator_to_plain, is_generator
from sim.adapters.registry import NotCapturedError
from sim.adapters.values import NotPlainError, decode_value, encode_value, is_array

_KIND_BITS = 3
_VALUE, _AGENT, _CELL, _CELL_LIST, _GENERATOR, _PLACE, _NAMED, _FUNCTION = range(8)
_OF_THE_MODEL = ("step", "_user_step")  # Bound methods of the model itself.
_CACHES = ("all_cells", "neighborhood")
_ATOMS = (type(None), bool, int, float, str, bytes)
_TUPLE_MAX = 16  # Longer ones are written as they are.
COLLECTION = "a collection of cells"  # What begins a tuple that stands for one.


@attrs.define(eq=False)
class Places:
    """What every instance of a model has, in an order that depends on how it was built alone.

    Attributes:
        model: itself.
        spaces: its grids and networks, by attribute.
        cells: of all spaces.
        generators: random generators, each once.
        places: the model, spaces and property layers.
        collectors: names of attributes that hold data collectors: output, which is not saved.
        functions: names of attributes that hold functions without a name of their own.
    """

    model: Any
    spaces: list[tuple[str, Any]]
    cells: list[Any]
    generators: list[Any]
    places: list[Any]
    collectors: list[str]
    functions: list[str]


def find_places(model: Any) -> Places:
    """Look for them."""
    attributes = vars(model)
    spaces = [(name, one) for name, one in attributes.items() if isinstance(one, DiscreteSpace)]
    cells = [cell for _, space in spaces for cell in space._cells.values()]  # noqa: SLF001 - Mesa has no other way in
    layers = [layer for _, space in spaces for layer in vars(space).get("_mesa_property_layers", {}).values()]
    held = [*attributes.values(), *(space.random for _, space in spaces), *(cell.random for cell in cells)]
    generators = list({id(one): one for one in held if is_generator(one)}.values())
    collectors = [name for name, one in attributes.items() if isinstance(one, mesa.DataCollector)]
    functions = [
        name
        for name, one in attributes.items()
        if isinstance(one, types.FunctionType) and "<" in one.__qualname__ and name not in _OF_THE_MODEL
    ]
    places = [model, *(space for _, space in spaces), *layers]
    return Places(model, spaces, cells, generators, places, collectors, functions)


def agents_of(model: Any) -> list[Any]:
    """The agents that are registered, in their order."""
    return list(model._agents)  # noqa: SLF001 - model.agents would make a set of weak references


def topology_of(places: Places) -> bytes:
    """Which cells there are, and which is whose neighbour. Raises NotCapturedError for names of cells that are no data."""
    numbers = {id(cell): index for index, cell in enumerate(places.cells)}
    try:
        return encode_value(
            [
                [cell.coordinate, [[key, numbers.get(id(one), -1)] for key, one in cell.connections.items()]]
                for cell in places.cells
            ]
        )
    except NotPlainError as error:
        raise NotCapturedError(f"the cells of the model cannot be saved: {error}") from None


def rewire(places: Places, topology: bytes) -> None:
    """Connect the cells as they were. Raises NotCapturedError if there are others."""
    listed = decode_value(topology)
    if [cell.coordinate for cell in places.cells] != [coordinate for coordinate, _ in listed]:
        raise NotCapturedError("the model was made with other cells than the recorded one: make it with its arguments")
    for cell, (_, connections) in zip(places.cells, listed, strict=True):
        cell.connections = {key: places.cells[index] for key, index in connections}
        vars(cell).pop("neighborhood", None)
        for name in ("get_neighborhood", "_neighborhood"):
            clear = getattr(getattr(type(cell), name, None), "cache_clear", None)
            if clear is not None:
                clear()


# --- to bytes


def dump_model(places: Places) -> bytes:
    """All that lies in a model, but for its topology and what data collectors gathered.

    Raises NotCapturedError, naming it, for what cannot be pickled.
    """
    model = places.model
    agents = agents_of(model)
    buffer = io.BytesIO()
    pickler = _GraphPickler(buffer, places, agents)
    kept = {*_OF_THE_MODEL, *places.collectors, *places.functions}
    parts: list[tuple[str, Any]] = [
        ("the agents' classes", list(map(type, agents))),
        ("the model", {name: value for name, value in vars(model).items() if name not in kept}),
        ("the agents", [pickler.flat(agent.__getstate__()) for agent in agents]),
        ("the spaces", [_space_state(space) for _, space in places.spaces]),
        ("the cells", _cell_states(places.cells)),
    ]
    for name, part in parts:
        try:
            pickler.dump(part)
        except NotCapturedError:
            raise
        except Exception as error:
            raise NotCapturedError(f"{name} of {type(model).__name__} cannot be pickled: {error}") from error
    head = encode_value([pickler.values, [generator_to_plain(one) for one in places.generators]])
    return len(head).to_bytes(8, "little") + head + buffer.getvalue()


def _space_state(space: Any) -> list[Any]:
    """What of a space may change: its own attributes, and the layers' arrays."""
    left = {"_cells", "cell_klass", "_mesa_property_layers", *_CACHES}
    layers = vars(space).get("_mesa_property_layers", {})
    own = {name: value for name, value in vars(space).items() if name not in left}
    return [own, {name: dict(vars(layer)) for name, layer in layers.items()}]


def _cell_states(cells: list[Any]) -> list[Any]:
    attributes = [{name: value for name, value in vars(cell).items() if name not in _CACHES} for cell in cells]
    return [
        [list(cell._agents) for cell in cells],  # noqa: SLF001 - cell.agents is a copy of it
        [cell.capacity for cell in cells],
        {index: cell.properties for index, cell in enumerate(cells) if cell.properties},
        {index: one for index, one in enumerate(attributes) if one},
    ]


class _GraphPickler(pickle.Pickler):
    """Writes by value what is equal by value, and by its place what has one."""

    def __init__(self, buffer: io.BytesIO, places: Places, agents: list[Any]) -> None:
        super().__init__(buffer, protocol=5)
        self.values: list[Any] = []
        self._places = places
        self._module = type(places.model).__module__
        self._numbers: dict[Any, int] = {}  # Of texts, by themselves; of other values, by what they are encoded to.
        self._encoded: dict[bytes, int] = {}
        self._by_id: dict[int, int] = {}
        self._cell_numbers = {id(cell): index for index, cell in enumerate(places.cells)}
        lists = [cell._agents for cell in places.cells]  # noqa: SLF001
        for kind, found in (
            (_CELL_LIST, lists), (_CELL, places.cells), (_AGENT, agents), (_GENERATOR, places.generators),
            (_PLACE, places.places),
        ):  # fmt: skip
            self._by_id.update((id(one), index << _KIND_BITS | kind) for index, one in enumerate(found))
        for name in places.functions:
            self._by_id[id(vars(places.model)[name])] = self._value(name) | _FUNCTION
        self._ranks = _event_ranks(places.model)

    def persistent_id(self, obj: Any) -> int | None:
        """Where it is, or the number of its value; None for what is pickled."""
        kind = type(obj)
        if kind is str or kind is bytes:
            return self._value(obj)
        found = self._by_id.get(id(obj))
        if found is not None:
            return found
        if kind is tuple:
            return self._by_content(obj) if len(obj) <= _TUPLE_MAX and _is_plain(obj) else None
        if kind is set and _is_plain(obj):
            number = self._by_id[id(obj)] = len(self.values) << _KIND_BITS
            self.values.append(obj)
            return number
        if (kind is frozenset and _is_plain(obj)) or isinstance(obj, np.generic):
            return self._by_content(obj)
        if kind is CellCollection:
            return self._collection(obj)
        if kind is types.FunctionType or isinstance(obj, type):
            mine = obj.__module__ == self._module and "<" not in obj.__qualname__
            return self._value(obj.__qualname__) | _NAMED if mine else None
        return None

    def reducer_override(self, obj: Any) -> Any:
        """How arrays, weak references and events are made again; the others as pickle does it."""
        kind = type(obj)
        if is_array(obj):
            return self._array(obj)
        if kind is weakref.ref:
            return _make_reference, (obj(),)
        if kind is weakref.WeakMethod:
            return _make_method_reference, (obj(),)
        if id(obj) in self._ranks:
            return object.__reduce_ex__(obj, 4)[:2] + ({**vars(obj), "unique_id": self._ranks[id(obj)]},)
        if _is_event(obj):
            return object.__reduce_ex__(obj, 4)[:2] + ({**vars(obj), "unique_id": -1},)
        return NotImplemented

    def flat(self, state: Any) -> Any:
        """An agent's attributes as the number of their names and the values."""
        if type(state) is dict:
            return [self._by_content(tuple(state)), *state.values()]
        return state  # A pair, of a class with slots; or what the class itself makes of it.

    def _collection(self, obj: Any) -> int | None:
        """Cells that were selected: they never change, and many hold the one that a cache keeps, or one like it."""
        cells = [self._cell_numbers.get(id(cell), -1) for cell in obj]
        generator = self._by_id.get(id(obj.random))
        if -1 in cells or generator is None:
            return None
        number = self._by_id[id(obj)] = self._by_content((COLLECTION, generator, tuple(cells)))
        return number

    def _value(self, text: Any) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.values)
            self.values.append(text)
        return number << _KIND_BITS

    def _by_content(self, obj: Any) -> int:
        encoded = encode_value(obj)
        number = self._encoded.get(encoded)
        if number is None:
            number = self._encoded[encoded] = len(self.values)
            self.values.append(obj)
        return number << _KIND_BITS

    def _array(self, array: Any) -> Any:
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        if base is array or not is_array(base):
            order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
            return _make_array, (array.dtype.str, array.shape, order, bytearray(array.tobytes("A")))
        offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return _make_view, (base, array.dtype.str, array.shape, offset, array.strides)


def _is_plain(value: Any) -> bool:
    return all(
        type(one) in _ATOMS
        or isinstance(one, np.generic)
        or (type(one) is tuple and len(one) <= _TUPLE_MAX and _is_plain(one))
        for one in value
    )


# --- from bytes


def load_model(places: Places, data: bytes) -> None:
    """Put what was dumped into a model. Raises NotCapturedError if it cannot be made, or is another model's."""
    size = int.from_bytes(data[:8], "little")
    values, generators = decode_value(data[8 : 8 + size])
    unpickler = _GraphUnpickler(io.BytesIO(data[8 + size :]), places, values, generators)
    try:
        classes = unpickler.load()
        unpickler.agents = [cls.__new__(cls) for cls in classes]
        attributes, states, spaces, (lists, capacities, properties, cell_attributes) = (
            unpickler.load() for _ in range(4)
        )
    except Exception as error:
        raise NotCapturedError(f"the state of {type(places.model).__name__} cannot be loaded: {error}") from error
    if (len(spaces), len(lists)) != (len(places.spaces), len(places.cells)):
        raise NotCapturedError("the model was made with other spaces than the recorded one: make it with its arguments")
    for agent, state in zip(unpickler.agents, states, strict=True):
        _set_state(agent, state, values)
    for cell, inside, capacity in zip(places.cells, lists, capacities, strict=True):
        cell._agents[:] = inside  # noqa: SLF001 - in place: the neighbours' caches hold this list
        cell.capacity = capacity
    for index, cell in enumerate(places.cells):
        cell.properties = properties.get(index, {})
        caches = {name: value for name, value in vars(cell).items() if name in _CACHES}
        vars(cell).clear()
        vars(cell).update(cell_attributes.get(index, {}), **caches)
    for (_, space), (own, layers) in zip(places.spaces, spaces, strict=True):
        _set_space(space, own, layers)
    _set_attributes(places, attributes)


def _set_state(agent: Any, state: Any, values: list[Any]) -> None:
    if type(state) is list:
        number, *found = state
        vars(agent).update(zip(values[number >> _KIND_BITS], found, strict=True))
    elif hasattr(agent, "__setstate__"):
        agent.__setstate__(state)
    else:
        attributes, slots = state if type(state) is tuple else (state, None)
        vars(agent).update(attributes or {})
        for name, value in (slots or {}).items():
            setattr(agent, name, value)


def _set_space(space: Any, own: dict[str, Any], layers: dict[str, Any]) -> None:
    present = vars(space)
    there = present.get("_mesa_property_layers", {})
    if there.keys() != layers.keys():
        raise NotCapturedError(f"the layers were {', '.join(layers)} when it was saved, and are {', '.join(there)} here")
    for name in present.keys() - own.keys() - {"_cells", "cell_klass", "_mesa_property_layers", *_CACHES}:
        del present[name]
    present.update(own)
    for name, attributes in layers.items():
        layer = vars(there[name])
        for attribute, value in attributes.items():
            now = layer.get(attribute)
            if is_array(value) and is_array(now) and (value.shape, value.dtype) == (now.shape, now.dtype):
                now[...] = value  # In place: who holds the layer's array goes on holding it.
            else:
                layer[attribute] = value


def _set_attributes(places: Places, saved: dict[str, Any]) -> None:
    present = vars(places.model)
    kept = {*_OF_THE_MODEL, *places.collectors, *places.functions}
    for name in present.keys() - saved.keys() - kept:
        del present[name]
    present.update(saved)
    for name in places.collectors:
        _empty(present[name])


def _empty(collector: Any) -> None:
    """Forget what a data collector has gathered on another way than this one."""
    for gathered in collector.model_vars.values():
        gathered.clear()
    for table in collector.tables.values():
        for column in table.values():
            column.clear()
    collector._agent_records.clear()  # noqa: SLF001 - there is no other way to them
    getattr(collector, "_agenttype_records", {}).clear()


class _GraphUnpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, places: Places, values: list[Any], generators: list[Any]) -> None:
        super().__init__(buffer)
        self.agents: list[Any] = []
        present = [*places.generators, *[None] * len(generators)]
        self._places = places
        self._values = values
        self._found: dict[int, Callable[[int], Any]] = {
            _VALUE: self._value,
            _AGENT: lambda index: self.agents[index],
            _CELL: places.cells.__getitem__,
            _CELL_LIST: lambda index: places.cells[index]._agents,  # noqa: SLF001
            _GENERATOR: [
                generator_from_plain(plain, one) for plain, one in zip(generators, present, strict=False)
            ].__getitem__,
            _PLACE: places.places.__getitem__,
            _NAMED: lambda index: _named(places.model, values[index]),
            _FUNCTION: lambda index: vars(places.model)[values[index]],
        }

    def persistent_load(self, pid: int) -> Any:
        """What has this place or value."""
        return self._found[pid & ((1 << _KIND_BITS) - 1)](pid >> _KIND_BITS)

    def _value(self, index: int) -> Any:
        value = self._values[index]
        if type(value) is tuple and len(value) == 3 and value[0] == COLLECTION:
            cells = [self._places.cells[number] for number in value[2]]
            random = self.persistent_load(value[1])
            value = self._values[index] = CellCollection({cell: cell._agents for cell in cells}, random=random)  # noqa: SLF001
        return value


def _named(model: Any, name: str) -> Any:
    """A class or function of the model's own module: by its name there, whatever the module is called here."""
    found: Any = sys.modules[type(model).__module__]
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _make_array(dtype: str, shape: tuple[int, ...], order: Any, content: bytearray) -> Any:
    made = np.frombuffer(content, dtype) if content else np.zeros(0, dtype)
    return made.reshape(shape, order=order).copy(order)


def _make_view(base: Any, dtype: str, shape: tuple[int, ...], offset: int, strides: tuple[int, ...]) -> Any:
    return np.ndarray(shape, dtype, base, offset, strides)


def _nothing() -> None:
    return None


def _make_reference(target: Any) -> Any:
    return weakref.ref(target) if target is not None else _nothing  # Called, a dead reference gives None.


def _make_method_reference(method: Any) -> Any:
    return weakref.WeakMethod(method) if method is not None else _nothing


# --- events, whose numbers count in all models of a process together


def _is_event(obj: Any) -> bool:
    return type(obj).__name__ == "SimulationEvent" and type(obj).__module__.startswith("mesa.")


def events_of(model: Any) -> list[Any]:
    """The events of the model's simulator, if it has one."""
    listed = getattr(getattr(vars(model).get("simulator"), "event_list", None), "_events", None)
    return listed if isinstance(listed, list) else []


def _event_ranks(model: Any) -> dict[int, int]:
    """By id of an event its place in the order in which they were made: that is what their numbers are for."""
    ordered = sorted(events_of(model), key=lambda event: event.unique_id)
    return {id(event): rank for rank, event in enumerate(ordered)}
