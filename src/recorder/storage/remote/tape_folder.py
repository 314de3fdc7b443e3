"""What the reader of a tape needs of its files and of their folder, on this machine or at a URL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from recorder.format.journal_bytes import JournalReader
from recorder.format.segments.contents_by_scan import ScanProgress


class OpenedFile(Protocol):
    """A file that is open for reading, and what has been read of it.

    Attributes:
        progress: of the scan of a segment.
        journal_reader: has decoded the records of a journal.
        reads_ahead: True if a short read makes the next ones nearby cheap.
    """

    reads_ahead: bool
    progress: ScanProgress
    journal_reader: JournalReader

    @property
    def size_bytes(self) -> int:
        """The size of the file."""

    @property
    def is_folder(self) -> bool:
        """True if it is a folder."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to size bytes from offset on. Raises ValueError after close, OSError."""

    def close(self) -> None:
        """Close it; a second call does nothing."""


class TapeFolder(Protocol):
    """The files of one tape."""

    def update(self) -> None:
        """Look at the folder again: what follows is as it is now. Raises OSError."""

    def open(self, number: int | None, before: OpenedFile | None) -> OpenedFile:
        """Open a segment, or the journal if number is None, or keep the one before if it is still the same file.

        Raises FileNotFoundError or another OSError.
        """

    def following(self) -> Sequence[int]:
        """The numbers of the existing segments after the first, ascending. Raises OSError."""

    def exists(self) -> bool:
        """Return True if there is a folder in which segments may be, even if the first one is missing."""

    def has_whole(self, number: int) -> bool:
        """Return True if the file is the segment of this number of a tape that is next to it, by their names."""
