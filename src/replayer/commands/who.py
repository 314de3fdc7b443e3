"""The command ``replay who``: the step, the phase and the source line that changed a value last."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from recorder.console.argument_types import Positive, Whole
from recorder.console.output import print_json, say_on_stderr
from recorder.console.progress import progress_bar
from recorder.exit_codes import DIFFERS, INCOMPLETE, SAME, UsageError
from recorder.storage.os_errors import reading
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, ensure_states, factory_of, note_losses, note_version
from replayer.commands.options import Json, Sim, TapePath
from replayer.playback.cursor import MismatchError
from replayer.report.last_write_text import write_facts, write_lines
from replayer.search.last_write import LastWrite, WriteSearch
from replayer.search.search_errors import ExpressionError
from replayer.search.watched_value import ABSENT, AskedValue, watched_value
from replayer.timeline.timeline import Timeline
from replayer.value_text import plain_text


def who(
    tape: TapePath | None = None,
    /,
    *,
    field: Annotated[str, Parameter(name="--field")],
    row: str | None = None,
    entity: Annotated[int | None, Parameter(name="--id")] = None,
    id_column: str | None = None,
    at: Annotated[Whole, Parameter(alias="--tick")] = -1,
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

    Exit code: 0 found, 1 it never changed, or a desync, 2 there is no such value, 3 not
    known, since ticks that could change the answer cannot be reached.

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
            print_visible("\n".join(plain_text(text) for text in write_lines(one, first)))
    if any(one.missing for one in found):
        return INCOMPLETE
    return DIFFERS if found[0].tick is None else SAME


def _ask(run: Timeline, value: AskedValue, tick: int, times: int, *, wants_line: bool, quiet: bool) -> list[LastWrite]:
    """The last changes up to a tick, the latest first, until there is none before."""
    search, found = WriteSearch(run.tape, run.counted_cursor, value, run.lookup()), list[LastWrite]()
    for _ in range(times):
        try:
            with progress_bar("looking back", tick - run.first_tick, quiet=quiet) as show:
                found.append(search.last(tick, lambda done, _: show(done), wants_line=wants_line))
        except MismatchError as mismatch:
            raise run.desync(mismatch) from None
        if found[-1].tick is None or found[-1].before is ABSENT:
            break
        tick = found[-1].tick - 1
    return found


def row_index(row: str | None) -> tuple[int, ...]:
    """The indices of --row. Raises UsageError."""
    if row is None:
        return ()
    try:
        return tuple(int(part) for part in row.split(","))
    except ValueError:
        raise UsageError(f"--row {row}: expected an index such as 7, or one for each dimension: 10,30") from None
