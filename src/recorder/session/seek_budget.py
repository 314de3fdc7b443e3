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
        self._keyframe_ms: float | None = None

    def is_due(self, start_ns: int) -> bool:
        """Note a step that has ended; whether the next one should have a keyframe.

        start_ns: when it began, by time.perf_counter_ns.
        """
        self._spent_ms += (time.perf_counter_ns() - start_ns) / 1e6
        return self._spent_ms >= self._most_ms()

    def note_keyframe(self, start_ns: int) -> None:
        """Note a keyframe that was put, from start_ns until now."""
        took_ms = (time.perf_counter_ns() - start_ns) / 1e6
        known_ms = self._keyframe_ms
        self._keyframe_ms = took_ms if known_ms is None else (known_ms + took_ms) / 2  # Full ones and deltas differ.
        self._spent_ms = 0.0

    def _most_ms(self) -> float:
        """What the steps between two keyframes may take."""
        keyframe_ms = self._keyframe_ms or 0.0
        within = max(self._budget_ms - READ_FACTOR * keyframe_ms, STEPS_SHARE_MIN * self._budget_ms)
        affordable = keyframe_ms * (1 - KEYFRAME_SHARE_MAX) / KEYFRAME_SHARE_MAX
        if affordable > within and not self._has_told:
            self._has_told = True
            self._tell(
                f"seek_budget_ms={self._budget_ms:g} cannot be kept: a keyframe takes {keyframe_ms:.1f} ms of the "
                f"run, and more of them would slow it by more than {KEYFRAME_SHARE_MAX:.0%}; seeks take about "
                f"{affordable + READ_FACTOR * keyframe_ms:.0f} ms"
            )
        return max(within, affordable)
