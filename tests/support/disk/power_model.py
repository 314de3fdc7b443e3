"""What a file system may hold after a power cut: a model of ext4 and xfs that enumerates all such states.

The rules, for everything that a program did up to some moment:
    1. A file is what it was at its last sync, and of what came later each page of 4,096 bytes holds any of the contents
       that it has had since, independently of the other pages: stores to mapped memory and writes alike.
    2. Its size is any that it has had since the sync, or that of a page's end between two of them. Pages within the
       size that never reached the disk are zeros: a size may change without the data.
    3. Of the changes of names in a folder since its last sync, the first n have happened, in order, for any n. A name
       may be there before any byte of its file.
    4. A sync of a file says nothing about its name, and a sync of a folder nothing about the bytes of its files.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from disk.file_calls import Call, Calls

PAGE_BYTES = 4096
NAME_KINDS = {"create", "link", "rename", "unlink", "mkdir", "rmdir"}


@attrs.define
class _File:
    """A file.

    Attributes:
        live: its bytes as the program sees them.
        stable: its bytes at the last sync.
        sizes: all sizes since then, the first that at the sync.
        pages: by number, the contents that pages have had since the sync, each once.
        syncs: the number of its syncs.
    """

    live: bytearray = attrs.field(factory=bytearray)
    stable: bytes = b""
    sizes: list[int] = attrs.field(factory=lambda: [0])
    pages: dict[int, list[bytes]] = attrs.field(factory=dict)
    syncs: int = 0

    def note(self, begin: int, end: int) -> None:
        """The bytes from begin to end have just changed, or the size."""
        if self.sizes[-1] != len(self.live):
            self.sizes.append(len(self.live))
        for page in range(begin // PAGE_BYTES, -(-end // PAGE_BYTES)):
            content = bytes(self.live[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]).ljust(PAGE_BYTES, b"\0")
            versions = self.pages.setdefault(page, [])
            if not versions or versions[-1] != content:
                versions.append(content)

    def sync(self) -> None:
        self.stable = bytes(self.live)
        self.sizes, self.pages = [len(self.live)], {}
        self.syncs += 1

    def possible_sizes(self) -> list[int]:
        sizes = set(self.sizes)
        ends = range(-(-min(sizes) // PAGE_BYTES) * PAGE_BYTES, max(sizes), PAGE_BYTES)
        return sorted(sizes | set(ends))

    def content(self, size: int, versions: Mapping[int, int]) -> bytes:
        """The bytes with this size; versions: by page, the number of the content, 0 for that of the last sync."""
        data = bytearray(self.stable[:size].ljust(size, b"\0"))
        for page, version in versions.items():
            if version and page * PAGE_BYTES < size:
                data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = self.pages[page][version - 1]
        return bytes(data[:size])


@attrs.define
class _Folder:
    """A folder: its names at its last sync, and the changes since."""

    stable: dict[str, int] = attrs.field(factory=dict)
    pending: list[Call] = attrs.field(factory=list)

    def names(self, count: int) -> dict[str, int]:
        """The names after the first count of the pending changes."""
        names = dict(self.stable)
        for call in self.pending[:count]:
            if call.kind == "rename":
                names.pop(call.old_name, None)
            if call.kind in {"unlink", "rmdir"}:
                names.pop(call.name, None)
            else:
                names[call.name] = call.file
        return names


@attrs.frozen
class State:
    """One state of the files after a power cut.

    Attributes:
        files: content by path relative to the watched folder; None for a folder.
        key: equal for equal states of one disk.
    """

    files: dict[str, bytes | None]
    key: tuple[object, ...]

    def write(self, folder: Path) -> None:
        """Make these files in an empty folder."""
        for name, content in self.files.items():
            path = folder / name
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                for place in range(0, len(content), PAGE_BYTES):
                    if any(page := content[place : place + PAGE_BYTES]):
                        file.seek(place)
                        file.write(page)
                file.truncate(len(content))


class Disk:
    """Files as recorded calls make them, one call after the other."""

    def __init__(self, start: Mapping[str, bytes | None] | None = None) -> None:
        """start: files that are there and durable, by path; None for a folder."""
        self._files: dict[int, _File] = {}
        self._folders: dict[int, _Folder] = {0: _Folder()}
        self._paths: dict[str, int] = {"": 0}
        for number, name in enumerate(sorted(start or {}), 1):
            content = (start or {})[name]
            parent, _, base = name.rpartition("/")
            self._folders[self._paths[parent]].stable[base] = self._paths[name] = number
            if content is None:
                self._folders[number] = _Folder()
            else:
                self._files[number] = _File(bytearray(content), content, [len(content)])

    def apply(self, call: Call) -> None:
        """Make one recorded call."""
        match call.kind:
            case "mark":
                pass
            case "write":
                file = self._files[call.file]
                before = len(file.live)
                file.live.extend(bytes(max(0, call.offset + len(call.data) - before)))
                file.live[call.offset : call.offset + len(call.data)] = call.data
                file.note(min(before, call.offset), call.offset + len(call.data))
            case "size":
                file = self._files[call.file]
                before = len(file.live)
                del file.live[call.size :]
                file.live.extend(bytes(call.size - len(file.live)))
                file.note(call.size, before)
            case "sync":
                self._files[call.file].sync()
            case "sync_folder":
                folder = self._folders[call.file]
                folder.stable, folder.pending = folder.names(len(folder.pending)), []
            case kind:
                assert kind in NAME_KINDS, kind
                assert kind != "rename" or call.folder == call.old_folder, "a rename between folders"
                if kind == "create":
                    self._files[call.file] = _File()
                if kind == "mkdir":
                    self._folders[call.file] = _Folder()
                self._folders[call.folder].pending.append(call)

    def after_kill(self) -> State:
        """The files if only the program ended."""
        counts = {number: len(folder.pending) for number, folder in self._folders.items()}
        files = {path: None if file is None else bytes(file.live) for path, _, file in self._tree(counts)}
        return State(files, ())

    def renumbered(self, calls: Calls) -> list[Call]:
        """The calls of a program that ran on these files after a kill, with the numbers that the files have here."""
        counts = {number: len(folder.pending) for number, folder in self._folders.items()}
        here = {path: number for path, number, _ in self._tree(counts)}
        numbers = {0: 0, -1: -1} | {n: here[path] for n, path in enumerate(sorted(calls.start), 1)}
        first_new = max(self._files.keys() | self._folders.keys()) + 1

        def number(theirs: int) -> int:
            return numbers.setdefault(theirs, first_new + theirs)

        return [
            attrs.evolve(c, file=number(c.file), folder=number(c.folder), old_folder=number(c.old_folder))
            for c in calls.calls
        ]

    def _tree(self, counts: Mapping[int, int]) -> list[tuple[str, int, _File | None]]:
        """Path, number and file (None for a folder) of everything that has a name after these changes of folders."""
        found: list[tuple[str, int, _File | None]] = []
        todo = [("", 0)]
        while todo:
            prefix, number = todo.pop()
            for name, file in sorted(self._folders[number].names(counts[number]).items()):
                found.append((prefix + name, file, self._files.get(file)))
                if file in self._folders:
                    todo.append((f"{prefix}{name}/", file))
        return found

    def states(self, count_max: int, numbers: random.Random) -> Iterator[State]:
        """All states that a power cut may leave now, if they are at most count_max; otherwise so many of them."""
        if self.has_at_most(count_max):
            for tree in self._trees():
                yield from self._all_of(tree)
            return
        for _ in range(count_max):
            yield self._drawn({number: self._draw_count(f, numbers) for number, f in self._folders.items()}, numbers)

    def has_at_most(self, count: int) -> bool:
        """True if a power cut now may leave at most so many states."""
        names = math.prod(len(folder.pending) + 1 for folder in self._folders.values())
        return names <= count and sum(map(self._count, self._trees())) <= count

    def _trees(self) -> Iterator[dict[int, int]]:
        choices = [range(len(folder.pending) + 1) for folder in self._folders.values()]
        return (dict(zip(self._folders, counts, strict=True)) for counts in itertools.product(*choices))

    @staticmethod
    def _draw_count(folder: _Folder, numbers: random.Random) -> int:
        count = len(folder.pending)
        return numbers.choice([0, count, numbers.randint(0, count)])

    def _dirty(self, counts: Mapping[int, int]) -> dict[int, _File]:
        return {
            number: file
            for _, number, file in self._tree(counts)
            if file is not None and (file.pages or len(file.sizes) > 1)
        }

    def _count(self, counts: Mapping[int, int]) -> int:
        return math.prod(
            len(file.possible_sizes()) * math.prod(len(v) + 1 for v in file.pages.values())
            for file in self._dirty(counts).values()
        )

    def _all_of(self, counts: Mapping[int, int]) -> Iterator[State]:
        dirty = self._dirty(counts)
        options = []
        for number, file in dirty.items():
            versions = itertools.product(*(range(len(v) + 1) for v in file.pages.values()))
            options.append(
                [(number, size, chosen) for size, chosen in itertools.product(file.possible_sizes(), list(versions))]
            )
        for chosen in itertools.product(*options):
            yield self._state(counts, {n: (size, dict(zip(dirty[n].pages, v, strict=True))) for n, size, v in chosen})

    def _drawn(self, counts: Mapping[int, int], numbers: random.Random) -> State:
        chosen = {}
        for number, file in self._dirty(counts).items():
            share = numbers.choice([0.0, 0.3, 0.9, 1.0])  # Of the pages that are up to date.
            sizes = file.possible_sizes()
            versions = {
                page: len(v) if numbers.random() < share else numbers.choice([0, numbers.randint(0, len(v))])
                for page, v in file.pages.items()
            }
            size = numbers.choice([sizes[-1], file.sizes[-1], file.sizes[0], numbers.choice(sizes)])
            chosen[number] = (size, versions)
        return self._state(counts, chosen)

    def _state(self, counts: Mapping[int, int], chosen: Mapping[int, tuple[int, dict[int, int]]]) -> State:
        files: dict[str, bytes | None] = {}
        key: list[object] = []
        for path, number, file in self._tree(counts):
            if file is None:
                files[path] = None
                key.append(path)
                continue
            size, versions = chosen.get(number, (len(file.live), {}))
            files[path] = file.content(size, versions)
            used = {p: v for p, v in versions.items() if v and p * PAGE_BYTES < size}
            pages = tuple(sorted((p, hash(file.pages[p][v - 1])) for p, v in used.items()))
            key.append((path, number, file.syncs, size, pages))
        return State(files, tuple(key))
