"""The reason why a run is over."""

from __future__ import annotations

from typing import Any

from recorder.runs.input_source import InputSource
from recorder.session.recorder import Recorder
from recorder.session.session import end_outcome


def outcome_at(recorder: Recorder, input_source: InputSource, last_tick: int) -> dict[str, Any] | None:
    """Return the outcome to write to the tape if the run is over at the current tick, else None."""
    tick, reason = recorder.tick, input_source.tick_limit_reason
    end = end_outcome(recorder.simulation, tick)
    if tick >= last_tick and (end is None or reason != "ticks"):  # A world that names this end gives it priority.
        return {"reason": reason, "ticks": tick} | ({"text": "the last tick, as asked"} if reason != "ticks" else {})
    return end
