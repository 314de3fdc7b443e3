"""The reason why a run is over."""

from __future__ import annotations

from typing import Any

from recorder.runs.input_source import InputSource
from recorder.session.recorder import Recorder
from sim.kernel.simulation import end_of


def outcome_at(recorder: Recorder, input_source: InputSource, last_tick: int) -> dict[str, Any] | None:
    """Return the outcome to write to the tape if the run is over at the current tick, else None."""
    tick = recorder.tick
    if tick >= last_tick:
        reason = input_source.tick_limit_reason
        return {"reason": reason, "ticks": tick} | ({"text": "the last tick, as asked"} if reason != "ticks" else {})
    end = end_of(recorder.simulation)
    return {"reason": end[0], "text": end[1], "ticks": tick} if end is not None else None
