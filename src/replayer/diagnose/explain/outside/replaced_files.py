"""Let the code of this process find a file missing, empty, or changed at another time. The file itself is not touched.

A missing file's path leads to an empty folder, for reading and for writing: a file that code writes there first is
there for what it reads afterwards. That of an empty one leads to a new file. Lists of its folder leave it out until then. C code that opens files by itself is not
reached.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

ONE_PATH = ("open", "stat", "lstat", "access", "remove", "unlink", "utime", "truncate", "chmod")
_TWO_PATHS = ("rename", "replace", "link", "symlink")
_BASIC = 10  # The fields that a result of os.stat has in the form of a tuple.


def replace_files(
    missing: Iterable[str],
    times_ns: Mapping[str, int],
    folder: Path,
    is_own: Callable[[str], bool],
    emptied: Iterable[str] = (),
) -> None:
    """Replace the functions that open and inspect files, in os, io and the user's modules. Only in a copy.

    missing: paths of files. times_ns: for paths, the time of change in nanoseconds. folder: an empty one. is_own: see
    OwnCode. emptied: paths of files, there or not.
    """
    empty = [_full(path) for path in emptied]
    numbers = {path: number for number, path in enumerate([*map(_full, missing), *empty])}
    made = set[str]()
    times = {_full(path) or "": time_ns for path, time_ns in times_ns.items()}

    def elsewhere(path: Any) -> Any:
        number = numbers.get(_full(path) or "")
        if number is None:
            return path
        place = f"{folder}/{os.getpid()}-{number}"  # Of this copy alone: what another one wrote is not there.
        if _full(path) in empty and place not in made:
            made.add(place)
            os.close(create(place, os.O_CREAT | os.O_WRONLY))
        return os.fsencode(place) if isinstance(path, bytes) else place

    stat, create = os.stat, os.open

    def is_listed(path: str) -> bool:
        if path not in numbers:
            return True
        try:
            stat(elsewhere(path))
        except OSError:
            return False
        return True

    substitutes: dict[int, tuple[Any, Any]] = {
        id(builtins.open): (builtins.open, with_paths(builtins.open, elsewhere, 1))
    }
    for names, count in ((ONE_PATH, 1), (_TWO_PATHS, 2)):
        for name in names:
            original = getattr(os, name, None)
            if original is not None:
                substitutes[id(original)] = original, with_paths(original, elsewhere, count)
    substitutes[id(os.listdir)] = os.listdir, _listing(os.listdir, is_listed)
    substitutes[id(os.scandir)] = os.scandir, _scanning(os.scandir, is_listed)
    for name in ("stat", "lstat"):
        original = getattr(os, name)
        substitutes[id(original)] = original, _with_times(substitutes[id(original)][1], times)
    for module in list(sys.modules.values()):
        if module in (builtins, io, os) or is_own(getattr(module, "__file__", None) or ""):
            names_of_it = vars(module)
            for name, value in list(names_of_it.items()):
                known = substitutes.get(id(value))
                if known is not None and known[0] is value:
                    names_of_it[name] = known[1]


def _full(path: Any) -> str | None:
    """The full path that a function was given; None for a file descriptor."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None
    return os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - a Path would ask the replaced functions for links


def with_paths(original: Any, elsewhere: Callable[[Any], Any], count: int) -> Any:
    """A function that is given other paths in place of its first ones."""

    def substitute(*arguments: Any, **named: Any) -> Any:
        changed = [elsewhere(argument) for argument in arguments[:count]]
        try:
            return original(*changed, *arguments[count:], **named)
        except OSError as error:
            if changed and changed[0] is not arguments[0]:
                error.filename = os.fspath(arguments[0])  # As the program knows it.
            raise

    return substitute


def _listing(original: Any, is_listed: Callable[[str], bool]) -> Any:
    def substitute(path: Any = None) -> Any:
        names, folder = original(path), _full("." if path is None else path)
        return names if folder is None else [name for name in names if is_listed(f"{folder}/{os.fsdecode(name)}")]

    return substitute


def _scanning(original: Any, is_listed: Callable[[str], bool]) -> Any:
    def substitute(path: Any = None) -> Any:
        folder, entries = _full("." if path is None else path), original(path)
        return entries if folder is None else _Entries(entries, lambda name: is_listed(f"{folder}/{name}"))

    return substitute


class _Entries:
    """As what os.scandir returns, without some entries."""

    def __init__(self, entries: Any, is_listed: Callable[[str], bool]) -> None:
        self._entries, self._is_listed = entries, is_listed

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(entry for entry in self._entries if self._is_listed(os.fsdecode(entry.name)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries.close()


def _with_times(original: Any, times: Mapping[str, int]) -> Any:
    def substitute(path: Any, *arguments: Any, **named: Any) -> Any:
        found = original(path, *arguments, **named)
        time_ns = times.get(_full(path) or "")
        if time_ns is None:
            return found
        kept = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
        changed = kept | {"st_mtime_ns": time_ns, "st_mtime": time_ns / 1e9}
        basic = list(found[:_BASIC])
        basic[8] = time_ns // 1_000_000_000  # st_mtime in whole seconds.
        return os.stat_result(basic, {name: changed[name] for name in changed if name not in _BASIC_NAMES})

    return substitute


_BASIC_NAMES = ("st_mode", "st_ino", "st_dev", "st_nlink", "st_uid", "st_gid", "st_size")
