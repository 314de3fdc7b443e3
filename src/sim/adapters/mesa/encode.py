"""The objects of a Mesa model as bytes and back: agents by pickle, what every such model has where it is.

The pickler comes from pickle_trusted.py, and from there only where the user has said trust=True. What was built with the model
and stays with it (the model itself, its spaces and their cells, property layers, random generators) is never made from
bytes: it is named by where it was found, and loaded in place, so that views, descriptors and caches of neighbours that
point to it go on doing so. Agents are made empty first and filled then, so that no chain of friends is too deep.

What is written is the same for equal contents, in a run that was loaded as in one that was not: texts, numbers of
NumPy's, short tuples and sets of such things are written by value, arrays by their content, events by their order.
"""

from __future__ import annotations

import enum
import io
import types
import weakref
from typing import Any

import attrs
import mesa
import numpy as np
from mesa.discrete_space import CellCollection, DiscreteSpace

from sim.adapters.capture.rng_state import generator_to_plain, is_generator
from sim.adapters.capture.values import NotPlainError, encode_value, is_array
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.adapters.mesa_graph import (
    _make_array,
    _make_empty,
    _make_method_reference,
    _make_reference,
    _make_view,
)

KIND_BITS = 3
OF_THE_MODEL = ("step", "_user_step")  # Bound methods of the model itself.
CACHES = ("all_cells", "neighborhood")
_ATOMS = (type(None), bool, int, float, str, bytes)
_TUPLE_MAX = 16  # Longer ones are written as they are.
COLLECTION = "a collection of cells"  # What begins a tuple that stands for one.


class ObjectKind(enum.IntEnum):
    """What a number in the bytes stands for: its lowest bits say which of these, the others which one."""

    VALUE = 0
    AGENT = 1
    CELL = 2
    CELL_LIST = 3
    GENERATOR = 4
    PLACE = 5
    NAMED = 6
    FUNCTION = 7


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
        if isinstance(one, types.FunctionType) and "<" in one.__qualname__ and name not in OF_THE_MODEL
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


# --- to bytes


def dump_model(places: Places, pickled: Any) -> bytes:
    """All that lies in a model, but for its topology and what data collectors gathered. pickled: a TrustedPickler.

    Raises NotCapturedError, naming it, for what cannot be pickled.
    """
    model = places.model
    agents = agents_of(model)
    buffer = io.BytesIO()
    pickler = pickled.pickler(_GraphPickler, buffer, places, agents)
    kept = {*OF_THE_MODEL, *places.collectors, *places.functions}
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
    left = {"_cells", "cell_klass", "_mesa_property_layers", *CACHES}
    layers = vars(space).get("_mesa_property_layers", {})
    own = {name: value for name, value in vars(space).items() if name not in left}
    return [own, {name: dict(vars(layer)) for name, layer in layers.items()}]


def _cell_states(cells: list[Any]) -> list[Any]:
    attributes = [{name: value for name, value in vars(cell).items() if name not in CACHES} for cell in cells]
    return [
        [list(cell._agents) for cell in cells],  # noqa: SLF001 - cell.agents is a copy of it
        [cell.capacity for cell in cells],
        {index: cell.properties for index, cell in enumerate(cells) if cell.properties},
        {index: one for index, one in enumerate(attributes) if one},
    ]


class _GraphPickler:
    """Writes by value what is equal by value, and by its place what has one."""

    def __init__(self, buffer: io.BytesIO, places: Places, agents: list[Any]) -> None:
        super().__init__(buffer, protocol=5)  # type: ignore[call-arg]  # A pickler, mixed with this.
        self.values: list[Any] = []
        self._places = places
        self._module = type(places.model).__module__
        self._numbers: dict[Any, int] = {}  # Of texts, by themselves; of other values, by what they are encoded to.
        self._encoded: dict[bytes, int] = {}
        self._by_id: dict[int, int] = {}
        self._cell_numbers = {id(cell): index for index, cell in enumerate(places.cells)}
        lists = [cell._agents for cell in places.cells]  # noqa: SLF001
        for kind, found in (
            (ObjectKind.CELL_LIST, lists), (ObjectKind.CELL, places.cells), (ObjectKind.AGENT, agents), (ObjectKind.GENERATOR, places.generators),
            (ObjectKind.PLACE, places.places),
        ):  # fmt: skip
            self._by_id.update((id(one), index << KIND_BITS | kind) for index, one in enumerate(found))
        for name in places.functions:
            self._by_id[id(vars(places.model)[name])] = self._value(name) | ObjectKind.FUNCTION
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
            number = self._by_id[id(obj)] = len(self.values) << KIND_BITS
            self.values.append(obj)
            return number
        if (kind is frozenset and _is_plain(obj)) or isinstance(obj, np.generic):
            return self._by_content(obj)
        if kind is CellCollection:
            return self._collection(obj)
        if kind is types.FunctionType or isinstance(obj, type):
            mine = obj.__module__ == self._module and "<" not in obj.__qualname__
            return self._value(obj.__qualname__) | ObjectKind.NAMED if mine else None
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
            return _make_empty, (kind,), {**vars(obj), "unique_id": self._ranks[id(obj)]}
        if _is_event(obj):
            return _make_empty, (kind,), {**vars(obj), "unique_id": -1}
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
        return number << KIND_BITS

    def _by_content(self, obj: Any) -> int:
        encoded = encode_value(obj)
        number = self._encoded.get(encoded)
        if number is None:
            number = self._encoded[encoded] = len(self.values)
            self.values.append(obj)
        return number << KIND_BITS

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
