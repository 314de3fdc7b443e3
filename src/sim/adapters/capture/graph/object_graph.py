"""A graph of Python objects in an arena, kept up to date at the cost of one look at each reference.

Each mutable object that can be reached from the roots is a node with a number. Objects of one kind are the rows of a
group (rows.py); their values are cells in the arena (storage.py): a number, a truth value, the number of a node, or the
number of an immutable value (value_pool.py). The values of the step before are kept and compared by identity, so that
only cells with another object are written. Objects of C types are looked at each time (special_nodes.py).

Invariants:
    1. The arena is a function of the graph and of the arena before: numbers are given in the order of groups, rows and
       places, the lowest free one first. A run that was restored therefore continues with equal bytes.
    2. The nodes are those that can be reached from the roots, at each step.
    3. What is neither a known value nor a known kind of object is refused, by its path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any
from weakref import getweakrefcount

import numpy as np

from sim.adapters.capture.graph.cells.cell_writer import CellWriter
from sim.adapters.capture.graph.cells.changed_cells import CellsBefore, Spread, changed_places
from sim.adapters.capture.graph.cells.new_rows import NewRows, exchange_rows, insert_rows, remove_rows
from sim.adapters.capture.graph.groups import STRUCTURE, Group, Groups
from sim.adapters.capture.graph.kinds.factory_rows import FactoryRows
from sim.adapters.capture.graph.kinds.special_kinds import KINDS
from sim.adapters.capture.graph.names.attribute_names import object_dict
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.nodes import Nodes
from sim.adapters.capture.graph.reach.lost_nodes import find_dead, is_many
from sim.adapters.capture.graph.reach.paths import attribute_of_owner, path_of, path_of_owner
from sim.adapters.capture.graph.reach.references import find_parents
from sim.adapters.capture.graph.reach.stale_keys import ensure_changed_are_found, ensure_new_are_found
from sim.adapters.capture.graph.rows import ObjectRows, StrayError, as_lengths
from sim.adapters.capture.graph.special_nodes import TABLES, SpecialNodes
from sim.adapters.capture.graph.storage import Storage
from sim.adapters.capture.graph.tags import ROOT, VALUE_TAG
from sim.adapters.capture.graph.unsavable import UnsavableError, refusal_of
from sim.adapters.capture.graph.values.trees import TreeEncoder, marked_in, pack, unpack
from sim.adapters.capture.graph.values.value_pool import VALUE_ENTRIES, ValuePool
from sim.kernel.memory.weak_counts import is_referred_weakly
from sim.kernel.schema import Blob, Field, Table
from sim.kernel.state import State

NAMED_NODES = "graph.named"
OBSERVED = -1  # Stands among the named nodes, if weak references outside of the graph refer to objects in it.


def graph_entries() -> tuple[Table | Field | Blob, ...]:
    """The fields of a state that holds a graph without groups."""
    return (*TABLES, *VALUE_ENTRIES, Blob(STRUCTURE), Blob(NAMED_NODES))


class ObjectGraph:
    """A graph in an arena.

    Attributes:
        nodes: the objects.
        root: the list of the roots, which is node 0.
        cells: writes the cells.
        finder: finds classes by name, and names them.
        is_forgotten: true if no object is kept alive between steps; each capture then encodes everything.
        is_observed: true once the end of an object could be seen (see _let_go). It stays so, and is in the arena.
    """

    def __init__(
        self, state: State, finder: ClassFinder, *, pickler: Any = None, ignored: frozenset[str] = frozenset()
    ) -> None:
        """An empty graph. state: has the entries of graph_entries. ignored: see Groups."""
        self.finder = finder
        self.storage = Storage(state)
        self.nodes = Nodes()
        self.encoder = TreeEncoder(self.nodes, finder)
        self.values = ValuePool(self.storage)
        self.cells = CellWriter(self.nodes, self.values, self.encoder)
        self.groups = self.nodes.groups = Groups(self.storage, finder, self.encoder, ignored)
        self.special = self.nodes.special = SpecialNodes(self.storage, self.encoder, pickler)
        self.root: list[Any] = []
        self._named: dict[int, str] = {}
        self._new: list[NewRows] = []
        self.is_forgotten = self.is_observed = False
        self._before: ObjectGraph | None = None  # Until the first capture.

    @property
    def writes(self) -> int:
        """A number that changes with each change of the graph."""
        return self.cells.count + self.special.count

    @property
    def holds_values_only(self) -> bool:
        """True if no root leads to a node, or to an object that is saved elsewhere."""
        return len(self.nodes.objects) == 1 and not self.encoder.used

    # --- a step

    def capture(
        self, roots: Sequence[Any], find_known: Callable[[], Mapping[int, str]], *, whole: bool = False
    ) -> None:
        """Bring the arena up to date with the objects. Raises UnsavableError, with its path.

        roots: as many as before. find_known: returns the names of objects that are saved elsewhere, by identity. whole:
        encode each cell again, not only those that hold another object.
        """
        root, group = self.root, self.nodes.group_of.get(ROOT)
        if group is not None and self.holds_values_only and not whole and all(map(is_, roots, group.flat)):
            return
        if self.is_forgotten:
            self._empty_columns()
        root[:] = roots
        self.groups.forget_found()
        known, before = find_known(), self.encoder.known
        is_known_alike = known is before or known == before or not self._concerns_known(known)
        self.encoder.known = known
        self.special.bases.begin()
        if group is None:
            self.nodes.number_of(root)
        try:
            for one in list(self.groups.ordered):
                self._scan(one)
            if is_known_alike and not whole:
                for number in self.special.unsettled():
                    self._look(number)
            else:
                self._encode_all()
            self._settle()
        except Exception as error:  # noqa: BLE001 - of code of the user's classes; others are raised again
            raise self._explained(refusal_of(error)) from error.__cause__
        finally:
            if self._before is not None:
                self._before.forget()
                self._before = None
        self._let_go()

    def _explained(self, error: UnsavableError) -> UnsavableError:
        """Add what is known of a value that cannot be saved, and of the path to it; return the error."""
        self._insert_new()
        owner = self.nodes.owner
        if error.value is None:
            error.value = self.nodes.objects[owner] if isinstance(owner, int) else owner[0].flat[owner[1]]
        error.path = error.path or path_of_owner(self.nodes, self.values)
        error.attribute = attribute_of_owner(self.nodes, self.values)
        return error

    # --- objects that must be able to die in a step

    def replace(self, before: ObjectGraph | None) -> None:
        """Take over from the graph of the same objects in another arena. It is forgotten after the first capture."""
        if before is not None:
            self._before, self.is_observed = before, before.is_observed
            self.special.seen = before.special.seen

    def _let_go(self) -> None:
        """Keep no object alive if its end can be seen: by weak references, or by a method __del__ of its class.

        Otherwise an object that a step removes would live until the next capture, and a step would still see it. The
        next capture then numbers all nodes again.

        Weak references in the graph are known at each step. Those outside of it, such as a WeakSet in a class or module
        or a finalizer, are looked for where they are made nearly always: when an object is new. Later ones do not count.
        They may come from outside of the simulation, as a cache of pictures does, and are then missing in a replay,
        whose arena has to be the same.
        """
        if self.is_observed:
            self.is_forgotten = True
            self.forget()

    def has_finalizers(self) -> bool:
        """Return True if an object has a method __del__."""
        return any(hasattr(group.rows.cls, "__del__") for group in self.groups.ordered
                   if isinstance(group.rows, ObjectRows) and len(group.columns.nodes))  # fmt: skip

    def forget(self) -> None:
        """Keep no object alive. The parts of a graph refer to each other, so that its end alone does not do that."""
        self.nodes.clear()
        self.special.clear()
        self.root.clear()
        for group in self.groups.ordered:
            group.rows.set_objects([])
            group.set_flat([], ())

    def _observe(self, objects: Sequence[Any]) -> None:
        met = {} if self._before is None else self._before.nodes.numbers
        self.is_observed |= any(id(one) not in met and is_referred_weakly(one) for one in objects)

    def _empty_columns(self) -> None:
        self.is_forgotten = False
        for group in self.groups.ordered:
            none = np.zeros(0, np.int64)
            group.columns.replace(none, none, np.zeros(0, np.uint8), none)

    # --- parts of a step

    def _encode_all(self) -> None:
        """Encode each cell again."""
        self.nodes.has_lost_parent = True
        self.values.forget_identities()
        for group in list(self.groups.ordered):
            self.cells.write(group, range(len(group.flat)))
        for number in sorted(self.special.objects):
            self.special.forget(number)
            self._look(number)

    def _concerns_known(self, known: Mapping[int, str]) -> bool:
        """Return True if an object of the graph is saved elsewhere now, or is no longer."""
        changed = known.items() ^ self.encoder.known.items()
        return any(name in self.encoder.used or address in self.nodes.numbers for address, name in changed)

    def _scan(self, group: Group) -> None:
        rows = group.rows
        try:
            flat = rows.read()
        except StrayError:
            self._move_strays(group)
            flat = rows.read()
        before = group.flat  # Alive until the cells are written, so that no identity is used twice.
        if type(rows) is not ObjectRows:
            lengths = rows.lengths()
            if lengths != group.lengths:
                self._resize_rows(group, lengths, flat)
                return
        places = changed_places(before, flat)
        if len(places):
            group.flat = flat
            columns = group.columns
            cells = CellsBefore(before, columns.tags, columns.values, columns.lengths, places)
            self.cells.write(group, places, cells)

    def _resize_rows(self, group: Group, lengths: list[int], flat: tuple[Any, ...]) -> None:
        columns, before = group.columns, group.flat
        now = as_lengths(lengths)
        spread = Spread((columns.tags, columns.values), columns.lengths, now, before, flat)
        self.cells.count += 1
        columns.replace(columns.nodes.copy(), now, spread.tags, spread.values)
        group.set_flat(lengths, flat)
        self.cells.write(group, spread.places, spread.before)

    def _settle(self) -> None:
        """Add new nodes, remove those that nothing refers to, and write the pooled values."""
        nodes, special = self.nodes, self.special
        are_same = not (
            nodes.fresh or nodes.lost or nodes.has_lost_parent or any(one.pending for one in self.groups.ordered)
        )
        if not are_same:
            self._settle_nodes()
        ensure_changed_are_found(self.cells.taken_rehashed(), nodes, self.values)
        weak = special.weak()
        for number in weak:
            nodes.owner = number
            special.look_at_weak_parts(number)
        if self.values.is_full:
            self._clean_values()
        self.values.write()
        special.write()
        self.is_observed = self.is_observed or bool(weak) or (not are_same and self.has_finalizers())
        nodes.forget_names()
        named = nodes.named | ({OBSERVED: ""} if self.is_observed else {})
        if named != self._named:
            self._named = named
            self.storage.state.set_blob(NAMED_NODES, pack(sorted([number, name] for number, name in named.items())))
            self.storage.follow()

    def _settle_nodes(self) -> None:
        nodes = self.nodes
        self._encode_new()
        if nodes.has_lost_parent or nodes.lost:
            self._remove_unreachable()
            nodes.has_lost_parent = False
            nodes.lost.clear()
        self._insert_new()
        for group in self.groups.ordered:
            if isinstance(group.rows, ObjectRows) and group.rows.has_dict_among(nodes.numbers):
                raise self._dict_as_value(group)

    def _encode_new(self) -> None:
        """Encode what the new nodes hold, and what that holds, until there are none; their rows are added later."""
        nodes = self.nodes
        while True:
            fresh, nodes.fresh = sorted(nodes.fresh), []
            waiting = [group for group in self.groups.ordered if group.pending]
            if not fresh and not waiting:
                break
            for number in fresh:
                self._look(number)
            for group in waiting:
                pending, group.pending = group.pending, []
                rows = NewRows(group, pending)
                if not self.is_observed and any(map(getweakrefcount, rows.objects)):
                    self._observe(rows.objects)
                self._new.append(rows)
                self.cells.write(rows, range(len(rows.flat)))
                if rows.holds_items:
                    ensure_new_are_found(rows, rows.objects, nodes)

    def _insert_new(self) -> None:
        new, self._new = self._new, []
        insert_rows(new)

    def _dict_as_value(self, group: Group) -> UnsavableError:
        """The refusal of the dict of an object that is referred to as a dict, too."""
        error = UnsavableError(
            f"the __dict__ of a {group.rows.objects[0].__class__.__qualname__} is held as a value",
            "keep a copy of it",
            {},
        )
        held = next(one for one in map(object_dict, group.rows.objects) if id(one) in self.nodes.numbers)
        error.path = path_of(self.nodes, self.values, self.nodes.numbers[id(held)])
        return error

    # --- nodes

    def _look(self, number: int) -> None:
        nodes, special = self.nodes, self.special
        nodes.owner = number
        dropped = special.look_at_strong_parts(number) if special.is_weak(number) else special.look(number)
        nodes.lost.update(one for one in dropped if nodes.parents[one] == number)

    def _move_strays(self, group: Group) -> None:
        """Move objects whose class, attributes or factory have changed to the groups that they belong to now."""
        assert isinstance(group.rows, ObjectRows | FactoryRows)
        strays = group.rows.strays()
        if not strays:
            return
        nodes = self.nodes
        numbers = group.columns.nodes[strays].tolist()
        moved = [(number, group.rows.objects[row]) for number, row in zip(numbers, strays, strict=True)]
        remove_rows(group, np.array(strays))
        group.rows.set_objects(group.rows.objects)
        nodes.has_lost_parent = True
        for number, value in moved:
            try:
                nodes.move(number, value)
            except UnsavableError as error:
                error.path = error.path or path_of(nodes, self.values, number)
                raise

    # --- after a restore

    def adopt(self, contents: Mapping[int, bytes]) -> list[Any]:
        """Continue from the arena with the objects that were made from it, and return the roots.

        contents: of the special nodes.
        """
        nodes = self.nodes
        nodes.adopt()
        for number, content in contents.items():
            _, plain, trees = unpack(content)
            handler = KINDS.get(type(nodes.objects[number]))
            strong = trees if handler is None else handler.strong_parts(plain, trees)
            edges = [edge for tree in strong for edge in self._marked(tree)[0]]
            self.special.adopt(number, nodes.objects[number], content, tuple(edges))
        self.values.find_edges(lambda content: self._marked(unpack(content)))
        for group in self.groups.ordered:
            objects = nodes.adopt_group(group)
            group.rows.set_objects(objects)
            group.set_flat(group.columns.lengths.tolist(), group.rows.read())
        nodes.parents = find_parents(nodes, self.values.edges)
        self._named = nodes.named | ({OBSERVED: ""} if self.is_observed else {})
        roots = list(self.root)
        self._let_go()
        return roots

    def _marked(self, tree: Any) -> tuple[tuple[int, ...], bool]:
        known = marked_in(tree, "k")
        self.encoder.used.update(known)
        return marked_in(tree, "r"), bool(known)

    # --- what is no longer needed

    def _remove_unreachable(self) -> None:
        nodes, dead = self.nodes, None
        # Where many are new, such as the grid of a new episode, as many are gone.
        if not (nodes.has_lost_parent or is_many(sum([len(rows.nodes) for rows in self._new]), nodes)):
            self._insert_new()
            dead = find_dead(nodes, self.values.edges)
        if dead is None:
            parents = nodes.parents = find_parents(nodes, self.values.edges, self._new)
            dead = [number for number, parent in enumerate(parents) if parent < 0 and number in nodes.objects]
        by_group: dict[Group, list[int]] = {}
        for number, group in zip(dead, nodes.remove(dead), strict=True):
            if group is None:
                self.special.remove(number)
            else:
                by_group.setdefault(group, []).append(number)
        new, self._new = self._new, []
        exchange_rows(new, by_group)

    def _clean_values(self) -> None:
        used = [group.columns.values[group.columns.tags == VALUE_TAG] for group in self.groups.ordered]
        renumbered = self.values.keep(np.unique(np.concatenate([np.zeros(0, np.int64), *used])))
        for group in self.groups.ordered:
            columns = group.columns
            places = np.flatnonzero(columns.tags == VALUE_TAG)
            columns.values[places] = renumbered[columns.values[places]]
