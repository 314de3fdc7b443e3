"""The groups of a graph: which objects stand together, their names in the arena, and the record of them on the tape.

A group is described by plain data: ["object", class, names], ["list", kind, maxlen], ["dict", kind, factory] or
["content", base, …] for what an object of a class derived from list or dict holds. Groups are never removed: the order
in which they appeared is part of the state.
"""

from __future__ import annotations

import re
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from sim.adapters.capture.graph.kinds.factory_rows import FactoryRows
from sim.adapters.capture.graph.kinds.refusals import refusal_of_package
from sim.adapters.capture.graph.kinds.special_kinds import KINDS
from sim.adapters.capture.graph.names.attribute_names import names_of
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.names.ignored import ignored_of
from sim.adapters.capture.graph.names.python_class import base_of, ensure_savable, in_order
from sim.adapters.capture.graph.row_cells import RowCells
from sim.adapters.capture.graph.rows import DICTS, LISTS, ContentRows, DictRows, ListRows, ObjectRows
from sim.adapters.capture.graph.storage import GroupColumns, Integers, Storage
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.graph.values.trees import TreeEncoder, pack, unpack

STRUCTURE = "graph.groups"
_NAME_CHARS = re.compile(r"[^A-Za-z0-9_]")
_NAME_CHARS_MAX = 80


class Group(RowCells):
    """The nodes of one kind.

    Attributes:
        rows: their objects.
        columns: their cells in the arena.
        pending: new nodes, as (number, object).
        hashes_by_content: True for objects of a class with a method ``__hash__`` of its own.
    """

    def __init__(self, key: list[Any], name: str, rows: ListRows | ObjectRows, columns: GroupColumns) -> None:
        """key: the description, see above."""
        super().__init__(key)
        self.name, self.rows, self.columns = name, rows, columns
        self.pending: list[tuple[int, Any]] = []
        hash_method = getattr(rows.cls, "__hash__", None) if isinstance(rows, ObjectRows) else None
        self.hashes_by_content = type(hash_method) is types.FunctionType

    def node_of(self, place: int) -> int:
        """The node whose cell this is."""
        return int(self.columns.nodes[self.row_of(place)])

    def nodes_of(self, places: Integers) -> Integers:
        """The nodes of these cells."""
        columns = self.columns
        nodes: Integers = columns.nodes[columns.lengths.cumsum().searchsorted(places, "right")]
        return nodes


class Groups:
    """All groups of a graph, in the order in which they appeared.

    Attributes:
        ordered: the groups.
        global_names: the names of objects that a module or class beside those of the graph refers to, by identity. They
            are not kept alive; see global_name_of.
        quick: for some classes whose names were looked up in this capture, the group of an object that was met in it, and
            what tells whether another object belongs to it, too.
        stand_ins: the identities of objects that a trial made in place of such objects, and holds.
    """

    def __init__(self, storage: Storage, finder: ClassFinder, encoder: TreeEncoder, ignored: frozenset[str]) -> None:
        """ignored: names ``Class.attribute`` of attributes that are not saved."""
        self._storage, self._finder, self._encoder, self._ignored = storage, finder, encoder, ignored
        self.ordered: list[Group] = []
        self._by_key: dict[bytes, Group] = {}
        self._of_class: dict[type, list[Group]] = {}
        self.global_names: dict[int, str] = {}
        self.stand_ins: set[int] = set()
        self._found: set[type] = set()  # Classes whose names were looked up in this capture, and lead to them.
        self.quick: dict[type, tuple[Group, Callable[[Any], bool]]] = {}
        self._plain: dict[Any, Group] = {}  # Lists and dicts, by type and by what else tells them apart.

    def of(self, value: Any) -> Group | None:
        """The group of a list, a dict or an object of a Python class; None for other kinds. Raises UnsavableError."""
        kind = type(value)
        if kind is list or kind is dict or kind is OrderedDict or kind is Counter:
            group = self._plain.get(kind)
            if group is None:
                group = self._plain[kind] = self._make([_family(kind), kind.__name__, None])
            return group
        if kind is deque or kind is defaultdict:
            return self._make([_family(kind), kind.__name__, self._extra(value)])
        if kind in KINDS:
            return None
        if kind not in self._found:
            if not ensure_savable(value, self._finder):
                return None
            self._found.add(kind)
        return self.of_object(value)

    def global_name_of(self, value: Any) -> str | None:
        """The name by which a module or class refers to an object now; None for any other object.

        A variable may have been given another value since the names were read, and its object's address to another one.
        """
        name = self.global_names.get(id(value))
        is_named = name is not None and (id(value) in self.stand_ins or self._finder.refers_to(name, value))
        return name if is_named else None

    def has_class(self, cls: type) -> bool:
        """Return True if the names around a class are among the global ones."""
        return cls in self._of_class

    def forget_found(self) -> None:
        """Look each class up again: a step may have replaced it in its module."""
        self._found.clear()
        self.quick.clear()

    def _extra(self, value: Any) -> Any:
        """What tells two containers of a type apart besides their items."""
        if isinstance(value, deque):
            return value.maxlen
        return self._encoder.by_name(value.default_factory) if isinstance(value, defaultdict) else None

    def of_object(self, value: Any) -> Group:
        """The group of an object of a Python class."""
        cls = type(value)
        for group in self._of_class.get(cls, ()):
            assert isinstance(group.rows, ObjectRows)
            if group.rows.fits(value):
                return group
        reason = refusal_of_package(cls)
        if reason is not None:
            raise UnsavableError("it cannot be saved", reason, value)
        name = self._finder.name_of(cls)
        ignored = ignored_of(cls, self._ignored)
        names = [one for one in names_of(value) if one not in ignored]
        if not all(type(one) is str for one in names):
            raise UnsavableError("an attribute whose name is no text", "keep it in a dict", value)
        wanted = frozenset(names)
        for group in self._of_class.get(cls, ()):
            assert isinstance(group.rows, ObjectRows)
            if frozenset(group.rows.names) == wanted:
                return group
        return self._make(["object", name, in_order(cls, names)], cls)

    def classes(self) -> list[tuple[type, tuple[str, ...]]]:
        """The classes of the objects, each with its attributes, also with those that are not saved."""
        listed = [group.rows for group in self.ordered]
        examples = [rows.objects[0] for rows in listed if isinstance(rows, ObjectRows) and rows.objects]
        return [(type(one), names_of(one)) for one in examples]

    def ignored_of_classes(self) -> dict[type, frozenset[str]]:
        """The attributes that are not saved, of the classes of the objects that have any."""
        found = {cls: ignored_of(cls, self._ignored) for cls in self._of_class} if self._ignored else {}
        return {cls: names for cls, names in found.items() if names}

    def content_of(self, value: Any) -> Group | None:
        """The group of what an object of a class derived from list, dict or deque holds; None for other classes."""
        base = base_of(type(value))
        if base in (object, types.SimpleNamespace):
            return None
        return self._make(["content", base.__name__, self._extra(value)])

    def _make(self, key: list[Any], cls: type | None = None) -> Group:
        packed = pack(key)
        group = self._by_key.get(packed)
        if group is None:
            self._storage.extend(GroupColumns.entries(self._free_name(key)))
            group = self._add(key, cls)
            self._storage.state.set_blob(STRUCTURE, pack([one.key for one in self.ordered]))
            self._storage.follow()
        return group

    def _add(self, key: list[Any], cls: type | None) -> Group:
        """A group whose tables are in the arena."""
        rows: ListRows | ObjectRows
        match key:
            case ["object", str(), list(names)] if cls is not None and all(isinstance(one, str) for one in names):
                rows = ObjectRows(cls, names, ignored_of(cls, self._ignored))
                if cls not in self._of_class:
                    self.global_names.update(self._finder.names_beside(cls))
            case ["list", str(kind), _] if kind in LISTS:
                rows = ListRows()
            case ["dict", str(kind), _] if kind in DICTS:
                rows = FactoryRows() if kind == "defaultdict" else DictRows()
            case ["content", str(kind), _] if kind in LISTS or kind in DICTS:
                rows = ContentRows({**LISTS, **DICTS}[kind])
            case _:
                raise ValueError(f"expected a group of objects, got {str(key)[:60]}")
        name = self._free_name(key)
        group = Group(key, name, rows, self._storage.columns(name))
        self.ordered.append(group)
        self._by_key[pack(key)] = group
        if cls is not None:
            self._of_class.setdefault(cls, []).append(group)
        return group

    def _free_name(self, key: list[Any]) -> str:
        """The name of the tables of the next group: its class and its number among the groups."""
        text = str(key[1]).rpartition(":")[2].rpartition(".")[2]
        return f"graph.{len(self.ordered)}.{_NAME_CHARS.sub('_', text)[:_NAME_CHARS_MAX]}"

    def read(self) -> None:
        """Make the groups that the arena describes. Raises ValueError, LookupError."""
        keys = unpack(self._storage.state.blob(STRUCTURE))
        for key in keys:
            is_object = type(key) is list and len(key) == 3 and key[0] == "object"
            self._add(key, self._finder.find(key[1]) if is_object else None)


def _family(kind: type) -> str:
    return "list" if kind.__name__ in LISTS else "dict"
