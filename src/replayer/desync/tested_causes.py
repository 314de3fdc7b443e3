"""Test possible causes of a desync, within the limits of one process on one machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from recorder.ambient.outside.outside_note import ChangedSetting
from recorder.ambient.outside.outside_read import ARGUMENTS, ARGUMENTS_NAME, ATTRIBUTES, IDENTITY, OutsideRead
from recorder.ambient.outside.process_facts import FOLDER, WATCHED
from recorder.environment import describe_environment
from replayer.desync.causes.program_arguments import SAME_ARGUMENTS, arguments_difference
from replayer.desync.causes.program_arguments import SHOWN as ARGUMENTS_SHOWN
from replayer.desync.causes.seen_between import between_steps, not_compared
from replayer.desync.causes.text_hashes import hashes_of_texts
from replayer.desync.code_comparison import is_other_code
from replayer.desync.finding import (
    HIDDEN_FROM_RUN,
    HIDDEN_STATE,
    MADE_BEFORE,
    NOT_DETERMINISTIC,
    RESTORE,
    STACK_DEPTH,
    TestedCause,
)
from replayer.desync.outside_comparison import (
    BEGAN,
    DIFFERS,
    EQUAL,
    LATER,
    NOT_COMPARED,
    NOT_NOTED,
    ReadComparison,
    compare_reads,
    compare_settings,
    few_texts,
    most_telling,
    setting_read,
    when_changed,
    with_later_changes,
)
from replayer.desync.sets.set_use import NOT_FOUND_OUT
from replayer.playback.make_simulation import version_note
from replayer.tape.noted_outside import NotedAtTick, noted_at
from replayer.value_text import plain_text

if TYPE_CHECKING:
    from replayer.desync.finding import Finding
    from replayer.desync.isolated_rerun import EarlierRun
    from replayer.tape.tape import Tape


CHANGED_WHILE = "changed while the run was recorded"
SETTINGS_UNKNOWN = "  settings of the process that were changed while it ran,"  # Of a tape that does not note them.
_UNSTEADY = "a non-deterministic step (random draws, time)"
# Two runs that differ show no more: of a counter that a class keeps, a deterministic step gives the next number in each.
_MORE_THAN_STATE = (
    "something besides the state and the inputs (possible: random draws, time, memory, what a class or a module keeps)"
)


def with_causes(
    finding: Finding,
    tape: Tape,
    earlier: Sequence[EarlierRun],
    reads: list[OutsideRead] | None,
    lost: str | None = None,
    code: TestedCause | None = None,
    sets: str | None = NOT_FOUND_OUT,
) -> Finding:
    """Test a finding for causes. earlier: the result of earlier_runs, called before anything was simulated here.

    reads: what the step to the tick reads of the outside world, now; None if it could not be watched. lost: the result of
    lost_field. code: that of compared_code. sets: that of set_use.
    """
    between = between_steps(tape, finding.tick)
    tested = [
        *([between] if between is not None else []),
        *(
            _nondeterminism(finding, reads or ()),
            *_made_before(finding),
            *hashes_of_texts(tape, sets, reads or ()),
            _hidden_state(finding, earlier, lost),
            *([code] if code is not None else []),
            *_versions(tape, finding.tick, reads),
        ),
    ]
    is_explained = any(test.suspicious for test in tested) or is_other_code(code)
    if between is None and not (is_explained or _may_explain(tape, finding.tick, reads or ())):
        tested[:0] = not_compared(tape, finding.tick)
    hidden = next((test.found for test in tested if test.cause in (HIDDEN_STATE, RESTORE) and test.suspicious), None)
    return attrs.evolve(finding, tested=tested, note=finding.note or hidden)


def _may_explain(tape: Tape, tick: int, reads: Sequence[OutsideRead]) -> bool:
    """Return True if the step reads something, besides the arguments of the program, that is not known to be as it was."""
    at = noted_at(tape, tick)
    compared = compare_reads(at.note, [read for read in reads if read.kind != ARGUMENTS], at)
    return any(read.result != EQUAL for read in compared)


def _nondeterminism(finding: Finding, reads: Iterable[OutsideRead]) -> TestedCause:
    """What the repeated runs show. They are copies of one process, and may have the same addresses of memory."""
    if finding.note == STACK_DEPTH:
        found = (
            "run from two depths, four times each: the same hashes from each depth, and different ones from the other"
        )
        return TestedCause("how deep the stack is when a step is called", found, suspicious=True)
    if finding.note == NOT_DETERMINISTIC:
        found = "run again on a fresh simulation, the ticks had different hashes: a step, or a restore, depends on it"
        return TestedCause(_MORE_THAN_STATE, found, suspicious=True)
    count = finding.rerun_count
    if not count:
        return TestedCause(_UNSTEADY, "not tested: it could not be run again in a process of its own", suspicious=None)
    times = "once on a fresh simulation" if count == 1 else f"{count} times, each on a fresh simulation"
    found = (
        f"run again {times}: the same wrong hash (a step that differs in one run of three would have shown it with "
        f"{1 - (2 / 3) ** count:.0%})"
    )
    addresses = [f"{read.name} (read at {read.place})" for read in reads if read.kind == IDENTITY]
    if addresses:
        found += (
            f"; not ruled out by that: the addresses of memory, which the step reads: {', '.join(dict.fromkeys(addresses))}; "
            "the runs are copies of one process, which may have the same ones"
        )
        return TestedCause(_UNSTEADY, found, suspicious=None)
    found += (
        "; not tested by that: an order by memory addresses, the date, and what a class or a module keeps, which may be "
        "alike in these copies of one process"
    )
    return TestedCause(_UNSTEADY, found, suspicious=False)


def _made_before(finding: Finding) -> list[TestedCause]:
    """What runs show that made another simulation before, as with a counter that a class or a module keeps; nothing if nothing."""
    if not finding.other_count:
        return []
    found = (
        f"after another one had been made, the ticks had other hashes, the same ones in each of {finding.other_count} runs; "
        f"without another one, the hashes above in each of {finding.rerun_count}"
    )
    return [TestedCause(MADE_BEFORE, found, suspicious=True)]


def _hidden_state(finding: Finding, earlier: Sequence[EarlierRun], lost: str | None) -> TestedCause:
    """Test for hidden state: the divergent tick has the recorded hash in a run that began earlier."""
    if finding.note in (NOT_DETERMINISTIC, STACK_DEPTH):
        return TestedCause(HIDDEN_STATE, "not tested: the same interval gave different hashes", suspicious=None)
    right = next((run for run in earlier if run.state_hash == finding.expected_hash), None)
    if right is not None:
        return _right_run(finding, right, earlier, lost)
    wrong = [run for run in earlier if run.state_hash is not None]
    if not wrong:
        why = "; ".join(dict.fromkeys(run.why for run in earlier)) or "there is no earlier start"
        return TestedCause(HIDDEN_STATE, f"not tested: {why}; replay check --inputs tests for it", suspicious=None)
    found = f"{_starts_text(wrong)}, the tick has a wrong hash, too"
    if wrong[-1].is_restored:
        return TestedCause(
            HIDDEN_STATE,
            f"not decided: {found}; not run from the first tick without a restore: {earlier[-1].why}",
            suspicious=None,
        )
    return TestedCause(
        HIDDEN_FROM_RUN,
        f"{found} (not tested: what the process had before the run, and what is outside of it, such as files)",
        suspicious=False,
    )


def _right_run(finding: Finding, right: EarlierRun, earlier: Sequence[EarlierRun], lost: str | None) -> TestedCause:
    """What it shows that this run gave the recorded hash, and the one from the interval's keyframe did not."""
    from_same = [run for run in earlier if run.start_tick == right.start_tick and run.state_hash is not None]
    is_restore = not right.is_restored and (len(from_same) > 1 or right.start_tick == finding.keyframe_tick)
    wrong_tick = right.start_tick if is_restore else finding.keyframe_tick
    found = (
        f"{_starts_text([right])}, the tick has the recorded hash; from the keyframe at tick {wrong_tick} it has not: "
    )
    if is_restore:  # The two runs differ in nothing else.
        return TestedCause(RESTORE, f"{found}the restore of it changes how the run goes on", suspicious=True)
    if lost is not None:  # It is in the keyframe, so that it is not hidden; other state that is may take part as well.
        found += f"load() does not give back {lost}: save() returns something else right after it"
        return TestedCause(RESTORE, found, suspicious=True)
    takes_part = "hidden state takes part in the step: that keyframe does not bring it back"
    return TestedCause(HIDDEN_STATE, found + takes_part, suspicious=True)


def _starts_text(runs: Sequence[EarlierRun]) -> str:
    """Where runs began, in words: those that were restored, then the one that was not."""
    ticks = [str(run.start_tick) for run in runs if run.is_restored]
    many = "s" if len(ticks) > 1 else ""
    parts = [f"re-simulated from the keyframe{many} at tick{many} {' and '.join(ticks)}"] if ticks else []
    parts += [
        f"run from tick {run.start_tick} as it was made, with nothing restored" for run in runs if not run.is_restored
    ]
    return ", and ".join(parts)


def _versions(tape: Tape, tick: int, reads: list[OutsideRead] | None) -> list[TestedCause]:
    """Differences between recording and replay: the world's version and the environment."""
    tested = []
    note = version_note(tape)
    if note is not None:
        tested.append(TestedCause("a different version of the world", note, suspicious=None))
    return [*tested, *_environment(tape, tick, reads)]


def _environment(tape: Tape, tick: int, reads: list[OutsideRead] | None) -> list[TestedCause]:
    """Compare versions, settings, and what the step reads, with the recording; name everything that was compared.

    What the step was seen to read is apart from settings that merely differ: no run here has the recorded ones.
    """
    cause, recorded, present = "a different environment", tape.meta.get("environment"), describe_environment()
    if not isinstance(recorded, dict):
        return [TestedCause(cause, "not tested: the tape does not state its environment", suspicious=None)]
    names = list(dict.fromkeys([*recorded, *present]))
    untested = [
        f"{name} {recorded.get(name, 'not set')} recorded, {present.get(name, 'not set')} now"
        for name in names
        if recorded.get(name) != present.get(name)
    ]
    equal = [name for name in names if recorded.get(name) == present.get(name)]
    at = noted_at(tape, tick)
    beside = compare_reads(at.note, reads or (), at)
    settings = compare_settings(at.note, reads or (), at, beside)
    compared = with_later_changes(beside, tape.meta.get("created"))
    different = [str(read) for read in compared if read.result == DIFFERS]
    if settings is not None:
        different = [*settings.read, *different]
        untested += [text for text in settings.different if text not in settings.read]
        equal += settings.equal
    unread = list(settings.unread) if settings is not None else []
    arguments = None if any(read.kind == ARGUMENTS for read in compared) else arguments_difference(at.note)
    unread += [f"{ARGUMENTS_SHOWN}: {arguments}"] if arguments else []
    parts = [f"different, and not tested whether it matters: {'; '.join(untested)}"] if untested else []
    if unread:
        why = "not known whether the step reads it" if reads is None else "not seen to be read in this step"
        parts.append(f"different, but {why}: {'; '.join(unread)}")
    if at.changes:
        parts.append(
            f"{CHANGED_WHILE}: {'; '.join(map(change_text, at.changes))}; not tested whether that makes the difference"
        )
    found = [TestedCause(cause, "; ".join(map(plain_text, few_texts(different))), suspicious=True)] if different else []
    is_known = (
        at.is_known and not at.unknown
    ) or settings is None  # Without a note on settings, none is said to be equal.
    is_of_tick = [at.is_known and setting_read(read.kind, read.name) is not None for read in compared]
    is_decided = reads is not None and not (parts or different) and is_known and all(is_of_tick)
    is_decided = is_decided and all(read.result == EQUAL for read in compared)
    parts += _equal_parts(equal, compared, at, [ARGUMENTS_SHOWN] if arguments == "" else [])
    reads_left = [read for read in compared if read.result in (NOT_COMPARED, NOT_NOTED, LATER)]
    left_out = few_texts([_left_out_text(read) for read in most_telling(reads_left)])
    left_out += [_unknown_text(name, *ticks) for name, ticks in at.unknown.items()]
    left_out.append("files, clocks, other variables" if reads is None else "what other steps read")
    if arguments is None and not any(read.kind == ARGUMENTS for read in compared):
        left_out.insert(-1, ARGUMENTS_SHOWN)
    parts.append(f"not compared: {', '.join(left_out)}")
    rest = "; ".join(map(plain_text, parts))
    if found and not (untested or unread or at.changes):
        return [attrs.evolve(found[0], found=f"{found[0].found}; {rest}")]
    return [*found, TestedCause(cause, rest, suspicious=False if is_decided else None)]


def _equal_parts(
    equal: list[str], compared: Sequence[ReadComparison], at: NotedAtTick, further: Iterable[str]
) -> list[str]:
    """What is equal, and when it was so: code may have changed it while the run was recorded. further: without a read."""
    alike = [read for read in compared if read.result == EQUAL]
    settings = {f"{read.name} (read at {read.place})": setting_read(read.kind, read.name) for read in alike}
    looked = (
        f"{BEGAN} and at its keyframes" if at.is_known else f"{BEGAN}; whether any was {CHANGED_WHILE} is not known"
    )
    whens = dict[str, list[str]]()
    for name, setting in [*((name, name) for name in equal), *settings.items()]:
        if setting in at.seen:
            when = f"at tick {at.seen[setting]:,} of the recording"
        elif setting not in WATCHED or any(one.name == setting for one in at.changes):
            when = BEGAN  # Nothing looks at a version again; and what was changed after the step was another one later.
        else:
            when = looked
        if setting is not None:
            whens.setdefault(when, []).append(name)
    parts = [f"{', '.join(names)} ({when})" for when, names in whens.items()]
    arguments = (f"{ARGUMENTS_SHOWN}, read at {read.place}" for read in compared if read.found == SAME_ARGUMENTS)
    rest = [*further, *arguments, *(name for name, setting in settings.items() if setting is None)]
    equal_parts = [f"compared and equal: {', '.join(parts)}"] if parts else []
    return [*equal_parts, *([f"as {BEGAN}: {', '.join(few_texts(rest))}"] if rest else [])]


def changed_lines(changes: Sequence[str]) -> list[str]:
    """What replay explain prints of settings that were changed. changes: each as of change_text."""
    return [f"  settings of the process {CHANGED_WHILE}: {'; '.join(changes)}"] if changes else []


def change_text(one: ChangedSetting) -> str:
    """A setting that was changed while the run was recorded, in words."""
    if one.name == FOLDER:
        return f"the working directory {when_changed(one)}"
    before, now = ("not set" if text is None else text for text in (one.before, one.now))
    return plain_text(f"{one.name} from {before} to {now} {when_changed(one)}")


def _unknown_text(name: str, after: int, tick: int) -> str:
    """A setting that each thread has of its own."""
    return f"{name} (between tick {after:,} and {tick:,} two threads were seen that have others)"


def _left_out_text(read: ReadComparison) -> str:
    """A read that was not compared; of a file that was changed later, and of a file's attributes, what is known, too."""
    if read.found == SAME_ARGUMENTS:
        return f"the name of the program, {ARGUMENTS_NAME}[0] (read at {read.place})"
    found = f": {read.found}" if read.kind in (ARGUMENTS, ATTRIBUTES) or read.result == LATER else ""
    return f"{read.name} (read at {read.place}{found})"
