"""Hold everything outside the state that a step can read or change, by path, and restore it.

object_walk.py captures it. Invariant: put_back keeps identities: objects get their old content, they are not replaced.
"""

from __future__ import annotations

import enum
import os
import random
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np

from recorder.ambient.iterators import IteratorParts
from recorder.ambient.process_wide import SETTINGS, put_registered
from recorder.ambient.replacement.iterator_places import IteratorPlaces
from recorder.ambient.replacement.named_values import ABSENT, DEFAULTS, Path, put_defaults, set_child
from recorder.ambient.replacement.replaced import Replacements
from recorder.ambient.value_kinds import put_content
from recorder.processes.seeds.process_generators import numba_states, set_generator_states
from sim.enum_members import is_enums

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

    def add_contents(self, later: Ambient) -> None:
        """Add what a later ambient can restore and this one lacks, such as modules that are reached through instances only."""
        for path, content in later.contents.items():
            if path not in self.contents:
                self.contents[path] = content
                holder = _holder_path(path)
                if holder in later.objects:
                    self.objects.setdefault(holder, later.objects[holder])

    def put_back(self, prefixes: Iterable[Path] | None = None) -> None:
        """Restore the content of everything outside the instances, or only of the values at or below these paths."""
        chosen = None if prefixes is None else set(prefixes)
        for path, (kind, content) in self.contents.items():
            if path[0][0] == INSTANCE:
                continue
            if chosen is None or any(path[:depth] in chosen for depth in range(1, len(path) + 1)):
                _put(path, kind, self.objects.get(_holder_path(path)), content)
        for path in chosen or ():
            if path in self.iterators:
                continue
            beside = {"attribute": OWN, "default": DEFAULTS}.get(path[-1][0])
            own = self.contents.get((*path[:-1], beside)) if beside is not None else None
            kind, content = own or self.contents.get(path[:-1], ("", None))
            if kind in ("global", "class", "object", "function attribute"):
                set_child(self.objects[path[:-1]], path[-1], content.get(path[-1][1], ABSENT))
            elif kind == "cell":
                set_child(self.objects[path[:-1]], path[-1], content)
            elif kind == "defaults":
                put_defaults(self.objects[path[:-1]], content)
            elif content is not None:
                put_content(kind, self.objects[path[:-1]], content)
        self._put_iterators(chosen)

    def _put_iterators(self, chosen: set[Path] | None) -> None:
        """After everything that holds them. The instances keep theirs, as they keep all that they store."""
        # What an iterator holds is a part of it: it is put back with the outermost one.
        whole = None if chosen is None else {iterator_of(path) or path for path in chosen}
        paths = [
            path
            for path in self.iterators
            if path[0][0] != INSTANCE
            and (whole is None or any(path[:depth] in whole for depth in range(1, len(path) + 1)))
        ]
        if paths:
            replacements = Replacements(self.objects, self.aliases, lambda name: name[0][0] != INSTANCE)
            IteratorPlaces(self.iterators, self.objects, self.aliases, self.leaves).put_back(paths, replacements)


def _holder_path(path: Path) -> Path:
    """The path of the object that has a content: that of its attributes beside its items, or of defaults, ends in one more step."""
    return path[:-1] if path[-1] in (OWN, DEFAULTS) else path


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
        case "defaults":
            put_defaults(holder, content)
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


def iterator_of(path: Path) -> Path | None:
    """The path of the outermost iterator that holds a value; None if none does."""
    return next((path[:depth] for depth, step in enumerate(path) if step[0] == "held"), None)
