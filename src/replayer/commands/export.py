"""The commands ``replay export`` (tables and files for viewers) and ``replay plot`` (pictures)."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from recorder.console.argument_types import LocalPath, Whole
from recorder.console.output import print_json
from recorder.exit_codes import INCOMPLETE, SAME, UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading, writing
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, ensure_states, factory_of, note_losses, note_version
from replayer.commands.export_viewer import VIEWER_FORMATS, ViewerOptions, export_for_viewer
from replayer.commands.options import Json, Sim, TapePath
from replayer.commands.spooled_events import rebuilt_events
from replayer.export.event_files import section_rows, write_events
from replayer.export.tables import FORMATS, write_table
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from replayer.value_text import tick_range
from sim.extras import missing_package

PICTURES = (".png", ".svg", ".pdf")

_NO_VIEWER_OPTIONS = ViewerOptions()
_EVENTS_HELP = (
    "One row for each event that the simulation's events() gave while it was recorded. If events were not recorded, "
    "the tape is re-simulated to get them. The exit code is 3 if the tape has events but those of some ticks are "
    "missing. A file for a viewer always holds the recorded events; with --events the missing ones are re-simulated."
)

_Output = Annotated[LocalPath, Parameter(name=["--output", "-o"])]


def export(
    tape: TapePath | None = None,
    /,
    *,
    output: _Output,
    telemetry: Annotated[bool, Parameter(negative="")] = False,
    events: Annotated[bool, Parameter(negative="", help=_EVENTS_HELP)] = False,
    aux: Annotated[bool, Parameter(negative="")] = False,
    viewer: Annotated[ViewerOptions, Parameter(name="*")] = _NO_VIEWER_OPTIONS,
    sim: Sim = None,
    raw_text: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
) -> int:
    """Export tables of a recording, or all of it for a viewer.

    Examples:
    replay export run.tape --telemetry -o run.csv
    replay export run.tape --events -o births-and-deaths.parquet
    replay export run.tape --aux -o sections.ndjson
    replay export run.tape -o run.rrd --every 10
    replay export run.tape -o run.mcap --from 100 --to 500

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    output
        The file, replaced if it exists: .csv, .ndjson, .parquet (tables), .rrd (Rerun), .mcap (Foxglove and others).
    telemetry
        One row for each tick: the figures that the simulation's telemetry(), or the function telemetry=, gave while it
        was recorded.
    aux
        One row for each change of a section that aux= gave: the tick, the section's name as kind, and its value; or
        gone, if it is no more.
    sim
        module:factory of the simulation. Needed to re-simulate events if the tape names no registered world.
    raw_text
        Write texts in CSV exactly as they are. By default a ' comes before a text that a spreadsheet would evaluate: one
        that begins with =, +, -, @, a tab or a line end. Numbers stay numbers.
    as_json
        Print one JSON object that describes the file.
    """
    if output.suffix in VIEWER_FORMATS:
        if telemetry:
            raise UsageError(
                f"--telemetry is for tables: a file that ends in {output.suffix} has it anyway: leave it out"
            )
        if aux:
            raise UsageError(f"--aux is for tables: expected a name that ends in {', '.join(FORMATS)}")
        return export_for_viewer(choose(tape), output, viewer, events=events, sim=sim, as_json=as_json)
    if viewer.given:
        raise UsageError(f"{viewer.given[0]} is for files that end in {' or '.join(VIEWER_FORMATS)}")
    if [telemetry, events, aux].count(True) != 1:
        raise UsageError("expected --telemetry, --events or --aux, one of them")
    if output.suffix not in FORMATS:
        raise UsageError(f"{output}: expected a name that ends in {', '.join([*FORMATS, *VIEWER_FORMATS])}")
    path = choose(tape)
    try:
        if aux:
            return _export_sections(path, output, raw_text=raw_text, as_json=as_json)
        if events:
            return _export_events(path, output, sim, raw_text=raw_text, as_json=as_json)
        return _export_telemetry(path, output, raw_text=raw_text, as_json=as_json)
    except ModuleNotFoundError:
        raise UsageError(missing_package("writing Parquet", "pyarrow", "parquet")) from None


def _export_telemetry(path: Location, output: Path, *, raw_text: bool, as_json: bool) -> int:
    columns = _telemetry(path)
    with writing(output):
        write_table(columns, output, raw_text=raw_text)
    rows, figures = len(columns["tick"]), len(columns) - 1
    if as_json:
        print_json({"path": str(output), "rows": rows, "columns": list(columns)})
    else:
        print_visible(f"{output}: {counted(rows, 'row')} of {counted(figures, 'figure')}")
    return SAME


def _export_sections(path: Location, output: Path, *, raw_text: bool, as_json: bool) -> int:
    with reading(path), Tape(path) as opened, writing(output):
        note_losses(opened)
        sections = opened.aux
        if not sections:
            raise UsageError(f"{path} has no sections: it was recorded without aux=")
        count, columns = _write_events(path, lambda: section_rows(sections), output, raw_text=raw_text)
        missing = sections.missing_ticks(opened.first_tick, opened.last_tick)
    if as_json:
        print_json({"path": str(output), "rows": count, "columns": columns, "missing_aux_ticks": missing})
    else:
        print_visible(f"{output}: {counted(count, 'change')}")
        for first, last in missing:
            print_visible(f"  not on the tape: the sections of {tick_range(first, last)}", file=sys.stderr)
    return INCOMPLETE if missing else SAME


def _export_events(path: Location, output: Path, sim: str | None, *, raw_text: bool, as_json: bool) -> int:
    with reading(path), Tape(path) as opened, writing(output):
        rebuilt = not opened.has_events
        missing = [] if rebuilt else opened.missing_event_ticks()
        if not missing:
            note_losses(opened)
        if rebuilt:
            ensure_states(opened)
            note_version(opened)
            with rebuilt_events(opened, factory_of(sim), output.parent, quiet=as_json) as read_events:
                count, columns = _write_events(path, read_events, output, raw_text=raw_text)
        else:
            count, columns = _write_events(path, opened.events, output, raw_text=raw_text)
    if as_json:
        facts = {"path": str(output), "rows": count, "columns": columns, "missing_event_ticks": missing}
        print_json(facts | ({"made_again": True} if rebuilt else {}))
    else:
        print_visible(f"{output}: {counted(count, 'event')}" + (", rebuilt by re-simulating" if rebuilt else ""))
        for first, last in missing:
            print_visible(f"  not on the tape: the events of {tick_range(first, last)}", file=sys.stderr)
    return INCOMPLETE if missing else SAME


def _write_events(path: Location, read_events: Any, output: Path, *, raw_text: bool) -> tuple[int, list[str]]:
    try:
        return write_events(read_events, output, raw_text=raw_text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _telemetry(path: Location) -> dict[str, Any]:
    with reading(path), Tape(path) as opened:
        note_losses(opened)
        columns = opened.telemetry()
    if not len(columns["tick"]):
        way = "telemetry= records it, and of a Simulation its method telemetry() does"
        raise UsageError(f"{path} has no telemetry: {way}; curves of numbers in the state are drawn by replay view")
    return columns


def plot(
    tape: TapePath | None = None,
    /,
    *,
    output: _Output = Path("plot.png"),
    what: Annotated[
        list[Literal["populations", "energies", "deaths", "defences"]] | None, Parameter(negative="")
    ] = None,
    tick: Whole | None = None,
    sim: Sim = None,
) -> int:
    """Draw a recording: curves of its telemetry or, with --tick, maps of one tick.

    Examples:
    replay plot run.tape -o run.png
    replay plot run.tape --what deaths -o deaths.svg
    replay plot run.tape --tick 500 -o layers.png

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    output
        The picture: a name that ends in .png, .svg or .pdf. An existing file is replaced.
    what
        The curves to draw, of a meadow; deaths are by cause. May be repeated. By default all of these that the tape has;
        of any other simulation a panel for each figure, with a line about those after the first 60.
    tick
        Draw the state at this tick instead. Negative ticks count from the end.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    if output.suffix not in PICTURES:
        raise UsageError(f"{output}: expected a name that ends in {', '.join(PICTURES)}")
    if tick is not None and what:
        raise UsageError("--what draws curves over all ticks, --tick draws one tick: give one of the two")
    drawing, path = load_drawing(), choose(tape)
    left_out: list[str] = []
    try:
        if tick is None:
            columns = _telemetry(path)
            figure, left_out = drawing.draw_curves(columns, what, path.name), drawing.figures_left_out(columns, what)
        else:
            reached, layers = _layers(path, tick, sim)
            figure = drawing.draw_layers(layers, f"{path.name}, tick {reached:,}")
    except LookupError as error:
        raise UsageError(f"{path}: {error}") from None
    with writing(output):
        drawing.save(figure, output)
    print_visible(output)
    if left_out:
        print_visible(f"  not drawn, {counted(len(left_out), 'figure')}: {', '.join(left_out)}")
    return SAME


def load_drawing() -> ModuleType:
    """Import the module that draws. Raises UsageError if matplotlib is not installed."""
    try:
        import replayer.export.plot  # noqa: PLC0415 - matplotlib is an extra, and takes long to import
    except ModuleNotFoundError:
        raise UsageError(missing_package("drawing", "matplotlib", "plot")) from None
    return replayer.export.plot


def _layers(path: Location, tick: int, sim: str | None) -> tuple[int, dict[str, Any]]:
    """Return the tick that was reached, and the parts of its state that can be drawn as maps, by name."""
    from replayer.commands.seek_picture import shown_layers  # noqa: PLC0415 - it takes time, and curves do without

    run_factory = factory_of(sim)
    with reading(path), Timeline(path, run_factory) as run:
        ensure_states(run.tape)
        note_losses(run.tape)
        reached = run.seek(tick).tick
        layers, problems = shown_layers(run, run_factory, reached, run.state.snapshot())
    for why in problems:
        print_visible(f"note: {why}", file=sys.stderr)
    return reached, dict(layers)
