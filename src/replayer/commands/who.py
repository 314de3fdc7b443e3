"""The command ``replay who``: the step, the phase and the source line that changed a value last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.argument_types import Positive, Whole
from recorder.console.output import print_json, say_on_stderr
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, INCOMPLETE, SAME, UsageError
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, ensure_states, factory_of, note_losses, note_version
from replayer.commands.find import skipped_text
from replayer.commands.options import Json, Sim
from replayer.search.last_write import LastWrite, WriteSearch
from replayer.search.member import MemberValue
from replayer.search.search_errors import ExpressionError
from replayer.search.standard_values import is_standard
from replayer.search.watched_value import ABSENT, AskedValue, watched_value
from replayer.timeline.timeline import Timeline
from replayer.value_text import plain_text, tick_range, to_json

WIDTH = 110  # Of a line, about.


def who(
    tape: Path | None = None,
    /,
    *,
    field: Annotated[str, Parameter(name="--field")],
    row: str | None = None,
    entity: Annotated[int | None, Parameter(name="--id")] = None,
    id_column: str | None = None,
    at: Whole = -1,
    times: Positive = 1,
    line: bool = True,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Name the step that changed a value last, the line of code, and the inputs that led there.

    Examples:
    replay who run.tape --field plants.energy --row 7 --at 2499
    replay who run.tape --field plants.energy --id 1207
    replay who run.tape --field biotope.energy --row 10,30
    replay who game.tape --field 'units[14].hp' --sim game:Game --times 3

    From the tick on, intervals between keyframes are simulated backwards, and the
    value is compared after each step: a change that is undone between two keyframes
    is found, too. The step is then run once more, line by line, in a copy of the
    process. A write of an equal value is no change. Intervals are skipped where the
    tape's lookup file (replay index) says that their steps changed other rows only.

    A row is a place: another entity may be there at another tick. --id follows one.

    Exit code: 0 found, 1 it never changed, 2 there is no such value, 3 not known,
    since ticks that could change the answer cannot be reached.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    field
        A field, or the path of a value in recorded objects: 'units[14].hp'.
    row
        The index of the element; of a field with several dimensions one number each: 10,30.
    entity
        Follow the entity with this number instead of a row.
    id_column
        The field with the numbers of the entities; by default the column "id" of the field's table.
    at
        Look at the steps up to this tick. Negative ticks count from the end; -1, the default, is the last one.
    times
        Ask again, each time before the change that was found.
    line
        Find the source line. --no-line saves the step that is run again.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    path, place = choose(tape), row_index(row)
    with reading(path), Timeline(path, factory_of(sim)) as run:
        ensure_states(run.tape)
        note_version(run.tape)
        note_losses(run.tape)
        run.lookup(lambda text: say_on_stderr(f"warning: {text}"))
        try:
            watched = watched_value(field, place, entity, id_column)
            found = _ask(run, watched, run.absolute_tick(at), times, wants_line=line, quiet=as_json)
        except ExpressionError as error:
            raise UsageError(plain_text(str(error))) from None
        first = run.first_tick
    if as_json:
        print_json({"value": str(watched), "writes": [write_facts(one) for one in found]})
    else:
        for one in found:
            print_visible("\n".join(plain_text(text) for text in _lines(one, first)))
    if any(not one.is_proved for one in found):
        return INCOMPLETE
    return DIFFERS if found[0].tick is None else SAME


def _ask(run: Timeline, value: AskedValue, tick: int, times: int, *, wants_line: bool, quiet: bool) -> list[LastWrite]:
    """The last changes up to a tick, the latest first, until there is none before."""
    search, found = WriteSearch(run.tape, run.counted_cursor, value, run.lookup()), list[LastWrite]()
    for _ in range(times):
        with progress_bar("looking back", tick - run.first_tick, quiet=quiet) as show:
            found.append(search.last(tick, lambda done, _: show(done), wants_line=wants_line))
        if found[-1].tick is None or found[-1].before is ABSENT:
            break
        tick = found[-1].tick - 1
    return found


def write_facts(write: LastWrite) -> dict[str, Any]:
    """A change as ``replay who --json`` prints it."""
    return {
        "tick": write.tick,
        "before": _json(write.before),
        "after": _json(write.after),
        "appeared": write.before is ABSENT,
        "vanished": write.after is ABSENT,
        "phase": write.phase,
        "line": None if write.line is None else attrs.asdict(write.line),
        "line_note": write.line_note,
        "inputs": to_json(write.inputs),
        "simulated": write.simulated,
        "intervals": write.intervals,
        "skipped_intervals": write.skipped_intervals,
        "proved": write.is_proved,
        "missing": [attrs.asdict(one) for one in write.missing],
    }


def _json(value: Any) -> Any:
    """A value for JSON; of a decimal number, a date or a member of an enumeration its text."""
    if value is ABSENT:
        return None
    return str(value) if is_standard(value) or isinstance(value, MemberValue) else to_json(value)


def row_index(row: str | None) -> tuple[int, ...]:
    """The indices of --row. Raises UsageError."""
    if row is None:
        return ()
    try:
        return tuple(int(part) for part in row.split(","))
    except ValueError:
        raise UsageError(f"--row {row}: expected an index such as 7, or one for each dimension: 10,30") from None


def _lines(write: LastWrite, first_tick: int) -> list[str]:
    lines = [_headline(write, first_tick)]
    if write.line is not None:
        one = write.line
        lines.append(f"  line: {one.path}:{one.number} in {one.function}")
        lines.append(f"    {_short(one.text)}")
        if one.count > 1:
            lines.append(f"    the last of {one.count:,} changes in this step")
    elif write.line_note is not None:
        lines.append(f"  line: not known: {write.line_note}")
    if write.tick is not None:
        lines.append(
            f"  inputs of tick {write.tick:,}: {_short(json.dumps(to_json(write.inputs), ensure_ascii=False))}"
        )
    lines.append(f"  {counted(write.simulated, 'step')} simulated{skipped_text(write)}")
    for one_missing in write.missing:
        where = tick_range(one_missing.first_tick, one_missing.last_tick)
        lines.append(f"  NOT KNOWN whether it changed at {where}: {one_missing.why}")
    return lines


def _headline(write: LastWrite, first_tick: int) -> str:
    if write.tick is None:
        return f"{write.value}: no step changed it since tick {first_tick:,}: {_text(write.after)}"
    phase = f", phase {write.phase}" if write.phase is not None else ""
    if write.before is ABSENT:
        change = f"appeared as {_text(write.after)}"
    elif write.after is ABSENT:
        change = f"vanished; it was {_text(write.before)}"
    else:
        change = f"{_text(write.before)} → {_text(write.after)}"
    return f"{write.value}: {change} at tick {write.tick:,}{phase}"


def _text(value: Any) -> str:
    return _short(str(value) if not isinstance(value, str) else repr(value))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
