"""Encode values into the cells of a graph."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import compress
from operator import eq
from typing import Any

import numpy as np

from sim.adapters.capture.graph.cells.new_rows import NewRows
from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.rows import Values
from sim.adapters.capture.graph.storage import Integers
from sim.adapters.capture.graph.tags import FALSE, FLOAT, INT, NODE_TAG, NONE, TRUE, VALUE_TAG
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.graph.values.trees import TreeEncoder, pack
from sim.adapters.capture.graph.values.value_pool import ValuePool

_ATOMS = frozenset((int, float, str, bytes, bool, type(None)))
_FEW = 48  # Up to here a plain loop is faster than NumPy's calls.


class CellWriter:
    """Writes the cells of one graph.

    Attributes:
        count: of the cells written; unchanged means that nothing has changed.
    """

    def __init__(self, nodes: Nodes, values: ValuePool, encoder: TreeEncoder) -> None:
        self._nodes, self._values, self._encoder = nodes, values, encoder
        self.count = 0

    def write(self, group: Group | NewRows, places: Sequence[int]) -> None:  # noqa: PLR0912, PLR0915 - the hot path, in one place
        """Encode the present values of these cells. Raises UnsavableError; nodes.owner is then the cell."""
        flat = group.flat
        self.count += len(places)
        if len(places) > _FEW:
            many = np.arange(len(places)) if isinstance(places, range) else np.asarray(places)
            places = self._write_many(group, many, flat)
        columns = group.columns
        tags, ints, floats = columns.tag_memory, columns.int_memory, columns.float_memory
        nodes, known, quick = self._nodes, self._encoder.known, self._values.quick
        numbers, identities = nodes.numbers, self._values.identities
        last = VALUE_TAG if self._values.edges else NODE_TAG
        dropped = [place for place in places if NODE_TAG <= tags[place] <= last]
        if dropped and isinstance(group, Group):
            self.drop(group, np.array(dropped))
        for place in places:
            value = flat[place]
            kind = type(value)
            if kind is int:
                try:
                    ints[place] = value
                except (ValueError, OverflowError):
                    pass  # A larger number is a pooled value.
                else:
                    tags[place] = INT
                    continue
            elif kind is float:
                if math.isnan(value) and group.is_key(place):
                    nodes.owner = (group, place)
                    raise UnsavableError("nan as a key is found by its identity alone", "use None as the key")
                floats[place] = value
                tags[place] = FLOAT
                continue
            elif value is None or value is True or value is False:
                ints[place] = 0
                tags[place] = NONE if value is None else TRUE if value else FALSE
                continue
            elif kind is str:
                ints[place], tags[place] = quick(value, pack), VALUE_TAG
                continue
            elif kind is tuple:
                number = identities.get(id(value))
                if number is None and _ATOMS.issuperset(map(type, value)):
                    number = self._values.number_of_plain(value, pack(["t", *value]))
                if number is not None:
                    ints[place], tags[place] = number, VALUE_TAG
                    continue
            number = numbers.get(id(value))
            if number is not None and id(value) not in known:
                ints[place], tags[place] = number, NODE_TAG
                continue
            nodes.owner = (group, place)
            tag, number = self._encode(value)
            if columns.tag_memory is not tags:  # A new group has moved the arena.
                tags, ints, floats = columns.tag_memory, columns.int_memory, columns.float_memory
            ints[place], tags[place] = number, tag

    def _write_many(self, group: Group | NewRows, places: Integers, flat: Values) -> list[int]:
        """Encode numbers and known nodes all at once; return the places of other values."""
        columns = group.columns
        if isinstance(group, Group):
            self.drop(group, places[columns.tags[places] >= NODE_TAG])
        values = [flat[place] for place in places.tolist()] if len(places) < len(flat) else flat
        kinds = np.fromiter(map(id, map(type, values)), np.int64, len(values))
        left = np.ones(len(values), bool)
        for kind, tag, code in ((int, INT, "q"), (float, FLOAT, "d")):
            mine = kinds == id(kind)
            if mine.any():
                some = values if mine.all() else list(compress(values, mine.tolist()))
                if kind is float and group.holds_items and any(map(math.isnan, some)):
                    continue  # It may be a key.
                try:
                    payload = np.frombuffer(array(code, some), np.int64)
                except OverflowError:
                    continue
                at = places[mine]
                columns.tags[at], columns.values[at] = tag, payload
                left &= ~mine
        mine = kinds == id(tuple)
        if mine.any():
            met = self._values.identities.get
            found = np.array([met(id(values[index]), -1) for index in np.flatnonzero(mine).tolist()], np.int64)
            is_met = found >= 0
            mine[mine] = is_met
            at = places[mine]
            columns.tags[at], columns.values[at] = VALUE_TAG, found[is_met]
            left &= ~mine
        others = np.flatnonzero(left)
        if len(others) and self._nodes.numbers.keys().isdisjoint(self._encoder.known):
            rest = [values[index] for index in others.tolist()]
            numbers = [-1 if one is None else one for one in map(self._nodes.numbers.get, map(id, rest))]
            found = np.array(numbers, np.int64)
            is_node = found >= 0
            at = places[others[is_node]]
            columns.tags[at], columns.values[at] = NODE_TAG, found[is_node]
            others = others[~is_node]
        rest_places: list[int] = places[others].tolist()
        return rest_places

    def _encode(self, value: Any) -> tuple[int, int]:
        """The tag and the payload of a value that is no plain number."""
        if self._encoder.is_node(value):
            return NODE_TAG, self._nodes.number_of(value)
        edges: list[int] = []
        tree = self._encoder.tree(value, edges)
        if type(tree) is list and tree[0] == "r":
            return NODE_TAG, tree[1]
        return VALUE_TAG, self._values.number_of(pack(tree), tuple(edges))

    def drop(self, group: Group, places: Integers) -> None:
        """Note that cells no longer refer to what they did."""
        if self._nodes.has_lost_parent:
            return
        columns, edges = group.columns, self._values.edges
        tags = columns.tags[places]
        of_nodes = places[tags == NODE_TAG]
        if len(of_nodes):
            parents, dropped = self._nodes.parents, columns.values[of_nodes].tolist()
            is_parent = map(eq, map(parents.__getitem__, dropped), group.nodes_of(of_nodes).tolist())
            self._nodes.lost.update(compress(dropped, is_parent))
        for place in places[tags == VALUE_TAG].tolist() if edges else ():
            held = edges.get(int(columns.values[place]))
            if held is not None:
                owner = group.node_of(place)
                self._nodes.lost.update(node for node in held if self._nodes.parents[node] == owner)
