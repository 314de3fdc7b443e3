"""The files of one tape: the only module that writes a recording to the disk.

Invariants:
    1. Bytes of a segment are only appended; none is written twice. Truncating only removes bytes that a failed or
       killed append left half written.
    2. One writer per tape: it holds an exclusive lock on the first segment until it ends.
    3. A file's name is durable before any of its content is used.
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

from recorder.errors import CorruptError, UnsupportedVersionError
from recorder.format.journal_bytes import AREA_BYTES_MAX, decode_journal, journal_bytes
from recorder.location.tape_location import tape_location
from recorder.location.tape_url import TapeUrl
from recorder.processes.private_memory import keep_shared
from recorder.storage.atomic_file import give_name, sync_folder
from recorder.storage.displaced_files import free_base, leads_to, new_name, what_happened, write_again
from recorder.storage.file_interfaces import IO, Buffer
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
LOCK_S_MAX = 0.1  # Retries to lock end after this time: a writer holds a lock until it ends, a reader for microseconds.
ZEROS_BYTES = 1 << 20  # That are written at once.
TILDE = " (~ is not expanded here: use os.path.expanduser)"
TAPE_EXISTS = "exists already: choose a different name, or continue it with recorder.resume"
COPY = "give a path, and copy the tape afterwards: replay ls FOLDER_URL --add TAPE"
NOT_OURS = "this file is not part of the recording, which needs the name: move it away"


class TapeFile:
    """A file of the operating system."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def append(self, data: bytes) -> None:
        """See IO. A short write, as on a disk that fills up, is continued until the system refuses."""
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
        """path: of the first segment; a relative path refers to the current folder at this moment."""
        given = tape_location(path)
        if isinstance(given, TapeUrl):
            raise ValueError(f"{given}: a run is recorded on this machine; {COPY}")  # noqa: TRY004 - the place, not its type
        self.path = given.absolute()
        self._given = given  # For messages: as the user knows it.
        self.notices: list[str] = []
        self._open: dict[int, TapeFile] = {}
        self._own: set[int] = set()  # Segments that were published or opened here.
        self._new: tuple[TapeFile, Path] | None = None  # Created and not published yet.
        self._journal: os.stat_result | None = None  # Of the file that was mapped.

    def create(self, segment: int) -> IO:
        """See Files. FileExistsError if an earlier recording of this name has left files."""
        if segment == 0:
            self.ensure_name_is_free()
            return self._take_first(os.O_CREAT | os.O_EXCL)
        self._forget_new()
        path = new_path(segment_path(self.path, segment))
        path.unlink(missing_ok=True)  # Never truncated: after a publish that failed, it may be a link to a segment.
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
        """Remove a segment that was created and not published."""
        if self._new is not None:
            (file, new), self._new = self._new, None
            os.close(file.descriptor)
            new.unlink(missing_ok=True)

    def ensure_name_is_free(self) -> None:
        """Raise FileExistsError for a name that is taken, FileNotFoundError for a folder that does not exist."""
        if not self.path.parent.exists():
            hint = TILDE if os.fspath(self._given).startswith("~") else "; make this folder first"
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT) + hint, os.fspath(self._given.parent))
        if os.path.lexists(self.path):
            raise FileExistsError(errno.EEXIST, TAPE_EXISTS, os.fspath(self._given))
        left_over = following_segments(self.path)
        if left_over:
            path = self._shown(segment_path(self.path, left_over[0]))
            raise FileExistsError(errno.EEXIST, "a file of an earlier recording has this name: move it away", path)

    def open(self, segment: int) -> IO:
        """See Files. BlockingIOError if a different process writes this tape."""
        if segment == 0:
            return self._take_first(0)
        self._open[segment] = TapeFile(_open(segment_path(self.path, segment), 0))
        self._own.add(segment)
        return self._open[segment]

    def _take_first(self, more_flags: int) -> TapeFile:
        """Lock the tape, and remove unfinished files of a killed process."""
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
        """Move the journal of a removed tape out of the way of the new one; its ticks are kept."""
        path = journal_path(self.path)
        try:
            with path.open("rb") as file:
                data = file.read(journal_bytes(AREA_BYTES_MAX))
        except FileNotFoundError:
            return
        try:
            is_worth_keeping = bool(decode_journal(data).frames)
        except (CorruptError, UnsupportedVersionError):
            is_worth_keeping = bool(data.strip(b"\0"))
        if not is_worth_keeping:
            path.unlink()
            return
        quarantined = torn_path(self.path)
        path.rename(quarantined)
        self.notices.append(
            f"{self._shown(path)} was left by a recording whose tape is gone: it is kept as {self._shown(quarantined)}"
        )

    def _shown(self, path: Path) -> str:
        """The name of a file next to the tape for a message."""
        return os.fspath(self._given.parent / path.name)

    def remove(self, segment: int) -> None:
        """See Files."""
        self.close(segment)
        segment_path(self.path, segment).unlink(missing_ok=True)
        self._own.discard(segment)
        sync_folder(self.path.parent)  # Otherwise a power cut may bring it back, with a gap after it.

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
        """See Files. The blocks are allocated first: a store into a hole of a full disk would kill the process.

        The first one is durable, with its name: in a tape of several files, a missing journal shows that a later file is
        missing, too. So a power cut may not take it. A larger one comes while the disk is slow, and waits for no sync.
        """
        path, is_first = journal_path(self.path), self._journal is None
        new = new_path(path)
        try:
            descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
            try:
                os.posix_fallocate(descriptor, 0, size)
                # One that grows is filled at once: the first store into a page that was written takes a quarter of the time.
                if not is_first:
                    _write_zeros(descriptor, size)
                memory = mmap.mmap(descriptor, size)
                keep_shared(memory)
                mapped = os.fstat(descriptor)
                fill(memory)
                if is_first:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            new.replace(path)
            if is_first:
                sync_folder(path.parent)
        except BaseException as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise OSError(error.errno, f"{error.strerror}; it needs {size:,} bytes", self._shown(path)) from error
            raise
        self._journal = mapped
        return memory

    def has_journal(self) -> bool:
        """See Files."""
        return self._journal is None or leads_to(journal_path(self.path), self._journal)

    def reinstate(self) -> str:
        """See Files. If the tape's name is taken, all of its files get the name of a rescued tape."""
        displaced = {
            segment: file.descriptor
            for segment, file in self._open.items()
            if not leads_to(segment_path(self.path, segment), os.fstat(file.descriptor))
        }
        if not displaced:
            return ""
        number, before = min(displaced), self.path
        name, moved = self._shown(segment_path(before, number)), None
        if self._own == {0}:  # Of several files the others would stay behind.
            moved = new_name(displaced[0])
        if moved is not None:
            self._rename_rest(moved, {0})
            return f"{name} was moved while it is recorded: it continues as {moved}"
        what, base = what_happened(segment_path(before, number), displaced[number]), free_base(before, displaced)
        for segment, descriptor in displaced.items():
            write_again(descriptor, segment_path(base, segment), _make_new if segment else _make_first)
        self._rename_rest(base, set(displaced))
        return f"{name} {what} while it is recorded: all of the tape is in {self._shown(base)}"

    def _rename_rest(self, base: Path, there: set[int]) -> None:
        """Give the tape the path base, and the files that are not there yet the names that belong to it."""
        before, self.path = self.path, base
        if base == before:
            return
        rest = [(segment_path(before, segment), segment_path(base, segment)) for segment in self._own - there]
        if self._journal is not None:
            rest.append((journal_path(before), journal_path(base)))
        for old, new in rest:
            if old.exists():
                give_name(old, new, NOT_OURS)

    def read_journal(self) -> bytes | None:
        """See Files."""
        try:
            return journal_path(self.path).read_bytes()
        except FileNotFoundError:
            return None

    def remove_journal(self) -> None:
        """See Files."""
        try:
            journal_path(self.path).unlink()
        except FileNotFoundError:
            return
        sync_folder(self.path.parent)  # Otherwise a power cut may bring its ticks back, after others in their place.

    def release(self) -> None:
        """See Files."""
        self._forget_new()
        for segment in sorted(self._open, reverse=True):  # The first segment, which holds the lock, last.
            self.close(segment)

    def discard(self) -> None:
        """See Files. A file that cannot be removed keeps no other one."""
        with contextlib.ExitStack() as every:  # All are called, the last one first, whatever the others raise.
            for segment in sorted(self._own):
                every.callback(segment_path(self.path, segment).unlink, missing_ok=True)
                every.callback(self.close, segment)
            every.callback(self.remove_journal)
            every.callback(self._forget_new)
            self._own = set()

    def disown(self) -> None:
        """See Files. The lock is the parent's as long as the parent has the file open."""
        if self._new is not None:
            (file, _), self._new = self._new, None
            os.close(file.descriptor)
        self.release()


def ensure_new(path: str | os.PathLike[str]) -> None:
    """Raise FileExistsError for the name of a tape that is taken, FileNotFoundError for a missing folder."""
    TapeFiles(path).ensure_name_is_free()


def _make_new(path: Path) -> int:
    return _open(path, os.O_CREAT | os.O_EXCL)


def _make_first(path: Path) -> int:
    """Create a file that replaces the first segment, which holds the lock."""
    descriptor = _make_new(path)
    lock(descriptor, path)
    return descriptor


def _open(path: Path, more_flags: int) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | more_flags, FILE_MODE)


def _write_zeros(descriptor: int, size: int) -> None:
    """Write zeros to the start of a file whose blocks are allocated."""
    place, zeros = 0, bytes(min(size, ZEROS_BYTES))
    while place < size:
        place += os.pwrite(descriptor, zeros[: size - place], place)


def lock(descriptor: int, path: Path, refusal: str = "another process is recording into this tape") -> None:
    """Become the only writer of a file. Raises BlockingIOError with the message refusal if there is a different writer.

    Retries for LOCK_S_MAX, since a check for a writer holds the lock for a moment.
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
