"""The files of one tape: the only module that writes a recording to the disk.

Invariants:
    1. Bytes of a segment are only ever added at the end; none is written twice. Truncating takes away what a failed or
       killed append left half written, nothing else.
    2. One writer a tape: its first segment is held under an exclusive lock until the writer is gone.
    3. A file's name is durable before anything that is written into it counts.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from recorder.names import following_segments, journal_path, segment_numbers, segment_path, torn_path

FILE_MODE = 0o644

Buffer = bytearray | mmap.mmap  # What a journal is written into.


class IO(Protocol):
    """One open file. Each method raises OSError when the disk says no."""

    def append(self, data: bytes) -> None:
        """Add data at the end, all of it; if it raises, a part of data may have been added."""

    def pread(self, offset: int, size: int) -> bytes:
        """Up to size bytes from offset on; fewer only at the end of the file."""

    def fdatasync(self) -> None:
        """Return when all that was appended is on stable storage."""

    def size(self) -> int:
        """How long the file is, in bytes."""

    def truncate(self, size: int) -> None:
        """Cut the file off after size bytes."""


class Files(Protocol):
    """Where the files of one tape are. Each method raises OSError when the disk says no."""

    def create(self, segment: int) -> IO:
        """A new segment, empty, its name durable. FileExistsError if there is one."""

    def open(self, segment: int) -> IO:
        """A segment that is there, to be read and written on."""

    def remove(self, segment: int) -> None:
        """Take a segment away; one that is not there is fine."""

    def close(self, segment: int) -> None:
        """Close a segment that is finished."""

    def numbers(self) -> list[int]:
        """The segments that are there, ascending."""

    def set_aside(self, data: bytes) -> str:
        """Keep bytes that are about to be cut off in a file of their own, durably; its name."""

    def map_journal(self, size: int, fill: Callable[[Buffer], None]) -> Buffer:
        """A journal of size zero bytes, filled before it takes the place of the one that is there; its memory."""

    def read_journal(self) -> bytes:
        """The journal, or nothing if there is none."""

    def remove_journal(self) -> None:
        """Take the journal away; none is fine."""

    def release(self) -> None:
        """Close everything; appended data stays."""


class LogFile:
    """A file of the operating system."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def append(self, data: bytes) -> None:
        """See IO. A short write, as on a disk that fills up, is carried on until the system refuses."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.descriptor, rest) :]

    def pread(self, offset: int, size: int) -> bytes:
        """See IO."""
        return os.pread(self.descriptor, size, offset)

    def fdatasync(self) -> None:
        """See IO."""
        os.fdatasync(self.descriptor)

    def size(self) -> int:
        """See IO."""
        return os.fstat(self.descriptor).st_size

    def truncate(self, size: int) -> None:
        """See IO."""
        os.ftruncate(self.descriptor, size)


class TapeFiles:
    """The files of a tape in a folder."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """path: of the first segment."""
        self.path = Path(path)
        self._open: dict[int, LogFile] = {}

    def create(self, segment: int) -> IO:
        """See Files. Before a new tape, what an earlier one of this name has left: its segments refuse it."""
        if segment == 0:
            self._ensure_nothing_is_left()
        return self._take(segment, os.O_CREAT | os.O_EXCL)

    def _ensure_nothing_is_left(self) -> None:
        left = following_segments(self.path)
        if left and not os.path.lexists(self.path):
            path = os.fspath(segment_path(self.path, left[0]))
            raise FileExistsError(errno.EEXIST, "a file of an earlier recording of this name is there", path)

    def open(self, segment: int) -> IO:
        """See Files. BlockingIOError if another process writes this tape."""
        return self._take(segment, 0)

    def _take(self, segment: int, more_flags: int) -> LogFile:
        path = segment_path(self.path, segment)
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | more_flags
        file = LogFile(os.open(path, flags, FILE_MODE))
        try:
            if segment == 0:
                _lock(file.descriptor, path)
            if more_flags:
                if segment == 0:
                    self.remove_journal()  # Without its tape it is of no use, and it could be taken for the new one's.
                sync_folder(path.parent)
        except BaseException:
            os.close(file.descriptor)
            if more_flags:
                path.unlink(missing_ok=True)
            raise
        self._open[segment] = file
        return file

    def remove(self, segment: int) -> None:
        """See Files."""
        self.close(segment)
        segment_path(self.path, segment).unlink(missing_ok=True)
        sync_folder(self.path.parent)  # Else a power cut may bring it back, and leave a gap behind it.

    def close(self, segment: int) -> None:
        """See Files. The first one holds the lock: it is closed last."""
        file = self._open.pop(segment, None)
        if file is not None:
            os.close(file.descriptor)

    def numbers(self) -> list[int]:
        """See Files."""
        return segment_numbers(self.path)

    def set_aside(self, data: bytes) -> str:
        """See Files."""
        path = torn_path(self.path)
        file = LogFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        try:
            file.append(data)
            file.fdatasync()
        finally:
            os.close(file.descriptor)
        sync_folder(path.parent)
        return os.fspath(path)

    def map_journal(self, size: int, fill: Callable[[Buffer], None]) -> Buffer:
        """See Files. The blocks are allocated first: a store into a hole of a full disk would kill the process."""
        path = journal_path(self.path)
        new = Path(f"{path}.new")
        descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            os.posix_fallocate(descriptor, 0, size)
            memory = mmap.mmap(descriptor, size)
            fill(memory)
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        return memory

    def read_journal(self) -> bytes:
        """See Files."""
        try:
            return journal_path(self.path).read_bytes()
        except FileNotFoundError:
            return b""

    def remove_journal(self) -> None:
        """See Files."""
        journal_path(self.path).unlink(missing_ok=True)

    def release(self) -> None:
        """See Files."""
        for segment in sorted(self._open, reverse=True):  # The first segment, which holds the lock, last.
            self.close(segment)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(errno.EWOULDBLOCK, "another process is recording into this tape", str(path)) from None


def sync_folder(folder: Path) -> None:
    """Make a file's name durable: a synced file in an unsynced folder can vanish with the power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
