"""Encode the objects of a Mesa model as bytes: agents by pickle, the parts of every model by their position.

The pickler comes from pickle_trusted.py, and only where the user has passed trust=True. The permanent parts of a model
(the model, its spaces and their cells, property layers, random generators) are never made from bytes. They are named by
their position and loaded in place, so that views, descriptors and caches of neighbours that refer to them stay valid.
Agents are created empty first and filled later, so that no chain of references is too deep.

Equal contents give equal bytes, in a run that was loaded and in one that was not: texts, NumPy's numbers, short tuples
and sets of such values are written by value, arrays by content, events by their order, sets of objects as in sets.py.
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
from sim.adapters.mesa.events import event_ranks, is_event
from sim.adapters.mesa.sets import FROZENSET, LATE_SET, SET, SetOrder, layout_of, reduced_subclass
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
    for name, part in (*parts, ("the sets of objects", None)):
        try:
            pickler.dump(part) if part is not None else pickler.dump_sets()
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

    def __init__(self, buffer: io.BytesIO, places: Places, agents: list[Any], *, alone: bool = False) -> None:
        """alone: for one object, of which only the bytes are wanted."""
        super().__init__(buffer, protocol=5)  # type: ignore[call-arg]  # A class with a pickler as second base.
        self.values: list[Any] = []
        self._places, self._agents, self._is_alone = places, agents, alone
        self._order = SetOrder(lambda obj: self._by_id.get(id(obj)), self._content)
        self._module = type(places.model).__module__
        self._numbers: dict[Any, int] = {}  # By text.
        self._kept: list[Any] = []  # What is known by its id, and must not give it to another object.
        self._encoded: dict[bytes, int] = {}
        self._by_id: dict[int, int] = {}
        self._cell_numbers = {id(cell): index for index, cell in enumerate(places.cells)}
        lists = [cell._agents for cell in places.cells]  # noqa: SLF001
        for kind, objects in (
            (ObjectKind.CELL_LIST, lists), (ObjectKind.CELL, places.cells), (ObjectKind.AGENT, agents),
            (ObjectKind.GENERATOR, places.generators), (ObjectKind.PLACE, places.places),
        ):  # fmt: skip
            self._by_id.update((id(obj), index << KIND_BITS | kind) for index, obj in enumerate(objects))
        for name in places.functions:
            self._by_id[id(vars(places.model)[name])] = self._value(name) | ObjectKind.FUNCTION
        self._ranks = event_ranks(places.model)
        self._in_cache: dict[int, tuple[Any, ...]] | None = None  # Found when a collection is not known yet.
        self._of_spaces: dict[int, tuple[Any, ...]] = {
            id(space.all_cells): (ALL_CELLS, index)
            for index, (_, space) in enumerate(places.spaces)
            if "all_cells" in vars(space)
        }
        self._first_asked: dict[tuple[Any, ...], CellCollection[Any]] = {}

    def persistent_id(self, obj: Any) -> int | None:
        """The number of the object's position or value; None for an object that is pickled."""
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
            return self._set_of_objects(obj)
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
        if isinstance(obj, set | frozenset) and (reduced := reduced_subclass(obj, self._order)) is not None:
            return reduced
        if id(obj) in self._ranks:
            return _make_empty, (kind,), {**vars(obj), "unique_id": self._ranks[id(obj)]}
        if is_event(obj):
            return _make_empty, (kind,), {**vars(obj), "unique_id": -1}
        return NotImplemented

    def flat(self, state: Any) -> Any:
        """An agent's attributes as the number of their names and the values."""
        if type(state) is dict:
            return [self._by_content(tuple(state)), *state.values()]
        return state  # A pair, for a class with slots; or the class's own state.

    def dump_sets(self) -> None:
        """Write the sets that are filled last; writing one may meet others."""
        order, written = self._order, 0
        if order.late and not self._is_alone:
            order.known_before(self.memo.copy())  # type: ignore[attr-defined]  # Of the pickler, the second base.
        while written < len(order.late):
            batch = []
            for value in order.late[written:]:
                layout = layout_of(value)
                members = list(value) if layout is not None else order.ordered(value)
                order.note(members)
                batch.append([layout, order.keys(value) if self._is_alone else members])
            written += len(batch)
            self.dump(batch)  # type: ignore[attr-defined]

    def _set_of_objects(self, obj: set[Any] | frozenset[Any]) -> int | None:
        """The number of a set; None for a frozenset with members that have no position, which pickle writes."""
        if self._order.has_positions(obj) and (type(obj) is frozenset or layout_of(obj) is None):
            listed = []
            for member in self._order.ordered(obj):
                position = self.persistent_id(member)
                listed.append(self._by_content(member) if position is None else position)
            form: tuple[Any, ...] = (SET if type(obj) is set else FROZENSET, tuple(listed))
        elif type(obj) is set:
            form = (LATE_SET, len(self._order.late))
            self._order.late.append(obj)
        else:
            return None
        number = self._by_id[id(obj)] = len(self.values) << KIND_BITS
        self.values.append(form)
        self._kept.append(obj)
        return number

    def _content(self, obj: Any) -> bytes:
        """What an object holds; of one in an object that is written so itself, only the class."""
        if self._is_alone:
            return type(obj).__qualname__.encode()
        buffer = io.BytesIO()
        alone = type(self)(buffer, self._places, self._agents, alone=True)
        alone.dump(obj)  # type: ignore[attr-defined]
        alone.dump_sets()
        return encode_value(alone.values) + buffer.getvalue()

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


def _is_plain(value: Any) -> bool:
    return all(
        type(one) in _ATOMS
        or isinstance(one, np.generic)
        or (type(one) is tuple and len(one) <= _TUPLE_MAX and _is_plain(one))
        for one in value
    )
