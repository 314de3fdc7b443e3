"""The content of the disk when the process, or the power, fails at any moment of a recording.

``killed``: everything that was passed to the system is there, and any beginning of the append under way.

``powerless``: each file is complete up to its last fdatasync. Each later 512-byte sector holds the written bytes, the
bytes before, zeros or garbage; the length is one that the file had, or anything in between. A file's name exists once
create (of the first one) or publish has returned, and no longer exists once remove has returned; during these calls
both are possible. The journal is never synced and may contain anything: sectors of different ages, zeros, garbage, or
nothing.

A failed fdatasync makes nothing durable, and neither does a later one that reports success: the system may have
discarded the pages.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import attrs

from oracle.fake_files import MemoryFiles, Operation

SECTOR_BYTES = 512


@attrs.define
class Image:
    """Files as found after a crash.

    Attributes:
        segments: bytes by number.
        journal: its bytes; empty if there is none.
        synced: by number, the bytes of each file that are there for sure.
        aside: the quarantined bytes.
    """

    segments: dict[int, bytes]
    journal: bytes
    synced: dict[int, int]
    aside: list[bytes] = attrs.field(factory=list)

    def files(self) -> MemoryFiles:
        """Files that begin as this image."""
        files = MemoryFiles()
        files.segments = {number: bytearray(data) for number, data in self.segments.items()}
        files.journal = bytearray(self.journal) if self.journal else None
        files.aside = list(self.aside)
        return files


@attrs.define
class _File:
    """A file, with the part that is on its way to the disk.

    Attributes:
        data: as the process sees it.
        synced: number of bytes of data that are on the disk for sure.
        older: the content of the file at other moments since its last sync.
        failed: True after a failed sync; nothing more of the file becomes durable.
    """

    data: bytes = b""
    synced: int = 0
    older: list[bytes] = attrs.field(factory=list)
    failed: bool = False


class Disk:
    """Files as a history of operations makes them, one operation after the other.

    Attributes:
        files: by number.
        new: the segments that are not published yet.
        before: the file whose name is being changed; None if there was none of that name.
    """

    def __init__(self) -> None:
        self.files: dict[int, _File] = {}
        self.new: dict[int, _File] = {}
        self.before: dict[int, _File | None] = {}
        self.aside: list[bytes] = []

    def apply(self, operation: Operation, share: float = 1.0) -> None:
        """Do an operation; share: the part of an append."""
        number = operation.segment
        self.before.clear()  # A change of a name syncs its folder.
        names = self.new if operation.new else self.files
        match operation.kind:
            case "create":
                names[number] = _File()
            case "publish":
                self.before[number] = self.files.get(number)
                self.files[number] = self.new.pop(number)
            case "append":
                file = names[number]
                file.older.append(file.data)
                file.data += operation.data[: int(len(operation.data) * share)]
            case "fdatasync":
                file = self.files[number]
                if not file.failed:
                    file.synced = len(file.data)
                    file.older.clear()
            case "failed_fdatasync":
                self.files[number].failed = True
            case "truncate":
                file = self.files[number]
                file.older.append(file.data)
                file.data = file.data[: operation.size]
                file.synced = min(file.synced, operation.size)
            case "remove":
                if number in self.files:
                    self.before[number] = self.files.pop(number)
            case "set_aside":
                self.aside.append(operation.data)

    def image(self) -> Image:
        """The files that a process finds now."""
        return Image(
            {number: file.data for number, file in self.files.items()},
            b"",
            {number: file.synced for number, file in self.files.items()},
            list(self.aside),
        )

    def image_without_power(self, numbers: random.Random, journals: Sequence[bytes] = ()) -> Image:
        """The files after a power cut now; numbers decides. journals: the content of the journal at some moments."""
        files: dict[int, _File | None] = dict(self.files)
        if numbers.random() < 0.5:
            files |= self.before
        return Image(
            {number: _torn(file, numbers) for number, file in sorted(files.items()) if file is not None},
            _torn_journal(journals, numbers),
            {number: file.synced for number, file in self.files.items()},
            list(self.aside),
        )


def _torn(file: _File, numbers: random.Random) -> bytes:
    """A file as a disk may have kept it."""
    lengths = [len(file.data), *map(len, file.older), file.synced]
    length = numbers.choice([numbers.choice(lengths), numbers.randint(min(lengths), max(lengths))])
    keep = numbers.choice([0.0, 0.3, 0.7, 0.95, 1.0])
    parts = [file.data[: min(file.synced, length)]]
    place = len(parts[0])
    while place < length:
        end = min(place - place % SECTOR_BYTES + SECTOR_BYTES, length)
        parts.append(_torn_sector(file, place, end, keep, numbers))
        place = end
    return b"".join(parts)


def _torn_sector(file: _File, place: int, end: int, keep: float, numbers: random.Random) -> bytes:
    size = end - place
    if numbers.random() < keep:
        sector = file.data[place:end]
    else:
        old = numbers.choice(file.older)[place:end] if file.older else b""
        sector = numbers.choice([bytes(size), numbers.randbytes(size), old])
    return sector.ljust(size, b"\0")


def _torn_journal(journals: Sequence[bytes], numbers: random.Random) -> bytes:
    if not journals or numbers.random() < 0.3:
        return numbers.choice([b"", bytes(64), numbers.randbytes(4096)])
    whole = numbers.choice(journals)
    parts = []
    for place in range(0, len(whole), SECTOR_BYTES):
        other = numbers.choice([whole, whole, whole, numbers.choice(journals)])
        parts.append(other[place : place + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0"))
    return b"".join(parts)[: numbers.choice([len(whole), numbers.randint(0, len(whole))])]


def disk_after(history: Sequence[Operation], count: int, torn: float = 1.0) -> Disk:
    """The disk after this many operations; the last one, if it is an append, only in part."""
    disk = Disk()
    for number, operation in enumerate(history[:count]):
        disk.apply(operation, torn if number == count - 1 else 1.0)
    return disk


def killed(history: Sequence[Operation], count: int, torn: float = 1.0) -> Image:
    """The disk when the process was killed during operation number count - 1.

    If that operation is an append, its beginning is there.
    The journal is not in the history: the caller keeps a copy of it.
    """
    return disk_after(history, count, torn).image()


def powerless(
    history: Sequence[Operation],
    count: int,
    numbers: random.Random,
    journals: Sequence[bytes] = (),
    *,
    whole: bool = False,
) -> Image:
    """The disk when the power failed during operation number count - 1; numbers decides on every sector.

    whole: directly after that operation, before the next one, for example a sync, had any effect.
    """
    return disk_after(history, count, 1.0 if whole else numbers.random()).image_without_power(numbers, journals)


def every_kill(files: MemoryFiles) -> Iterator[Image]:
    """The disk after a kill at each operation of a history, with appends torn at a few places."""
    for count in range(1, len(files.history) + 1):
        shares = (0.0, 0.4, 0.99, 1.0) if files.history[count - 1].kind == "append" else (1.0,)
        for share in shares:
            yield killed(files.history, count, share)


def crash_images(files: MemoryFiles, numbers: random.Random, power_cuts: int = 1) -> Iterator[Image]:
    """For tests of recovery: every kill image of a history, and some power cuts at each operation."""
    yield from every_kill(files)
    for count in range(1, len(files.history) + 1):
        for _ in range(power_cuts):
            yield powerless(files.history, count, numbers)
