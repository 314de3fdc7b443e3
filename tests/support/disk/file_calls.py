"""The calls by which a program changes the files below a folder, recorded as they are made.

Functions of ``os`` that change names, sizes or what is on stable storage are wrapped, and so are stores into a mapped
file. What other code writes (pyarrow, SQLite, ``open``) is found by looking at the files: before each recorded call and
each mark, all content that differs from what the record says is recorded as a write. A name that came or went without a
recorded call is an error: then a call was missed.

Processes that are forked meanwhile are not recorded.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from recorder.storage import tape_files
from recorder.writer import journal

NAMES = ("link", "rename", "replace", "unlink", "remove", "mkdir", "rmdir")
TWO_NAMES = ("link", "rename", "replace")
SYNCS = ("fsync", "fdatasync")
BYTES = ("write", "pwrite", "ftruncate", "truncate", "posix_fallocate")


@attrs.frozen
class Call:
    """One call that changed something.

    Attributes:
        kind: create, link, rename, unlink, mkdir, rmdir, write, size, sync (of a file), sync_folder or mark.
        file: number of the file or folder, by order of appearance. The watched folder is 0.
        folder, name: of the name that is made or removed; of a rename, the new one.
        old_folder, old_name: of a rename, the old one.
        offset, data: of a write.
        size: of a size.
        mark: what the program reported at this moment.
    """

    kind: str
    file: int = -1
    folder: int = -1
    name: str = ""
    old_folder: int = -1
    old_name: str = ""
    offset: int = 0
    data: bytes = b""
    size: int = 0
    mark: Any = None


class Calls:
    """Records the calls that change the files below a folder."""

    def __init__(self, folder: Path) -> None:
        """folder: files that it holds already count as durable."""
        self.folder = folder
        self.calls: list[Call] = []
        self.start: dict[str, bytes | None] = {}  # The folder before the first call; None for a folder.
        self._lock = threading.RLock()
        self._numbers: dict[tuple[int, int], int] = {}
        self._content: dict[int, bytearray] = {}
        self._names: dict[tuple[int, str], int] = {}
        self._kept: list[int] = []  # Descriptors that keep inode numbers from being used again.
        self._owner = os.getpid()
        self._inside = threading.local()
        self._originals: dict[str, Callable[..., Any]] = {}
        self._number(folder)
        for path in sorted(folder.rglob("*")):
            number = self._number(path)
            self._names[self._number(path.parent), path.name] = number
            if path.is_file():
                self._content[number] = bytearray(path.read_bytes())
            self.start[str(path.relative_to(folder))] = path.read_bytes() if path.is_file() else None

    def mark(self, what: Any) -> None:
        """Note what the program reports now, for example that a tick is durable."""
        with self._lock:
            self._look()
            self.calls.append(Call("mark", mark=what))

    # --- which files are watched

    def _number(self, path: Path) -> int:
        found = path.lstat()
        key = (found.st_dev, found.st_ino)
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._kept.append(self._originals.get("open", os.open)(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
        return self._numbers[key]

    def _number_of_descriptor(self, descriptor: int) -> int | None:
        found = os.fstat(descriptor)
        return self._numbers.get((found.st_dev, found.st_ino))

    def _is_watched(self, path: Any) -> bool:
        if isinstance(path, int):
            return self._number_of_descriptor(path) is not None
        absolute = Path(os.fsdecode(path)).absolute()
        return absolute.is_relative_to(self.folder)

    def _place(self, path: Any) -> tuple[int, str]:
        absolute = Path(os.fsdecode(path)).absolute()
        return self._number(absolute.parent), absolute.name

    # --- what was written by code that is not wrapped

    def _look(self) -> None:
        """Record files that were created, and content that was written, since the last call."""
        names = {}
        for place, folders, files in os.walk(self.folder):
            for name in [*folders, *files]:
                path = Path(place, name)
                key = (self._number(Path(place)), name)
                is_new = path.lstat().st_ino not in {inode for _, inode in self._numbers}
                names[key] = number = self._number(path)
                if key not in self._names:
                    assert is_new, f"{path} was named by a call that was not recorded"
                    kind = "mkdir" if path.is_dir() else "create"
                    self.calls.append(Call(kind, number, *key))
                    self._names[key] = number
                    if kind == "create":
                        self._content[number] = bytearray()
                assert self._names[key] == number, f"{path} was replaced by a call that was not recorded"
                if number in self._content:
                    self._look_at(number, path)
        gone = self._names.keys() - names.keys()
        assert not gone, f"{gone} went by a call that was not recorded"

    def _look_at(self, number: int, path: Path) -> None:
        data, known = path.read_bytes(), self._content[number]
        if data == known:
            return
        if len(data) < len(known):
            self._resize(number, len(data))
        first = next((i for i in range(0, len(data), 4096) if data[i : i + 4096] != known[i : i + 4096]), len(data))
        last = max((i for i in range(0, len(data), 4096) if data[i : i + 4096] != known[i : i + 4096]), default=0)
        if first < len(data):
            self._store(number, first, data[first : last + 4096])

    def _store(self, number: int, offset: int, data: bytes) -> None:
        content = self._content[number]
        content.extend(bytes(max(0, offset + len(data) - len(content))))
        content[offset : offset + len(data)] = data
        self.calls.append(Call("write", number, offset=offset, data=bytes(data)))

    def _resize(self, number: int, size: int) -> None:
        content = self._content[number]
        del content[size:]
        content.extend(bytes(size - len(content)))
        self.calls.append(Call("size", number, size=size))

    # --- the wrapped functions

    def _named(self, kind: str, *arguments: Any, **more: Any) -> Any:
        """A call that changes names: look, call, record."""
        original = self._originals[kind]
        paths = arguments[: 2 if kind in TWO_NAMES else 1]
        # shutil.rmtree gives names relative to an open folder.
        folder = more.get("dir_fd")
        if folder is not None:
            paths = tuple(Path(f"/proc/self/fd/{folder}").readlink() / os.fsdecode(path) for path in paths)
            more = {key: value for key, value in more.items() if key != "dir_fd"}
        if not any(self._is_watched(path) for path in paths):
            return original(*paths, *arguments[len(paths) :], **more)
        self._look()
        places = [self._place(path) for path in paths]
        result = original(*paths, *arguments[len(paths) :], **more)
        match kind:
            case "link":
                number = self._names[places[1]] = self._names[places[0]]
                self.calls.append(Call("link", number, *places[1]))
            case "rename" | "replace":
                number = self._names.pop(places[0])
                self._names[places[1]] = number
                self.calls.append(Call("rename", number, *places[1], *places[0]))
            case "mkdir":
                number = self._names[places[0]] = self._number(Path(os.fsdecode(paths[0])).absolute())
                self.calls.append(Call("mkdir", number, *places[0]))
            case _:
                number = self._names.pop(places[0])
                self.calls.append(Call("rmdir" if kind == "rmdir" else "unlink", number, *places[0]))
        return result

    def _synced(self, kind: str, descriptor: Any) -> Any:
        self._look()  # First: other code may have created the file.
        number = self._number_of_descriptor(descriptor if isinstance(descriptor, int) else descriptor.fileno())
        if number is None:
            return self._originals[kind](descriptor)
        result = self._originals[kind](descriptor)
        self.calls.append(Call("sync" if number in self._content else "sync_folder", number))
        return result

    def _changed(self, kind: str, target: Any, *arguments: Any) -> Any:
        """A call that changes a file's bytes or size. An append goes to the end of the file."""
        self._look()
        if not self._is_watched(target):
            return self._originals[kind](target, *arguments)
        number = self._number_of_descriptor(target) if isinstance(target, int) else self._number(Path(target))
        assert number is not None
        before = len(self._content[number])
        result = self._originals[kind](target, *arguments)
        match kind:
            case "ftruncate" | "truncate":
                self._resize(number, arguments[0])
            case "posix_fallocate":
                self._resize(number, max(before, sum(arguments)))
            case "pwrite":
                self._store(number, arguments[1], bytes(arguments[0])[:result])
            case _:
                self._look()  # At the end or at the descriptor's offset; the file itself tells.
        return result

    def _opened(self, path: Any, flags: int, *arguments: Any, **more: Any) -> int:
        if not flags & (os.O_CREAT | os.O_TRUNC) or more.get("dir_fd") is not None or not self._is_watched(path):
            return self._originals["open"](path, flags, *arguments, **more)
        self._look()
        descriptor = self._originals["open"](path, flags, *arguments, **more)
        self._look()
        return descriptor

    def mapped(self, number: int, start: int, data: bytes) -> None:
        """A store into a mapped file has just been made."""
        with self._lock:
            if os.getpid() == self._owner:
                self._store(number, start, data)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record while the body runs."""
        wrappers = {
            **dict.fromkeys(NAMES, self._named), **dict.fromkeys(SYNCS, self._synced), **dict.fromkeys(BYTES, self._changed),
            "open": lambda _, *a, **k: self._opened(*a, **k),
        }  # fmt: skip
        for kind, method in wrappers.items():
            self._originals[kind] = getattr(os, kind)
            setattr(os, kind, self._wrapped(kind, method))
        before = (tape_files.mmap.mmap, journal._pack_u32)
        mapped = _mapped_class(self)
        tape_files.mmap = _Module(mapped)
        journal._pack_u32 = _recorded_pack(before[1])
        try:
            yield
            self._look()
        finally:
            tape_files.mmap, journal._pack_u32 = mmap, before[1]
            for kind, original in self._originals.items():
                setattr(os, kind, original)
            for descriptor in self._kept:
                os.close(descriptor)

    def _wrapped(self, kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """The function that takes the place of os.<kind>. A call from inside a recorded one is not recorded again."""
        original = self._originals[kind]

        def wrapper(*arguments: Any, **more: Any) -> Any:
            if os.getpid() != self._owner or getattr(self._inside, "is_true", False):
                return original(*arguments, **more)
            with self._lock:
                self._inside.is_true = True
                try:
                    return method(kind, *arguments, **more)
                finally:
                    self._inside.is_true = False

        return wrapper


class _Module:
    """The module mmap with another class."""

    def __init__(self, mapped: type[mmap.mmap]) -> None:
        self.mmap = mapped


def _mapped_class(calls: Calls) -> type[mmap.mmap]:
    class Mapped(mmap.mmap):
        """A mapped file whose stores are recorded."""

        def __init__(self, descriptor: int, _: int) -> None:
            super().__init__()
            number = calls._number_of_descriptor(descriptor)
            assert number is not None
            self.number = number

        def __setitem__(self, place: Any, data: Any) -> None:
            super().__setitem__(place, data)
            self.stored(place.start or 0, bytes(data))

        def stored(self, start: int, data: bytes) -> None:
            calls.mapped(self.number, start, data)

    return Mapped


def _recorded_pack(pack: Callable[..., None]) -> Callable[..., None]:
    def recorded(memory: Any, place: int, value: int) -> None:
        pack(memory, place, value)
        if hasattr(memory, "stored"):
            memory.stored(place, bytes(memory[place : place + 4]))

    return recorded
