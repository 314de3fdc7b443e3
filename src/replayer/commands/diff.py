"""The command ``replay diff``: where two recordings part, what differs there, and what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recorder.console.argument_types import Positive
from recorder.console.progress import progress_bar
from recorder.errors import RecordingError
from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, SAME, UsageError
from recorder.session.lockstep import RUN_NAME
from recorder.storage.os_errors import reading, writing
from recorder.text import counted
from replayer.commands.arguments import ensure_states, factory_of
from replayer.commands.export import PICTURES, load_drawing
from replayer.commands.options import Json, Output, Sim
from replayer.desync.dump.dump import difference_lines
from replayer.desync.dump.dump_tapes import REPRODUCTION, diff_dumps, is_dump
from replayer.desync.state_diff import STATE_LABELS
from replayer.diagnose.compare.spread import DifferenceSpread, measure_spread
from replayer.diagnose.compare.tape_diff import TapeDifference, diff_tapes
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import UnfitSimulationError, make_simulation
from replayer.status import worst_code
from replayer.tape.completeness import tape_code
from replayer.tape.tape import Tape
from sim.kernel.registry import ConfigError, UnknownWorldError


def diff(
    one: Path,
    other: Path,
    /,
    *,
    ticks: Positive = 300,
    output: Output = None,
    sim: Sim = None,
    as_json: Json = False,
) -> int:
    """Compare two recordings tick by tick: the first tick that differs, the phase, the fields, what becomes of it.

    Examples:
    replay diff before.tape after.tape
    replay diff host.tape guest.tape -o difference.png

    Two folders of dumps are compared by their trees of hashes.

    The tapes alone tell tick and fields. Where the simulation is at hand, too, both are re-simulated from there on, and
    the rows that differ are counted: transient (the same again), bounded or spreading.

    Exit code: 0 the same, 1 different, 3 the same, but one of them is not sealed or not whole, 4 the same as far as they
    could be read, and one of them is corrupt, 5 no tape can be read.

    Parameters
    ----------
    one, other
        The tapes. They may have other cadences, settings and lengths; ticks are compared that both have.
    ticks
        Count rows for so many ticks from the first that differs.
    output
        Draw that as a picture: fields over ticks. Its name ends in .png, .svg or .pdf.
    sim
        module:factory of the simulation, for tapes that name no registered world.
    as_json
        Print one JSON object.
    """
    if output is not None and output.suffix not in PICTURES:
        raise UsageError(f"{output}: a name that ends in {', '.join(PICTURES)} was expected")
    if is_dump(one) and is_dump(other):
        return _diff_dumps(one, other, as_json=as_json)
    _ensure_two_of_a_kind(one, other)
    if output is not None:
        load_drawing()  # What is missing for it is said before anything takes long.
    with reading(one), Tape(one) as left, reading(other), Tape(other) as right:
        ensure_states(left)
        ensure_states(right)
        try:
            with progress_bar("comparing", 1, quiet=as_json) as show:
                found = diff_tapes(left, right, lambda done, total: show(done / total))
        except ValueError as error:
            raise UsageError(f"{one}, {other}: {error}") from None
        spread, why = _measure_spread(left, right, found, ticks, sim, quiet=as_json)
        codes = [tape_code(left), tape_code(right), INCOMPLETE if found.unreadable_ticks else SAME]
    if not as_json:
        _print(one, other, found, spread, why)
    if output is not None:
        _draw(output, one, other, spread, why)
    if as_json:  # Last: if there is an error, that is the one object that is printed.
        print(json.dumps(_facts(found, spread), indent=1))
    elif output is not None:
        print(f"  picture: {output}")
    return worst_code([*codes, DIFFERS if found.ticks or found.inputs_tick is not None else SAME])


def _draw(output: Path, one: Path, other: Path, spread: DifferenceSpread | None, why: str | None) -> None:
    if spread is None:
        raise UsageError(f"{output} is not drawn: {why or 'nothing differs'}")
    drawing = load_drawing()
    with writing(output):
        drawing.save(drawing.draw_difference(spread, f"{one.name} and {other.name}"), output)


def _ensure_two_of_a_kind(one: Path, other: Path) -> None:
    """Raise UsageError for a dump and a tape, which have no ticks to be compared."""
    for dump, tape in ((one, other), (other, one)):
        if is_dump(dump) and tape.is_file():
            inside = next((dump / name for name in (REPRODUCTION, RUN_NAME) if (dump / name).is_file()), None)
            hint = f"; a tape in it is {inside}" if inside is not None else ""
            raise UsageError(f"{dump} is a dump and {tape} is none: give two tapes or two dumps{hint}")


def _diff_dumps(one: Path, other: Path, *, as_json: bool) -> int:
    try:
        with reading(one):
            found = diff_dumps(one, other)
    except ValueError as error:
        raise UsageError(f"{one}, {other}: {error}", CORRUPT) from None
    if as_json:
        facts = {"ticks": found.ticks, "blocks": found.blocks, "block_count": found.block_count}
        fields = [difference.field for difference in found.differences]
        print(json.dumps({**facts, "exchanges": found.exchanges, "fields": fields}, indent=1))
        return DIFFERS if found.differences else SAME
    left, right = found.ticks
    print(
        f"{one} and {other}: "
        + (f"states of tick {left:,}" if left == right else f"states of ticks {left:,} and {right:,}")
    )
    if found.blocks is None:
        print("  the states are laid out differently")
    else:
        print(
            f"  {len(found.blocks)} of {found.block_count} blocks differ, found in {counted(found.exchanges, 'exchange')}"
        )
    for difference in found.differences:
        for line in difference_lines(difference, STATE_LABELS)[:3]:
            print(f"  {line}")
    return DIFFERS if found.differences else SAME


def _measure_spread(
    left: Tape, right: Tape, found: TapeDifference, ticks: int, sim: str | None, *, quiet: bool
) -> tuple[DifferenceSpread | None, str | None]:
    """The difference row by row, or why that cannot be had; neither if nothing differs."""
    if found.first_bad is None:
        return None, None
    last = min(found.last_tick, found.first_bad + ticks - 1)
    try:
        cursors = [Cursor(tape, make_simulation(tape, factory_of(sim))) for tape in (left, right)]
        with progress_bar("counting", last - found.first_bad + 1, quiet=quiet) as show:
            spread = measure_spread(cursors[0], cursors[1], found.first_bad, last, lambda done, _: show(done))
    except (UnknownWorldError, ConfigError, UnfitSimulationError, RecordingError) as error:
        return None, f"the rows that differ are not counted: {error}"
    except MismatchError as error:
        return None, (
            "the rows that differ are not counted: the code at hand does not give the recorded state of tick "
            f"{error.tick:,}"
        )
    return (spread, None) if spread.counts.size else (None, f"the rows that differ are not counted: {spread.stopped}")


def _facts(found: TapeDifference, spread: DifferenceSpread | None) -> dict[str, Any]:
    return {
        "same": found.same,
        "first_tick": found.first_tick,
        "last_tick": found.last_tick,
        "compared_ticks": found.compared_ticks,
        "unreadable_ticks": found.unreadable_ticks,
        "first_bad": found.first_bad,
        "bad_ticks": len(found.ticks),
        "phase": found.phase,
        "fields": found.ticks[0].fields if found.ticks else [],
        "inputs_tick": found.inputs_tick,
        "course": spread.trend if spread is not None else found.trend,
        "course_of": "rows" if spread is not None else "fields",
        "keyframe_tick": found.keyframe_tick,
        "keyframe_fields": [difference.field for difference in found.differences],
        "rows": {name: spread.counts[i].tolist() for i, name in enumerate(spread.fields)} if spread else None,
    }


def _print(one: Path, other: Path, found: TapeDifference, spread: DifferenceSpread | None, why: str | None) -> None:
    both = f"{one} and {other}"
    if not found.ticks:
        print(
            f"{both}: {counted(found.compared_ticks, 'tick')} from {found.first_tick:,} to {found.last_tick:,}, the same"
        )
    else:
        print(f"{both}: first different at tick {found.ticks[0].tick:,} of {found.first_tick:,} to {found.last_tick:,}")
        _print_where(found)
    if found.inputs_tick is not None:
        late = " (before the states do)" if found.ticks and found.inputs_tick < found.ticks[0].tick else ""
        print(f"  inputs: differ first at tick {found.inputs_tick:,}{late}")
    elif found.ticks:
        print("  inputs: the same at all ticks")
    if found.unreadable_ticks:
        print(f"  not compared: {counted(found.unreadable_ticks, 'tick')} that one of them cannot show")
    if found.ticks:
        print(f"  course: {_course_text(found, spread)}")
    for difference in found.differences:
        for line in difference_lines(difference, STATE_LABELS)[:3]:
            print(f"    {line}")
    if spread is not None and spread.stopped:
        print(f"  rows are counted for {counted(spread.counts.shape[1], 'tick')}: {spread.stopped}")
    if why is not None:
        print(f"  {why}")


def _print_where(found: TapeDifference) -> None:
    if found.phase is not None:
        print(f"  phase: {found.phase}")
    fields = found.ticks[0].fields
    if fields is None:
        print("  fields: the tapes do not say which; --blame fields records that")
    elif fields:
        print(f"  fields: {', '.join(fields)}")
    else:
        print("  fields: none by their hashes: only the room of tables or blobs differs")


def _course_text(found: TapeDifference, spread: DifferenceSpread | None) -> str:
    trend: str | None = spread.trend if spread is not None else found.trend
    if spread is None and trend != "transient":  # As many fields may hide more and more rows.
        trend = f"{trend} by the number of fields"
    text = f"{trend}, {counted(len(found.ticks), 'tick')} of {found.last_tick - found.ticks[0].tick + 1:,} differ"
    if spread is not None and spread.counts.size:
        totals = spread.counts.sum(axis=0)
        text += f"; rows that differ: {totals[0]:,} at first, {totals[-1]:,} after {len(totals):,} ticks"
    return text + (f"; at tick {found.keyframe_tick:,}:" if found.differences else "")
