"""Test possible causes of a desync, within the limits of one process on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from recorder.ambient.outside.outside_read import OutsideRead
from recorder.environment import describe_environment
from replayer.desync.finding import HIDDEN_STATE, NOT_DETERMINISTIC, TestedCause
from replayer.desync.outside_comparison import (
    DIFFERS,
    EQUAL,
    NOT_COMPARED,
    NOT_NOTED,
    compare_reads,
    compare_settings,
)
from replayer.playback.make_simulation import version_note
from replayer.value_text import plain_text

if TYPE_CHECKING:
    from replayer.desync.finding import Finding
    from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape

HASH_SEED = "PYTHONHASHSEED"


def with_causes(finding: Finding, tape: Tape, earlier: Mapping[str, Any], reads: list[OutsideRead] | None) -> Finding:
    """Test a finding for causes. earlier: the result of earlier_hash, called before anything was simulated here.

    reads: what the step to the tick reads of the outside world, now; None if it could not be watched.
    """
    between = between_steps(tape, finding.tick)
    tested = [
        *([between] if between is not None else []),
        *(_nondeterminism(finding), *_order_of_sets(tape), _hidden_state(finding, earlier), *_versions(tape, reads)),
    ]
    hidden = next((test.found for test in tested if test.cause == HIDDEN_STATE and test.suspicious), None)
    return attrs.evolve(finding, tested=tested, note=finding.note or hidden)


def between_steps(tape: Tape, tick: int) -> TestedCause | None:
    """The comparison that the recorder made before the step to a tick; None if it made none, or it is not known."""
    match tape.outcome:
        case {"between_steps": {"first_tick": int(first), "count": int(count), "changes": list(changes)}}:
            pass
        case _:
            return None
    cause = "a change between two steps"
    where = f"between tick {tick - 1:,} and {tick:,}, outside of the step"
    named = [
        plain_text(str(entry[1]))
        for entry in changes
        if isinstance(entry, list) and len(entry) == 2 and entry[0] == tick
    ]
    if named:
        return TestedCause(cause, f"changed {where}: {named[0]}, as the recorder saw live", suspicious=True)
    if tick < first or count != len(changes):
        return None
    found = (
        f"no value changed {where}: the recorder compared the values before the step with those that the last step left; "
        "not compared: the tables of sets, the flags of arrays, equal objects in place of others"
    )
    return TestedCause(cause, found, suspicious=False)


def _nondeterminism(finding: Finding) -> TestedCause:
    cause = "a non-deterministic step (random draws, time, memory, what a class or a module keeps)"
    if finding.note == NOT_DETERMINISTIC:
        return TestedCause(cause, "run again on a fresh simulation, the ticks had different hashes", suspicious=True)
    count = finding.rerun_count
    if not count:
        return TestedCause(cause, "not tested: it could not be run again in a process of its own", suspicious=None)
    times = "once on a fresh simulation" if count == 1 else f"{count} times, each on a fresh simulation"
    found = (
        f"run again {times}: the same wrong hash (a step that differs in one run of three would have shown it with "
        f"{1 - (2 / 3) ** count:.0%})"
    )
    return TestedCause(cause, found, suspicious=False)


def _order_of_sets(tape: Tape) -> list[TestedCause]:
    """Report the order of sets as not tested, unless the hash seeds are known.

    Copies of one process have one order: running again shows nothing.
    """
    recorded, present = tape.meta.get("environment"), describe_environment()
    environments = recorded if isinstance(recorded, dict) else {}, present
    seeds = [environment.get(HASH_SEED, "random") for environment in environments]
    if "random" not in seeds or seeds[0] != seeds[1]:
        return []  # A different seed is reported as a different environment, see _versions.
    found = (
        f"not tested: {HASH_SEED} was not set, and a process has one order; "
        "replay certify --factor hash-seed tries others"
    )
    return [TestedCause("the iteration order of sets, which differs between processes", found, suspicious=None)]


def _hidden_state(finding: Finding, earlier: Mapping[str, Any]) -> TestedCause:
    """Test for hidden state: the divergent tick has the recorded hash if re-simulated from an earlier keyframe."""
    cause = HIDDEN_STATE
    if finding.note == NOT_DETERMINISTIC:
        return TestedCause(cause, "not tested: the step is not deterministic", suspicious=None)
    if "why" in earlier:
        return TestedCause(cause, f"not tested: {earlier['why']}", suspicious=None)
    start = earlier["start"]
    if earlier["hash"] != finding.expected_hash:
        found = f"re-simulated from the keyframe at tick {start}, the tick has a wrong hash, too"
        return TestedCause(cause, found, suspicious=False)
    return TestedCause(
        cause,
        f"re-simulated from the keyframe at tick {start}, the tick has the recorded hash; from the keyframe at tick "
        f"{finding.keyframe_tick} it has not: hidden state takes part in the step, and keyframes do not hold it",
        suspicious=True,
    )


def _versions(tape: Tape, reads: list[OutsideRead] | None) -> list[TestedCause]:
    """Differences between recording and replay: the world's version and the environment."""
    tested = []
    note = version_note(tape)
    if note is not None:
        tested.append(TestedCause("a different version of the world", note, suspicious=True))
    return [*tested, _environment(tape, reads)]


def _environment(tape: Tape, reads: list[OutsideRead] | None) -> TestedCause:
    """Compare versions, settings, and what the step reads, with the recording; name everything that was compared."""
    cause, recorded, present = "a different environment", tape.meta.get("environment"), describe_environment()
    if not isinstance(recorded, dict):
        return TestedCause(cause, "not tested: the tape does not state its environment", suspicious=None)
    names = list(dict.fromkeys([*recorded, *present]))
    different = [
        f"{name} {recorded.get(name, 'not set')} recorded, {present.get(name, 'not set')} now"
        for name in names
        if recorded.get(name) != present.get(name)
    ]
    equal = [name for name in names if recorded.get(name) == present.get(name)]
    note = noted_outside(tape)
    settings, compared = compare_settings(note, reads or ()), compare_reads(note, reads or ())
    if settings is not None:
        different += settings.different
        equal += settings.equal
    different += [str(read) for read in compared if read.result == DIFFERS]
    equal += [f"{read.name} (read at {read.place})" for read in compared if read.result == EQUAL]
    unread = settings.unread if settings is not None else []
    parts = ["; ".join(different)] if different else []
    if unread:
        why = "not known whether the step reads it" if reads is None else "not seen to be read in this step"
        parts.append(f"different, but {why}: {'; '.join(unread)}")
    parts += [f"compared and equal: {', '.join(equal)}"] if equal else []
    left_out = [f"{read.name} (read at {read.place})" for read in compared if read.result in (NOT_COMPARED, NOT_NOTED)]
    left_out.append("files, clocks, other variables" if reads is None else "what other steps read")
    parts.append(f"not compared: {', '.join(left_out)}")
    return TestedCause(
        cause, "; ".join(map(plain_text, parts)), suspicious=True if different else None if unread else False
    )
