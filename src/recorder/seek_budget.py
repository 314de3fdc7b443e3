"""When the next keyframe is due, if that is to be known from how long a seek may take.

A seek reads a keyframe and runs the steps behind it, each of which costs about what it cost when it was recorded. So a
keyframe is due when the steps since the last one have taken what the budget leaves for them; if steps become slower,
keyframes come sooner.
"""

from __future__ import annotations

import time
from collections.abc import Callable

KEYFRAME_SHARE_MAX = 0.2  # Of the run's time, for keyframes, whatever the budget says.
# A full keyframe is read in up to ten times what it takes to copy the state (T6 of the design's targets), and a delta
# upon it in about as much again; what recording it cost the simulation's thread is about one copy.
READ_FACTOR = 10.0
STEPS_SHARE_MIN = 0.25  # Of the budget, for steps, where reading alone would take all of it.


class SeekBudget:
    """Adds up what steps cost since the last keyframe."""

    def __init__(self, budget_ms: float, tell: Callable[[str], None]) -> None:
        """tell: takes a sentence for the user, if the budget cannot be kept."""
        self._budget_ms = budget_ms
        self._tell = tell
        self._has_told = False
        self._spent_ms = 0.0
        self._steps = 0
        self._keyframe_ms = 0.0

    def is_due(self, start_ns: int, *, with_keyframe: bool) -> bool:
        """Note a step; whether the next one should have a keyframe.

        start_ns: when it began, by time.perf_counter_ns. with_keyframe: this one has had a keyframe.
        """
        elapsed_ms = (time.perf_counter_ns() - start_ns) / 1e6
        if with_keyframe:
            mean_ms = self._spent_ms / self._steps if self._steps else 0.0
            self._keyframe_ms = max(0.0, elapsed_ms - mean_ms)
            self._spent_ms, self._steps = 0.0, 0
            return False
        self._spent_ms += elapsed_ms
        self._steps += 1
        return self._spent_ms >= self._most_ms()

    def _most_ms(self) -> float:
        """What the steps between two keyframes may take."""
        within = max(self._budget_ms - READ_FACTOR * self._keyframe_ms, STEPS_SHARE_MIN * self._budget_ms)
        affordable = self._keyframe_ms * (1 - KEYFRAME_SHARE_MAX) / KEYFRAME_SHARE_MAX
        if affordable > within and not self._has_told:
            self._has_told = True
            self._tell(
                f"seek_budget_ms={self._budget_ms:g} cannot be kept: a keyframe takes {self._keyframe_ms:.1f} ms of the "
                f"run, and more of them would slow it by more than {KEYFRAME_SHARE_MAX:.0%}; seeks take about "
                f"{affordable + READ_FACTOR * self._keyframe_ms:.0f} ms"
            )
        return max(within, affordable)
