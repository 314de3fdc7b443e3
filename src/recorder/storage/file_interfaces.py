"""What the writer needs of the files of a tape: interfaces, so that tests can have disks that fail."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

Buffer = bytearray | mmap.mmap  # The memory of a journal.


class IO(Protocol):
    """One open file. Each method raises OSError when the disk refuses."""

    def append(self, data: bytes) -> None:
        """Append all of data; if it raises, a part of data may have been appended."""

    def pread(self, offset: int, size: int) -> bytes:
        """Up to size bytes from offset on; fewer only at the end of the file."""

    def fdatasync(self) -> None:
        """Return when all appended bytes are on stable storage."""

    def size(self) -> int:
        """The size of the file in bytes."""

    def truncate(self, size: int) -> None:
        """Truncate the file to size bytes."""


class Files(Protocol):
    """The files of one tape. Each method raises OSError when the disk refuses.

    Attributes:
        path: of the first segment, absolute; reinstate may change it.
        notices: messages for the user about files that were found next to the tape.
    """

    path: Path
    notices: list[str]

    def create(self, segment: int) -> IO:
        """Make a new, empty segment. The first one has its name at once; FileExistsError if the name is taken.

        The others are not part of the tape until they are published.
        """

    def publish(self, segment: int) -> None:
        """Give a segment after the first its name, durably; replaces a segment of this tape with that name.

        FileExistsError if a file that is not part of this tape has the name.
        """

    def open(self, segment: int) -> IO:
        """Open an existing segment for reading and appending."""

    def remove(self, segment: int) -> None:
        """Remove a segment; a missing one is ignored."""

    def close(self, segment: int) -> None:
        """Close a finished segment."""

    def numbers(self) -> list[int]:
        """The numbers of the existing segments, ascending."""

    def set_aside(self, pieces: Iterable[bytes]) -> str:
        """Save bytes that are about to be truncated to a separate file, durably; return its name.

        Exceptions of pieces pass through; the file is removed then.
        """

    def map_journal(self, size: int, fill: Callable[[Buffer], None]) -> Buffer:
        """Make a journal of size bytes, fill it, then replace the current one with it; return its memory.

        The first one is durable when this returns, as it was filled.
        """

    def read_journal(self) -> bytes | None:
        """The bytes of the journal; None if there is no journal."""

    def remove_journal(self) -> None:
        """Remove the journal, durably; a missing one is ignored."""

    def has_journal(self) -> bool:
        """False if the journal that was mapped no longer has its name, so that a kill would lose its ticks."""

    def reinstate(self) -> str:
        """Write files that were removed, moved or replaced from outside again, under a free name.

        Returns what happened, for the user; an empty text if nothing did.
        """

    def release(self) -> None:
        """Close everything; appended data stays."""

    def discard(self) -> None:
        """Close everything, and remove all files that were made for a tape that could not be started."""

    def disown(self) -> None:
        """In a forked child: close everything, and leave the files to the parent."""
