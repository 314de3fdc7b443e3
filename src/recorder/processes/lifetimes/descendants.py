"""Processes that a process has started: those of a pool wait for ever if the one that made it was ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


class _Process(Protocol):
    """Of subprocess or of multiprocessing."""

    @property
    def pid(self) -> int | None:
        """None before it was started."""

    def kill(self) -> None:
        """Send SIGKILL."""


# Python starts it for names of shared memory. It ends when all that use it have ended, and removes what they left then.
_TRACKER = b"multiprocessing.resource_tracker"


def children_of(thread: Path) -> list[int]:
    """The processes that a thread, a folder such as /proc/7/task/7, has started; none where that is not known.

    Raises OSError if the thread has ended.
    """
    try:
        return list(map(int, (thread / "children").read_text(encoding="ascii").split()))
    except FileNotFoundError:  # A kernel that was built without it.
        return []


def descendants_of(process_id: int) -> list[int]:
    """The processes that a process, and those that it started, have started; none where that is not known.

    Those of Python's that end by themselves are left out.
    """
    found: list[int] = []
    waiting = [process_id]
    while waiting:
        with contextlib.suppress(OSError, ValueError):  # Not Linux, or it has just ended.
            for thread in Path(f"/proc/{waiting.pop()}/task").iterdir():
                started = children_of(thread)
                found += started
                waiting += started
    return [one for one in found if not _ends_by_itself(one)]


def kill_with_descendants(process: _Process) -> None:
    """Kill a process and what it has started."""
    started = descendants_of(process.pid) if process.pid is not None else []
    process.kill()
    kill(started)


def kill(processes: Iterable[int]) -> None:
    """Kill processes. One that has ended already is none."""
    for one in processes:
        with contextlib.suppress(OSError):
            os.kill(one, signal.SIGKILL)


def _ends_by_itself(process_id: int) -> bool:
    try:
        return _TRACKER in Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return True
