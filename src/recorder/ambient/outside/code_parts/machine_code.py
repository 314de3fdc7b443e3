"""Compiled functions whose machine code numba loaded from its cache on disk: it may be that of earlier source.

Numba replaces a file of the cache only when the file of the function itself changes. What the function takes from other
files, such as functions that it calls and values of globals, is in the machine code as it was when that was made.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import attrs
import numpy as np

from recorder.ambient.outside.code_parts.places import Place
from recorder.ambient.outside.code_text import is_constant
from recorder.ambient.roots import content_of, is_users, kept_by_decorator
from sim.kernel.class_names import module_of

KEY = "machine_code"  # In the note on the outside world, in the end of a tape.
LOADED_MAX, TAKEN_MAX = 16, 8  # In a note.
NAME_CHARS_MAX = 200


@attrs.frozen
class LoadedCode:
    """A function whose machine code was loaded from a cache on disk while the run was recorded.

    Attributes:
        name: with its module.
        place: the file and the line of its first decorator.
        taken: what it takes from elsewhere: functions of other files with their places, and names of globals.
        newer: the files of those functions that were changed after the file of the cache was, by their times.
    """

    name: str
    place: str
    taken: tuple[str, ...]
    newer: tuple[str, ...] = ()

    def plain(self) -> list[Any]:
        """As plain data."""
        return [self.name, self.place, list(self.taken), list(self.newer)]


def decode_loaded(plain: Any) -> LoadedCode | None:
    """What plain() gave; None for anything else."""
    match plain:
        case [str(name), str(place), list(taken), list(newer)]:
            parts = [
                tuple(one[:NAME_CHARS_MAX] for one in part[:TAKEN_MAX] if isinstance(one, str))
                for part in (taken, newer)
            ]
            return LoadedCode(name[:NAME_CHARS_MAX], place[:NAME_CHARS_MAX], *parts)
    return None


class MachineCode:
    """The compiled functions around one simulation that numba may load from disk.

    Attributes:
        functions: all of them.
        loaded: those of which it is known that it did, by their names.
    """

    def __init__(self, places: Iterable[Place], earlier: Any = None) -> None:
        """earlier: what plain() gave in the session before."""
        known = filter(None, map(decode_loaded, earlier if isinstance(earlier, list) else ()))
        self.loaded = {one.name: one for one in known}
        found = (one for place in places for one in kept_by_decorator(place.value()) if is_compiled(one))
        self.functions = list({id(one): one for one in found}.values())

    def look(self) -> None:
        """Note those that were loaded since the last look."""
        for one in self.functions:
            if getattr(getattr(one, "stats", None), "cache_hits", None):
                loaded = _told(one)
                # Of one that takes nothing from elsewhere, numba compares all that counts.
                if loaded.taken and len(self.loaded) < LOADED_MAX:
                    self.loaded.setdefault(loaded.name, loaded)

    def plain(self) -> list[list[Any]]:
        """As plain data, for the end of a tape."""
        return [one.plain() for one in self.loaded.values()]


def is_compiled(value: Any) -> bool:
    """Return True for a function that numba compiles, whose Python function is its py_func."""
    kind = type(value)
    return module_of(kind).startswith("numba.") and type((content_of(value) or {}).get("py_func")) is FunctionType


def has_stored_machine_code() -> bool:
    """Return True if numba's cache on disk has machine code of a function that a loaded module of the user names."""
    if "numba" not in sys.modules:
        return False
    values = [value for name in list(sys.modules) if is_users(name) for value in vars(sys.modules[name]).values()]
    return any(_changed_at(_index_of(one)) is not None for one in values if is_compiled(one))


def _told(function: Any) -> LoadedCode:
    own = function.py_func
    file = own.__code__.co_filename
    elsewhere, names = dict[str, FunctionType](), dict[str, None]()
    waiting, seen = [own], {own}
    for one in waiting:  # It grows by the functions that these call.
        for name, value in _taken_by(one):
            if isinstance(value, FunctionType):
                if value not in seen:
                    seen.add(value)
                    waiting.append(value)
                if value.__code__.co_filename != file:
                    elsewhere.setdefault(f"{value.__module__}.{value.__qualname__}", value)
            else:
                names.setdefault(name)
    taken = [f"{name} ({place_of(one)})" for name, one in elsewhere.items()]
    files = dict.fromkeys(one.__code__.co_filename for one in elsewhere.values())
    made = _changed_at(_index_of(function))
    newer = [Path(path).name for path in files if made is not None and (_changed_at(path) or 0) > made]
    label = f"{own.__module__}.{own.__qualname__}"
    return LoadedCode(label, place_of(own), tuple([*taken, *names][:TAKEN_MAX]), tuple(newer))


def _taken_by(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """The functions of the user and the plain values that a function takes from globals, also those of modules."""
    for name, value in _read_by(function.__code__, function.__globals__):
        plain = (content_of(value) or {})["py_func"] if is_compiled(value) else value
        is_function = type(plain) is FunctionType and is_users(plain.__module__)
        if is_function or is_constant(plain) or isinstance(plain, np.ndarray | np.generic):
            yield name, plain


def _read_by(code: CodeType, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    module: ModuleType | None = None
    for one in dis.get_instructions(code):
        if one.opname.startswith("LOAD_GLOBAL"):
            value = names.get(one.argval)
            if one.argval in names:  # No builtin.
                yield one.argval, value
            module = value if type(value) is ModuleType and is_users(value.__name__) else None
        elif module is not None and one.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            if one.argval in vars(module):
                yield f"{module.__name__}.{one.argval}", vars(module)[one.argval]
            module = None
        elif one.opname != "CACHE":
            module = None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _read_by(inner, names)


def place_of(function: FunctionType) -> str:
    """The file and the line of its first decorator."""
    return f"{Path(function.__code__.co_filename).name}:{function.__code__.co_firstlineno}"


def _index_of(function: Any) -> str:
    """The file in which numba keeps what is in its cache; empty if it is not where it is expected."""
    files = getattr(getattr(function, "_cache", None), "_cache_file", None)
    path = getattr(files, "_index_path", "")
    return path if isinstance(path, str) else ""


def _changed_at(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime  # noqa: PTH116 - the name of a file of code need not be that of a path
    except OSError:
        return None
