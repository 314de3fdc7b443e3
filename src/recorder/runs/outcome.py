"""The reason for which a run is over."""

from __future__ import annotations

from typing import Any

from recorder.runs.input_source import InputSource
from recorder.session.recorder import Recorder
from sim.kernel.simulation import end_of


def outcome_at(recorder: Recorder, input_source: InputSource, last_tick: int) -> dict[str, Any] | None:
    """Why the run is over as of the present tick, as the tape's outcome; None if it is not."""
    tick = recorder.tick
    if tick >= last_tick:
        reason = input_source.tick_limit_reason
        return {"reason": reason, "ticks": tick} | ({"text": "the last tick, as asked"} if reason != "ticks" else {})
    found = end_of(recorder.simulation)
    return {"reason": found[0], "text": found[1], "ticks": tick} if found is not None else None
