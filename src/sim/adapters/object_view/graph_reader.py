"""Read the objects of a graph from a state, as values to show: no class is needed, and nothing is made or imported."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.graph.groups import STRUCTURE
from sim.adapters.capture.graph.kinds.array_kind import make_array
from sim.adapters.capture.graph.kinds.partial_kind import PartialKind
from sim.adapters.capture.graph.names.array_types import OBJECTS
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.rows import DICTS, LISTS
from sim.adapters.capture.graph.special_nodes import (
    ARRAY_BYTES,
    ARRAY_LETTER,
    ARRAYS,
    FOREIGN,
    SPECIAL,
    SPECIAL_BYTES,
)
from sim.adapters.capture.graph.tags import FALSE, FLOAT, INT, NODE_TAG, NONE, ROOT, TRUE, VALUE_TAG
from sim.adapters.capture.graph.values.trees import TreeDecoder, unpack
from sim.adapters.capture.graph.values.value_pool import VALUE_BYTES, VALUES
from sim.adapters.object_view.shown_values import (
    SET_STEP,
    Composite,
    Member,
    Ref,
    ShownPart,
    Word,
    attributes,
    items,
    last_name,
    pairs,
)
from sim.adapters.object_view.value_text import leaf_text
from sim.kernel.state import Snapshot, State

_DTYPE_TEXT = re.compile(r"[<|][biufc]\d{1,2}")
_ERRORS = (ValueError, LookupError, TypeError, ArithmeticError)  # Of one value that cannot be made.
_TABLE = re.compile(r"graph\.(\d+)\.[^.]+\.node")
_CELL = re.compile(r"graph\.(\d+)\.[^.]+\.cells\.(?:tag|value)")


@attrs.frozen(eq=False)
class _GroupCells:
    """The cells of the objects of one kind.

    Attributes:
        name: the beginning of the names of their fields.
        key: the description of the group, see groups.py.
        nodes: the number of each object.
        starts: the first cell of each object, and the end of the last.
        tags, values: of the cells.
    """

    name: str
    key: list[Any]
    nodes: Any
    starts: Any
    tags: Any
    values: Any


class GraphReader:
    """The objects of a graph in a state."""

    def __init__(self, state: Snapshot | State, known: Callable[[str], Any] = Word) -> None:
        """known: from the name of an object that is saved elsewhere to the value to show.

        Raises ValueError or LookupError for a state without a graph.
        """
        self._known = known
        names = {int(match[1]): name.removesuffix(".node") for name in state if (match := _TABLE.fullmatch(name))}
        self._groups: list[_GroupCells] = []
        self._rows: dict[int, tuple[_GroupCells, int]] = {}
        self._content_of: dict[int, int] = {}
        for number, key in enumerate(unpack(state.blob(STRUCTURE)) if state.count(STRUCTURE) else []):
            name = names[number]
            starts = np.concatenate([[0], np.cumsum(state[f"{name}.length"])])
            cells = f"{name}.cells"
            group = _GroupCells(
                name, key, state[f"{name}.node"], starts, state[f"{cells}.tag"], state[f"{cells}.value"].view(np.int64)
            )
            self._groups.append(group)
            for row, node in enumerate(group.nodes.tolist()):
                self._rows[node] = (group, row)
                if key[0] == "content":
                    self._content_of[int(group.values[starts[row]])] = node
        self._plain_values = TreeDecoder(ClassFinder(object), {}, int)  # Only for values in which there is no class.
        self._special = _by_node(state, SPECIAL, SPECIAL_BYTES)
        self._memory = _by_node(state, ARRAYS, ARRAY_BYTES)
        sizes, pool = state[f"{VALUES}.size"].tolist(), state[f"{VALUE_BYTES}.byte"].tobytes()
        ends = np.cumsum(sizes).tolist()
        self._pool = [pool[end - size : end] for end, size in zip(ends, sizes, strict=True)]

    def roots(self) -> list[Any]:
        """The values of the list of all roots."""
        return self._cells_of(ROOT) if ROOT in self._rows else []

    def root_number(self) -> int:
        """The number of the list of all roots."""
        return ROOT

    def is_special(self, number: Any) -> bool:
        """Return True for the number of an object that is saved as a whole, such as a set or an array."""
        return number in self._special

    def has(self, number: Any) -> bool:
        """Return True for the number of an object."""
        return number in self._rows or number in self._special

    def owner_of_cell(self, field: str, index: int) -> tuple[int, int] | None:
        """The node whose cell is at this row of a field, and the index of the cell among the node's; None for others."""
        match = _CELL.fullmatch(field)
        if match is None or int(match[1]) >= len(self._groups):
            return None
        group = self._groups[int(match[1])]
        row = int(np.searchsorted(group.starts, index, "right")) - 1
        if not 0 <= row < len(group.nodes):
            return None
        return int(group.nodes[row]), index - int(group.starts[row])

    def fields_of(self, number: int, place: int) -> list[str]:
        """The fields with the value of an entry of a node: the cells of its kind, and what a cell refers to; none if not known.

        place: of the entry.
        """
        if number not in self._rows or number in self._content_of:
            return []
        group, row = self._rows[number]
        start, end = int(group.starts[row]), int(group.starts[row + 1])
        if group.key[0] == "content":
            start += 1  # The object that it is the content of.
        elif group.key[0] != "object" and str(group.key[1]) in DICTS:
            start += (end - start) // 2  # The keys.
        if start + place >= end:
            return []
        tag, payload = int(group.tags[start + place]), int(group.values[start + place])
        cells = f"{group.name}.cells.value"
        if tag == NODE_TAG and self.is_special(payload):
            if payload in self._memory:
                return [ARRAYS]
            return [] if unpack(self._special[payload])[0] == ARRAY_LETTER else [SPECIAL]  # Others have its memory.
        return [cells, VALUES] if tag == VALUE_TAG else [cells]

    def composite(self, number: int) -> Composite:
        """The object of a node. Raises ValueError or LookupError for a number without one."""
        if number in self._special:
            return self._special_composite(number)
        group, _ = self._rows[number]
        kind, name = group.key[0], str(group.key[1])
        cells = self._cells_of(number)
        if kind == "content":
            return self._container(name, cells[1:])
        if kind != "object":
            return self._container(name, cells)
        shown = attributes(last_name(name), group.key[2], cells)
        content = self._content_of.get(number)
        if content is None:
            return shown
        inner = self.composite(content)
        return attrs.evolve(shown, entries=[*inner.entries, *shown.entries])

    def _container(self, kind: str, cells: list[Any]) -> Composite:
        title = "" if kind in ("list", "dict") else kind
        if kind in LISTS:
            return items(cells, *(("([", "])") if title else ("[", "]")), title)
        if kind not in DICTS:
            raise ValueError(f"expected a group of objects, got one of {kind[:40]!r}")
        half = len(cells) // 2
        keys = cells[:half]
        objects = [key if isinstance(key, Ref) else None for key in keys]
        return pairs([self._key_text(key) for key in keys], cells[half:], title, objects)

    def _key_text(self, key: Any) -> str:
        if isinstance(key, Ref):
            return f"<{_name_of(key.source.composite(key.number))}>"
        return leaf_text(key)

    def _cells_of(self, number: int) -> list[Any]:
        group, row = self._rows[number]
        span = slice(int(group.starts[row]), int(group.starts[row + 1]))
        payloads = group.values[span]
        reals = payloads.view(np.float64).tolist()
        return [
            self._cell(tag, payload, real)
            for tag, payload, real in zip(group.tags[span].tolist(), payloads.tolist(), reals, strict=True)
        ]

    def _cell(self, tag: int, payload: int, real: float) -> Any:
        if tag in (INT, FLOAT):
            return payload if tag == INT else real
        if tag == NODE_TAG:
            return Ref(self, payload)
        if tag == VALUE_TAG:
            return self._value(self._pool[payload])
        if tag in (NONE, FALSE, TRUE):
            return None if tag == NONE else tag == TRUE
        raise ValueError(f"expected a cell of a graph of objects, got one of kind {tag}")

    # --- immutable values, see values/trees.py

    def _value(self, content: bytes) -> Any:
        """The value of these bytes. One that cannot be shown hides no other value: its bytes stand for it."""
        tree = unpack(content)
        try:
            return self.of_tree(tree)
        except _ERRORS:
            return Word("a value that cannot be shown", content)

    def of_tree(self, tree: Any) -> Any:
        """The value of plain data. Raises ValueError for other data."""
        if type(tree) is not list:
            return tree
        match tree:
            case ["r", int(number)]:
                return Ref(self, number)
            case ["t", *parts]:
                return items([self.of_tree(part) for part in parts], "(", ",)" if len(parts) == 1 else ")")
            case ["k", str(name)]:
                return self._known(name)
            case ["c" | "n", *_]:
                return self._plain_values.of(tree)
            case ["f", plain, *parts]:
                return _set([self.of_tree(part) for part in parts], "frozenset", plain)
            case ["S", *parts]:
                return _set([self.of_tree(part) for part in parts], "frozenset", None)
            case ["x" | "d", _]:
                value = self._plain_values.of(tree)
                return Word(repr(value), value=value)
            case ["a", plain] if type(plain) is list:
                return _foreign(plain)
        return self._of_class(tree)

    def _of_class(self, tree: list[Any]) -> Any:
        match tree:
            case ["e", str(name), str(member)]:
                return Word(f"{last_name(name)}.{member}", value=Member(name, member))
            case ["E" | "s" as letter, str(name), value]:
                inner = self.of_tree(value)
                whole = Member(name, None, inner) if letter == "E" else inner
                return attrs.evolve(items([inner], "(", ")", last_name(name)), value=whole)
            case ["T", str(name), *parts]:
                return items([self.of_tree(part) for part in parts], "(", ")", last_name(name))
            case ["D", str(name), list(names), *parts]:
                return attributes(last_name(name), names, [self.of_tree(part) for part in parts])
            case ["l" | "M" as letter, str(name)]:
                return Word(f"{'logger' if letter == 'l' else 'module'} {name}")
            case ["C" | "F" | "N", str(name)]:
                return Word(last_name(name))
            case ["L", str(name), int(index)]:
                return Word(f"function {index} in {last_name(name)}")
            case ["m", owner, str(name)]:
                return attributes(f"method {name}", ["of"], [self.of_tree(owner)])
            case ["B", function, owner]:
                return attributes("method", ["function", "of"], [self.of_tree(function), self.of_tree(owner)])
            case ["p", *parts]:
                return items([self.of_tree(part) for part in parts], "(", ")", "partial")
        raise ValueError(f"expected a value of a graph of objects, got {str(tree)[:40]}")

    # --- objects of C types

    def _special_composite(self, number: int) -> Composite:
        name, plain, trees = unpack(self._special[number])
        try:
            return self._special_value(number, name, plain, trees)
        except _ERRORS:  # One object that cannot be shown hides no other one.
            return Composite(f"<{name} that cannot be shown>", "", "", [], hidden=self._special[number])

    def _special_value(self, number: int, name: str, plain: Any, trees: list[Any]) -> Composite:
        if name == "set":
            return _set([self.of_tree(tree) for tree in trees], "", plain)
        if name == ARRAY_LETTER:
            if plain[0] == OBJECTS:
                return _objects(plain, [self.of_tree(tree) for tree in trees])
            return Composite("", "", "", [ShownPart("", "", self._array(number))])
        if name == FOREIGN:
            return Composite("", "", "", [ShownPart("", "", _foreign(plain))])
        if name == PartialKind.name:
            return items([self.of_tree(tree) for tree in trees], "(", ")", name)
        if not trees:
            return Composite(f"<{name}>", "", "", [], hidden=plain)
        parts = [ShownPart(f" part {index}", "", self.of_tree(tree)) for index, tree in enumerate(trees)]
        return Composite(f"<{name}", " of ", ">", parts, hidden=plain)

    def _array(self, number: int) -> Any:
        _, plain, trees = unpack(self._special[number])
        return make_array(plain, [self._memory_of(tree) for tree in trees], self._memory.get(number))

    def _memory_of(self, tree: Any) -> Any:
        """The array whose memory another one views: one of this graph, or one with a field of its own."""
        match tree:
            case ["r", int(number)]:
                return self._array(number)
            case ["k", str(name)]:
                known = self._known(name)
                return known.value if isinstance(known, Word) else None
        return None  # make_array refuses it.


def _name_of(whole: Composite) -> str:
    """A short name of an object: its class, and the first of its values that is one text or number."""
    plain = (f" {one.label}{leaf_text(one.value)}" for one in whole.entries if isinstance(one.value, str | int | float))
    return f"{whole.title or 'object'}{next(plain, '')}"


def _set(values: list[Any], title: str, table: Any) -> Composite:
    """A set. table: the layout of its table; None where that is not recorded, as it differs between processes."""
    order = {"is_set": True, "has_order": table is not None, "hidden": table}
    if not values:
        return Composite(f"{title or 'set'}()", "", "", [], **order)
    entries = [ShownPart(f"{SET_STEP}{index}", "", value) for index, value in enumerate(values)]
    opening, closing = ("({", "})") if title else ("{", "}")
    return Composite(title, opening, closing, entries, is_list=True, **order)


def _objects(plain: Any, values: list[Any]) -> Composite:
    """An array of objects, as lists in lists. Raises ValueError if its shape has room for another number of them."""
    shape, order = tuple(plain[1]), "F" if plain[2] else "C"
    if math.prod(shape) != len(values):
        raise ValueError("expected as many objects as an array has room for")
    if not shape:
        return Composite("array", "(", ")", [ShownPart("[()]", "", values[0])])
    places: Any = np.arange(len(values)).reshape(shape, order=order)  # type: ignore[call-overload]

    def rows(at: Any, title: str) -> Composite:
        parts = [values[int(one)] if at.ndim == 1 else rows(one, "") for one in at]
        return items(parts, "([" if title else "[", "])" if title else "]", title)

    return rows(places, "array")


def _foreign(plain: Any) -> Any:
    match plain:
        case [_, str(dtype), list(shape), bytes(content)] if _DTYPE_TEXT.fullmatch(dtype):
            return np.frombuffer(content, dtype).reshape(shape)
    raise ValueError("expected an array of another library")


def _by_node(state: Snapshot | State, table: str, content: str) -> dict[int, bytes]:
    """The bytes of each node of a table."""
    every, start, by_node = state[f"{content}.byte"].tobytes(), 0, {}
    for node, size in zip(state[f"{table}.node"].tolist(), state[f"{table}.size"].tolist(), strict=True):
        by_node[node] = every[start : start + size]
        start += size
    return by_node
