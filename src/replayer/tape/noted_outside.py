"""What a recording noted of the outside world, of a tape."""

from __future__ import annotations

from recorder.ambient.outside.outside_note import KEY, OutsideNote, decode_note
from replayer.tape.tape import Tape


def noted_outside(tape: Tape) -> OutsideNote:
    """What the recording noted of the outside world."""
    outcome = tape.outcome
    return decode_note(tape.meta.get(KEY), outcome.get(KEY) if isinstance(outcome, dict) else None)
