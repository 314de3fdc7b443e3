"""The reason why a run is over, and what the tape says of its end."""

from __future__ import annotations

from typing import Any

from recorder.errors import RecordingWarning
from recorder.runs.input_source import InputSource
from recorder.runs.scores import SCORES, scores_of, world_of
from recorder.session.recorder import Recorder
from recorder.session.run_end import end_outcome, exception_text
from sim.user_warning import warn_user


def outcome_at(recorder: Recorder, input_source: InputSource, last_tick: int) -> dict[str, Any] | None:
    """Return the outcome to write to the tape if the run is over at the current tick, else None."""
    tick, reason = recorder.tick, input_source.tick_limit_reason
    end = end_outcome(recorder.simulation, tick)
    if tick >= last_tick and (end is None or reason != "ticks"):  # A world that names this end gives it priority.
        return {"reason": reason, "ticks": tick} | ({"text": "the last tick, as asked"} if reason != "ticks" else {})
    return end


def end_with_scores(recorder: Recorder, end: dict[str, Any]) -> dict[str, Any]:
    """Add the scores of the current state to the end of a run, if its world has some.

    A world that raises here has no scores, and a warning says why: the run itself has ended well.
    """
    installed = world_of(recorder.meta)
    if installed is None:
        return end
    try:
        scores = scores_of(*installed, recorder.simulation.state)
    except Exception as error:  # noqa: BLE001 - a world may raise anything; the tape is sealed as it would be without scores.
        warn_user(f"the end is written without scores: {exception_text(error)}", RecordingWarning)
        return end
    return end | ({SCORES: scores} if scores else {})
