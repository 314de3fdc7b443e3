"""What may have made a replay part from its recording, tested as far as one process on one machine can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from recorder.environment import describe_environment
from replayer.desync.finding import NOT_DETERMINISTIC, TestedCause
from replayer.playback.make_simulation import version_note

if TYPE_CHECKING:
    from replayer.desync.finding import Finding
    from replayer.tape.tape import Tape


HASH_SEED = "PYTHONHASHSEED"
HIDDEN_STATE = "state outside of the state, which keyframes do not hold"


def with_causes(finding: Finding, tape: Tape, earlier: Mapping[str, Any]) -> Finding:
    """Test a finding for causes; earlier: what earlier_hash gave before anything was simulated here."""
    tested = [_repeated(finding), *_order_of_sets(tape), _earlier(finding, earlier), *_versions(tape)]
    hidden = next((one.found for one in tested if one.cause == HIDDEN_STATE and one.suspicious), None)
    return attrs.evolve(finding, tested=tested, note=finding.note or hidden)


def _repeated(finding: Finding) -> TestedCause:
    cause = "a step that gives now this, now that (random draws, time, memory)"
    if finding.note == NOT_DETERMINISTIC:
        return TestedCause(cause, "run again on a fresh simulation, the ticks had other hashes", suspicious=True)
    return TestedCause(cause, "run again on a fresh simulation, the tick had the same wrong hash", suspicious=False)


def _order_of_sets(tape: Tape) -> list[TestedCause]:
    """Copies of one process have one order, so that running again shows nothing; nothing if the seed is known."""
    recorded, present = tape.meta.get("environment"), describe_environment()
    seeds = [side.get(HASH_SEED, "random") for side in (recorded if isinstance(recorded, dict) else {}, present)]
    if "random" not in seeds or seeds[0] != seeds[1]:
        return []  # Another seed is another environment, see _versions.
    found = f"not tested: {HASH_SEED} was not set, and a process has one order; replay certify --factor hash-seed tries others"
    return [TestedCause("the order of sets, which is another one in each process", found, suspicious=None)]


def _earlier(finding: Finding, earlier: Mapping[str, Any]) -> TestedCause:
    """Whether the bad tick is right when it is reached from an earlier keyframe."""
    cause = HIDDEN_STATE
    if finding.note == NOT_DETERMINISTIC:
        return TestedCause(cause, "not tested: runs differ by themselves", suspicious=None)
    if "why" in earlier:
        return TestedCause(cause, f"not tested: {earlier['why']}", suspicious=None)
    start = earlier["start"]
    if earlier["hash"] != finding.expected_hash:
        return TestedCause(cause, f"from the keyframe at tick {start} the tick is wrong, too", suspicious=False)
    return TestedCause(
        cause,
        f"from the keyframe at tick {start} this tick is re-simulated right, from that at {finding.keyframe_tick} it is "
        "not: something outside of the state takes part in the step, and keyframes do not hold it",
        suspicious=True,
    )


def _versions(tape: Tape) -> list[TestedCause]:
    """What is another than when the tape was recorded: the world's version and the environment."""
    tested = []
    note = version_note(tape)
    if note is not None:
        tested.append(TestedCause("another version of the world", note, suspicious=True))
    cause, recorded, present = "another environment", tape.meta.get("environment"), describe_environment()
    if not isinstance(recorded, dict):
        return [*tested, TestedCause(cause, "not tested: the tape does not say where it was recorded", suspicious=None)]
    others = [
        f"{name} {recorded.get(name, 'not set')} recorded, {present.get(name, 'not set')} now"
        for name in dict.fromkeys([*recorded, *present])
        if recorded.get(name) != present.get(name)
    ]
    if others:
        return [*tested, TestedCause(cause, "; ".join(others), suspicious=True)]
    return [
        *tested,
        TestedCause(cause, "versions, processor type and variables are those of the recording", suspicious=False),
    ]
