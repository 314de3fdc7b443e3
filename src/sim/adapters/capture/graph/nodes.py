"""The nodes of a graph: their numbers, and for each a node that refers to it.

As long as that reference stays, the node can be reached from the root; only when it goes, everything has to be walked.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Any

from sim.adapters.capture.graph.groups import Group, Groups
from sim.adapters.capture.graph.row_cells import RowCells
from sim.adapters.capture.graph.rows import ObjectRows
from sim.adapters.capture.graph.special_nodes import SpecialNodes
from sim.adapters.capture.graph.tags import ROOT
from sim.adapters.capture.graph.unsavable import UnsavableError

Place = tuple[RowCells, int]  # A cell: its group, or the rows that it will be added with, and the index in these.
_FEW = 16  # Up to here items are pushed one by one; the heap of free numbers may be large.


class Nodes:
    """All nodes of a graph.

    Attributes:
        objects: by number. The root, number 0, is a list of the roots.
        group_of: the groups of all nodes but the special ones.
        contents: for an object of a class derived from list or dict the node of what it holds.
        parents: for each number a node that refers to it; -1 for a free one.
        free: the numbers that are free below the highest, as a heap.
        fresh: new special nodes.
        owner: the cell, or the special node, that is being encoded.
        named: the nodes that a module or class refers to by a name, by number.
        elsewhere: the addresses of objects that are saved apart from this graph, and must not be in it, too.
        met: those of them that became nodes all the same.
        lost: nodes whose parent no longer refers to them; only they, and what they led to, may be unreachable.
        has_lost_parent: true if any node may no longer be reachable.
    """

    groups: Groups
    special: SpecialNodes

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}  # By identity; the objects are kept alive.
        self.group_of: dict[int, Group] = {}
        self.contents: dict[int, int] = {}
        self.parents: list[int] = []
        self.free: list[int] = []
        self.fresh: list[int] = []
        self.owner: Place | int = ROOT
        self.elsewhere: Mapping[int, int] = {}
        self.met: set[int] = set()
        self.lost: set[int] = set()
        self.has_lost_parent = False
        self.named: dict[int, str] = {}

    def node_at(self, address: int) -> tuple[int, Any] | None:
        """The number and the object of a node, by its identity; None for anything else."""
        number = self.numbers.get(address)
        return None if number is None else (number, self.objects[number])

    def number_of(self, value: Any) -> int:
        """The number of a mutable object; a new one if it was not met before. Raises UnsavableError."""
        number = self.numbers.get(id(value))
        if number is not None:
            return number
        if id(value) in self.elsewhere:
            self.met.add(id(value))
        quick = self.groups.quick.get(type(value))
        if quick is not None and quick[1](value):
            number, known = self._new_number(value), quick[0]
            known.pending.append((number, value))
            self.group_of[number] = known
            if id(value) in self.groups.global_names:
                self._name(number, value)
            return number
        group = self.groups.of(value)
        if group is None:
            self.special.takes(value)
        number = self._new_number(value)
        if group is None:
            self.special.add(number, value)
            self.fresh.append(number)
            return number
        group.pending.append((number, value))
        self.group_of[number] = group
        if id(value) in self.groups.global_names:
            self._name(number, value)
        content = None
        if isinstance(group.rows, ObjectRows):
            content = self.groups.content_of(value)
            if content is None and group.rows.by_names:
                self.groups.quick[type(value)] = (group, group.rows.fits)
        if content is not None:
            inner = self.contents[number] = self._new_number(Content(value))
            self._set_parent(inner, number)
            content.pending.append((inner, value))
            self.group_of[inner] = content
        return number

    def _name(self, number: int, value: Any) -> None:
        """Note the name by which a module or class refers to a node, if one does."""
        name = self.groups.global_name_of(value)
        if name is not None:
            self.named[number] = name

    def _new_number(self, value: Any) -> int:
        number = heapq.heappop(self.free) if self.free else len(self.objects)  # Without gaps, they are 0, 1, …
        self.objects[number] = value
        self.numbers[id(value)] = number
        owner = self.owner
        self._set_parent(number, owner if isinstance(owner, int) else owner[0].node_of(owner[1]))
        return number

    def _set_parent(self, number: int, parent: int) -> None:
        parents = self.parents
        if number == len(parents):
            parents.append(parent)
        else:
            parents[number] = parent

    def remove(self, gone: Sequence[int]) -> list[Group | None]:
        """Remove nodes; return the group of each, None for a special one."""
        for address in map(id, map(self.objects.pop, gone)):
            del self.numbers[address]
        for held in (self.contents, self.named):
            for number in held.keys() & gone if held else ():
                del held[number]
        if len(gone) > _FEW:
            self.free.extend(gone)
            heapq.heapify(self.free)
        else:
            for number in gone:
                heapq.heappush(self.free, number)
        return [self.group_of.pop(number, None) for number in gone]

    def forget_names(self) -> None:
        """Forget the names that refer to other objects now."""
        gone = [number for number in self.named if self.groups.global_name_of(self.objects[number]) is None]
        for number in gone:
            del self.named[number]

    def clear(self) -> None:
        """Forget all nodes."""
        for held in (self.objects, self.numbers, self.group_of, self.contents, self.parents, self.free, self.fresh,
                     self.named, self.lost):  # fmt: skip
            held.clear()
        self.owner = ROOT

    def move(self, number: int, value: Any) -> None:
        """Move a node to the group that it belongs to now. Raises UnsavableError."""
        target = self.groups.of(value)
        if target is None:
            raise UnsavableError("it has become an object of a C type", "make a new object instead", value)
        target.pending.append((number, value))
        self.group_of[number] = target

    def adopt_group(self, group: Group) -> list[Any]:
        """Take over the nodes of a group that was read from an arena; return their objects."""
        numbers = group.columns.nodes.tolist()
        self.group_of.update(dict.fromkeys(numbers, group))
        objects = [self.objects[number] for number in numbers]
        if group.key[0] != "content":
            return objects
        owners = [content.of for content in objects]
        self.contents.update(zip(owners, numbers, strict=True))
        for content, owner in zip(objects, owners, strict=True):
            content.of = self.objects[owner]
        return [content.of for content in objects]

    def adopt(self) -> None:
        """Continue with objects that were made from an arena."""
        self.numbers = {id(value): number for number, value in self.objects.items()}
        self.parents = [-1] * (max(self.objects) + 1)
        self.free = [number for number in range(len(self.parents)) if number not in self.objects]


class Content:
    """Stands for what an object of a class derived from list or dict holds, which is a node of its own.

    Attributes:
        of: the object; while it is restored its number.
    """

    def __init__(self, of: Any) -> None:
        self.of = of
