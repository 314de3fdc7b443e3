"""The files of one tape: the only module that writes a recording to the disk.

Invariants:
    1. Bytes of a segment are only ever added at the end; none is written twice. Truncating takes away what a failed or
       killed append left half written, nothing else.
    2. One writer a tape: its first segment is held under an exclusive lock until the writer is gone.
    3. A file's name is durable before anything that is written into it counts.
    4. No file that this tape did not make or open is written to, replaced or removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from recorder.errors import CorruptError, UnsupportedVersionError
from recorder.format.blocks.journal_bytes import AREA_BYTES_MAX, decode_journal, journal_bytes
from recorder.storage.atomic_file import give_name, sync_folder
from recorder.storage.file_names import (
    following_segments,
    journal_path,
    new_path,
    segment_numbers,
    segment_path,
    torn_path,
    unfinished_paths,
)

FILE_MODE = 0o644
LOCK_S_MAX = 0.1  # How long a lock is asked for: a writer holds it for its whole life, a reader for microseconds.
TILDE = " (~ stands for no folder here: expand it, os.path.expanduser)"
TAPE_EXISTS = "exists already: choose another name, or go on with it by recorder.resume"
NOT_OURS = "this file is no part of the recording, which needs the name: move it away"

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
    """Where the files of one tape are. Each method raises OSError when the disk says no.

    Attributes:
        notices: what whoever records should be told of what was found beside the tape.
    """

    notices: list[str]

    def create(self, segment: int) -> IO:
        """A new segment, empty. The first one has its name at once; FileExistsError if there is one of that name.

        The others are no part of the tape until they are published.
        """

    def publish(self, segment: int) -> None:
        """Give a segment behind the first its name, durably; a segment of ours of that name is gone in the same moment.

        FileExistsError if somebody else's file has the name.
        """

    def open(self, segment: int) -> IO:
        """A segment that is there, to be read and written on."""

    def remove(self, segment: int) -> None:
        """Take a segment away; one that is not there is fine."""

    def close(self, segment: int) -> None:
        """Close a segment that is finished."""

    def numbers(self) -> list[int]:
        """The segments that are there, ascending."""

    def set_aside(self, pieces: Iterable[bytes]) -> str:
        """Keep bytes that are about to be cut off in a file of their own, durably; its name.

        What pieces raises passes through; there is no such file then.
        """

    def map_journal(self, size: int, fill: Callable[[Buffer], None]) -> Buffer:
        """A journal of size zero bytes, filled before it takes the place of the one that is there; its memory."""

    def read_journal(self) -> bytes:
        """The journal, or nothing if there is none."""

    def remove_journal(self) -> None:
        """Take the journal away; none is fine."""

    def release(self) -> None:
        """Close everything; appended data stays."""

    def discard(self) -> None:
        """Take away all that was made for a tape that has come to nothing, and close everything."""

    def disown(self) -> None:
        """In a forked child: close everything, and leave what is on the disk to the parent."""


class TapeFile:
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
        """path: of the first segment; what it is relative to is the folder that the process is in now."""
        self.path = Path(path).absolute()
        self._given = Path(path)  # For messages: as the user knows it.
        self.notices: list[str] = []
        self._open: dict[int, TapeFile] = {}
        self._own: set[int] = set()  # Segments that have their names from us, or were opened as the tape's.
        self._new: tuple[TapeFile, Path] | None = None  # Created and not published yet.

    def create(self, segment: int) -> IO:
        """See Files. What an earlier recording of this name has left refuses a new one."""
        if segment == 0:
            self._ensure_nothing_is_left()
            return self._take_first(os.O_CREAT | os.O_EXCL)
        self._forget_new()
        path = new_path(segment_path(self.path, segment))
        path.unlink(missing_ok=True)  # Never truncated: where publish failed half way, a segment may be called so, too.
        self._new = TapeFile(_open(path, os.O_CREAT | os.O_EXCL)), path
        return self._new[0]

    def publish(self, segment: int) -> None:
        """See Files."""
        assert self._new is not None, "publish comes after create"
        file, new = self._new
        path = segment_path(self.path, segment)
        if segment in self._own:
            new.replace(path)
        else:
            give_name(new, path, NOT_OURS)
            self._own.add(segment)
        sync_folder(self.path.parent)
        self.close(segment)
        self._open[segment], self._new = file, None

    def _forget_new(self) -> None:
        """Take away what was created and not published."""
        if self._new is not None:
            (file, new), self._new = self._new, None
            os.close(file.descriptor)
            new.unlink(missing_ok=True)

    def _ensure_nothing_is_left(self) -> None:
        if not self.path.parent.exists():
            hint = TILDE if os.fspath(self._given).startswith("~") else ""
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT) + hint, os.fspath(self._given.parent))
        if os.path.lexists(self.path):
            raise FileExistsError(errno.EEXIST, TAPE_EXISTS, os.fspath(self._given))
        left = following_segments(self.path)
        if left:
            path = self._shown(segment_path(self.path, left[0]))
            raise FileExistsError(errno.EEXIST, "a file of an earlier recording of this name is there", path)

    def open(self, segment: int) -> IO:
        """See Files. BlockingIOError if another process writes this tape."""
        if segment == 0:
            return self._take_first(0)
        self._open[segment] = TapeFile(_open(segment_path(self.path, segment), 0))
        self._own.add(segment)
        return self._open[segment]

    def _take_first(self, more_flags: int) -> TapeFile:
        """Lock the tape, and take away what a killed process was in the midst of making."""
        try:
            file = TapeFile(_open(self.path, more_flags))
        except OSError as error:
            error.filename = os.fspath(self._given)
            raise
        try:
            lock(file.descriptor, self._given)
            for path in unfinished_paths(self.path):
                path.unlink()
            if more_flags:
                self._put_away_journal()
                sync_folder(self.path.parent)
        except BaseException:
            os.close(file.descriptor)
            if more_flags:
                self.path.unlink(missing_ok=True)
            raise
        self._open[0] = file
        self._own.add(0)
        return file

    def _put_away_journal(self) -> None:
        """See to it that the journal of a tape that is gone is not taken for the new one's; its ticks are kept."""
        path = journal_path(self.path)
        try:
            with path.open("rb") as file:
                data = file.read(journal_bytes(AREA_BYTES_MAX))
        except FileNotFoundError:
            return
        try:
            worth_keeping = bool(decode_journal(data).frames)
        except (CorruptError, UnsupportedVersionError):
            worth_keeping = bool(data.strip(b"\0"))
        if not worth_keeping:
            path.unlink()
            return
        aside = torn_path(self.path)
        path.rename(aside)
        self.notices.append(
            f"{self._shown(path)} was left by a recording whose tape is gone: it is kept as {self._shown(aside)}"
        )

    def _shown(self, path: Path) -> str:
        """What to call a file beside the tape in a message."""
        return os.fspath(self._given.parent / path.name)

    def remove(self, segment: int) -> None:
        """See Files."""
        self.close(segment)
        segment_path(self.path, segment).unlink(missing_ok=True)
        self._own.discard(segment)
        sync_folder(self.path.parent)  # Else a power cut may bring it back, and leave a gap behind it.

    def close(self, segment: int) -> None:
        """See Files. The first one holds the lock: it is closed last."""
        file = self._open.pop(segment, None)
        if file is not None:
            os.close(file.descriptor)

    def numbers(self) -> list[int]:
        """See Files."""
        return segment_numbers(self.path)

    def set_aside(self, pieces: Iterable[bytes]) -> str:
        """See Files."""
        path = torn_path(self.path)
        file = TapeFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
        try:
            for piece in pieces:
                file.append(piece)
            file.fdatasync()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(file.descriptor)
        sync_folder(path.parent)
        return self._shown(path)

    def map_journal(self, size: int, fill: Callable[[Buffer], None]) -> Buffer:
        """See Files. The blocks are allocated first: a store into a hole of a full disk would kill the process."""
        path = journal_path(self.path)
        new = new_path(path)
        try:
            descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            try:
                os.posix_fallocate(descriptor, 0, size)
                memory = mmap.mmap(descriptor, size)
            finally:
                os.close(descriptor)
            fill(memory)
            new.replace(path)
        except BaseException as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise OSError(error.errno, f"{error.strerror}; it takes {size:,} bytes", self._shown(path)) from error
            raise
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
        self._forget_new()
        for segment in sorted(self._open, reverse=True):  # The first segment, which holds the lock, last.
            self.close(segment)

    def discard(self) -> None:
        """See Files."""
        self._forget_new()
        self.remove_journal()
        for segment in sorted(self._own, reverse=True):
            self.close(segment)
            segment_path(self.path, segment).unlink(missing_ok=True)
        self._own.clear()

    def disown(self) -> None:
        """See Files. The lock is the parent's as long as the parent has the file open."""
        if self._new is not None:
            (file, _), self._new = self._new, None
            os.close(file.descriptor)
        self.release()


def _open(path: Path, more_flags: int) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | more_flags, FILE_MODE)


def lock(descriptor: int, path: Path, refusal: str = "another process is recording into this tape") -> None:
    """Be the only writer of a file. Raises BlockingIOError, which says refusal, if there is another one.

    Whoever asks whether a tape is being written holds it for a moment: that is waited for.
    """
    deadline_s = time.monotonic() + LOCK_S_MAX
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                raise BlockingIOError(errno.EWOULDBLOCK, refusal, str(path)) from None
            time.sleep(LOCK_S_MAX / 50)
        else:
            return
