"""Encode values into the cells of a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, compress, repeat
from operator import eq
from typing import Any

import numpy as np

from sim.adapters.capture.graph.cells.changed_cells import CellsBefore
from sim.adapters.capture.graph.cells.new_rows import NewRows
from sim.adapters.capture.graph.groups import Group
from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.storage import Integers
from sim.adapters.capture.graph.tags import FALSE, FLOAT, INT, NODE_TAG, NONE, TRUE, VALUE_TAG
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.graph.values.found_by_identity import found_by_identity, may_be_found_by_identity
from sim.adapters.capture.graph.values.trees import TreeEncoder, pack
from sim.adapters.capture.graph.values.value_pool import ValuePool
from sim.kernel.memory.object_memory import Values, float_bits, identities, integers, kinds_of

_ATOMS = frozenset((int, float, str, bytes, bool, type(None)))
_FEW = 320  # Up to here a plain loop is faster than NumPy's calls.
_SINGLE_KINDS = {  # The tags of types by their identities; other objects may be nodes.
    id(int): INT, id(float): FLOAT, id(bool): TRUE, id(type(None)): NONE, id(str): VALUE_TAG, id(tuple): VALUE_TAG,
}  # fmt: skip
_NUMBER_KINDS = np.array([id(int), id(float), id(bool), id(type(None))])


class CellWriter:
    """Writes the cells of one graph.

    Attributes:
        count: of the cells written; unchanged means that nothing has changed.
    """

    def __init__(self, nodes: Nodes, values: ValuePool, encoder: TreeEncoder) -> None:
        self._nodes, self._values, self._encoder = nodes, values, encoder
        self.count = 0
        self._rehashed: set[int] = set()

    def taken_rehashed(self) -> set[int]:
        """The nodes with attributes that have changed, on which the hash of the object may depend; forget them."""
        taken, self._rehashed = self._rehashed, set()
        return taken

    def write(  # noqa: PLR0912, PLR0915 - the hot path, in one place
        self, group: Group | NewRows, places: Sequence[int] | Integers, before: CellsBefore | None = None
    ) -> None:
        """Encode the present values of these cells. Raises UnsavableError; nodes.owner is then the cell.

        before: the cells as they were, unless each value is to be encoded again.
        """
        flat = group.flat
        self.count += len(places)
        if isinstance(group, Group) and group.hashes_by_content:
            self._rehashed.update(group.nodes_of(np.asarray(places, np.int64)).tolist())
        if len(places) > _FEW:
            places = self._write_many(group, np.asarray(places), flat, before)
            if not places or self._write_plain_tuples(group, places):
                return
        else:
            places = places.tolist() if isinstance(places, np.ndarray) else places
            if before is not None:
                self._drop(group, before)
        columns = group.columns
        tags, ints, floats = columns.tag_memory, columns.int_memory, columns.float_memory
        nodes, known, text_number = self._nodes, self._encoder.known, self._values.number_of_text
        numbers, identities = nodes.numbers, self._values.identities
        may_be_key = group.holds_items
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
                if math.isnan(value):
                    self._ensure_key(group, place)
                floats[place] = value
                tags[place] = FLOAT
                continue
            elif value is None or value is True or value is False:
                ints[place] = 0
                tags[place] = NONE if value is None else TRUE if value else FALSE
                continue
            elif kind is str:
                ints[place], tags[place] = text_number(value, pack), VALUE_TAG
                continue
            elif kind is tuple:
                if may_be_key:
                    self._ensure_key(group, place)
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
            if may_be_key and kind is not tuple:
                self._ensure_key(group, place)
            nodes.owner = (group, place)
            tag, number = self._encode(value)
            if columns.tag_memory is not tags:  # A new group has moved the arena.
                tags, ints, floats = columns.tag_memory, columns.int_memory, columns.float_memory
            ints[place], tags[place] = number, tag

    def _ensure_key(self, group: Group | NewRows, place: int) -> None:
        """Raise UnsavableError for the key of a dict that only the very same object finds."""
        found = found_by_identity(group.flat[place])
        if found is not None and group.is_key(place):
            self._nodes.owner = (group, place)
            advice = "use None as the key" if found == "nan" else "use keys that are compared by their values"
            raise UnsavableError(f"{found} as a key is found by its identity alone", advice)

    def _write_many(
        self, group: Group | NewRows, places: Integers, flat: Values, before: CellsBefore | None
    ) -> list[int]:
        """Encode numbers, known values and known nodes all at once; return the places of other values."""
        left = identities(flat)[places]
        kinds = kinds_of(left, lambda: [flat[place] for place in places.tolist()])
        if before is not None:
            # Numbers are read more quickly than found; before any is written, the others are copied.
            are_left = np.isin(kinds, _NUMBER_KINDS)
            others = self._copy_moved(group, places[~are_left], left[~are_left], before)
            are_left[places.searchsorted(others)] = True
            places, left, kinds = places[are_left], left[are_left], kinds[are_left]
        met = np.unique(kinds).tolist()
        rest = [np.zeros(0, np.int64)]  # Places that are left.
        is_other = np.ones(len(places), bool)
        for kind in [one for one in met if one in _SINGLE_KINDS]:
            mine = kinds == kind
            is_other &= ~mine
            rest.append(self._write_kind(group, kind, places[mine], left[mine]))
        if is_other.any():
            rest.append(self._write_kind(group, 0, places[is_other], left[is_other]))
        remaining: list[int] = np.sort(np.concatenate(rest)).tolist()
        return remaining

    def _write_kind(self, group: Group | NewRows, kind: int, places: Integers, addresses: Integers) -> Integers:
        """Encode values of one type, by its identity, or of all others together; return the places of unknown ones."""
        columns, flat = group.columns, group.flat
        tag: Any = _SINGLE_KINDS.get(kind, NODE_TAG)
        payload: Any = 0
        is_known = None
        if kind == id(int):
            payload, is_known = integers(addresses, lambda: [flat[place] for place in places.tolist()])
        elif kind == id(float):
            payload = float_bits(addresses, lambda: [flat[place] for place in places.tolist()])
            if group.holds_items and np.isnan(payload.view(np.float64)).any():
                return places  # It may be a key.
        elif kind == id(bool):
            tag = np.where(addresses == id(True), TRUE, FALSE)
        elif kind != id(type(None)):
            if kind == id(str):
                found = map(self._values.texts.get, [flat[place] for place in places.tolist()], repeat(-1))
            elif kind == id(tuple):
                if group.holds_items and any(map(found_by_identity, [flat[place] for place in places.tolist()])):
                    return places  # It may be a key.
                found = map(self._values.identities.get, addresses.tolist(), repeat(-1))
            elif self._nodes.numbers.keys().isdisjoint(self._encoder.known):
                found = map(self._nodes.numbers.get, addresses.tolist(), repeat(-1))
            else:
                return places
            payload = np.array(list(found), np.int64)
            is_known = payload >= 0
        if is_known is None or is_known.all():
            columns.tags[places], columns.values[places] = tag, payload
            return places[:0]
        columns.tags[places[is_known]], columns.values[places[is_known]] = tag, payload[is_known]
        return places[~is_known]

    def _write_plain_tuples(self, group: Group | NewRows, places: list[int]) -> bool:
        """Encode tuples of numbers and texts all at once. Return False, with nothing done, if there is anything else."""
        flat = group.flat
        values = [flat[place] for place in places]
        if set(map(type, values)) != {tuple} or not _ATOMS.issuperset(map(type, chain.from_iterable(values))):
            return False
        if group.holds_items and any(map(found_by_identity, values)):
            return False  # They may be keys.
        columns = group.columns
        columns.tags[places] = VALUE_TAG
        columns.values[places] = self._values.numbers_of_plain(values, [pack(["t", *value]) for value in values])
        return True

    def _encode(self, value: Any) -> tuple[int, int]:
        """The tag and the payload of a value that is no plain number."""
        if self._encoder.is_node(value):
            return NODE_TAG, self._nodes.number_of(value)
        edges: list[int] = []
        tree = self._encoder.tree(value, edges)
        if type(tree) is list and tree[0] == "r":
            return NODE_TAG, tree[1]
        return VALUE_TAG, self._values.number_of(pack(tree), tuple(edges))

    def _copy_moved(
        self, group: Group | NewRows, places: Integers, addresses: Integers, before: CellsBefore
    ) -> Integers:
        """Copy the cells of objects that were in another place of the group; return the places of all others."""
        if not before.flat:  # All of the group's objects were empty.
            self._drop(group, before)
            return places
        columns = group.columns
        is_found, sources = before.find(addresses, places)
        if group.holds_items:
            held = [group.flat[place] for place in places[is_found].tolist()]
            suspects = set(filter(may_be_found_by_identity, set(map(type, held))))
            if suspects:
                is_found[is_found] = [type(one) not in suspects or found_by_identity(one) is None for one in held]
        at, sources = places[is_found], sources[is_found]
        tags, values = before.tags[sources], before.values[sources]
        self._drop(group, before, (at, sources))
        columns.tags[at], columns.values[at] = tags, values
        return places[~is_found]

    def _drop(
        self, group: Group | NewRows, before: CellsBefore, moved: tuple[Integers, Integers] | None = None
    ) -> None:
        """Note that cells no longer refer to what they did. moved: places, and the cells from which they are copied."""
        if self._nodes.has_lost_parent or not isinstance(group, Group):
            return
        candidates, edges = before.candidates, self._values.edges
        if isinstance(candidates, list):
            last, memory = VALUE_TAG if edges else NODE_TAG, before.tags.data
            candidates = [place for place in candidates if NODE_TAG <= memory[place] <= last]
            if not candidates:
                return
        places = np.asarray(candidates)
        tags = before.tags[places]
        of_nodes = places[tags == NODE_TAG]
        if len(of_nodes):
            ends = before.lengths.cumsum()
            if moved is not None:  # Most have only moved inside a list or dict.
                at, sources = moved
                is_in_row = ends.searchsorted(sources, "right") == group.columns.lengths.cumsum().searchsorted(
                    at, "right"
                )
                is_gone = np.ones(len(before.tags), bool)
                is_gone[sources[is_in_row]] = False
                of_nodes = of_nodes[is_gone[of_nodes]]
            parents, dropped = self._nodes.parents, before.values[of_nodes].tolist()
            owners = group.columns.nodes[ends.searchsorted(of_nodes, "right")].tolist()
            self._nodes.lost.update(compress(dropped, map(eq, map(parents.__getitem__, dropped), owners)))
        for place in places[tags == VALUE_TAG].tolist() if edges else ():
            held = edges.get(int(before.values[place]))
            if held is not None:
                owner = int(group.columns.nodes[before.lengths.cumsum().searchsorted(place, "right")])
                self._nodes.lost.update(node for node in held if self._nodes.parents[node] == owner)
