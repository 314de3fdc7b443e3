"""Hold everything outside the state that a step can read or change, by path, and restore it.

object_walk.py captures it. Invariant: put_back keeps identities: objects get their old content, they are not replaced.
"""

from __future__ import annotations

import enum
import os
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

import attrs
import numpy as np

from recorder.ambient.iterators import IteratorParts, position_of
from recorder.ambient.process_wide import SETTINGS, put_registered
from recorder.ambient.value_kinds import put_content
from recorder.processes.seeds.process_generators import numba_states, set_generator_states
from sim.enum_members import is_enums

Step = tuple[str, Any]  # From a holder to a value in it: attribute, item, global, cell, …
Path = tuple[Step, ...]

INSTANCE = "instance"
# After the path of a container: of what it stores besides its items, as an object of a derived class does.
OWN = ("own", "")
MAXLEN = ("attribute", "maxlen")  # Of a deque: the last step of a path.
RANDOM_PATH: Path = (("ambient", "random"),)
NUMPY_RANDOM_PATH: Path = (("ambient", "np.random"),)
ENVIRONMENT_PATH: Path = (("ambient", "os.environ"),)
NUMBA = "numba"  # The kind of the contents of numba's two generators.
FOLDER_PATH: Path = (("ambient", "current folder"),)

SETTING = "setting of the process"  # The kind of the contents of process_wide.SETTINGS, and of their paths.

_WITH_ITEMS: tuple[Any, ...] = (OrderedDict, dict, list, deque, np.ndarray)
ABSENT: Any = object()  # Stands for a missing value.


@attrs.frozen(repr=False)
class DefinedAt:
    """Stands for a function: by its name and the line of its definition."""

    name: str
    line: int

    @classmethod
    def of(cls, function: Any) -> DefinedAt:
        """Of a function of Python code."""
        return cls(function.__qualname__, function.__code__.co_firstlineno)

    def __repr__(self) -> str:
        return f"{self.name}() at line {self.line}"


@attrs.define(eq=False)
class Ambient:
    """Everything outside the state at one moment.

    Attributes:
        leaves: by path, the reduced form of a value for comparison.
        objects: by path, the containers and arrays themselves.
        contents: by path, their kind and the content that put_back restores.
        aliases: a further path to an object, or to its memory, and the first path to that.
        members: by path, of a set that holds objects or of a weak collection: the paths of its members; None for
            those that have none.
        iterators: by path, those that can be built again.
        types: of the objects that were walked.
        is_complete: False if there was more than the limits allow to inspect.
    """

    leaves: dict[Path, Any] = attrs.field(factory=dict)
    objects: dict[Path, Any] = attrs.field(factory=dict)
    contents: dict[Path, tuple[str, Any]] = attrs.field(factory=dict)
    aliases: dict[Path, Path] = attrs.field(factory=dict)
    iterators: dict[Path, IteratorParts] = attrs.field(factory=dict)
    members: dict[Path, list[Path | None]] = attrs.field(factory=dict)
    types: set[type] = attrs.field(factory=set)
    is_complete: bool = True

    def add_numbas(self) -> None:
        """Add the generators of numba's compiled code, where it is loaded."""
        for name, state in numba_states().items():
            self.leaves[(("ambient", name),)] = state
            self.contents[(("ambient", name),)] = (NUMBA, state)

    def put_back(self, prefixes: Iterable[Path] | None = None) -> None:
        """Restore the content of everything outside the instances, or only of the values at or below these paths."""
        chosen = None if prefixes is None else set(prefixes)
        for path, (kind, content) in self.contents.items():
            if path[0][0] == INSTANCE:
                continue
            if chosen is None or any(path[:depth] in chosen for depth in range(1, len(path) + 1)):
                _put(path, kind, self.objects.get(path[:-1] if path[-1] == OWN else path), content)
        for path in self.iterators:
            if path[0][0] != INSTANCE and (
                chosen is None or any(path[:depth] in chosen for depth in range(1, len(path) + 1))
            ):
                self._put_iterator(path)
        for path in chosen or ():
            if path in self.iterators:
                continue
            own = self.contents.get((*path[:-1], OWN)) if path[-1][0] == "attribute" else None
            kind, content = own or self.contents.get(path[:-1], ("", None))
            if kind in ("global", "class", "object", "function attribute"):
                set_child(self.objects[path[:-1]], path[-1], content.get(path[-1][1], ABSENT))
            elif kind == "cell":
                set_child(self.objects[path[:-1]], path[-1], content)
            elif content is not None:
                put_content(kind, self.objects[path[:-1]], content)

    def _put_iterator(self, path: Path) -> None:
        """An iterator cannot be set back, only replaced. Others that hold the same iterator keep the old one."""
        holder = self.objects.get(path[:-1])
        is_there = holder is not None and child_of(holder, path[-1]) is self.objects[path]
        if holder is None or (is_there and position_of(self.objects[path]) == self.leaves.get(path)):
            return
        if path[-1][0] in ("global", "class", "attribute", "function attribute", "item"):
            set_child(holder, path[-1], self._iterator_at(path))

    def _iterator_at(self, path: Path) -> Any:
        parts = self.iterators[path]
        held = list(parts.held)
        for index in range(len(held)):
            inner = (*path, ("held", index))
            if inner in self.iterators:
                held[index] = self._iterator_at(inner)
        return parts.built(held)


def child_of(holder: Any, step: Step) -> Any:
    """What one of the names of a holder leads to; ABSENT for none, and for a place that cannot be read."""
    kind, name = step
    if kind == "item":
        try:
            return holder[name]
        except (LookupError, TypeError):
            return ABSENT
    return (getattr(holder, "__dict__", None) or {}).get(name, ABSENT)


def set_child(holder: Any, step: Step, value: Any) -> None:
    """Set one of the names of a holder to value, or delete it if value is ABSENT."""
    kind, name = step
    match kind:
        case "global":
            if value is ABSENT:
                vars(holder).pop(name, None)
            else:
                vars(holder)[name] = value
        case "class":
            if value is not ABSENT:
                type.__setattr__(holder, name, value)
            elif name in vars(holder):
                type.__delattr__(holder, name)
        case "attribute" if value is ABSENT:
            object.__delattr__(holder, name)
        case "attribute":
            object.__setattr__(holder, name, value)
        case "function attribute":
            holder.__dict__.pop(name, None)
            if value is not ABSENT:
                holder.__dict__[name] = value
        case "cell":
            _put_cell(holder, value)
        case "item" if value is not ABSENT:
            _put_item(holder, name, value)


def _put_item(holder: Any, name: Any, value: Any) -> None:
    """Put an item by the method of the plain container: that of a class derived from it would run the user's code."""
    base = next((one for one in _WITH_ITEMS if isinstance(holder, one)), type(holder))
    base.__setitem__(holder, name, value)


def _put_cell(holder: Any, value: Any) -> None:
    if isinstance(holder, ContextVar):
        holder.set(value)
    else:
        holder.cell_contents = value


def _put_environment(content: dict[str, str]) -> None:
    if dict(os.environ) != content:
        os.environ.clear()
        os.environ.update(content)


def _put_folder(content: str | None) -> None:
    if content is not None:
        os.chdir(content)


_OF_PROCESS: dict[str, Callable[[Any], Any]] = {
    "environment": _put_environment,
    "folder": _put_folder,
    "np.random": np.random.set_state,
}


def _put(path: Path, kind: str, holder: Any, content: Any) -> None:
    if kind in _OF_PROCESS:
        _OF_PROCESS[kind](content)
        return
    match kind:
        case "global" | "class" | "function attribute":
            now = names_of(kind, holder)
            for name in (*now.keys(), *content.keys()):
                old = content.get(name, ABSENT)
                if now.get(name, ABSENT) is not old:
                    set_child(holder, (kind, name), old)
        case "cell":
            set_child(holder, (kind, ""), content)
        case "setting of the process":
            SETTINGS[path[0][1]][1](content)
        case "registered":
            put_registered(holder, content)
        case "numba":
            set_generator_states({path[0][1]: content})
        case _ if path == RANDOM_PATH:
            random.setstate(content)
        case _:
            put_content(kind, holder, content)


def names_of(kind: str, holder: Any) -> dict[str, Any]:
    """The names of a module, a class or a function whose values may change.

    Not those that an enumeration keeps for itself: it notes there which flags were asked for together, and these have to
    stay one object each.
    """
    is_enumeration = isinstance(holder, enum.EnumMeta)
    return {
        name: value
        for name, value in (holder.__dict__ if kind == "function attribute" else vars(holder)).items()
        if not (name.startswith("__") and name.endswith("__"))
        and name != "_abc_impl"
        and not (is_enumeration and is_enums(name))
    }
