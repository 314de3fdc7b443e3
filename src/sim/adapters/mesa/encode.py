"""Encode the objects of a Mesa model as bytes: agents by pickle, the parts of every model by their position.

The pickler comes from pickle_trusted.py, and only where the user has passed trust=True. The permanent parts of a model
(the model, its spaces and their cells, property layers, random generators) are never made from bytes. They are named by
their position and loaded in place, so that views, descriptors and caches of neighbours that refer to them stay valid.
Agents are created empty first and filled later, so that no chain of references is too deep.

Equal contents give equal bytes, in a run that was loaded and in one that was not: texts, NumPy's numbers, short tuples
and sets of such values are written by value, arrays by content, events by their order, sets of agents in the order of
their numbers. Any other set of objects is written in the order of its table.
"""

from __future__ import annotations

import enum
import gc
import io
import itertools
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
    _make_used_up_chain,
    _make_view,
)

KIND_BITS = 3
OF_THE_MODEL = ("step", "_user_step")  # Bound methods of the model itself.
CACHES = ("all_cells", "neighborhood")
_ATOMS = (type(None), bool, int, float, str, bytes)
_TUPLE_MAX = 16  # Longer ones are written as they are.
COLLECTION = "a collection of cells"  # The first element of a tuple that stands for a collection.
KEPT = "a collection that a cell keeps"
ALL_CELLS = "all cells of a space"


class ObjectKind(enum.IntEnum):
    """The kinds of numbers in the bytes: the lowest bits of a number are the kind, the others are the index."""

    VALUE = 0
    AGENT = 1
    CELL = 2
    CELL_LIST = 3
    GENERATOR = 4
    PLACE = 5
    NAMED = 6
    FUNCTION = 7


Asked = weakref.WeakKeyDictionary[CellCollection[Any], tuple[Any, ...] | None]


@attrs.define(eq=False)
class Places:
    """The permanent parts of a model, in an order that depends only on its construction.

    Attributes:
        model: the model.
        spaces: its grids and networks, by attribute.
        cells: of all spaces.
        generators: random generators, each once.
        places: the model, spaces and property layers.
        collectors: names of attributes that hold data collectors: output, which is not saved.
        functions: names of attributes that hold functions without an importable name.
        asked: for collections of cells that were written or loaded before, how a cell was asked for them; None for
            others. Mesa's cache forgets those of all models as soon as any model connects a cell.
    """

    model: Any
    spaces: list[tuple[str, Any]]
    cells: list[Any]
    generators: list[Any]
    places: list[Any]
    collectors: list[str]
    functions: list[str]
    asked: Asked


def find_places(model: Any, asked: Asked | None = None) -> Places:
    """Find the permanent parts of a model. asked: that of its places found before, if the cells are the same."""
    attributes = vars(model)
    spaces = [(name, value) for name, value in attributes.items() if isinstance(value, DiscreteSpace)]
    cells = [cell for _, space in spaces for cell in space._cells.values()]  # noqa: SLF001 - Mesa has no other way in
    layers = [layer for _, space in spaces for layer in vars(space).get("_mesa_property_layers", {}).values()]
    held = [*attributes.values(), *(space.random for _, space in spaces), *(cell.random for cell in cells)]
    generators = list({id(value): value for value in held if is_generator(value)}.values())
    collectors = [name for name, value in attributes.items() if isinstance(value, mesa.DataCollector)]
    functions = [
        name
        for name, value in attributes.items()
        if isinstance(value, types.FunctionType) and "<" in value.__qualname__ and name not in OF_THE_MODEL
    ]
    places = [model, *(space for _, space in spaces), *layers]
    return Places(model, spaces, cells, generators, places, collectors, functions, Asked() if asked is None else asked)


def agents_of(model: Any) -> list[Any]:
    """The registered agents, in order."""
    return list(model._agents)  # noqa: SLF001 - model.agents would make a set of weak references


def topology_of(places: Places) -> bytes:
    """The cells and their connections, as bytes. Raises NotCapturedError if a cell's name cannot be encoded."""
    numbers = {id(cell): index for index, cell in enumerate(places.cells)}
    try:
        return encode_value(
            [
                [cell.coordinate, [[key, numbers.get(id(other), -1)] for key, other in cell.connections.items()]]
                for cell in places.cells
            ]
        )
    except NotPlainError as error:
        raise NotCapturedError(f"the cells of the model cannot be saved: {error}") from None


def _asked_of_cells(places: Places) -> dict[int, tuple[Any, ...]]:
    """The collections in Mesa's cache, by their ids: asked for again in the same way, they are the same.

    A tuple is (KEPT, number of the cell, arguments, names and values of keywords).
    """
    numbers = {cell: index for index, cell in enumerate(places.cells)}
    kept: dict[int, tuple[Any, ...]] = {}
    for cls in dict.fromkeys(map(type, places.cells)):
        # The cache of functools has no other way in. A key holds the arguments, a mark, then the keywords in turn.
        method: Any = cls
        for memo in (one for one in gc.get_referents(method.get_neighborhood) if type(one) is dict):
            for key, collection in memo.items():
                if type(collection) is not CellCollection:
                    continue
                parts = list(key) if isinstance(key, list | tuple) else [key]
                mark = next((place for place, part in enumerate(parts) if type(part) is object), len(parts))
                cell, keywords = numbers.get(parts[0]), parts[mark + 1 :]
                if cell is not None and _is_plain([*parts[1:mark], *keywords]):
                    kept[id(collection)] = (KEPT, cell, tuple(parts[1:mark]), tuple(keywords))
    return kept


# --- to bytes


def dump_model(places: Places, pickled: Any) -> bytes:
    """The content of a model, without its topology and the data of its data collectors. pickled: a TrustedPickler.

    Raises NotCapturedError, naming the part, for a part that cannot be pickled.
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
    head = encode_value([pickler.values, [generator_to_plain(generator) for generator in places.generators]])
    return len(head).to_bytes(8, "little") + head + buffer.getvalue()


def _space_state(space: Any) -> list[Any]:
    """The parts of a space that may change: its own attributes, and the layers' arrays."""
    excluded = {"_cells", "cell_klass", "_mesa_property_layers", *CACHES}
    layers = vars(space).get("_mesa_property_layers", {})
    own = {name: value for name, value in vars(space).items() if name not in excluded}
    return [own, {name: dict(vars(layer)) for name, layer in layers.items()}]


def _cell_states(cells: list[Any]) -> list[Any]:
    attributes = [{name: value for name, value in vars(cell).items() if name not in CACHES} for cell in cells]
    return [
        [list(cell._agents) for cell in cells],  # noqa: SLF001 - cell.agents is a copy of it
        [cell.capacity for cell in cells],
        {index: cell.properties for index, cell in enumerate(cells) if cell.properties},
        {index: own for index, own in enumerate(attributes) if own},
    ]


class _GraphPickler:
    """Writes values by content, and the permanent parts of the model by position."""

    def __init__(self, buffer: io.BytesIO, places: Places, agents: list[Any]) -> None:
        super().__init__(buffer, protocol=5)  # type: ignore[call-arg]  # A class with a pickler as second base.
        self.values: list[Any] = []
        self._places = places
        self._module = type(places.model).__module__
        self._numbers: dict[Any, int] = {}  # By text.
        self._encoded: dict[bytes, int] = {}
        self._by_id: dict[int, int] = {}
        # By the id of a set of agents: the set, so that nothing else gets this id, and what is written.
        self._members: dict[int, tuple[Any, list[Any] | tuple[Any, ...]]] = {}
        self._cell_numbers = {id(cell): index for index, cell in enumerate(places.cells)}
        lists = [cell._agents for cell in places.cells]  # noqa: SLF001
        for kind, objects in (
            (ObjectKind.CELL_LIST, lists), (ObjectKind.CELL, places.cells), (ObjectKind.AGENT, agents),
            (ObjectKind.GENERATOR, places.generators), (ObjectKind.PLACE, places.places),
        ):  # fmt: skip
            self._by_id.update((id(obj), index << KIND_BITS | kind) for index, obj in enumerate(objects))
        for name in places.functions:
            self._by_id[id(vars(places.model)[name])] = self._value(name) | ObjectKind.FUNCTION
        self._ranks = _event_ranks(places.model)
        self._in_cache: dict[int, tuple[Any, ...]] | None = None  # Found when a collection is not known yet.
        self._of_spaces: dict[int, tuple[Any, ...]] = {
            id(space.all_cells): (ALL_CELLS, index)
            for index, (_, space) in enumerate(places.spaces)
            if "all_cells" in vars(space)
        }
        self._first_asked: dict[tuple[Any, ...], CellCollection[Any]] = {}

    def persistent_id(self, obj: Any) -> int | list[Any] | tuple[Any, ...] | None:
        """The number of the object's position or value; the members of a set of agents; None for an object that is pickled."""
        kind = type(obj)
        if kind is str or kind is bytes:
            return self._value(obj)
        position = self._by_id.get(id(obj))
        if position is not None:
            return position
        if kind is tuple:
            return self._by_content(obj) if len(obj) <= _TUPLE_MAX and _is_plain(obj) else None
        if kind is set and _is_plain(obj):
            number = self._by_id[id(obj)] = len(self.values) << KIND_BITS
            self.values.append(obj)
            return number
        if (kind is frozenset and _is_plain(obj)) or isinstance(obj, np.generic):
            return self._by_content(obj)
        if kind is set or kind is frozenset:
            return self._agents_in(obj)
        if kind is CellCollection:
            return self._collection(obj)
        if kind is types.FunctionType or isinstance(obj, type):
            mine = obj.__module__ == self._module and "<" not in obj.__qualname__
            return self._value(obj.__qualname__) | ObjectKind.NAMED if mine else None
        return None

    def reducer_override(self, obj: Any) -> Any:
        """The reconstruction of arrays, weak references, used-up iterators and events; NotImplemented leaves an object to pickle."""
        kind = type(obj)
        if is_array(obj):
            return self._array(obj)
        if kind is weakref.ref:
            return _make_reference, (obj(),)
        if kind is weakref.WeakMethod:
            return _make_method_reference, (obj(),)
        if kind is itertools.chain and not gc.get_referents(obj):
            return _make_used_up_chain, ()
        if id(obj) in self._ranks:
            return _make_empty, (kind,), {**vars(obj), "unique_id": self._ranks[id(obj)]}
        if _is_event(obj):
            return _make_empty, (kind,), {**vars(obj), "unique_id": -1}
        return NotImplemented

    def flat(self, state: Any) -> Any:
        """An agent's attributes as the number of their names and the values."""
        if type(state) is dict:
            return [self._by_content(tuple(state)), *state.values()]
        return state  # A pair, for a class with slots; or the class's own state.

    def _agents_in(self, obj: set[Any] | frozenset[Any]) -> list[Any] | tuple[Any, ...] | None:
        """The members of a set of agents of this model, in the order of their numbers; None for any other set.

        Such a set has another order after each load and in each run, as its members hash by their memory addresses.
        They are a list for a set and a tuple for a frozenset, which pickle writes once, also where a member that has
        left the model holds the set.
        """
        if id(obj) in self._members:
            return self._members[id(obj)][1]
        if len(obj) < 2 or not all(map(_is_numbered, set(map(type, obj)))):
            return None
        model = self._places.model
        numbered = {
            agent.unique_id: agent
            for agent in obj
            if getattr(agent, "model", None) is model and type(getattr(agent, "unique_id", None)) is int
        }
        if len(numbered) < len(obj):
            return None
        ordered = [numbered[number] for number in sorted(numbered)]
        members = ordered if type(obj) is set else tuple(ordered)
        self._members[id(obj)] = (obj, members)
        return members

    def _collection(self, obj: Any) -> int | None:
        """A collection of cells: one that a cell or a space keeps by how it is asked for, others by their cells."""
        kept = self._of_spaces.get(id(obj)) or self._asked(obj)
        first = obj if kept is None else self._first_asked.setdefault(kept, obj)
        if first is not obj:
            # Mesa forgot the first one and made it again: in a run without the other model both are the same.
            if list(first) == list(obj):
                self._by_id[id(obj)] = self._by_id[id(first)]
                return self._by_id[id(obj)]
            kept = None
        if kept is None:
            cells = [self._cell_numbers.get(id(cell), -1) for cell in obj]
            generator = self._by_id.get(id(obj.random))
            if -1 in cells or generator is None:
                return None
            kept = (COLLECTION, generator, tuple(cells))
        number = self._by_id[id(obj)] = len(self.values) << KIND_BITS
        self.values.append(kept)
        return number

    def _asked(self, obj: Any) -> tuple[Any, ...] | None:
        """How a cell was asked for a collection, decided once: later Mesa's cache may have forgotten it."""
        asked = self._places.asked
        if obj not in asked:
            if self._in_cache is None:
                self._in_cache = _asked_of_cells(self._places)
            asked[obj] = self._in_cache.get(id(obj))
        return asked[obj]

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


def _is_numbered(kind: type) -> bool:
    """Return True for a class of agents that hash by their addresses. Others may have one order in each process."""
    hash_method: Any = kind.__hash__
    return issubclass(kind, mesa.Agent) and hash_method is object.__hash__


def _is_plain(value: Any) -> bool:
    return all(
        type(one) in _ATOMS
        or isinstance(one, np.generic)
        or (type(one) is tuple and len(one) <= _TUPLE_MAX and _is_plain(one))
        for one in value
    )


# --- events, whose numbers are shared by all models of a process


def _is_event(obj: Any) -> bool:
    return type(obj).__name__ == "SimulationEvent" and type(obj).__module__.startswith("mesa.")


def events_of(model: Any) -> list[Any]:
    """The events of the model's simulator; empty if it has none."""
    listed = getattr(getattr(vars(model).get("simulator"), "event_list", None), "_events", None)
    return listed if isinstance(listed, list) else []


def _event_ranks(model: Any) -> dict[int, int]:
    """The rank of each event, by its id, in order of creation: event numbers serve only for this order."""
    ordered = sorted(events_of(model), key=lambda event: event.unique_id)
    return {id(event): rank for rank, event in enumerate(ordered)}
