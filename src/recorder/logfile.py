"""Append to one file and make it durable: the only module that writes a recording to the disk.

Invariants:
    1. Bytes are only ever added at the end; none is written twice.
    2. One writer a file: it is created anew and held under an exclusive lock until it is closed.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol


class AppendLog(Protocol):
    """What the writer needs of a file. Each method raises OSError when the disk says no."""

    def append(self, data: bytes) -> None:
        """Add data at the end, all of it."""

    def sync(self) -> None:
        """Return when all that was appended is on stable storage."""

    def close(self) -> None:
        """Give the file back; appended data stays."""


class LogFile:
    """A file that is created for one recording."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Create the file at path.

        Raises FileExistsError if there is something at path already, other OSErrors as the system says.
        """
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sync_folder(Path(path).parent)
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, data: bytes) -> None:
        """See AppendLog. A short write, as on a disk that fills up, is carried on until the system refuses."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        """See AppendLog."""
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """See AppendLog."""
        os.close(self._descriptor)


def _sync_folder(folder: Path) -> None:
    """Make the file's name durable: a synced file in an unsynced folder can vanish with the power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
