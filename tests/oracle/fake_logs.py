"""Files that a recording is written to without a disk: in memory, behind a gate, failing at a chosen call."""

from __future__ import annotations

import errno
import threading
from typing import Any


class MemoryLog:
    """An AppendLog that keeps what is appended."""

    def __init__(self) -> None:
        self.data = b""
        self.append_count = 0
        self.sync_count = 0
        self.closed = False
        self.synced = threading.Event()

    def append(self, data: bytes) -> None:
        """Keep data."""
        self.append_count += 1
        self.data += data

    def sync(self) -> None:
        """Count, and tell who waits for it."""
        self.sync_count += 1
        self.synced.set()

    def close(self) -> None:
        """Remember that it was closed."""
        assert not self.closed
        self.closed = True


class GatedLog(MemoryLog):
    """An AppendLog whose calls wait until the gate is open: a disk that is slow for as long as a test likes."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def append(self, data: bytes) -> None:
        """Wait, then keep data."""
        assert self.gate.wait(30)
        super().append(data)


class FailingLog(MemoryLog):
    """An AppendLog whose k-th call of a method (from 1) fails, an append after part of the data was kept."""

    def __init__(self, method: str, k: int, kept: float = 0.0) -> None:
        super().__init__()
        self._method, self._k, self._kept = method, k, kept

    def append(self, data: bytes) -> None:
        """Keep data, or a part of it and fail as a full disk does."""
        if self._method == "append" and self.append_count + 1 == self._k:
            self.data += data[: int(len(data) * self._kept)]
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(data)

    def sync(self) -> None:
        """Count, or fail as a broken disk does."""
        if self._method == "sync" and self.sync_count + 1 == self._k:
            raise OSError(errno.EIO, "Input/output error")
        super().sync()


def use_log(monkeypatch: Any, log: MemoryLog) -> MemoryLog:
    """Let the next Recorder write to log instead of a file."""
    monkeypatch.setattr("recorder.recorder.LogFile", lambda _: log)
    return log
