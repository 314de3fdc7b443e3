"""What is on the disk when the process, or the power, goes at any moment of a recording.

``killed``: all that was handed to the system is there, and of the append under way any beginning.
``powerless``: of each file all up to the last fdatasync is there; of what came after, any 512-byte sectors are as they
were written, zero, garbage or missing, and the length is anything in between. Truncating takes effect or does not. A
file's name is there once create has returned; a removed one may be back. The journal is anything at all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import attrs

from oracle.fake_files import MemoryFiles, Operation

SECTOR_BYTES = 512


@attrs.define
class Image:
    """Files as they are found after a crash.

    Attributes:
        segments: bytes by number.
        journal: its bytes; empty if there is none.
        synced: by number, how many bytes of each file are there for sure.
        aside: what was set aside.
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


def killed(history: Sequence[Operation], count: int, torn: float = 1.0) -> Image:
    """The disk when the process was killed during operation number count - 1.

    Of that operation, if it is an append, the beginning is there.
    The journal is not in the history: whoever kills keeps a copy of it.
    """
    image = Image({}, b"", {})
    for number, operation in enumerate(history[:count]):
        _apply(image, operation, torn if number == count - 1 else 1.0)
    return image


def _apply(image: Image, operation: Operation, share: float) -> None:
    segment = operation.segment
    match operation.kind:
        case "create":
            image.segments[segment], image.synced[segment] = b"", 0
        case "append":
            image.segments[segment] += operation.data[: int(len(operation.data) * share)]
        case "fdatasync":
            image.synced[segment] = len(image.segments[segment])
        case "truncate":
            image.segments[segment] = image.segments[segment][: operation.size]
            image.synced[segment] = min(image.synced[segment], operation.size)
        case "remove":
            image.segments.pop(segment, None)
        case "set_aside":
            image.aside.append(operation.data)


def powerless(history: Sequence[Operation], count: int, numbers: random.Random) -> Image:
    """The disk when the power went during operation number count - 1; numbers decides on every sector."""
    image = killed(history, count, numbers.random())
    for segment, data in list(image.segments.items()):
        sure = image.synced[segment]
        length = numbers.choice([sure, len(data), numbers.randint(sure, len(data))])
        image.segments[segment] = data[:sure] + _torn(data[sure:length], sure, numbers)
    image.journal = numbers.choice([b"", bytes(64), numbers.randbytes(4096)])
    return image


def _torn(data: bytes, start: int, numbers: random.Random) -> bytes:
    """Bytes from start on as a disk may have kept them."""
    parts: list[bytes] = []
    keep = numbers.choice([0.0, 0.3, 0.7, 0.95])
    place = 0
    while place < len(data):
        size = min(SECTOR_BYTES - (start + place) % SECTOR_BYTES, len(data) - place)
        sector = data[place : place + size]
        if numbers.random() >= keep:
            sector = numbers.choice([bytes(size), numbers.randbytes(size)])
        parts.append(sector)
        place += size
    return b"".join(parts)


def every_kill(files: MemoryFiles) -> Iterator[Image]:
    """The disk after a kill at each operation of a history, with appends torn at a few places."""
    for count in range(1, len(files.history) + 1):
        shares = (0.0, 0.4, 0.99, 1.0) if files.history[count - 1].kind == "append" else (1.0,)
        for share in shares:
            yield killed(files.history, count, share)
