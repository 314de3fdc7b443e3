"""The command ``replay diff``: where two recordings diverge, what differs there, and how the difference develops."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recorder.console.argument_types import Positive
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.errors import RecordingError
from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, SAME, UsageError
from recorder.location.tape_location import Location
from recorder.session.lockstep import RUN_NAME
from recorder.storage.os_errors import reading, writing
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import ensure_states, factory_of, note_losses
from replayer.commands.export import PICTURES, load_drawing
from replayer.commands.options import Json, Output, Sim, TapePath
from replayer.desync.dump.dump import difference_lines
from replayer.desync.dump.dump_tapes import REPRODUCTION, diff_dumps, is_dump
from replayer.desync.object_diff import (
    GRAPH_PREFIX,
    compare_objects,
    named_fields,
    object_difference_lines,
    shown_fields,
    text_fields,
)
from replayer.desync.state_diff import STATE_LABELS, FieldDifference, compare_states
from replayer.diagnose.compare.meeting import declared_counters, find_meeting, try_reads
from replayer.diagnose.compare.spread import DifferenceSpread, measure_spread
from replayer.diagnose.compare.tape_diff import TapeDifference, diff_tapes
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import UnfitSimulationError, make_simulation
from replayer.report.difference_text import MeetingReport
from replayer.status import worst_code
from replayer.tape.completeness import tape_code
from replayer.tape.tape import Tape
from replayer.value_text import plain_text
from sim.kernel.registry import ConfigError, UnknownWorldError
from sim.kernel.state import Snapshot

VALUES_NAMED = 8  # In the line of fields, of values of objects.


def diff(
    one: TapePath,
    other: TapePath,
    /,
    *,
    ticks: Positive = 300,
    prove: Annotated[bool, Parameter(name="--prove", negative="")] = False,
    output: Output = None,
    sim: Sim = None,
    as_json: Json = False,
) -> int:
    """Compare two recordings tick by tick: the first tick that differs, the phase, the fields, the trend.

    Examples:
    replay diff before.tape after.tape
    replay diff host.tape guest.tape -o difference.png
    replay diff run.tape branch.tape --prove

    Two folders of dumps are compared by their trees of hashes.

    Tick and fields come from the tapes alone. If the simulation is available as well, both tapes are re-simulated from
    that tick, and the rows that differ are counted. The trend is transient (equal again), bounded or spreading.

    Exit code: 0 the same, 1 different, 3 the same, but one of them is not sealed or not complete, 4 the same as far as
    they could be read, and one of them is corrupt, 5 no tape can be read.

    Parameters
    ----------
    one, other
        The tapes. Their keyframe intervals, settings and lengths may differ; the ticks that both have are compared.
    ticks
        Count rows for this many ticks from the first that differs.
    prove
        Where the runs have met again but for a few fields, run the later steps with other values in these, to see if a
        step reads them.
    output
        Draw the counts as a picture: fields over ticks. Its name ends in .png, .svg or .pdf.
    sim
        module:factory of the simulation, for tapes that name no registered world.
    as_json
        Print one JSON object.
    """
    if output is not None and output.suffix not in PICTURES:
        raise UsageError(f"expected a name that ends in {', '.join(PICTURES)}, got {output}")
    if is_dump(one) and is_dump(other):
        return _diff_dumps(one, other, as_json=as_json)
    _ensure_two_of_a_kind(one, other)
    if output is not None:
        load_drawing()  # A missing package is reported before anything takes long.
    with reading(one), Tape(one) as left, reading(other), Tape(other) as right:
        ensure_states(left)
        ensure_states(right)
        note_losses(left)
        note_losses(right)
        try:
            with progress_bar("comparing", 1, quiet=as_json) as show:
                result = diff_tapes(left, right, lambda done, total: show(done / total))
        except ValueError as error:
            raise UsageError(f"{one}, {other}: {error}") from None
        spread, why, met = _measure_spread(left, right, result, ticks, sim, prove=prove, quiet=as_json)
        codes = [tape_code(left), tape_code(right), INCOMPLETE if result.unreadable_ticks else SAME]
        simulations = _two_simulations(left, right)
    if not as_json:
        _print(one, other, result, spread, why)
        for line in met.lines(may_prove=not prove) if met is not None else ():
            print_visible(f"  {line}")
        if simulations is not None:
            print_visible(f"  simulations: the tapes were recorded from {simulations[0]} and {simulations[1]}")
    if output is not None:
        _draw(output, one, other, spread, why)
    if as_json:  # Last: if there is an error, that is the one object that is printed.
        print_json(_facts(result, spread) | {"met": met and met.facts(), "simulations": simulations})
    elif output is not None:
        print_visible(f"  picture: {output}")
    return worst_code([*codes, DIFFERS if result.ticks or result.inputs_tick is not None else SAME])


def _two_simulations(left: Tape, right: Tape) -> list[str] | None:
    """What the tapes were recorded from, if they name two classes: then most differs."""
    names = [plain_text(str(tape.meta.get("simulation") or "")) for tape in (left, right)]
    return names if all(names) and names[0] != names[1] else None


def _draw(output: Path, one: Location, other: Location, spread: DifferenceSpread | None, why: str | None) -> None:
    if spread is None:
        raise UsageError(f"{output} is not drawn: {why or 'nothing differs'}")
    drawing = load_drawing()
    with writing(output):
        drawing.save(drawing.draw_difference(spread, f"{one.name} and {other.name}"), output)


def _ensure_two_of_a_kind(one: Location, other: Location) -> None:
    """Raise UsageError for a dump and a tape, which have no ticks to compare."""
    for dump, tape in ((one, other), (other, one)):
        if is_dump(dump) and (not isinstance(tape, Path) or tape.is_file()):
            inside = next((dump / name for name in (REPRODUCTION, RUN_NAME) if (dump / name).is_file()), None)
            hint = f"; the dump contains the tape {inside}" if inside is not None else ""
            raise UsageError(f"expected two tapes or two dumps, got the dump {dump} and the tape {tape}{hint}")


def _diff_dumps(one: Path, other: Path, *, as_json: bool) -> int:
    try:
        with reading(one):
            result = diff_dumps(one, other)
    except ValueError as error:
        raise UsageError(f"{one}, {other}: {error}", CORRUPT) from None
    if as_json:
        facts = {"ticks": result.ticks, "blocks": result.blocks, "block_count": result.block_count}
        fields = named_fields(result.states, [difference.field for difference in result.differences])
        print_json({**facts, "exchanges": result.exchanges, "fields": fields})
        return DIFFERS if result.differences else SAME
    left, right = result.ticks
    print_visible(
        f"{one} and {other}: "
        + (f"states of tick {left:,}" if left == right else f"states of ticks {left:,} and {right:,}")
    )
    if result.blocks is None:
        print_visible("  the states are laid out differently")
    else:
        print_visible(
            f"  {len(result.blocks)} of {result.block_count} blocks differ, found in {counted(result.exchanges, 'exchange')}"
        )
    for line in _difference_lines(result.states, result.differences):
        print_visible(f"  {line}")
    return DIFFERS if result.differences else SAME


def _difference_lines(states: tuple[Snapshot, Snapshot] | None, differences: list[FieldDifference]) -> list[str]:
    """Objects by the paths of their values, other fields by their first rows."""
    values, rest = object_difference_lines(states, [difference.field for difference in differences], STATE_LABELS)
    fields = [difference_lines(difference, STATE_LABELS)[:3] for difference in differences if difference.field in rest]
    return values + [line for lines in fields for line in lines]


def _measure_spread(
    left: Tape, right: Tape, result: TapeDifference, ticks: int, sim: str | None, *, prove: bool, quiet: bool
) -> tuple[DifferenceSpread | None, str | None, MeetingReport | None]:
    """The difference row by row, or the reason why it is not available, and if the runs met; nothing if nothing differs."""
    if result.first_bad is None:
        return None, None, None
    last = min(result.last_tick, result.first_bad + ticks - 1)
    try:
        made = [make_simulation(tape, factory_of(sim)) for tape in (left, right)]
        counters = declared_counters(made[0]) | declared_counters(made[1])
        cursors = Cursor(left, made[0]), Cursor(right, made[1])
        with progress_bar("counting", last - result.first_bad + 1, quiet=quiet) as show:
            spread = measure_spread(*cursors, result.first_bad, last, lambda done, _: show(done))
        meeting, trials = find_meeting(spread, counters), None
        if prove and meeting is not None:
            with progress_bar("proving", len(meeting.rows), quiet=quiet) as show:
                trials = try_reads(
                    meeting, cursors, lambda: make_simulation(right, factory_of(sim)), lambda n, _: show(n)
                )
    except (UnknownWorldError, ConfigError, UnfitSimulationError, RecordingError) as error:
        return None, f"the rows that differ are not counted: {error}", None
    except MismatchError as error:
        why = "the rows that differ are not counted: the simulation that was named does not give the recorded state of tick"
        return None, f"{why} {error.tick:,}", None
    if not spread.counts.size:
        return None, f"the rows that differ are not counted: {spread.stopped}", None
    met = MeetingReport(meeting, trials, text_fields(spread.states)) if meeting is not None else None
    return spread, None, met


def _object_states(result: TapeDifference, spread: DifferenceSpread | None) -> tuple[Snapshot, Snapshot] | None:
    """The states of the first different tick, if they hold captured objects, and are re-simulated or in keyframes there."""
    if result.ticks and result.keyframe_tick == result.ticks[0].tick:
        return result.states
    states = spread.states if spread is not None else None
    return states if compare_objects(states, limit=1) is not None else None


def _tick_fields(result: TapeDifference, spread: DifferenceSpread | None) -> list[str] | None:
    """The fields of the first different tick, objects by the paths of their values; None if they are not known."""
    if not result.ticks:
        return []
    fields, states = result.ticks[0].fields, _object_states(result, spread)
    if states is None or (fields is None and result.keyframe_tick == result.ticks[0].tick):
        return None if fields is None else shown_fields(fields)
    # Two states of other texts may be saved in ways that differ elsewhere.
    return named_fields(states, fields or [one.field for one in compare_states(*states)])


def _facts(result: TapeDifference, spread: DifferenceSpread | None) -> dict[str, Any]:
    is_of_rows = spread is not None and not text_fields(spread.states)  # The bytes of a text tell nothing.
    trend = spread.trend if spread is not None and is_of_rows else result.trend
    return {
        "same": result.same,
        "first_tick": result.first_tick,
        "last_tick": result.last_tick,
        "compared_ticks": result.compared_ticks,
        "unreadable_ticks": result.unreadable_ticks,
        "first_bad": result.first_bad,
        "bad_ticks": len(result.ticks),
        "phase": result.phase,
        "fields": _tick_fields(result, spread),
        "inputs_tick": result.inputs_tick,
        "inputs_differ_in_key_order_alone": result.is_key_order,
        "course": None if _is_of_objects(result, spread) and trend != "transient" else trend,
        "course_of": "rows" if is_of_rows else "fields",
        "keyframe_tick": result.keyframe_tick,
        "keyframe_fields": named_fields(result.states, [difference.field for difference in result.differences]),
        "last_rows": _last_rows(spread),
        "rows": _rows(spread),
    }


def _print(
    one: Location, other: Location, result: TapeDifference, spread: DifferenceSpread | None, why: str | None
) -> None:
    both, ticks = f"{one} and {other}", f"{result.first_tick:,} to {result.last_tick:,}"
    if not result.ticks:
        print_visible(f"{both}: {counted(result.compared_ticks, 'tick')} from {ticks}, the same")
    else:
        print_visible(f"{both}: {_same_before(result)}first different at tick {result.ticks[0].tick:,} of {ticks}")
        _print_where(result, spread)
    if result.inputs_tick is not None:
        order = " (before the states do)" if result.ticks and result.inputs_tick < result.ticks[0].tick else ""
        keys = " in the order of the keys of a dict alone" if result.is_key_order else ""
        print_visible(f"  inputs: differ first at tick {result.inputs_tick:,}{keys}{order}")
    elif result.ticks:
        print_visible("  inputs: the same at all ticks")
    if result.unreadable_ticks:
        print_visible(f"  not compared: {counted(result.unreadable_ticks, 'tick')} that one of them lacks")
    if result.ticks:
        print_visible(f"  trend: {_trend_text(result, spread)}")
    for line in _difference_lines(result.states, result.differences):
        print_visible(f"    {line}")
    if result.ticks and result.keyframe_tick != result.ticks[0].tick:
        _print_objects(result, spread)
    if spread is not None and spread.stopped:
        print_visible(f"  rows are counted for {counted(spread.counts.shape[1], 'tick')}: {spread.stopped}")
    if why is not None:
        print_visible(f"  {why}")


def _print_objects(result: TapeDifference, spread: DifferenceSpread | None) -> None:
    """Print how the objects of the first different tick differ, if both runs were re-simulated."""
    states = _object_states(result, spread)
    lines = _difference_lines(states, compare_states(*states)) if states is not None else []
    if lines:
        print_visible(f"  at tick {result.ticks[0].tick:,}, re-simulated:")
    for line in lines:
        print_visible(f"    {line}")


def _last_rows(spread: DifferenceSpread | None) -> dict[str, int] | None:
    """The number of rows that differ at the last tick that was re-simulated, by field; None if none was."""
    if spread is None or not spread.counts.size:
        return None
    return {name: counts[-1] for name, counts in (_rows(spread) or {}).items() if counts[-1]}


def _rows(spread: DifferenceSpread | None) -> dict[str, list[int]] | None:
    """The numbers of rows that differ, by field; without those of the saved form of objects and the bytes of texts, which mean nothing to a user."""
    if spread is None:
        return None
    texts = text_fields(spread.states)
    named = zip(spread.fields, spread.counts.tolist(), strict=True)
    return {name: counts for name, counts in named if not name.startswith(GRAPH_PREFIX) and name not in texts}


def _same_before(result: TapeDifference) -> str:
    """The ticks before the first different one, if all of them were compared and have equal inputs, too."""
    first_bad = result.ticks[0].tick
    is_known = not result.unreadable_ticks and (result.inputs_tick is None or result.inputs_tick >= first_bad)
    return f"the same to tick {first_bad - 1:,}, " if is_known and first_bad > result.first_tick else ""


def _print_where(result: TapeDifference, spread: DifferenceSpread | None) -> None:
    if result.phase is not None:
        print_visible(f"  phase: {result.phase}")
    fields = _tick_fields(result, spread)
    if fields is None:
        print_visible("  fields: not known from the tapes; --blame fields records them")
    elif fields:
        is_long = len(fields) > VALUES_NAMED and compare_objects(_object_states(result, spread), limit=1) is not None
        print_visible(f"  fields: {', '.join(fields[:VALUES_NAMED] if is_long else fields)}{', …' if is_long else ''}")
    else:
        print_visible("  fields: none by their hashes: only the capacities of tables or blobs differ")


def _is_of_objects(result: TapeDifference, spread: DifferenceSpread | None) -> bool:
    """Return True if what differs is the saved form of objects or a text: a number of its fields or rows means nothing to a user."""
    texts = text_fields(spread.states if spread is not None else result.states)
    named = spread.fields if spread is not None else {name for one in result.ticks for name in one.fields or ()}
    return any(name.startswith(GRAPH_PREFIX) or name in texts for name in named)


def _trend_text(result: TapeDifference, spread: DifferenceSpread | None) -> str:
    trend: str | None = spread.trend if spread is not None else result.trend
    count = result.last_tick - result.ticks[0].tick + 1
    differing = f"{counted(len(result.ticks), 'tick')} of {count:,} differ"
    is_of_objects = _is_of_objects(result, spread)
    if count == 1:
        text = "not known: only the last tick differs"
    elif trend == "transient":
        text = f"transient, {differing}"
    elif is_of_objects:  # A trend is one of rows, and those of a saved form or a text mean nothing to a user.
        text = f"{differing}, up to the last"
    elif spread is None:  # As many fields may hide more and more rows.
        text = f"{trend} by the number of fields, {differing}"
    else:
        text = f"{trend}, {differing}"
    if spread is not None and spread.counts.size and not is_of_objects:
        totals = spread.counts.sum(axis=0)
        text += f"; rows that differ: {totals[0]:,} at first, {totals[-1]:,} after {len(totals):,} ticks"
    if not result.differences:
        return text
    is_later = result.keyframe_tick != result.ticks[0].tick
    return f"{text}; at tick {result.keyframe_tick:,}{', the next keyframe of both' if is_later else ''}:"
