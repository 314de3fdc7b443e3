"""The files of a tape without a disk: in memory, behind a gate, failing at a chosen call, cut off at any moment.

``MemoryFiles`` keeps a history of all operations. crash_images.py makes from it the disk after a kill or a power cut at
any moment.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs

from recorder.storage.file_interfaces import Buffer


@attrs.frozen
class Operation:
    """An operation on the files.

    Attributes:
        kind: create, publish, append, fdatasync, failed_fdatasync, truncate, remove, set_aside, map_journal or remove_journal.
        segment: number of the file.
        data: the appended or quarantined bytes.
        size: the size to which a file was truncated, or that of the journal.
        new: True for a segment that is not published yet.
    """

    kind: str
    segment: int = -1
    data: bytes = b""
    size: int = 0
    new: bool = False


class MemoryIO:
    """One file in memory."""

    def __init__(self, files: MemoryFiles, segment: int, data: bytearray) -> None:
        self.files = files
        self.segment = segment
        self.data = data
        self.sync_count = 0

    @property
    def is_new(self) -> bool:
        """True if it is not published yet."""
        return self.files.new.get(self.segment) is self.data

    def append(self, data: bytes) -> None:
        """See IO; a part of data may be kept when the call fails."""
        kept = self.files.happens("append")
        self.data.extend(data[: int(len(data) * kept)])
        self.files.note(Operation("append", self.segment, bytes(data[: int(len(data) * kept)]), new=self.is_new))
        self.files.refuse_if_asked()

    def pread(self, offset: int, size: int) -> bytes:
        """See IO."""
        self.files.happens("pread")
        self.files.refuse_if_asked()
        return bytes(self.data[offset : offset + size])

    def fdatasync(self) -> None:
        """See IO."""
        self.files.happens("fdatasync")
        self.sync_count += 1
        self.files.sync_attempts.append(self)
        try:
            self.files.refuse_if_asked()
        except OSError:
            self.files.note(Operation("failed_fdatasync", self.segment))
            raise
        self.files.note(Operation("fdatasync", self.segment))
        self.files.synced.set()

    def size(self) -> int:
        """See IO."""
        self.files.happens("size")
        self.files.refuse_if_asked()
        return len(self.data)

    def truncate(self, size: int) -> None:
        """See IO."""
        self.files.happens("truncate")
        self.files.refuse_if_asked()
        del self.data[size:]
        self.files.note(Operation("truncate", self.segment, size=size))


class MemoryFiles:
    """The files of one tape in memory.

    Attributes:
        segments: the bytes of each file.
        new: those of a segment that is not published yet.
        journal: the memory of the journal; None if there is none.
        aside: the quarantined bytes, in order.
        history: all operations that changed something.
        calls: the names of all methods that were called, in order.
        started: set by a test once its recorder has been made.
        released: True once the files were released.
    """

    def __init__(self) -> None:
        self.path = Path("in-memory.tape")
        self.notices: list[str] = []
        self.segments: dict[int, bytearray] = {}
        self.new: dict[int, bytearray] = {}
        self.journal: bytearray | None = None
        self.aside: list[bytes] = []
        self.history: list[Operation] = []
        self.calls: list[str] = []
        self.sync_attempts: list[MemoryIO] = []
        self.synced = threading.Event()
        self.released = False
        self.started = False
        self.after: Callable[[], None] = lambda: None  # Called after each change, to inspect the disk at that moment.
        self._refusal: OSError | None = None

    # --- overridden by the doubles below

    def happens(self, kind: str) -> float:
        """Called at each call; returns the part of an append that is kept."""
        self.calls.append(kind)
        return 1.0

    def refuse_if_asked(self) -> None:
        """Raise if happens returns a refusal."""
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    def note(self, operation: Operation) -> None:
        """Append to the history."""
        self.history.append(operation)
        self.after()

    # --- Files

    def create(self, segment: int) -> MemoryIO:
        """See Files."""
        self.happens("create")
        self.refuse_if_asked()
        if segment == 0 and self.segments:
            raise FileExistsError(errno.EEXIST, "File exists", str(segment))
        data = bytearray()
        if segment == 0:
            self.segments[0] = data
        else:
            self.new = {segment: data}
        self.note(Operation("create", segment, new=segment != 0))
        return MemoryIO(self, segment, data)

    def publish(self, segment: int) -> None:
        """See Files. If it fails, it may have happened: the name is given before it is made durable."""
        done = self.happens("publish") > 0
        if done:
            self.segments[segment] = self.new.pop(segment)
            self.note(Operation("publish", segment))
        self.refuse_if_asked()

    def open(self, segment: int) -> MemoryIO:
        """See Files."""
        self.happens("open")
        self.refuse_if_asked()
        if segment not in self.segments:
            raise FileNotFoundError(errno.ENOENT, "No such file", str(segment))
        return MemoryIO(self, segment, self.segments[segment])

    def remove(self, segment: int) -> None:
        """See Files."""
        self.happens("remove")
        self.refuse_if_asked()
        self.segments.pop(segment, None)
        self.note(Operation("remove", segment))

    def close(self, segment: int) -> None:
        """See Files."""

    def numbers(self) -> list[int]:
        """See Files."""
        return sorted(self.segments)

    def set_aside(self, pieces: Iterable[bytes]) -> str:
        """See Files."""
        data = b"".join(pieces)
        self.happens("set_aside")
        self.refuse_if_asked()
        self.aside.append(data)
        self.note(Operation("set_aside", data=data))
        return f"torn-{len(self.aside)}"

    def map_journal(self, size: int, fill: Callable[[Buffer], None]) -> bytearray:
        """See Files."""
        self.happens("map_journal")
        self.refuse_if_asked()
        memory = bytearray(size)
        fill(memory)
        self.journal = memory
        self.note(Operation("map_journal", size=size))
        return memory

    def read_journal(self) -> bytes:
        """See Files."""
        self.happens("read_journal")
        self.refuse_if_asked()
        return bytes(self.journal) if self.journal is not None else b""

    def remove_journal(self) -> None:
        """See Files."""
        self.happens("remove_journal")
        self.refuse_if_asked()
        self.journal = None
        self.note(Operation("remove_journal"))

    def has_journal(self) -> bool:
        """See Files."""
        return True

    def reinstate(self) -> str:
        """See Files. No other program reaches this memory."""
        return ""

    def release(self) -> None:
        """See Files."""
        self.released = True

    def discard(self) -> None:
        """See Files."""
        self.segments.clear()
        self.new.clear()
        self.journal = None
        self.released = True

    def disown(self) -> None:
        """See Files."""


class FailingFiles(MemoryFiles):
    """Files whose k-th call, of a kind or of any, fails: once, or from then on forever."""

    def __init__(
        self, k: int, kind: str | None = None, *, forever: bool = False, kept: float = 0.0, code: int = errno.ENOSPC
    ) -> None:
        """k: from 1; 0 for never. kept: the part of a failed append that is in the file."""
        super().__init__()
        self.k, self.kind, self.forever, self.kept, self.code = k, kind, forever, kept, code
        self.failed_calls = 0
        self.failed_kinds: set[str] = set()
        self._count = 0

    def happens(self, kind: str) -> float:
        """Count, and fail at the chosen call."""
        super().happens(kind)
        if self.kind not in {None, kind} or not self.k:
            return 1.0
        self._count += 1
        if self._count == self.k or (self.forever and self._count > self.k):
            self.failed_calls += 1
            self.failed_kinds.add(kind)
            self._refusal = OSError(self.code, errno.errorcode[self.code])
            return self.kept
        return 1.0

    def recover(self) -> None:
        """From now on nothing fails."""
        self.k = 0


class GatedFiles(MemoryFiles):
    """Files whose appends wait until the gate is open: a disk that is slow for as long as a test needs."""

    def __init__(self, free_appends: int = 2) -> None:
        """free_appends: the number of appends before: header and first keyframe, which a recorder waits for."""
        super().__init__()
        self.gate = threading.Event()
        self.is_held = threading.Event()  # An append waits at the gate.
        self._free = free_appends

    def happens(self, kind: str) -> float:
        """Wait for the gate."""
        if kind == "append":
            self._free -= 1
            if self._free < 0:
                self.is_held.set()
                assert self.gate.wait(30)
        return super().happens(kind)


def use_files(monkeypatch: Any, files: MemoryFiles) -> MemoryFiles:
    """Make the next Recorder write to these files instead of a folder."""
    monkeypatch.setattr("recorder.session.recorder.TapeFiles", lambda _: files)
    return files
