"""How a line about the steps of a search tells the intervals that were skipped."""

from __future__ import annotations

from typing import Protocol

from recorder.text import counted


class _Answer(Protocol):
    @property
    def intervals(self) -> int: ...
    @property
    def skipped_intervals(self) -> int: ...


def skipped_text(answer: _Answer) -> str:
    """The end of a line about steps: how many intervals were skipped; empty if none were."""
    if not answer.skipped_intervals:
        return ""
    return f"; {answer.skipped_intervals:,} of {counted(answer.intervals, 'interval')} skipped"
