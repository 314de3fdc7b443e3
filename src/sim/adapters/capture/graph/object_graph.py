"""A graph of Python objects in an arena, kept up to date at the cost of one look at each reference.

Each mutable object that can be reached from the roots is a node with a number. Objects of one kind are the rows of a
group (rows.py); their values are cells in the arena (storage.py): a number, a truth value, the number of a node, or the
number of an immutable value (value_pool.py). The values of the step before are kept and compared by identity, so that
only cells with another object are written. Objects of C types are looked at each time (special_nodes.py).

Invariants:
    1. The arena is a function of the graph and of the arena before: numbers are given in the order of groups, rows and
       places, the lowest free one first. A run that was restored therefore goes on with equal bytes.
    2. The nodes are those that can be reached from the roots, at each step.
    3. What is neither a known value nor a known kind of object is refused, by its path.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from operator import eq, is_, itemgetter
from typing import Any

import numpy as np

from sim.adapters.capture.graph.changed_cells import Spread, changed_places, spliced, without
from sim.adapters.capture.graph.classes import ClassFinder
from sim.adapters.capture.graph.groups import STRUCTURE, Group, Groups
from sim.adapters.capture.graph.reachable import ROOT, find_reachable
from sim.adapters.capture.graph.rows import ObjectRows, StrayError, Values, as_lengths
from sim.adapters.capture.graph.special_nodes import TABLES, SpecialNodes
from sim.adapters.capture.graph.storage import Integers, Storage, ranges
from sim.adapters.capture.graph.tags import FALSE, FLOAT, INT, NODE_TAG, NONE, TRUE, VALUE_TAG
from sim.adapters.capture.graph.trees import TreeEncoder, marked_in, pack, unpack
from sim.adapters.capture.graph.unsavable import Unsavable
from sim.adapters.capture.graph.value_pool import VALUE_ENTRIES, ValuePool
from sim.kernel.schema import Blob, Field, Table
from sim.kernel.state import State

_INTS = frozenset((int,))
_FEW = 48  # Up to here a plain loop is faster than NumPy's calls.


def graph_entries() -> tuple[Table | Field | Blob, ...]:
    """The fields of a state that holds a graph without groups."""
    return (*TABLES, *VALUE_ENTRIES, Blob(STRUCTURE))


class ObjectGraph:
    """The nodes of one graph, and their cells in the arena.

    Attributes:
        objects: the nodes by number. The root, number 0, is a list of the roots.
        known: the names of objects that are saved elsewhere, by identity.
        finder: finds classes by name, and names them.
    """

    def __init__(
        self, state: State, finder: ClassFinder, *, pickler: Any = None, ignored: frozenset[str] = frozenset()
    ) -> None:
        """An empty graph. state: has the entries of graph_entries. ignored: see Groups."""
        self.finder = finder
        self.known: Mapping[int, str] = {}
        self.storage = Storage(state)
        self.encoder = TreeEncoder(self)
        self.values = ValuePool(self.storage)
        self.groups = Groups(self.storage, finder, self.encoder, ignored)
        self.special = SpecialNodes(self.storage, self.encoder, pickler)
        self.root: list[Any] = []
        self.objects: dict[int, Any] = {}
        self.group_of: dict[int, Group] = {}
        self._numbers: dict[int, int] = {}  # By identity; the objects are kept alive.
        self._parents: list[int] = []  # For each number a node that refers to it; -1 for a free one.
        self._contents: dict[int, int] = {}  # Of an object derived from list or dict: the node of what it holds.
        self._free: list[int] = []
        self._fresh: list[int] = []  # New special nodes.
        self._owner: tuple[Group, int] | int = ROOT  # The cell, or the special node, that is being encoded.
        self._lost_parent = False

    @property
    def is_plain(self) -> bool:
        """True if there is no mutable object: then the roots alone have to be compared."""
        return len(self.objects) == 1

    # --- a step

    def capture(self, roots: Sequence[Any], find_known: Callable[[], Mapping[int, str]]) -> None:
        """Bring the arena up to date with the objects. Raises Unsavable, with its path.

        roots: as many as before. find_known: returns the names of objects that are saved elsewhere, by identity.
        """
        root, group = self.root, self.group_of.get(ROOT)
        if group is not None and self.is_plain and not self.encoder.used and all(map(is_, roots, group.flat)):
            return
        root[:] = roots
        known = find_known()
        is_known_alike = known == self.known or not self._concerns_known(known)
        self.known = known
        if group is None:
            self.number_of(root)
        for one in list(self.groups.ordered):
            self._scan(one)
        if is_known_alike:
            for number in self.special.strong():
                self._look(number)
            self._settle()
        else:
            self.encode_all()

    def encode_all(self) -> None:
        """Encode each cell again."""
        for group in list(self.groups.ordered):
            self._write_cells(group, range(len(group.flat)), group.flat)
        for number in self.special.strong():
            self.special.forget(number)
            self._look(number)
        self._lost_parent = True
        self._settle()

    def _concerns_known(self, known: Mapping[int, str]) -> bool:
        """Return True if an object of the graph is saved elsewhere now, or is no longer."""
        changed = known.items() ^ self.known.items()
        return any(name in self.encoder.used or address in self._numbers for address, name in changed)

    def _scan(self, group: Group) -> None:
        rows = group.rows
        try:
            flat = rows.read()
        except StrayError:
            self._move_strays(group)
            flat = rows.read()
        before = group.flat
        if type(rows) is not ObjectRows:
            lengths = rows.lengths()
            if lengths != group.lengths:
                self._resize_rows(group, lengths, flat)
                return
        places = changed_places(before, flat)
        if places:
            group.flat = flat
            self._write_cells(group, places, flat)  # The values before are alive until here.

    def _resize_rows(self, group: Group, lengths: list[int], flat: tuple[Any, ...]) -> None:
        columns, before = group.columns, group.flat
        now = as_lengths(lengths)
        spread = Spread((columns.tags, columns.values), columns.lengths, now, before, flat)
        if len(spread.gone):
            self._drop(group, spread.gone)
        columns.replace(columns.nodes.copy(), now, spread.tags, spread.values)
        group.set_flat(lengths, flat)
        self._write_cells(group, spread.places, flat)

    def _settle(self) -> None:
        """Add new nodes until there are none, remove those that nothing refers to, and write the pooled values."""
        while True:
            fresh, self._fresh = sorted(self._fresh), []
            waiting = [group for group in self.groups.ordered if group.pending]
            if not fresh and not waiting:
                break
            for number in fresh:
                if not self.special.is_weak(number):
                    self._look(number)
            for group in waiting:
                self._add_rows(group)
        if self._lost_parent:
            self._lost_parent = False
            self._remove_unreachable()
        for number in self.special.weak():
            self._look(number)
        if self.values.is_full:
            self._clean_values()
        self.values.write()
        self.special.write()

    # --- cells

    def _write_cells(self, group: Group, places: Sequence[int], flat: Values) -> None:
        """Encode the values at these places into their cells."""
        if len(places) > _FEW:
            places = self._write_many(group, np.asarray(places), flat)
        columns = group.columns
        tags, ints, floats = columns.tag_memory, columns.int_memory, columns.float_memory
        numbers, known, quick = self._numbers, self.known, self.values.quick
        dropped = [place for place in places if tags[place] >= NODE_TAG]
        if dropped:
            self._drop(group, np.array(dropped))
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
                floats[place] = value
                tags[place] = FLOAT
                continue
            elif value is None or value is True or value is False:
                ints[place] = 0
                tags[place] = NONE if value is None else TRUE if value else FALSE
                continue
            elif kind is str or (kind is tuple and value and _INTS.issuperset(map(type, value))):
                ints[place] = quick(value, self._content_of)
                tags[place] = VALUE_TAG
                continue
            number = numbers.get(id(value))
            if number is not None and id(value) not in known:
                ints[place], tags[place] = number, NODE_TAG
                continue
            self._owner = (group, place)
            try:
                tag, number = self._encode(value)
            except Unsavable as error:
                raise self._with_path(error, group, place) from None
            if columns.tag_memory is not tags:  # A new group has moved the arena.
                tags, ints, floats = columns.tag_memory, columns.int_memory, columns.float_memory
            ints[place], tags[place] = number, tag

    def _write_many(self, group: Group, places: Integers, flat: Values) -> list[int]:
        """Encode numbers and known nodes all at once; return the places of other values."""
        columns = group.columns
        self._drop(group, places[columns.tags[places] >= NODE_TAG])
        values = [flat[place] for place in places.tolist()] if len(places) < len(flat) else flat
        kinds = np.fromiter(map(id, map(type, values)), np.int64, len(values))
        left = np.ones(len(values), bool)
        for kind, tag, code in ((int, INT, "q"), (float, FLOAT, "d")):
            mine = kinds == id(kind)
            if mine.any():
                some = values if mine.all() else list(compress(values, mine.tolist()))
                try:
                    payload = np.frombuffer(array(code, some), np.int64)
                except OverflowError:
                    continue
                at = places[mine]
                columns.tags[at], columns.values[at] = tag, payload
                left &= ~mine
        others = np.flatnonzero(left)
        if len(others) and not self.known:
            rest = [values[index] for index in others.tolist()]
            numbers = [-1 if one is None else one for one in map(self._numbers.get, map(id, rest))]
            found = np.array(numbers, np.int64)
            is_node = found >= 0
            at = places[others[is_node]]
            columns.tags[at], columns.values[at] = NODE_TAG, found[is_node]
            others = others[~is_node]
        rest_places: list[int] = places[others].tolist()
        return rest_places

    def _content_of(self, value: Any) -> bytes:
        return self.encoder.content(value)[0]

    def _encode(self, value: Any) -> tuple[int, int]:
        """The tag and the payload of a value that is no plain number."""
        edges: list[int] = []
        tree = self.encoder.tree(value, edges)
        if type(tree) is list and tree[0] == "r":
            return NODE_TAG, tree[1]
        return VALUE_TAG, self.values.number_of(pack(tree), tuple(edges))

    def _drop(self, group: Group, places: Integers) -> None:
        """Note that cells no longer refer to what they did."""
        if self._lost_parent:
            return
        columns, edges = group.columns, self.values.edges
        tags = columns.tags[places]
        of_nodes = places[tags == NODE_TAG]
        if len(of_nodes):
            parents = map(self._parents.__getitem__, columns.values[of_nodes].tolist())
            self._lost_parent = any(map(eq, parents, group.nodes_of(of_nodes).tolist()))
        if edges:
            for place in places[tags == VALUE_TAG].tolist():
                owner = group.node_of(place)
                if any(self._parents[node] == owner for node in edges.get(int(columns.values[place]), ())):
                    self._lost_parent = True

    # --- nodes

    def number_if_node(self, value: Any) -> int | None:
        """The number of an object that is a node already."""
        return self._numbers.get(id(value))

    def number_of(self, value: Any) -> int:
        """The number of a mutable object; a new one if it was not met before. Raises Unsavable."""
        number = self._numbers.get(id(value))
        if number is not None:
            return number
        group = self.groups.of(value)
        if group is None:
            self.special.takes(value)
        number = self._new_number(value)
        if group is None:
            self.special.add(number, value)
            self._fresh.append(number)
            return number
        group.pending.append((number, value))
        self.group_of[number] = group
        content = self.groups.content_of(value) if isinstance(group.rows, ObjectRows) else None
        if content is not None:
            inner = self._contents[number] = self._new_number(Content(value))
            self._set_parent(inner, number)
            content.pending.append((inner, value))
            self.group_of[inner] = content
        return number

    def _new_number(self, value: Any) -> int:
        number = heapq.heappop(self._free) if self._free else len(self.objects)  # Without gaps, they are 0, 1, …
        self.objects[number] = value
        self._numbers[id(value)] = number
        owner = self._owner
        self._set_parent(number, owner if isinstance(owner, int) else owner[0].node_of(owner[1]))
        return number

    def _set_parent(self, number: int, parent: int) -> None:
        parents = self._parents
        if number == len(parents):
            parents.append(parent)
        else:
            parents[number] = parent

    def _look(self, number: int) -> None:
        self._owner = number
        try:
            dropped = self.special.look(number)
        except Unsavable as error:
            raise self._with_path(error, None, number) from None
        if any(self._parents[one] == number for one in dropped):
            self._lost_parent = True

    def _move_strays(self, group: Group) -> None:
        """Move objects whose class or attributes have changed to the groups that they belong to now."""
        assert isinstance(group.rows, ObjectRows)
        strays = group.rows.strays()
        if not strays:
            return
        nodes = group.columns.nodes[strays].tolist()
        moved = [(number, group.rows.objects[row]) for number, row in zip(nodes, strays, strict=True)]
        self._remove_rows(group, np.array(strays))
        self._lost_parent = True
        for number, value in moved:
            target = self.groups.of(value)
            if target is None:
                raise Unsavable(value, "it has become an object of a C type", "make a new object instead")
            target.pending.append((number, value))
            self.group_of[number] = target

    def _add_rows(self, group: Group) -> None:
        """Add the pending nodes of a group, in the order of all its numbers, and encode what they hold."""
        pending, group.pending = sorted(group.pending, key=itemgetter(0)), []
        rows, columns = group.rows, group.columns
        new = np.array([number for number, _ in pending], np.int64)
        held = [rows.read_of(value) for _, value in pending]
        lengths = as_lengths(list(map(len, held)))
        at = np.searchsorted(columns.nodes, new)
        cell_at = np.repeat(np.append(columns.starts(), len(columns.tags))[at], lengths)
        tags, values = np.insert(columns.tags, cell_at, 0), np.insert(columns.values, cell_at, 0)
        first = np.append(columns.starts(), len(columns.tags))[at].tolist()
        flat = spliced(group.flat, first, held)
        lengths_now = np.insert(columns.lengths, at, lengths)
        columns.replace(np.insert(columns.nodes, at, new), lengths_now, tags, values)
        rows.insert(at.tolist(), [value for _, value in pending])
        group.set_flat(lengths_now.tolist(), flat)
        rows_now = at + np.arange(len(new))
        self._write_cells(group, columns.cells_of(rows_now).tolist(), flat)

    def _remove_rows(self, group: Group, rows: Integers) -> None:
        """Remove rows, in ascending order."""
        columns = group.columns
        starts, lengths = columns.starts()[rows], columns.lengths[rows]
        flat = without(group.flat, starts.tolist(), (starts + lengths).tolist())
        gone = ranges(starts, lengths)
        lengths_now = np.delete(columns.lengths, rows)
        tags, values = np.delete(columns.tags, gone), np.delete(columns.values, gone)
        columns.replace(np.delete(columns.nodes, rows), lengths_now, tags, values)
        group.rows.remove(rows.tolist())
        group.set_flat(lengths_now.tolist(), flat)

    # --- after a restore

    def adopt(self, contents: Mapping[int, bytes]) -> None:
        """Continue from the arena with the objects that were made from it. contents: of the special nodes."""
        self._numbers = {id(value): number for number, value in self.objects.items()}
        for number, content in contents.items():
            edges = [edge for tree in unpack(content)[2] for edge in self._marked(tree)]
            self.special.adopt(number, self.objects[number], content, tuple(edges))
        self.values.find_edges(lambda content: self._marked(unpack(content)))
        for group in self.groups.ordered:
            nodes = group.columns.nodes.tolist()
            self.group_of.update(dict.fromkeys(nodes, group))
            objects = [self.objects[node] for node in nodes]
            if group.key[0] == "content":
                owners = [content.of for content in objects]
                self._contents.update(zip(owners, nodes, strict=True))
                for content, owner in zip(objects, owners, strict=True):
                    content.of = self.objects[owner]
                objects = [content.of for content in objects]
            group.rows.set_objects(objects)
            group.set_flat(group.columns.lengths.tolist(), group.rows.read())
        size = max(self.objects) + 1
        self._free = [number for number in range(size) if number not in self.objects]
        self._parents = self.find_parents()

    def _marked(self, tree: Any) -> tuple[int, ...]:
        self.encoder.used.update(marked_in(tree, "k"))
        return marked_in(tree, "r")

    # --- what is no longer needed

    def _remove_unreachable(self) -> None:
        self._parents = self.find_parents()
        dead = [number for number, parent in enumerate(self._parents) if parent < 0 and number in self.objects]
        if not dead:
            return
        by_group: dict[int, set[int]] = {}
        for number in dead:
            del self._numbers[id(self.objects.pop(number))]
            self._contents.pop(number, None)
            heapq.heappush(self._free, number)
            group = self.group_of.pop(number, None)
            if group is None:
                self.special.remove(number)
            else:
                by_group.setdefault(id(group), set()).add(number)
        for group in self.groups.ordered:
            gone = by_group.get(id(group))
            if gone:
                self._remove_rows(group, np.flatnonzero(np.isin(group.columns.nodes, sorted(gone))))

    def find_parents(self) -> list[int]:
        """For each number a node that refers to it; -1 for what cannot be reached from the root."""
        sources, targets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        more: dict[int, list[int]] = {one: list(found) for one, found in self.special.edges.items() if found}
        for number, inner in self._contents.items():
            more.setdefault(number, []).append(inner)
        for group in self.groups.ordered:
            tags, values = group.columns.tags, group.columns.values
            places = np.flatnonzero(tags == NODE_TAG)
            sources.append(group.owners()[places])
            targets.append(values[places])
            if self.values.edges:
                for place in np.flatnonzero(tags == VALUE_TAG).tolist():
                    edges = self.values.edges.get(int(values[place]))
                    if edges:
                        more.setdefault(group.node_of(place), []).extend(edges)
        size = len(self.objects) + len(self._free)
        return find_reachable(size, np.concatenate(sources), np.concatenate(targets), more)

    def _clean_values(self) -> None:
        used = [group.columns.values[group.columns.tags == VALUE_TAG] for group in self.groups.ordered]
        renumbered = self.values.keep(np.unique(np.concatenate([np.zeros(0, np.int64), *used])))
        for group in self.groups.ordered:
            columns = group.columns
            places = np.flatnonzero(columns.tags == VALUE_TAG)
            columns.values[places] = renumbered[columns.values[places]]

    # --- paths

    def path_of(self, number: int) -> str:
        """How a node is reached from the roots: ``[2].units[14]``."""
        steps: list[str] = []
        parents = self.find_parents()
        seen = {number}
        while number != ROOT and parents[number] >= 0:
            owner = parents[number]
            steps.append(self._step_to(owner, number))
            if owner in seen:
                break
            seen.add(owner)
            number = owner
        return "".join(reversed(steps))

    def _step_to(self, owner: int, number: int) -> str:
        group = self.group_of.get(owner)
        if group is None or self._contents.get(owner) == number:
            return "" if group is not None else f" (in a {type(self.objects[owner]).__name__})"
        row = int(np.searchsorted(group.columns.nodes, owner))
        start = sum(group.lengths[:row])
        for place in range(start, start + group.lengths[row]):
            tag, payload = int(group.columns.tags[place]), int(group.columns.values[place])
            if (tag == NODE_TAG and payload == number) or (
                tag == VALUE_TAG and number in self.values.edges.get(payload, ())
            ):
                return group.path_in(place)
        return ""

    def _with_path(self, error: Unsavable, group: Group | None, place: int) -> Unsavable:
        if not error.path:
            error.path = (
                self.path_of(group.node_of(place)) + group.path_in(place) if group is not None else self.path_of(place)
            )
        return error


class Content:
    """Stands for what an object of a class derived from list or dict holds, which is a node of its own.

    Attributes:
        of: the object; while it is restored its number.
    """

    def __init__(self, of: Any) -> None:
        self.of = of
