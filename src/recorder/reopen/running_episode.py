"""Find the totals of an environment's episode in which a tape ends.

The steps since its reset are made again, unless they are many; then the totals are those that a closed tape states.
"""

from __future__ import annotations

from typing import Any

from recorder.errors import RecordingError
from recorder.format.recording.assembly import Assembled
from recorder.format.recording.recording import Recording
from sim.adapters.interface.running_episode import RunningEpisode

STEPS_MAX = 10_000  # Seconds, for most environments; a resume should not take minutes for a total.


def last_reset(recording: Recording) -> int | None:
    """The tick of the last reset; None if it is further back than STEPS_MAX, or cannot be read."""
    last_tick = recording.last_tick
    for tick in range(last_tick, max(0, last_tick - STEPS_MAX), -1):
        try:
            inputs = recording.frame(tick).inputs
        except RecordingError:
            return None
        if type(inputs) is dict and ("reset" in inputs or inputs.get("begins") is True):
            return tick
    return None


def stated_episode(assembled: Assembled) -> RunningEpisode | None:
    """The episode that the end of a closed tape states; None if it states none."""
    seal, last_tick = assembled.recording.segments[-1].contents.seal, assembled.recording.last_tick
    outcome: Any = seal.outcome if seal is not None and seal.final else None
    match outcome:
        case {"episode": {"steps": int(steps), "return": int() | float() as total}} if 0 < steps <= last_tick:
            return RunningEpisode(last_tick - steps, last_tick, total, knows_agents=False)
    return None
