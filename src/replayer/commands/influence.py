"""The command ``replay influence``: the inputs without which a value is different."""

from __future__ import annotations

import json
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import Positive, Whole
from recorder.console.output import print_json
from recorder.console.progress import status_line
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, ensure_states, factory_of, note_losses, note_version
from replayer.commands.options import Json, Sim, TapePath
from replayer.commands.shrink import parsed_empty, place_text, short_text
from replayer.commands.who import row_index
from replayer.playback.make_simulation import Factory
from replayer.reduction.influence import InfluenceReport, InfluentialInput, find_influence
from replayer.search.search_errors import ExpressionError
from replayer.search.watched_value import ABSENT, AskedValue, watched_value
from replayer.tape.copied_range import UnfitTapeError
from replayer.timeline.timeline import Timeline
from replayer.value_text import inputs_to_json, plain_text, to_json

INPUTS_SHOWN = 20


def influence(
    tape: TapePath | None = None,
    /,
    *,
    field: Annotated[str, Parameter(name="--field")],
    row: str | None = None,
    entity: Annotated[int | None, Parameter(name="--id")] = None,
    id_column: str | None = None,
    at: Annotated[Whole, Parameter(alias="--tick")] = -1,
    each: Annotated[bool, Parameter(name="--each", negative="")] = False,
    empty: str | None = None,
    lines: Positive = INPUTS_SHOWN,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Name the inputs that influence a value at a tick: without them it is different.

    Examples:
    replay influence run.tape --field plants.energy --row 7 --at 400
    replay influence game.tape --field 'units[14].hp' --at 900 --sim game:Game
    replay influence game.tape --field gold --each --sim game:Game

    Groups of inputs are left out. A group that changes the value is halved, until
    single inputs are left: a few among hundreds take some tens of runs, most of them
    short. Inputs that change it only together are named as a set. Inputs that cancel
    each other within a group are not seen: --each leaves out every input alone.

    Exit code: 0 found, 1 no input has influence, 2 there is no such value.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    field
        A field, or the path of a value in recorded objects: 'units[14].hp'.
    row
        The index of the element; of a field with several dimensions one number each: 10,30.
    entity
        Ask about the entity with this number instead of a row.
    id_column
        The field with the numbers of the entities; by default the column "id" of the field's table.
    at
        The tick. Negative ticks count from the end; -1, the default, is the last one.
    each
        Leave out every input alone, which takes a run for each.
    empty
        What stands for no input, as JSON; by default null, [] or {}, as on the tape.
    lines
        The number of inputs that are printed.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    path, place, without = choose(tape), row_index(row), parsed_empty(empty)
    factory = factory_of(sim)
    with reading(path), Timeline(path, factory) as run:
        ensure_states(run.tape)
        note_version(run.tape)
        note_losses(run.tape)
        try:
            asked = watched_value(field, place, entity, id_column)
            report = _found(run, asked, at, factory, each=each, empty=without, quiet=as_json)
        except (ExpressionError, UnfitTapeError) as error:
            raise UsageError(plain_text(str(error))) from None
    if as_json:
        print_json(influence_facts(report))
    else:
        print_visible("\n".join(plain_text(line) for line in _lines(report, lines)))
    return SAME if report.inputs or report.together or report.others_change else DIFFERS


def _found(
    run: Timeline, asked: AskedValue, at: int, factory: Factory | None, *, each: bool, empty: Any, quiet: bool
) -> InfluenceReport:
    """Search, with the number of runs on a terminal."""
    with status_line("leaving out inputs", quiet=quiet) as show:
        return find_influence(
            run,
            asked,
            run.absolute_tick(at),
            factory,
            each=each,
            empty=empty,
            progress=lambda runs: show(f"leaving out inputs: {counted(runs, 'run')}"),
        )


def influence_facts(report: InfluenceReport) -> dict[str, Any]:
    """The answer as ``replay influence --json`` prints it."""
    facts = attrs.asdict(report, recurse=False)
    facts["is_now"] = None if report.is_now is ABSENT else to_json(report.is_now)
    facts["inputs"] = [_facts(one) | {"without": _plain(one.without), "raised": one.raised} for one in report.inputs]
    facts["together"] = [[_facts(one) for one in group] for group in report.together]
    return facts


def _facts(one: InfluentialInput) -> dict[str, Any]:
    return {"tick": one.tick, "item": one.item, "value": inputs_to_json(one.value)}


def _plain(value: Any) -> Any:
    return None if value is ABSENT else to_json(value)


def _lines(report: InfluenceReport, lines_max: int) -> list[str]:
    count = len(report.inputs)
    what = f"{report.value} at tick {report.tick:,} is {short_text(str(report.is_now))}"
    lines = [f"{what}: {count:,} of {counted(report.input_count, 'input')} up to there change it when left out alone"]
    for one in report.inputs[:lines_max]:
        instead = f"without it {short_text(str(one.without))}" if one.raised is None else f"without it {one.raised}"
        lines.append(f"  {_text(one)}: {instead}")
    if count > lines_max:
        lines.append(f"  … {counted(count - lines_max, 'input')} more: --lines {count}, or --json")
    for group in report.together:
        lines.append(f"  only together, {counted(len(group), 'input')}:")
        lines += [f"    {_text(one)}" for one in group[:lines_max]]
        if len(group) > lines_max:
            lines.append(f"    … {counted(len(group) - lines_max, 'input')} more: --lines {len(group)}, or --json")
    lines.append(
        "  without all others, it is different, too: there are further inputs that change it only together"
        if report.others_change
        else "  all others left out together: the same value"
    )
    if not report.each:
        lines.append("  not tested: inputs that cancel each other in a group; --each leaves out every one alone")
    lines.append(f"  {counted(report.steps, 'step')} simulated in {counted(report.runs, 'run')}")
    return lines


def _text(one: InfluentialInput) -> str:
    return f"{place_text(one.tick, one.item)}, {short_text(json.dumps(inputs_to_json(one.value), ensure_ascii=False))}"
