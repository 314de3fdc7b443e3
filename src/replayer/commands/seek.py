"""The command ``replay seek``: go to a tick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from recorder.console.argument_types import Whole
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import SAME, UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.visible_text import print_visible
from replayer.commands.arguments import (
    choose,
    ensure_seek,
    ensure_states,
    factory_of,
    folder_beside,
    note_losses,
    note_version,
)
from replayer.commands.options import DumpFolder, Json, Output, Sim, TapePath
from replayer.report.object_lines import ShownState
from replayer.report.seek_text import ended_lines, print_seek, section_lines, seek_facts
from replayer.tape.fields import world_of
from replayer.timeline.timeline import SeekReport, Timeline
from replayer.value_text import to_json
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from replayer.commands.seek_picture import DrawnMap
    from replayer.report.difference_text import StepChanges


def seek(
    tape: TapePath | None = None,
    /,
    *,
    tick: Whole | None = None,
    episode: Whole | None = None,
    step: Whole | None = None,
    field: Annotated[list[str] | None, Parameter(name="--field", negative="")] = None,
    changes: Annotated[bool, Parameter(name="--changes", negative="")] = False,
    all_rows: Annotated[bool, Parameter(name="--all", negative="")] = False,
    output: Output = None,
    as_picture: Annotated[bool, Parameter(name="--picture", negative="")] = False,
    as_json: Json = False,
    sim: Sim = None,
    dump_folder: DumpFolder = None,
) -> int:
    """Go to a tick: load the keyframe before it, re-simulate the rest, check the hash.

    Example: replay seek run.tape --tick 2500 --field plants.energy --changes -o state.npz

    Exit code: 0 reached, 1 desync (a dump is written), 2 the tape has no such
    tick, 3 the tape has no tick yet, 4 the tape is damaged there, 5 not a tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    tick
        The tick to go to. Negative ticks count from the end: -1 is the last one.
    episode
        Go to an episode instead of a tick. Episodes count from 0, negative ones from the end.
    step
        The number of actions done in the episode. 0, the default, is its reset.
    field
        Print this field in place of all, or a value in recorded objects: 'units[3]', as in replay who. May be repeated.
    changes
        Print what the step to this tick changed, too: the values before and after it. A write of an equal value is none.
    all_rows
        Print all values of a --field, not only the first and the last ones. Without --field, print all items that
        the attributes of a recorded object hold. Lines are as long as their lists.
    output
        Write the complete state to this .npz file, one array per field.
    as_picture
        Draw a map: the first --field that has two dimensions or is a picture (height, width, 3 or 4) of uint8, in place
        of its numbers; without --field the first map that replay view shows, such as that of the simulation's layers().
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    dump_folder
        The folder for the dump of a desync. By default the folder of the tape.
    """
    ensure_seek(tick, episode, step, output, picture_as_json=as_picture and as_json)
    path, names = choose(tape), field or []
    with reading(path):
        run = Timeline(path, factory_of(sim), dump_folder=dump_folder or folder_beside(path))
    with run:
        report = _go(run, path, quiet=as_json, tick=tick, episode=episode, step=step)
        snapshot, world, aux = run.state.snapshot(), world_of(run.tape), run.aux if run.tape.aux else None
        config = run.tape.meta["world"]["config"] if world is not None else {}
        ended = to_json(run.tape.outcome) if run.tape.sealed and report.tick == run.last_tick else None
        shown = ShownState(report.tick, snapshot, names)
        drawn = _drawn(run, sim, report.tick, snapshot, names) if as_picture else None
        changed = _changes(run, path, snapshot, report.tick) if changes else None
    if output is not None:
        from replayer.tape.npz import write_state_whole  # noqa: PLC0415 - it loads zipfile

        write_state_whole(output, snapshot)
    if as_json:
        facts = seek_facts(report, shown.summary(world, config), shown.requested_values(), aux, ended)
        print_json(facts | ({"changes": changed.facts()} if changed is not None else {}))
        return SAME
    summary = [] if names else shown.summary_lines(world, config, whole=all_rows) + section_lines(aux)
    print_seek(path, report, summary + ended_lines(ended))
    _print_more(shown, changed, drawn, output, all_rows=all_rows)
    return SAME


def _print_more(
    shown: ShownState, changed: StepChanges | None, drawn: DrawnMap | None, output: Path | None, *, all_rows: bool
) -> None:
    """Print what was asked for beside the summary: values, changes, a map, the name of the file that was written."""
    lines = shown.requested_lines(
        whole=all_rows or not sys.stdout.isatty(), uncut=all_rows, drawn=drawn.name if drawn else None
    )
    lines += changed.lines(whole=all_rows, asked=shown.requested) if changed is not None else []
    for line in [
        *(f"  {text}" for text in lines),
        *(drawn.title if drawn else ()),
    ]:
        print_visible(line)
    for line in drawn.lines if drawn else ():
        sys.stdout.write(f"{line}\n")  # Colours are escapes, made of numbers.
    if output is not None:
        print_visible(f"  written: {output}")


def _go(run: Timeline, path: Location, *, quiet: bool, **where: int | None) -> SeekReport:
    with reading(path):
        for note in (ensure_states, note_version, note_losses):
            note(run.tape)
        with progress_bar("seeking", 1, quiet=quiet) as show:
            return run.seek(
                where["tick"], lambda done, all_of: show(done / all_of), episode=where["episode"], step=where["step"]
            )


def _drawn(run: Timeline, sim: str | None, tick: int, snapshot: Snapshot, names: list[str]) -> DrawnMap:
    from replayer.commands.seek_picture import draw_layer, draw_named  # noqa: PLC0415 - a seek starts without it

    return draw_named(snapshot, names) if names else draw_layer(run, factory_of(sim), tick, snapshot)


def _changes(run: Timeline, path: Location, after: Snapshot, tick: int) -> StepChanges:
    """What the step to a tick changed; the timeline then is at the tick before it. Raises as seek does."""
    from replayer.report.difference_text import StepChanges  # noqa: PLC0415 - a seek starts without it

    if tick == 0:
        raise UsageError("--changes: no step led to tick 0: choose a later tick")
    with reading(path):
        run.seek(tick - 1)
    return StepChanges.between(run.state.snapshot(), after, tick)
