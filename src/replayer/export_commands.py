"""The commands that hand out what a recording holds: ``replay export`` for tables, ``replay plot`` for pictures."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from recorder.console import SAME, UsageError, Whole, counted
from replayer.choosing import choose, ensure_states, factory_of, world_of
from replayer.export import FORMATS, write_table
from replayer.files import reading, writing
from replayer.options import Json, Sim
from replayer.tape import Tape
from replayer.timeline import Timeline

CURVES = ("populations", "energies", "deaths", "defences")
PICTURES = (".png", ".svg", ".pdf")

_Output = Annotated[Path, Parameter(name=["--output", "-o"])]


def export(
    tape: Path | None = None,
    /,
    *,
    output: _Output,
    telemetry: Annotated[bool, Parameter(negative="")] = False,
    as_json: Json = False,
) -> int:
    """Write tables out of a recording.

    Example: replay export run.tape --telemetry -o run.csv

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    output
        The file; its name ends in .csv, .ndjson or .parquet. An existing one is replaced.
    telemetry
        The figures of each tick, one row a tick: what the simulation's telemetry() gave while it was recorded.
    as_json
        Say what was written as a JSON object.
    """
    if not telemetry:
        raise UsageError("say what to export: --telemetry")
    if output.suffix not in FORMATS:
        raise UsageError(f"{output}: a name that ends in {', '.join(FORMATS)} was expected")
    path = choose(tape)
    columns = _telemetry(path)
    try:
        with writing(output):
            write_table(columns, output)
    except ModuleNotFoundError:
        raise _missing("writing Parquet", "pyarrow", "parquet") from None
    rows, figures = len(columns["tick"]), len(columns) - 1
    if as_json:
        print(json.dumps({"path": str(output), "rows": rows, "columns": list(columns)}, indent=1))
    else:
        print(f"{output}: {counted(rows, 'row')} of {counted(figures, 'figure')}")
    return SAME


def _telemetry(path: Path) -> dict[str, Any]:
    with reading(path), Tape(path) as opened:
        columns = opened.telemetry()
    if not len(columns["tick"]):
        raise UsageError(f"{path} has no telemetry: its simulation has no telemetry(), or it was not recorded")
    return columns


def plot(
    tape: Path | None = None,
    /,
    *,
    output: _Output = Path("plot.png"),
    what: Annotated[
        list[Literal["populations", "energies", "deaths", "defences"]] | None, Parameter(negative="")
    ] = None,
    tick: Whole | None = None,
    sim: Sim = None,
) -> int:
    """Draw a recording: curves of its telemetry or, with --tick, the layers of the world at a tick.

    Examples:
    replay plot run.tape -o run.png
    replay plot run.tape --what deaths -o deaths.svg
    replay plot run.tape --tick 500 -o layers.png

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    output
        The picture; its name ends in .png, .svg or .pdf. An existing one is replaced.
    what
        Which curves: populations, energies, deaths (by cause), defences; all that there are, unless given. May be
        repeated.
    tick
        Draw the state at this tick; negative ticks count from the end.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    if output.suffix not in PICTURES:
        raise UsageError(f"{output}: a name that ends in {', '.join(PICTURES)} was expected")
    if tick is not None and what:
        raise UsageError("--what draws curves over all ticks, --tick one of them: give one of the two")
    drawing, path = load_drawing(), choose(tape)
    try:
        if tick is None:
            figure = drawing.draw_curves(_telemetry(path), what or CURVES, path.name)
        else:
            reached, layers = _layers(path, tick, sim)
            figure = drawing.draw_layers(layers, f"{path.name}, tick {reached:,}")
    except LookupError as error:
        raise UsageError(f"{path}: {error}") from None
    with writing(output):
        drawing.save(figure, output)
    print(output)
    return SAME


def load_drawing() -> ModuleType:
    """The module that draws. Raises UsageError if matplotlib is not installed."""
    try:
        import replayer.plot  # noqa: PLC0415 - matplotlib is an extra, and takes long to import
    except ModuleNotFoundError:
        raise _missing("drawing", "matplotlib", "plot") from None
    return replayer.plot


def _layers(path: Path, tick: int, sim: str | None) -> tuple[int, dict[str, Any]]:
    """The tick that was reached, and what of its state can be drawn as maps, by name."""
    with reading(path), Timeline(path, factory_of(sim)) as run:
        ensure_states(run.tape)
        reached = run.seek(tick).tick
        snapshot, world = run.state.snapshot(), world_of(run.tape)
        if world is not None and world.layers is not None:
            return reached, dict(world.layers(run.tape.meta["world"]["config"], snapshot))
    return reached, {name: snapshot[name] for name in snapshot if snapshot[name].ndim == 2}


def _missing(what: str, package: str, extra: str) -> UsageError:
    return UsageError(f"{what} needs {package}: pip install 'simulation-flight-recorder[{extra}]'")
