"""The command ``replay explain``: the operation and the source line at which a tick diverges, on one screen."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from operator import attrgetter
from pathlib import Path
from typing import Annotated, TypeGuard

from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Whole
from recorder.console.output import print_json
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.text import counted, whole_path
from replayer.commands.arguments import choose, factory_of, ready_tape
from replayer.commands.explain_facts import cause_facts, explanation_facts
from replayer.commands.explain_nothing import nothing_to_explain_lines
from replayer.commands.explain_parties import OtherParty, OtherTape, ensure_two, explain_two
from replayer.commands.explain_proofs import proof_lines
from replayer.commands.explain_source import explained_source
from replayer.commands.first_line import FirstLine
from replayer.commands.options import Json, Sim, TapePath
from replayer.desync.code_comparison import code_lines, versions_not_tested
from replayer.desync.dump.dump import difference_lines
from replayer.desync.finding import NOT_DETERMINISTIC
from replayer.desync.location import phase_text
from replayer.desync.object_diff import object_difference_lines, shown_fields
from replayer.desync.tested_causes import SETTINGS_UNKNOWN, changed_lines
from replayer.desync.ulps import DifferingElements
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.cause import Cause, DifferingValue, SourceLocation
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE
from replayer.diagnose.explain.values.process_settings import DifferingSetting
from replayer.diagnose.explain.variants import VariantOutcome
from replayer.diagnose.investigation.investigate import investigate
from replayer.report.before_step import NOT_KNOWN, before_step_lines, refuted_text
from replayer.report.cause_text import (
    after_it,
    at_this_line,
    cause_text,
    loaded_lines,
    name_with_folder,
    order_lines,
    place_lines,
    read_text,
    undone_lines,
    where_from,
)
from replayer.report.outside_lines import (
    between_lines,
    dependence_lines,
    outside_cause_line,
    outside_lines,
    tested_block,
    unrepeated_desync_lines,
    unrepeated_lines,
    variants_heading,
    what_is_known,
)
from replayer.report.parties.party_report import CauseTexts
from replayer.report.program_lines import run_before_lines
from replayer.status import STATUS_CODES
from replayer.value_text import plain_text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_OF_LINE = attrgetter("name")
_WRITERS_SHOWN = 12
_FIELDS_SHOWN = 6
_ELEMENTS_SHOWN = 4
_PARTS_SHOWN = 6
_ULPS_SHOWN_MAX = 1_000_000


def explain(
    tape: TapePath | None = None,
    other_tape: OtherTape = None,
    /,
    *,
    tick: Whole | None = None,
    sim: Sim = None,
    env: Annotated[list[str] | None, Parameter(name="--env", negative="")] = None,
    code: Annotated[LocalPath | None, Parameter(name="--code")] = None,
    other: Annotated[OtherParty | None, Parameter(name="*")] = None,
    as_json: Json = False,
) -> int:
    """Explain why a tick differs: run it again on two variants; name the operation, the source line and the elements.

    Examples:
    replay explain run.tape --sim flock:Flock
    replay explain run.desync-4213 --sim flock:Flock
    replay explain run.tape --tick 4213 --env NPY_DISABLE_CPU_FEATURES=X86_V4
    replay explain run.tape --code ../before-the-change
    replay explain host.tape guest.tape --sim game:host --other-sim game:guest

    One variant is this environment and this code. The other is given by --env and --code; by default it is the recorded
    environment, if that differs. If both give the same state, new processes, different hash seeds, and instances that
    ran from an earlier keyframe are tried. Of two tapes of one run, what the two parties differ in is exchanged.

    Exit code: 0 every variant gives the recorded state, 1 a difference was found, or verify saw one that no variant
    repeats, 3 none was found but the tape is not sealed, 4 none was found but the tape is damaged, or damage prevents
    the search, 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/. Or the dump of a desync: its tick is explained, without
        verifying again.
    tick
        The bad tick; negative ones count from the end. By default the tape is verified to find the first bad tick.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    env
        NAME=VALUE, a variable of the other variant's environment; NAME= unsets it. May be given several times.
    code
        A folder with the other version of the code; it is put in front of Python's module search path.
    as_json
        Print one JSON object.
    """
    path, changes = choose(tape), _changes(env or [])
    if other_tape is not None or other is not None:
        two = ensure_two(path, other_tape, only_of_one=tick is not None or code is not None)
        return explain_two(two, sim, other, changes, CauseTexts(_cause_lines, cause_facts), as_json=as_json)
    path, tick, seen = explained_source(path, tick)
    folder, factory = _folder(code), factory_of(sim)
    with ready_tape(path):
        pass  # Each variant reads it again.
    first_line = FirstLine(path, quiet=as_json or tick is not None)
    with (
        first_line.status("searching the bad tick") as show,
        reading(path),
        redirect_stdout(sys.stderr),  # The prints of the simulation are not part of the output.
    ):
        explanation = investigate(
            path,
            tick=tick,
            sim=sim,
            factory=factory,
            environment=changes,
            code=folder,
            progress=lambda fraction: show(f"searching the bad tick: {fraction:.0%}"),
            on_stage=show,
            seen=seen,
        )
    if as_json:
        print_json(explanation_facts(path, explanation))
    else:
        lines = [*explanation_lines(path, explanation), *proof_lines(path, explanation, sim)]
        first_line.print("\n".join(map(plain_text, lines)))
    return _exit_code(explanation)


def _folder(code: Path | None) -> str | None:
    """The whole path of --code. Raises UsageError."""
    if code is not None and not code.is_dir():
        raise UsageError(f"expected a folder, got --code {code}")
    return whole_path(code) if code is not None else None


def _exit_code(explanation: Explanation) -> int:
    status = STATUS_CODES[explanation.report.status] if explanation.report is not None else SAME
    return status if explanation.agrees and not explanation.is_seen else DIFFERS


def _changes(words: list[str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not _NAME.fullmatch(name):
            raise UsageError(f"expected NAME=VALUE, got --env {word}")
        changes[name] = value or None
    return changes


# --- for people


def explanation_lines(path: Location | str, explanation: Explanation) -> list[str]:
    """What is printed of an explanation. path: what the first line begins with."""
    if explanation.tick is None:
        return [*nothing_to_explain_lines(path, explanation.report), *_notes(explanation)]
    tick = f"{explanation.tick:,}"
    if explanation.pair is not None:
        lines = [f"{path}: tick {tick} differs between two variants", *_field_lines(explanation), ""]
        proved = [one for one in explanation.settings if one.proved]
        names = name_with_folder if len({one.variant.code for one in explanation.pair}) > 1 else _NAME_OF_LINE
        outside = outside_cause_line(explanation)
        if outside is not None and explanation.cause is not None:
            lines += [
                f"{outside}; {at_this_line(explanation.cause)}",
                *_cause_lines(explanation.cause, names=names)[1:],
            ]
        elif outside is not None:
            lines.append(outside)
        elif explanation.cause is not None:
            lines += _cause_lines(explanation.cause, proved, refuted=refuted_text(explanation), names=names)
        elif proved:
            lines.append(f"cause: {proved[0].sentence}")
        else:
            lines += [_NO_CAUSE, *tested_block(explanation)]
        lines += before_step_lines(explanation)
        lines += tested_block(explanation) if explanation.is_open else []
    elif explanation.agrees:
        which = "every variant" if len(explanation.ran) == len(explanation.variants) else "every variant that ran"
        lines = [f"{path}: tick {tick}: {which} gives the recorded state", *dependence_lines(explanation)]
        lines += [*unrepeated_desync_lines(explanation), *tested_block(explanation)]
    elif not explanation.ran:
        lines = [f"{path}: tick {tick}: no variant reached the step, whose state differed when the tape was verified"]
        lines += _known_lines(explanation)
    else:
        lines = [f"{path}: tick {tick}: {_same_text(explanation)}"]
        outside = outside_cause_line(explanation)
        lines += ["", outside, *run_before_lines(explanation), ""] if outside is not None else []
        lines += _known_lines(explanation)
    lines += outside_lines(explanation.outside)
    lines += ["", variants_heading(explanation)]
    letters = {id(outcome): letter for outcome, letter in zip(explanation.pair or (), "AB", strict=False)}
    for outcome in sorted(explanation.variants, key=lambda outcome: letters.get(id(outcome), "C")):
        lines.append(f"  {letters.get(id(outcome), '-')}  {_variant_text(explanation, outcome)}")
    if explanation.pair is not None and not any(map(explanation.is_recorded, explanation.pair)):
        lines.append(f"  none of them gives the recorded hash, {explanation.recorded_hash:016x}")
    return lines + _notes(explanation)


def _same_text(explanation: Explanation) -> str:
    """What the variants did, of which no two are compared, and not all give the recorded state."""
    if any(map(explanation.is_recorded, explanation.ran)):  # Such as a result that was not repeated.
        return "not all variants give the recorded state"
    raised = [one.step is not None and one.step.raised is not None for one in explanation.ran]
    states = {one.result for one, is_error in zip(explanation.ran, raised, strict=True) if not is_error}
    if any(note in explanation.notes for note in (NOT_DETERMINISTIC, NOT_REPEATABLE)) or len(states) > 1:
        return "no variant gives the recorded state"
    if states:
        which = "variants that do not raise" if any(raised) else "variants"
        return f"all {which} give the same state, which is not the recorded one"
    if len({one.result for one in explanation.ran}) > 1:
        return "all variants raise, and the recording has a state"
    return "all variants raise the same error, and the recording has a state"


_NOT_THEMSELVES = {"line", "branch", "operation", "unseen"}  # Kinds of causes that a setting can stand behind.
_NO_CAUSE = (
    "the cause is not known: no traced line gives different values before the state differs; compiled code and other "
    "packages are not traced"
)


def _notes(explanation: Explanation) -> list[str]:
    return [f"note: {note}" for note in explanation.notes]


def _field_lines(explanation: Explanation) -> list[str]:
    states = [outcome.step.state for outcome in explanation.pair or () if outcome.step is not None]
    both = (states[0], states[1]) if len(states) > 1 and states[0] is not None and states[1] is not None else None
    values, rest = object_difference_lines(both, [field.name for field in explanation.fields], ("A", "B"))
    fields = [field for field in explanation.fields if field.name in rest]
    lines = [f"  {value}" for value in values]
    lines += [
        f"  field {field.name}: {_elements_text(field.elements) if field.elements else 'its size differs'}"
        for field in fields[:_FIELDS_SHOWN]
    ]
    return [*lines, *(f"  {more}" for more in _more_fields(len(fields))), *_phase_lines(explanation)]


def _cause_lines(
    cause: Cause,
    proved: Sequence[DifferingSetting] = (),
    *,
    refuted: str | None = "",
    names: Callable[[SourceLocation], str] = _NAME_OF_LINE,
) -> list[str]:
    """names: of the lines of the path into the state."""
    is_setting = proved and cause.kind in _NOT_THEMSELVES
    text = f"{proved[0].sentence}; {at_this_line(cause)}" if is_setting else cause_text(cause)
    is_known = refuted == "" and (cause.kind != "unseen" or is_setting)
    if refuted:
        text += f"; {refuted}" if NOT_KNOWN in text else f"; {NOT_KNOWN}: {refuted}"
    lines = [
        f"{'cause' if is_known else 'first difference'}: {text}",
        *place_lines(cause.place, "A" if cause.other_place is not None else cause.only_in or None),
    ]
    lines += place_lines(cause.reordered[0], "A") if cause.reordered is not None else []
    lines += place_lines(cause.other_place, "B") if cause.other_place is not None else []
    lines += place_lines(cause.reordered[1], "B") if cause.reordered is not None else []
    lines += undone_lines(cause) if cause.loaded_at is None else []
    if cause.read_at is not None:
        lines += [f"  {read_text(cause)}", *place_lines(cause.read_at)]
    if cause.value is not None and not cause.is_of_branches:
        lines += _value_lines(cause.value, elements=_ELEMENTS_SHOWN, where=after_it(cause))
    for value in cause.orders:
        lines += order_lines(value)
    for value in cause.outside:
        lines += _value_lines(value, elements=1, where=where_from(cause), path=value.path)
    lines += loaded_lines(cause)
    if len(cause.way) > 1:
        lines.append("  path into the state:")
        lines += [f"    {names(place):<20} {changed:<20} {place.text}".rstrip() for place, changed in cause.way]
    return lines


def _value_lines(value: DifferingValue, *, elements: int, where: str = "", path: str = "") -> list[str]:
    if value.elements is None or not value.elements.shown:
        return _part_lines(value, where)
    is_named = path and path != value.name.removeprefix("self")
    count = f": {_elements_text(value.elements)}" if value.elements.shown[0][0] else ":"  # Not of a number alone.
    lines = [f"  {where}{value.name}{f' ({path[1:]})' if is_named else ''}{count}"]
    for index, first, second, ulp in value.elements.shown[:elements]:
        place = f"[{', '.join(map(str, index))}]  " if index else ""
        lines.append(f"      {place}A {first}  B {second}" + (f"  ({counted(ulp, 'ULP')})" if _is_near(ulp) else ""))
    return lines


def _part_lines(value: DifferingValue, where: str) -> list[str]:
    """The parts of a value that differ; the value itself if it has none."""
    if any(path != value.name for path, _, _ in value.parts):
        lines = [f"      {path}  A {one}  B {two}" for path, one, two in value.parts[:_PARTS_SHOWN]]
        if (more := len(value.parts) - _PARTS_SHOWN) > 0:
            lines.append(f"      and {counted(more, 'more part')}")
        return [f"  {where}{value.name}:", *lines]
    if value.first == value.second:
        return [f"  {where}{value.name}: two digests; the part in which they differ was not kept"]
    return [f"  {where}{value.name}:", f"      A  {value.first}", f"      B  {value.second}"]


def _is_near(ulp: int | None) -> TypeGuard[int]:
    """Return True if a distance in ULPs is worth printing: a larger one means unrelated numbers."""
    return ulp is not None and ulp <= _ULPS_SHOWN_MAX


def _elements_text(elements: DifferingElements) -> str:
    if elements.shown and not elements.shown[0][0]:
        return f"A {elements.shown[0][1]}, B {elements.shown[0][2]}"  # No array: there is nothing to count.
    distance = f", at most {counted(elements.ulp_max, 'ULP')} apart" if _is_near(elements.ulp_max) else ""
    return f"{elements.count:,} of {counted(elements.total, 'element')} {'differs' if elements.count == 1 else 'differ'}{distance}"


def _known_lines(explanation: Explanation) -> list[str]:
    between, unrepeated = between_lines(explanation), unrepeated_lines(explanation.outside, explanation.variants)
    lines = [
        *code_lines(explanation.code),
        *changed_lines(explanation.changed_settings),
        f"  {what_is_known(explanation)}, among others, {versions_not_tested(explanation.code)},",
        *([] if explanation.knows_settings else [SETTINGS_UNKNOWN]),
        f"  and what {'else ' if explanation.run_before or explanation.other_values else ''}classes and modules had kept when the recording began;",
    ]
    if explanation.is_maybe_in_step:
        lines = [*between, *lines[:-1], lines[-1].removesuffix(";")]
    elif explanation.between is not None and explanation.between.suspicious:
        lines = between
    else:
        lines += between
    lines = [*unrepeated, *lines, *tested_block(explanation)]
    if explanation.place.fields:
        names = ", ".join(shown_fields(explanation.place.fields))
        lines.append(f"  fields that differ at tick {explanation.tick:,}: {names}")
    lines += _phase_lines(explanation)
    if explanation.known_fields:
        differing = [difference.field for difference in explanation.known_fields]
        values, rest = object_difference_lines(explanation.known_states, differing)
        what = "values" if values else "fields"
        lines.append(f"  at the next recorded keyframe, tick {explanation.known_tick:,}, these {what} differ:")
        lines += [f"    {value}" for value in values]
        fields = [difference for difference in explanation.known_fields if difference.field in rest]
        for difference in fields[:_FIELDS_SHOWN]:
            lines += [f"    {line}" for line in difference_lines(difference)[:2]]
        lines += [f"    {more}" for more in _more_fields(len(fields))]
    if explanation.writers:
        if explanation.place.fields:
            what = f"the fields that differ at tick {explanation.tick:,}"
        else:
            what = "them in this tick" if explanation.known_fields else "to the state"
        lines.append(f"  lines that wrote {what}:")
    for place, written in explanation.writers[:_WRITERS_SHOWN]:
        lines.append(f"    {place.name:<20} {', '.join(shown_fields(written))}: {place.text}")
    if len(explanation.writers) > _WRITERS_SHOWN:
        lines.append(f"    and {counted(len(explanation.writers) - _WRITERS_SHOWN, 'more line')}")
    return lines


def _more_fields(count: int) -> list[str]:
    return [f"and {counted(count - _FIELDS_SHOWN, 'more field')}"] if count > _FIELDS_SHOWN else []


def _phase_lines(explanation: Explanation) -> list[str]:
    text = phase_text(explanation.place)
    return [f"  {text}"] if text is not None else []


def _variant_text(explanation: Explanation, outcome: VariantOutcome) -> str:
    if outcome.step is None:
        return f"{outcome.variant.label}: not run"
    if outcome.step.state is None:
        return f"{outcome.variant.label}: {outcome.step.raised}"
    recorded = ", as recorded" if explanation.is_recorded(outcome) else ""
    return f"{outcome.variant.label}: hash {outcome.step.state.hash():016x}{recorded}"
