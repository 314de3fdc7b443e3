"""Decide when the next keyframe is due from the time that a seek may take, or that steps take.

A seek reads a keyframe and runs the steps after it. Each step costs about what it cost when it was recorded. A keyframe
is therefore due when the steps since the last one have used the budget's share for steps. If steps become slower,
keyframes come sooner.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable

KEYFRAME_SHARE_MAX = 0.2  # Of the run's time, for keyframes, for any budget.
# Reading a full keyframe takes up to ten times as long as copying the state (T6 of the design's targets). A delta based
# on it takes about as long again. Recording one costs the simulation's thread about one copy.
READ_FACTOR = 10.0
STEPS_SHARE_MIN = 0.25  # Of the budget, for steps, if reading alone would take all of it.
SLOW_STEP_SHARE_MAX = 0.1  # Of the run's time, for the keyframes that come early because steps are slow.


class KeyframeTimer(abc.ABC):
    """Decides by the time that steps take when a keyframe is due.

    Attributes:
        spent_ns: what the steps since the last keyframe have taken.
        limit_ns: from that on a keyframe is due.
    """

    spent_ns: int
    limit_ns: int

    @abc.abstractmethod
    def restart(self) -> None:
        """Note that the limit was reached."""

    def is_due(self, start_ns: int) -> bool:
        """Note a step that has ended. Return True if the next one should have a keyframe.

        start_ns: when it began, by time.perf_counter_ns.
        """
        self.spent_ns += time.perf_counter_ns() - start_ns
        if self.spent_ns < self.limit_ns:
            return False
        self.restart()
        return True

    @abc.abstractmethod
    def note_keyframe(self, start_ns: int) -> None:
        """Note a keyframe that was put, from start_ns until now."""


class StepTimer(KeyframeTimer):
    """Has a keyframe taken early when the steps since the last one have taken some time.

    Keyframes take at most SLOW_STEP_SHARE_MAX of the run's time: if one takes long, the steps before it may, too.
    """

    def __init__(self, limit_ms: float) -> None:
        self.limit_ns = self._usual_ns = round(limit_ms * 1e6)
        self.spent_ns = 0

    def restart(self) -> None:
        """See KeyframeTimer. A keyframe that the writer has no room for is due again after as much time."""
        self.spent_ns = 0

    def note_keyframe(self, start_ns: int) -> None:
        """See KeyframeTimer."""
        took_ns = time.perf_counter_ns() - start_ns
        affordable_ns = round(took_ns * (1 - SLOW_STEP_SHARE_MAX) / SLOW_STEP_SHARE_MAX)
        self.limit_ns = max(self._usual_ns, affordable_ns)
        self.spent_ns = 0


class SeekBudget(KeyframeTimer):
    """Adds up the cost of the steps since the last keyframe."""

    def __init__(self, budget_ms: float, notify: Callable[[str], None]) -> None:
        """notify: called with a message for the user, once, if the budget cannot be kept."""
        self._budget_ms = budget_ms
        self._notify = notify
        self._has_notified = False
        self._keyframe_ms: float | None = None
        self.spent_ns, self.limit_ns = 0, round(self._most_ms() * 1e6)

    def restart(self) -> None:
        """See KeyframeTimer. A keyframe that the writer has no room for is due again at once."""

    def note_keyframe(self, start_ns: int) -> None:
        """See KeyframeTimer."""
        took_ms = (time.perf_counter_ns() - start_ns) / 1e6
        average_ms = self._keyframe_ms
        # Full ones and deltas differ.
        self._keyframe_ms = took_ms if average_ms is None else (average_ms + took_ms) / 2
        self.spent_ns, self.limit_ns = 0, round(self._most_ms() * 1e6)

    def _most_ms(self) -> float:
        """Return the time that the steps between two keyframes may take."""
        keyframe_ms = self._keyframe_ms or 0.0
        within = max(self._budget_ms - READ_FACTOR * keyframe_ms, STEPS_SHARE_MIN * self._budget_ms)
        affordable = keyframe_ms * (1 - KEYFRAME_SHARE_MAX) / KEYFRAME_SHARE_MAX
        if affordable > within and not self._has_notified:
            self._has_notified = True
            self._notify(
                f"seek_budget_ms={self._budget_ms:g} cannot be kept: a keyframe takes {keyframe_ms:.1f} ms of the "
                f"run, and more of them would slow it by more than {KEYFRAME_SHARE_MAX:.0%}; seeks take about "
                f"{affordable + READ_FACTOR * keyframe_ms:.0f} ms"
            )
        return max(within, affordable)
