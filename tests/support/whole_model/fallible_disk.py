"""The files of a tape on a disk that refuses, breaks off writes, and can be copied as it is at a moment.

A copy between two operations of the writer is what a killed process leaves: what was passed to the system is there, and
nothing else.
"""

from __future__ import annotations

import errno
import shutil
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from recorder.storage.file_interfaces import IO, Buffer
from recorder.storage.file_names import JOURNAL_SUFFIX
from recorder.storage.tape_files import TapeFiles

READ_CODES = (errno.EIO, errno.ESTALE)
WRITE_CODES = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
PACKAGES = tuple(f"/src/{name}/" for name in ("sim", "recorder", "replayer"))


class Disk:
    """What happens to the calls of a writer.

    Attributes:
        lock: held during each call, so that a copy sees the files between two of them.
        refused: the number of calls that were refused.
        unsynced: True once a sync was refused: files may be written again then.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.refused, self.unsynced = 0, False
        self._error: BaseException | None = None
        self._calls_before = self._count = 0
        self._kept = 0.0

    def refuse(self, error: BaseException, calls_before: int, count: int, kept: float) -> None:
        """Let some calls pass, then refuse so many. kept: the part of a refused append that is in the file."""
        with self.lock:
            self._error, self._calls_before, self._count, self._kept = error, calls_before, count, kept

    def recover(self) -> None:
        """Refuse nothing more."""
        with self.lock:
            self._error = None

    @property
    def is_failing(self) -> bool:
        """True while it may refuse."""
        return self._error is not None

    def check(self, kept_of: Callable[[float], object] | None = None) -> None:
        """Raise if the call is to be refused."""
        if self._error is None:
            return
        if self._calls_before:
            self._calls_before -= 1
            return
        error, self._count = self._error, self._count - 1
        self.refused += 1
        if self._count <= 0:
            self._error = None
        if kept_of is not None:
            kept_of(self._kept)
        raise type(error)(*error.args)

    def copy(self, path: Path, folder: Path) -> Path:
        """Copy the files of a tape as a kill at this moment would leave them; return the new path."""
        with self.lock:
            for file in sorted(path.parent.iterdir()):
                if file.name.startswith(path.name):
                    shutil.copyfile(file, folder / file.name)
        return folder / path.name


class FallibleIO:
    """One open file on a fallible disk."""

    def __init__(self, io: IO, disk: Disk) -> None:
        self._io, self._disk = io, disk
        self.pread, self.size = io.pread, io.size

    def append(self, data: bytes) -> None:
        """See IO."""
        with self._disk.lock:
            self._disk.check(lambda kept: self._io.append(data[: int(len(data) * kept)]))
            self._io.append(data)

    def fdatasync(self) -> None:
        """See IO."""
        with self._disk.lock:
            try:
                self._disk.check()
            except BaseException:
                self._disk.unsynced = True
                raise

    def truncate(self, size: int) -> None:
        """See IO."""
        with self._disk.lock:
            self._disk.check()
            self._io.truncate(size)


class FallibleFiles(TapeFiles):
    """The files of a tape on a fallible disk."""

    def __init__(self, path: Any, disk: Disk) -> None:
        super().__init__(path)
        self.disk = disk

    def create(self, segment: int) -> IO:
        """See Files."""
        with self.disk.lock:
            self.disk.check()
            return FallibleIO(super().create(segment), self.disk)

    def publish(self, segment: int) -> None:
        """See Files."""
        with self.disk.lock:
            self.disk.check()
            super().publish(segment)

    def open(self, segment: int) -> IO:
        """See Files."""
        with self.disk.lock:
            self.disk.check()
            return FallibleIO(super().open(segment), self.disk)

    def remove(self, segment: int) -> None:
        """See Files."""
        with self.disk.lock:
            self.disk.check()
            super().remove(segment)

    def set_aside(self, pieces: Iterable[bytes]) -> str:
        """See Files."""
        with self.disk.lock:
            self.disk.check()
            return super().set_aside(pieces)

    def map_journal(self, size: int, fill: Callable[[Buffer], None]) -> Buffer:
        """See Files."""
        with self.disk.lock:
            self.disk.check()
            return super().map_journal(size, fill)

    def remove_journal(self) -> None:
        """See Files."""
        with self.disk.lock:
            self.disk.check()
            super().remove_journal()


class Interruption:
    """Raises once: at a read of a tape, or at the call of any function of ours, as if memory had run out there."""

    def __init__(self) -> None:
        self.happened = False
        self._error: BaseException | None = None
        self._calls_before = 0

    def wrapped(self, read: Callable[..., bytes]) -> Callable[..., bytes]:
        """A function that reads, and may fail."""

        def fallible(*arguments: Any) -> bytes:
            if self._error is not None:
                self._count_down()
            return read(*arguments)

        return fallible

    def _count_down(self) -> None:
        self._calls_before -= 1
        if self._calls_before < 0 and self._error is not None:
            error, self._error = self._error, None
            self.happened = True
            raise error

    def at_read(self, error: BaseException, calls_before: int) -> None:
        """Raise at a later read."""
        self._error, self._calls_before, self.happened = error, calls_before, False

    def at_call(self, calls_before: int) -> None:
        """Raise MemoryError at a later call in this thread of a function of the packages."""
        self._error, self._calls_before, self.happened = None, calls_before, False
        left = calls_before

        def profile(frame: FrameType, event: str, _: Any) -> None:
            nonlocal left
            name = frame.f_code.co_filename
            if event == "call" and any(package in name for package in PACKAGES) and _may_raise(frame):
                left -= 1
                if left < 0:
                    self.happened = True
                    sys.setprofile(None)
                    raise MemoryError

        sys.setprofile(profile)

    def off(self) -> None:
        """Raise nothing more."""
        sys.setprofile(None)
        self._error = None


def _may_raise(frame: FrameType) -> bool:
    """Python ignores what is raised where an object is finalised."""
    return frame.f_code.co_name not in {"__del__", "__exit__", "close", "off"} and frame.f_code.co_flags & 0x20 == 0


def without_journal(path: Path) -> list[Path]:
    """The files of a tape's blocks, in order."""
    names = [file for file in path.parent.iterdir() if file.name.startswith(path.name)]
    numbered = [(file.name.removeprefix(path.name).lstrip("."), file) for file in names]
    return [
        file
        for number, file in sorted(numbered, key=lambda pair: int(pair[0] or 0) if _is_number(pair[0]) else -1)
        if _is_number(number)
    ]


def _is_number(text: str) -> bool:
    return not text or text.isdigit()


def journal_of(path: Path) -> Path:
    """The journal of a tape."""
    return path.with_name(path.name + JOURNAL_SUFFIX)
