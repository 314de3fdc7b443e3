"""What may have made a replay part from its recording, tested as far as one process on one machine can."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from recorder.environment import describe_environment
from recorder.errors import RecordingError
from replayer.desync.finding import NOT_DETERMINISTIC
from replayer.worlds import version_note

if TYPE_CHECKING:
    from replayer.cursor import Cursor
    from replayer.desync.finding import Finding


HIDDEN_STATE = "state outside of the state, which keyframes do not hold"


@attrs.frozen
class Tested:
    """One possible cause.

    Attributes:
        cause: in a few words.
        found: what the test showed.
        suspicious: whether that speaks for the cause; None where it could not be tested.
    """

    cause: str
    found: str
    suspicious: bool | None


def with_causes(finding: Finding, make_cursor: Callable[[], Cursor]) -> Finding:
    """Test a finding for causes; make_cursor: a cursor with a fresh simulation."""
    cursor = make_cursor()
    tested = [_repeated(finding), _earlier(finding, cursor), *_versions(cursor)]
    hidden = next((one.found for one in tested if one.cause == HIDDEN_STATE and one.suspicious), None)
    return attrs.evolve(finding, tested=tested, note=finding.note or hidden)


def _repeated(finding: Finding) -> Tested:
    cause = "a step that gives now this, now that (random draws, time, order of sets, memory)"
    if finding.note == NOT_DETERMINISTIC:
        return Tested(cause, "run again on a fresh simulation, the ticks had other hashes", suspicious=True)
    return Tested(cause, "run again on a fresh simulation, the tick had the same wrong hash", suspicious=False)


def _earlier(finding: Finding, cursor: Cursor) -> Tested:
    """Whether the bad tick is right when it is reached from an earlier keyframe."""
    cause = HIDDEN_STATE
    if finding.note == NOT_DETERMINISTIC:
        return Tested(cause, "not tested: runs differ by themselves", suspicious=None)
    if finding.keyframe_tick == cursor.tape.first_tick:
        return Tested(
            cause, "not tested: the tick is reached from the first keyframe; try replay check", suspicious=None
        )
    try:
        start = cursor.place_before(finding.keyframe_tick - 1)
        while cursor.tick != finding.tick:
            cursor.advance()
    except RecordingError as error:  # The simulation fails on another way, too; that is no hint.
        return Tested(cause, f"not tested: from an earlier keyframe, {error}", suspicious=None)
    if cursor.state.hash() != finding.expected_hash:
        return Tested(cause, f"from the keyframe at tick {start} the tick is wrong, too", suspicious=False)
    return Tested(
        cause,
        f"from the keyframe at tick {start} this tick is re-simulated right, from that at {finding.keyframe_tick} it is "
        "not: something outside of the state takes part in the step, and keyframes do not hold it",
        suspicious=True,
    )


def _versions(cursor: Cursor) -> list[Tested]:
    """What is another than when the tape was recorded: the world's version and the environment."""
    tested = []
    note = version_note(cursor.tape)
    if note is not None:
        tested.append(Tested("another version of the world", note, suspicious=True))
    cause, recorded, present = "another environment", cursor.tape.meta.get("environment"), describe_environment()
    if not isinstance(recorded, dict):
        return [*tested, Tested(cause, "not tested: the tape does not say where it was recorded", suspicious=None)]
    others = [
        f"{name} {recorded.get(name, 'not set')} recorded, {present.get(name, 'not set')} now"
        for name in dict.fromkeys([*recorded, *present])
        if recorded.get(name) != present.get(name)
    ]
    if others:
        return [*tested, Tested(cause, "; ".join(others), suspicious=True)]
    return [
        *tested,
        Tested(cause, "versions, processor type and variables are those of the recording", suspicious=False),
    ]
