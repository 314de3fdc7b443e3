"""Notice a process that waits for something that never comes: it makes no progress and uses no processor time.

A forked copy lacks the threads of its parent. Its locks stay locked, and what a thread should answer has no answer.
"""

from __future__ import annotations

import time
from pathlib import Path

from recorder.processes.lifetimes.descendants import children_of
from recorder.processes.pool import WorkerDiedError

PATIENCE_S = (
    60  # Of re-simulations. A step that waits this long for another machine is rare; one that computes is never stuck.
)
_LOOK_S = 0.25
_SEEN_S_MAX = 2 * _LOOK_S  # What one look adds at most: this process may have been stopped meanwhile.
_BUSY_SHARE = 0.02  # A waiting process with a thread that polls something uses less than this of a processor.
_TICKS_A_SECOND = 100  # Of the kernel's clock of processor time, as /proc states it on all systems.
# States of threads that wait, and of processes that have ended; not of one that is ready, in the kernel, or stopped.
_WAITING = frozenset("SIZX")


class WorkerStuckError(WorkerDiedError):
    """A worker waited without end, and was ended.

    Attributes:
        what: its work, such as "simulated ticks 0 to 300".
        progress: the last progress of its item, in the work's own unit; None if it had made none.
        waited_s: the time for which it did nothing.
        reached: the last progress, for people; None for the number alone.
    """

    def __init__(self, what: str, progress: int | None, waited_s: float, reached: str | None = None) -> None:
        super().__init__(what)
        self.args = (what, progress, waited_s, reached)
        self.progress = progress
        self.waited_s = waited_s
        self.reached = reached

    def __str__(self) -> str:
        last = self.reached or (f"progress {self.progress:,}" if self.progress is not None else "its start")
        return (
            f"the process that {self.what} did nothing for {self.waited_s:g} s after {last}, and was ended: it waits for "
            "something, such as a lock or a thread"
        )


class Activity:
    """The time for which a process has done nothing, by repeated looks."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._looked_s = time.monotonic()
        self._idle_s = 0.0
        self._progress: object = None
        self._ticks = 0

    def idle_s(self, progress: object) -> float:
        """Return the seconds without a change of progress and without processor time. Looks a few times a second."""
        now_s = time.monotonic()
        seen_s = now_s - self._looked_s
        if progress != self._progress:
            self._progress, self._idle_s, self._looked_s = progress, 0.0, now_s
        elif seen_s >= _LOOK_S:
            self._looked_s = now_s
            ticks = waiting_ticks(self._process_id)
            allowed = max(1.0, _BUSY_SHARE * self._idle_s * _TICKS_A_SECOND)
            if ticks is None or not 0 <= ticks - self._ticks <= allowed:
                self._ticks, self._idle_s = ticks or 0, 0.0
            else:
                self._idle_s += min(seen_s, _SEEN_S_MAX)
        return self._idle_s


def waiting_ticks(process_id: int) -> int | None:
    """The processor time of a process and its children, in ticks of the kernel's clock, if all their threads wait.

    None if one of them does not, or where that is not known.
    """
    try:
        total = 0
        threads = list(Path(f"/proc/{process_id}/task").iterdir())
        for thread in threads:
            stat_line = (thread / "stat").read_text(encoding="utf-8", errors="replace")
            state, *figures = stat_line.rpartition(")")[2].split()
            if state not in _WAITING:
                return None
            total += int(figures[10]) + int(figures[11])  # proc(5): utime and stime, fields 14 and 15; state is 3.
            for child in children_of(thread):
                ticks = waiting_ticks(child)
                if ticks is None:
                    return None
                total += ticks
    except (OSError, ValueError):  # Not Linux, or it has just ended.
        return None
    return total
