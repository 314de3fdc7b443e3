"""Output of ``replay verify``, as text and as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from recorder.location.tape_location import Location
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.desync.object_diff import (
    SAVED_FORM,
    named_fields,
    object_difference_lines,
    object_differences_of,
    shown_fields,
)
from replayer.value_text import inputs_to_json, plain_text
from sim.kernel.exactness import Level
from sim.kernel.schema import Blob

if TYPE_CHECKING:
    from replayer.desync.finding import Finding
    from replayer.timeline.values_check import ValuesReport
    from replayer.timeline.verify import VerificationReport

_KEYFRAMES_SHOWN = 5


def report_facts(report: VerificationReport) -> dict[str, Any]:
    """The JSON object of ``replay verify --json``."""
    return {
        "ok": report.ok,
        "status": report.status,
        "verified_ticks": report.verified_ticks,
        "tick_count": report.tick_count,
        "dropped_ticks": report.dropped_ticks,
        "first_bad": report.first_bad,
        "phase": next((finding.place.phase for finding in report.findings), None),
        "fields_at_tick": next((_shown_or_none(finding.place.fields) for finding in report.findings), None),
        "only_room_at_tick": next((shown_fields(finding.place.room) for finding in report.findings), []),
        "tested": [attrs.asdict(tested) for finding in report.findings for tested in finding.tested],
        "fields": [
            name
            for finding in report.findings
            for name in named_fields(finding.compared_states, [one.field for one in finding.differences])
        ],
        "values": [
            {"path": one.path, "kind": one.kind, "recorded": one.first, "replayed": one.second}
            for finding in report.findings
            for one in object_differences_of(finding.compared_states)
        ],
        "problems": [str(problem) for problem in report.problems],
        "unreached_ticks": [
            {"first_tick": range_.first_tick, "last_tick": range_.last_tick, "why": range_.why}
            for range_ in report.unreached
        ],
        "proved_keyframes": report.proved_keyframes,
        "wrong_keyframes": [
            {
                "tick": values.tick,
                "differing": values.differing,
                "path": values.path,
                "recaptured": list(values.recaptured),
                "text": str(values),
            }
            for values in report.wrong_keyframes
        ],
        "level": report.level,
        "not_read": list(report.not_read),
        "not_repeated": report.not_repeated,
        "unrepeated_keyframes": report.unrepeated_keyframes,
        "notes": list(report.notes),
        "dump": str(report.dump_path) if report.dump_path is not None else None,
    }


def _shown_or_none(fields: Sequence[str] | None) -> list[str] | None:
    return None if fields is None else shown_fields(fields)


INPUTS_SHOWN = 2_000  # Characters of the inputs of a tick: an array has thousands of numbers.


def print_report(
    path: Location, report: VerificationReport, sim: str | None = None, *, has_first_inputs: bool = False
) -> None:
    """Print the result of ``replay verify`` on one screen.

    sim: the value of --sim, for the next command. has_first_inputs: True if the tape has the inputs from tick 1 on.
    """
    is_form = bool(report.findings) and all(map(differs_in_form_alone, report.findings))  # It compares whole states.
    _print_result(path, report, is_form=is_form)
    for note in report.notes:
        print_visible(f"  note: {plain_text(note)}")
    if report.first_bad is not None:
        checked = sim if has_first_inputs else None
        _print_next(shlex.quote(str(path)), report.first_bad, report.findings, checked, sim, is_form=is_form)


def _print_result(path: Location, report: VerificationReport, *, is_form: bool) -> None:
    """is_form: no value was found to differ at the next keyframe, but how the objects are saved there."""
    if report.ok:
        if not report.tick_count:
            print_visible(
                f"{path}: {report.status}, no tick to verify: the recording stopped before its first keyframe"
            )
        elif report.dropped_ticks:
            _print_verified_part(path, report)
        else:
            sealed = "" if report.status == "intact" else "; the tape is not sealed"
            ticks = "the one tick matches" if report.tick_count == 1 else f"all {report.tick_count:,} ticks match"
            print_visible(f"{path}: {ticks} the recording{sealed}{_proved_text(report)}")
        return
    if report.first_bad is not None:
        print_visible(f"{path}: {_first_bad_text(report.first_bad, report.findings, is_form=is_form)}")
        for finding in report.findings:
            _print_finding(finding)
    else:
        verified = f"{report.verified_ticks:,} of {report.tick_count:,} ticks match the recording"
        print_visible(f"{path}: {report.status}; {verified}")
    for line in _wrong_keyframe_lines(report):
        print_visible(f"  {plain_text(line)}")
    for problem in report.problems:
        print_visible(f"  {plain_text(str(problem))}")
    for unreached in report.unreached:
        print_visible(
            f"  not reached: ticks {unreached.first_tick:,} to {unreached.last_tick:,}: {plain_text(unreached.why)}"
        )
    if report.dump_path is not None:
        print_visible(f"  dump: {report.dump_path}")


def _first_bad_text(tick: int, findings: Sequence[Finding], *, is_form: bool) -> str:
    """A desync; or another hash where a later keyframe shows the recorded values, so that none is known to have differed."""
    if is_form:
        return (
            f"another hash at tick {tick:,}, and all ticks before it match the recording; at the next keyframe, of tick "
            f"{findings[0].compared_tick:,}, no value was found to differ: in between it is not known whether one does"
        )
    return f"DESYNC at tick {tick:,}; all ticks before it match the recording"


def differs_in_form_alone(finding: Finding) -> bool:
    """Return True if no value differs at the next keyframe, but how the objects are saved there."""
    differing = [difference.field for difference in finding.differences]
    values, rest = object_difference_lines(finding.compared_states, differing)
    return not rest and _is_form(values)


def _is_form(values: Sequence[str]) -> bool:
    return len(values) == 1 and values[0].startswith(SAVED_FORM)


def print_values(path: Location, report: ValuesReport) -> None:
    """Print the result of ``replay verify --values``."""
    share = f"{report.compared:,} of " if report.skipped else ""
    compared = f"the values at {share}{counted(report.compared + report.skipped, 'keyframe')} are as recorded"
    if report.differing is not None:
        where = f": {report.path}" if report.path else ""
        print_visible(
            f"{path}: at the keyframe of tick {report.differing:,} the values differ from the recorded ones{where}"
        )
        print_visible(f"  {compared}; now all ticks are verified, each from the keyframe before it")
        return
    not_read = f"; not compared: {', '.join(report.not_read)}" if report.not_read else ""
    print_visible(f"{path}: {report.status}; {compared}, the last one at tick {report.last_compared:,}{not_read}")
    print_visible("  compared at keyframes alone: replay verify without --values compares each tick")
    for problem in report.problems:
        print_visible(f"  {plain_text(str(problem))}")


def _print_next(
    path: str, tick: int, findings: Sequence[Finding], checked: str | None, sim: str | None, *, is_form: bool
) -> None:
    """Print the commands that can answer. checked: sim, if replay check can repeat the run of the tape."""
    hint = f" --sim {shlex.quote(sim)}" if sim is not None else ""
    commands = [f"replay explain {path} --tick {tick}{hint}"]
    if is_form:
        commands.insert(
            0, f"replay verify {path}{hint} --values  # compares the values at each keyframe, not the hashes"
        )
    from replayer.desync.code_comparison import asks_for_earlier_code  # noqa: PLC0415 - see where_lines

    tests = [tested for finding in findings for tested in finding.tested]
    is_explained = any(tested.suspicious for tested in tests)
    if any(asks_for_earlier_code(one, is_explained=is_explained) for one in tests):
        # Without the earlier code, nothing can be known of what the change does.
        from replayer.diagnose.bisect.suggested import bisect_command  # noqa: PLC0415 - see where_lines

        commands[-1] += " --code FOLDER  # FOLDER: the code as it was recorded, such as a git worktree of that commit"
        bisect = bisect_command(path, sim)
        commands = [*([bisect] if bisect is not None else []), *commands]
    if checked is not None and any(finding.hints_at_hidden_state for finding in findings):
        from replayer.diagnose.hidden_state.sync_test import TICKS  # noqa: PLC0415 - see where_lines

        ticks = f" --ticks {tick}" if tick > TICKS else ""
        commands.insert(
            len(commands) - 1,
            f"replay check {shlex.quote(checked)} --inputs {path}{ticks}  # searches what it reads besides its state",
        )
        commands[-1] += "" if "  # " in commands[-1] else "  # searches the line"
    print_visible("next: " + "\n      ".join(commands))


def _wrong_keyframe_lines(report: VerificationReport) -> list[str]:
    lines = [str(values) for values in report.wrong_keyframes[:_KEYFRAMES_SHOWN]]
    more = len(report.wrong_keyframes) - _KEYFRAMES_SHOWN
    return [*lines, f"and {counted(more, 'more keyframe')}"] if more > 0 else lines


def _proved_text(report: VerificationReport) -> str:
    count, not_read = report.proved_keyframes, ", ".join(report.not_read)
    unrepeated = (
        f"; {unrepeated_text(report.unrepeated_keyframes, report.not_repeated)}"
        if report.not_repeated is not None
        else ""
    )
    if count:
        unread = f", as far as they can be read (not those of {not_read})" if not_read else ""
        return (
            f"; {counted(count, 'keyframe')} {'restores' if count == 1 else 'restore'} its values{unread}{unrepeated}"
        )
    if unrepeated:
        return unrepeated
    if report.level == Level.INPUTS_ONLY.value:
        return "; at the level inputs_only that is what each step returned: no keyframe has a digest of other values"
    return ""


def unrepeated_text(count: int, path: str) -> str:
    """What is not known of keyframes whose values are not the recorded ones, where two repeats of the inputs differ, too."""
    return (
        f"the values at {counted(count, 'keyframe')} prove nothing: {path} differed between two repeats of the same inputs "
        f"(leave it out: ignore=[{path!r}])"
    )


def _print_verified_part(path: Location, report: VerificationReport) -> None:
    """Print the result for a tape with dropped ticks."""
    unreached = report.tick_count - report.verified_ticks - report.dropped_ticks
    print_visible(
        f"{path}: {report.verified_ticks:,} of {report.tick_count:,} ticks match the recording; "
        f"{report.dropped_ticks:,} were dropped, {unreached:,} between those and the next keyframe cannot be reached"
        f"{_proved_text(report)}"
    )


def where_lines(finding: Finding) -> list[str]:
    """The fields that differ at the tick, and the values that differ at the next recorded keyframe, as lines."""
    from replayer.desync.dump.dump import difference_lines, place_lines  # noqa: PLC0415 - only a desync needs it

    lines = place_lines(finding)
    differing = [difference.field for difference in finding.differences]
    values, rest = object_difference_lines(finding.compared_states, differing)
    if finding.differences:
        at = f"at the next recorded keyframe, tick {finding.compared_tick:,}"
        is_form = _is_form(values)
        if is_form and not rest:
            return [*lines, f"{at}: {values[0]}"]
        lines.append(f"{at}, these {'fields' if is_form or not values else 'values'} differ:")
    elif finding.compared_replayed is not None:
        lines.append(f"at the next recorded keyframe, tick {finding.compared_tick:,}, no field differs any more")
    lines += [f"  {line}" for line in values]
    if finding.first_value is not None:
        lines.append(f"  the first value that differs: {plain_text(finding.first_value)}")
        assert finding.compared_recorded is not None
        blobs = {one.name for one in finding.compared_recorded.layout.schema.entries if isinstance(one, Blob)}
        rest = [name for name in rest if name not in blobs]  # Their bytes say nothing to a reader.
    for difference in (one for one in finding.differences if one.field in rest):
        lines += [f"  {line}" for line in difference_lines(difference)[:3]]
    return lines


def _print_finding(finding: Finding) -> None:
    print_visible(f"  recorded hash {finding.expected_hash:016x}, replayed {finding.actual_hash:016x}")
    for line in where_lines(finding):
        print_visible(f"  {line}")
    if finding.note and finding.note not in [tested.found for tested in finding.tested]:
        print_visible(f"  note: {finding.note}")
    inputs = next((frame.inputs for frame in finding.frames if frame.tick == finding.tick), None)
    told = json.dumps(inputs_to_json(inputs))
    more = f" … ({len(told):,} characters in all)" if len(told) > INPUTS_SHOWN else ""
    print_visible(f"  inputs of the tick: {told[:INPUTS_SHOWN]}{more}")
    from replayer.desync.rng_draws import finding_lines  # noqa: PLC0415 - see where_lines

    for line in finding_lines(finding):
        print_visible(f"  random draws: {line}")
    if finding.tested:
        print_visible("  tested:")
    for tested in finding.tested:
        mark = {True: "!", False: "-", None: "?"}[tested.suspicious]
        print_visible(f"    {mark} {tested.cause}: {tested.found}")
