"""Make the objects of a graph again from an arena.

Objects are made without any code of their classes, in this order: empty shells, then arrays and iterators, then
attributes, lists, dicts (whose keys may hash by attributes), and sets at last. The members of a frozenset get their
attributes before it is made. Classes come from a ClassFinder: those that the user's own object reaches, and those that
stand beside them. Nothing is imported.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.adapters.capture.graph.attribute_setters import clear_attributes, set_attributes, setter_of
from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.kinds.array_kind import finish_array, make_array
from sim.adapters.capture.graph.kinds.set_kind import SetKind
from sim.adapters.capture.graph.kinds.special_kinds import KINDS_BY_NAME
from sim.adapters.capture.graph.names.array_types import OBJECTS
from sim.adapters.capture.graph.names.attribute_names import names_of, read_slowly
from sim.adapters.capture.graph.names.classes import NotFoundError
from sim.adapters.capture.graph.names.global_items import are_equal_values, is_frozen
from sim.adapters.capture.graph.names.python_class import make_shell
from sim.adapters.capture.graph.nodes import Content
from sim.adapters.capture.graph.object_graph import NAMED_NODES, OBSERVED, ObjectGraph
from sim.adapters.capture.graph.rows import DICTS, LISTS, ObjectRows
from sim.adapters.capture.graph.special_nodes import (
    ARRAY_BYTES,
    ARRAY_LETTER,
    ARRAYS,
    FOREIGN,
    PICKLED,
    SPECIAL,
    SPECIAL_BYTES,
)
from sim.adapters.capture.graph.tags import FALSE, FLOAT, INT, NODE_TAG, NONE, ROOT, TRUE, VALUE_TAG
from sim.adapters.capture.graph.values.foreign_values import decode_foreign
from sim.adapters.capture.graph.values.trees import TreeDecoder, marked_in, unpack

_SETS = SetKind()
EMPTY = b"\x90"


class Restoring:
    """One restore: fills an empty graph from the arena that it was given."""

    def __init__(self, graph: ObjectGraph, known: Mapping[str, Any], *, in_place: bool = True) -> None:
        """known: the objects that are saved elsewhere, by name.

        in_place: objects that a module refers to by a name are these very objects afterwards, with the recorded
        contents. Otherwise others are made in their place.
        """
        self._graph, self._known, self._in_place = graph, known, in_place
        self._made: dict[int, Any] = graph.nodes.objects
        self._decoder = TreeDecoder(graph.finder, known, self._node, self._complete)
        self._values: dict[int, Any] = {}
        self._trees: dict[int, list[Any]] = {}
        self._contents: dict[int, bytes] = {}
        self._memory: dict[int, bytes] = {}
        self._making: set[int] = set()
        self._decoding: set[int] = set()
        self._rows: dict[int, tuple[Group, int]] = {}
        self._completed: set[int] = set()
        self._partial: set[int] = set()

    def run(self) -> list[Any]:
        """Make all objects, and return the roots. Raises ValueError, LookupError, TypeError for another arena."""
        graph = self._graph
        graph.groups.read()
        graph.values.read()
        self._read_special()
        self._make_shells()
        for number in self._trees:
            self._node(number)
        decoded = [(group, self._cells(group)) for group in graph.groups.ordered]
        for wanted in ("object", "list", "dict"):
            for group, cells in decoded:
                if _phase(group) == wanted:
                    self._fill(group, cells)
        self._finish_special()
        roots = graph.adopt(self._contents)
        self._forget()
        return roots

    def _forget(self) -> None:
        """Keep no object alive; the decoder and this object refer to each other."""
        self._made, self._values, self._trees = {}, {}, {}
        self._decoder.forget()

    def _read_special(self) -> None:
        state = self._graph.storage.state
        content, start = state[f"{SPECIAL_BYTES}.byte"].tobytes(), 0
        for node, size in zip(state[f"{SPECIAL}.node"].tolist(), state[f"{SPECIAL}.size"].tolist(), strict=True):
            self._contents[node] = content[start : start + size]
            self._trees[node] = unpack(self._contents[node])
            start += size
        content, start = state[f"{ARRAY_BYTES}.byte"].tobytes(), 0
        for node, size in zip(state[f"{ARRAYS}.node"].tolist(), state[f"{ARRAYS}.size"].tolist(), strict=True):
            self._memory[node] = content[start : start + size]
            start += size

    def _make_shells(self) -> None:
        made = self._made
        names = dict(unpack(self._graph.storage.state.blob(NAMED_NODES) or EMPTY))
        self._graph.is_observed = names.pop(OBSERVED, None) is not None
        self._graph.nodes.named = names
        lengths: dict[int, int | None] = {}  # The largest ones of objects of classes derived from deque.
        for group in self._graph.groups.ordered:
            nodes = group.columns.nodes.tolist()
            if group.key[0] == "content":
                for node, owner in zip(nodes, self._owners_of(group), strict=True):
                    made[node] = Content(owner)
                    if group.key[1] == "deque":
                        lengths[owner] = group.key[2]
                continue
            if group.key[0] == "object":
                assert isinstance(group.rows, ObjectRows)
                for row, node in enumerate(nodes):
                    found = self._named(names.get(node), group.rows.cls, (group, row))
                    made[node] = make_shell(group.rows.cls) if found is None else found
                    if found is None and self._in_place:
                        names.pop(node, None)
                continue
            kind = {**LISTS, **DICTS}[group.key[1]]
            for node in nodes:
                made[node] = self._named(names.get(node), kind)
                if made[node] is None:
                    made[node] = self._container(kind, group.key[2])
        for owner, length in lengths.items():
            deque.__init__(made[owner], (), length)
        groups = self._graph.groups
        groups.global_names.update({id(made[node]): name for node, name in names.items()})
        if not self._in_place:
            groups.stand_ins.update(id(made[node]) for node in names)
        made[ROOT] = self._graph.root

    def _named(self, name: str | None, cls: type, row: tuple[Group, int] | None = None) -> Any:
        """The object that a module refers to by this name, empty; None if the node has none. Raises NotFoundError.

        row: of an object with attributes. None also for one in a list or dict that has other values than were recorded.
        """
        if name is None or not self._in_place:
            return None
        found, is_own = self._graph.finder.find_to_fill(name)
        if type(found) is not cls:
            raise NotFoundError(
                f"expected a {cls.__qualname__} with the name {name!r}, got a {type(found).__qualname__}"
            )
        if not is_own:
            return found if row is not None and self._is_as_recorded(found, *row) else None
        if isinstance(found, list | dict | deque):
            found.clear()
        else:
            clear_attributes(found)
        return found

    def _is_as_recorded(self, found: Any, group: Group, row: int) -> bool:
        """Return True if a frozen object has the values of a row, which lead to no other object."""
        names, columns = group.key[2], group.columns
        if not is_frozen(type(found)) or set(names_of(found)) != set(names):
            return False
        cells = slice(row * len(names), (row + 1) * len(names))
        tags, values = columns.tags[cells], columns.values[cells]
        pooled = values[tags == VALUE_TAG].tolist()
        if NODE_TAG in tags or any(marked_in(unpack(self._graph.values.content(one)), "r") for one in pooled):
            return False
        return are_equal_values(read_slowly(found, names), self._values_of(tags, values))

    def _owners_of(self, group: Group) -> list[int]:
        """The node of the object whose content each row is: its first cell."""
        owners: list[int] = group.columns.values[group.columns.starts()].tolist()
        return owners

    def _container(self, kind: Any, extra: Any) -> Any:
        if kind is deque:
            return deque(maxlen=extra)
        return defaultdict(self._decoder.of(extra)) if kind is defaultdict else kind()

    def _node(self, number: int) -> Any:
        made = self._made.get(number)
        if made is not None or number in self._made:
            return made
        if number not in self._trees or number in self._making:
            raise ValueError(f"expected a graph of objects, got one without the object {number}")
        self._making.add(number)
        name, plain, trees = self._trees[number]
        if name == PICKLED:
            value = self._graph.special.unpickled(plain, self._node)
        else:
            is_filled_later = name == _SETS.name or (name == ARRAY_LETTER and plain[0] == OBJECTS)
            parts = [] if is_filled_later else [self._decoder.of(tree) for tree in trees]
            value = self._make_special(name, plain, parts, number)
        self._made[number] = value
        return value

    def _make_special(self, name: str, plain: Any, parts: list[Any], number: int) -> Any:
        if name == FOREIGN:
            return decode_foreign(plain)
        if name == ARRAY_LETTER:
            return make_array(plain, parts, self._memory.get(number))
        if name == _SETS.name:
            return _SETS.make(plain, parts)
        return KINDS_BY_NAME[name].make(plain, parts)

    def _finish_special(self) -> None:
        for number, (name, plain, trees) in self._trees.items():
            if name == ARRAY_LETTER:
                held = [self._decoder.of(tree) for tree in trees] if plain[0] == OBJECTS else []
                finish_array(self._made[number], plain, held)
            if name in (ARRAY_LETTER, PICKLED, FOREIGN):
                continue
            kind: Any = _SETS if name == _SETS.name else KINDS_BY_NAME[name]
            kind.finish(self._made[number], plain, [self._decoder.of(tree) for tree in trees])

    def _cells(self, group: Group) -> list[Any]:
        """The values of all cells of a group."""
        columns = group.columns
        return self._values_of(columns.tags, columns.values)

    def _values_of(self, tags: npt.NDArray[np.uint8], values: npt.NDArray[np.int64]) -> list[Any]:
        """The values of cells."""
        cells: list[Any] = []
        for tag, number, real in zip(tags.tolist(), values.tolist(), values.view(np.float64).tolist(), strict=True):
            if tag == INT:
                cells.append(number)
            elif tag == FLOAT:
                cells.append(real)
            elif tag == NODE_TAG:
                cells.append(self._node(number))
            elif tag == VALUE_TAG:
                cells.append(self._value(number))
            elif tag in (NONE, FALSE, TRUE):
                cells.append(None if tag == NONE else tag == TRUE)
            else:
                raise ValueError(f"expected a cell of a graph of objects, got one of kind {tag}")
        return cells

    def _value(self, number: int) -> Any:
        if number not in self._values:
            self._decoding.add(number)
            content = self._graph.values.content(number)
            self._values[number] = self._decoder.value(content)
            self._decoding.remove(number)
        return self._values[number]

    def _complete(self, numbers: Iterable[int]) -> None:
        """Set the attributes of objects before the others: members of a frozenset, which hash by what they hold.

        A value that is being made, because it leads to such a member itself, is left out: its hash cannot need it.
        """
        if not self._rows:
            self._rows = {
                node: (group, row)
                for group in self._graph.groups.ordered
                if group.key[0] == "object"
                for row, node in enumerate(group.columns.nodes.tolist())
            }
        for number in numbers:
            if number in self._completed or number not in self._rows:
                continue
            self._completed.add(number)
            group, row = self._rows[number]
            columns, count = group.columns, len(group.key[2])
            hash_method: Any = type(self._made[number]).__hash__
            if hash_method is object.__hash__:
                continue
            cells = slice(row * count, (row + 1) * count)
            tags, values = columns.tags[cells], columns.values[cells]
            is_made = [tag != VALUE_TAG or one not in self._decoding
                       for tag, one in zip(tags.tolist(), values.tolist(), strict=True)]  # fmt: skip
            names = list(compress(group.key[2], is_made))
            if not all(is_made):
                self._partial.add(number)
            set_attributes(self._made[number], names, self._values_of(tags[is_made], values[is_made]))

    def _fill(self, group: Group, cells: list[Any]) -> None:
        """Put the values into the objects of a group."""
        start = 0
        columns = group.columns
        set_all = setter_of(group.rows.cls, group.key[2]) if isinstance(group.rows, ObjectRows) else None
        for node, length in zip(columns.nodes.tolist(), columns.lengths.tolist(), strict=True):
            mine = cells[start : start + length]
            start += length
            if set_all is not None:
                if node in self._partial:
                    clear_attributes(self._made[node])  # So that all are set in their order.
                set_all(self._made[node], mine)
                continue
            target = self._made[node]
            if group.key[0] == "content":
                target, mine = self._made[target.of], mine[1:]
            base: Any = {**LISTS, **DICTS}[group.key[1]]
            if group.key[1] in LISTS:
                base.extend(target, mine)
            else:
                half = len(mine) // 2
                for key, value in zip(mine[:half], mine[half:], strict=True):
                    base.__setitem__(target, key, value)
                if base.__len__(target) != half:
                    kinds = sorted({type(key).__qualname__ for key in mine[:half]})
                    raise ValueError(
                        f"two keys of a dict, of {' or '.join(kinds)}, are equal when they are made again: use keys that are compared by their values"
                    )


def _phase(group: Group) -> str:
    if group.key[0] == "content":
        return "list" if group.key[1] in LISTS else "dict"
    return str(group.key[0])
