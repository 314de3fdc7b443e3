"""The command ``replay seek``: go to a tick."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recorder.console.argument_types import Whole
from recorder.console.progress import progress_bar
from recorder.exit_codes import SAME
from recorder.storage.os_errors import reading
from replayer.commands.arguments import choose, ensure_seek, ensure_states, factory_of, layer_picture, note_version
from replayer.commands.options import DumpFolder, Json, Output, Sim
from replayer.report.report_text import print_seek, seek_facts
from replayer.tape.fields import ensure_fields, world_of
from replayer.tape.npz import write_state_whole
from replayer.timeline.timeline import Timeline
from replayer.value_text import describe_field, field_lines, state_summary


def seek(
    tape: Path | None = None,
    /,
    *,
    tick: Whole | None = None,
    episode: Whole | None = None,
    step: Whole | None = None,
    field: Annotated[list[str] | None, Parameter(name="--field", negative="")] = None,
    all_rows: Annotated[bool, Parameter(name="--all", negative="")] = False,
    output: Output = None,
    picture_wanted: Annotated[bool, Parameter(name="--picture", negative="")] = False,
    as_json: Json = False,
    sim: Sim = None,
    dump_folder: DumpFolder = None,
) -> int:
    """Go to a tick: the nearest keyframe before it, then the simulation's own steps; the hash is checked on arrival.

    Example: replay seek run.tape --tick 2500 --field plants.energy --output state.npz

    Exit code: 0 there, 1 desync (with a dump), 2 the tape has no such tick, 3 it has none yet, 4 damage in the way,
    5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    tick
        Where to go; negative ones count from the end, -1 is the last.
    episode
        Instead of a tick, the episode, from 0; negative ones count from the end.
    step
        How many actions of the episode are done; 0, the default, is its reset.
    field
        Show this field's values too; may be given several times.
    all_rows
        On a terminal, show all values of a --field and not only the first and the last ones.
    output
        Write the whole state to this .npz file, one array a field.
    picture_wanted
        Draw the world's layer as a map, or the first --field that has two dimensions.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    dump_folder
        Where the dump of a desync goes; by default beside the tape.
    """
    ensure_seek(tick, episode, step, output, picture_as_json=picture_wanted and as_json)
    path, names = choose(tape), field or []
    with reading(path):
        run = Timeline(path, factory_of(sim), dump_folder=dump_folder or path.parent)
    with run:
        with reading(path):
            ensure_states(run.tape)
            note_version(run.tape)
            with progress_bar("seeking", 1, quiet=as_json) as show:
                report = run.seek(tick, lambda done, all_: show(done / all_), episode=episode, step=step)
        snapshot, world = run.state.snapshot(), world_of(run.tape)
        config = run.tape.meta["world"]["config"] if world is not None else {}
    ensure_fields(snapshot, names)
    drawn = layer_picture(snapshot, names, world, shutil.get_terminal_size().columns) if picture_wanted else []
    if output is not None:
        write_state_whole(output, snapshot)
    summary = state_summary(snapshot, world, config)
    if as_json:
        print(json.dumps(seek_facts(report, summary, {name: snapshot[name] for name in names}), indent=1))
        return SAME
    print_seek(path, report, summary)
    for name in names:
        print(f"  {name}: {describe_field(snapshot, name)}")
        whole = all_rows or not sys.stdout.isatty()
        print("\n".join(f"    {line}" for line in field_lines(snapshot[name], whole=whole)))
    print("\n".join(drawn), end="\n" if drawn else "")
    if output is not None:
        print(f"  written: {output}")
    return SAME
