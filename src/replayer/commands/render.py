"""The command ``replay render``: what `replay view` shows of some ticks, as a picture, a GIF, a video or a page."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from recorder.console.argument_types import LocalPath, Positive
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import SAME, UsageError
from recorder.location.tape_location import Location
from recorder.storage.atomic_file import atomic_file
from recorder.storage.os_errors import reading, writing
from recorder.text import bytes_text, counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import choose, ensure_states, factory_of, note_losses, note_version
from replayer.commands.options import Json, Sim, TapePath
from replayer.tape.tape import Tape
from replayer.value_text import tick_range
from replayer.view.drawing.page_file import PageRequest, PageSizeError, write_page
from replayer.view.states.page_json import page_text
from replayer.view.worker.view_cursor import ViewCursor
from sim.extras import missing_package
from sim.near_names import did_you_mean

SUFFIXES = (".png", ".gif", ".mp4", ".webm", ".html")
SIZE_MAX = 8_192  # Pixels: a picture of this size takes some 200 MB while it is drawn.
PAGE = ".html"
VIDEOS = (".mp4", ".webm")
LAYERS_SHOWN = 2  # If none is named, as on the page.
_RANGE = re.compile(r"(-?\d{1,19})(?:\.\.(-?\d{1,19}))?")


@attrs.frozen(kw_only=True)
class RenderOptions:
    """How it is drawn, each with its help."""

    layer: Annotated[
        list[str] | None,
        Parameter(negative="", help="A layer, as the page names it. May be repeated. By default the first two."),
    ] = None
    hide: Annotated[list[str] | None, Parameter(negative="", help="A kind of points not to draw. May be repeated.")] = (
        None
    )
    map: Annotated[Literal["viridis", "cividis", "inferno", "grey"], Parameter(help="The colours of maps.")] = "viridis"
    own_scale: Annotated[
        bool, Parameter(negative="", help="Colours span each tick's own values, not those of all rendered ticks.")
    ] = False
    dark: Annotated[bool, Parameter(negative="", help="On a dark page.")] = False
    max_mb: Annotated[Positive, Parameter(name="--max-mb", help="Of a page: the most megabytes.")] = 20
    size: Annotated[Positive, Parameter(help="Pixels of the longer side of a map, at least.")] = 480


def render(
    tape: TapePath | None = None,
    /,
    *,
    ticks: Annotated[str, Parameter(alias="--tick", allow_leading_hyphen=True)],
    output: Annotated[LocalPath, Parameter(alias="-o")],
    every: Positive = 1,
    fps: Annotated[float, Parameter(validator=Number(gt=0, lte=240))] = 30.0,
    options: Annotated[RenderOptions | None, Parameter(name="*")] = None,
    sim: Sim = None,
    as_json: Json = False,
) -> int:
    """Draw what the page of replay view shows of a tick or a range of ticks.

    Examples:
    replay render run.tape --ticks 412 -o tick.png
    replay render run.tape --ticks 0..-1 --every 5 -o run.mp4
    replay render run.tape --ticks 0..-1 --every 10 -o run.html
    replay render ants.tape --ticks 100..200 --layer trail -o trail.gif --sim ants:Ants

    Each tick is re-simulated and compared with its recorded hash.

    Exit code: 0 done, 1 a tick differs from the recording, 3 the tape has no tick yet, 5 not a tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    ticks
        A tick, or the first and the last as A..B. Negative ticks count from the end.
    output
        A name that ends in .png (of one tick), .gif, .mp4, .webm, or .html: a page in one file
        that a browser opens without this program. An existing file is replaced.
    every
        Draw every N-th tick.
    fps
        Pictures a second. A GIF has at most 50.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    as_json
        Print one JSON object.
    """
    options = options or RenderOptions()
    if options.size > SIZE_MAX:
        raise UsageError(f"--size {options.size:,}: expected at most {SIZE_MAX:,}")
    if output.suffix not in SUFFIXES:
        raise UsageError(f"{output}: expected a name that ends in {', '.join(SUFFIXES)}")
    span = _parsed(ticks, output)
    drawing, path = _load_drawing(output.suffix) if output.suffix != PAGE else None, choose(tape)
    with reading(path), Tape(path) as opened:
        ensure_states(opened)
        note_version(opened)
        note_losses(opened)
        chosen = _ticks_of(opened, ticks, *span)[::every]
    with reading(path):
        cursor = ViewCursor(path, factory_of(sim))
    if cursor.problem is not None:
        raise UsageError(f"{path}: {cursor.problem}")
    layers = _layers_of(cursor, path, options.layer, shown_max=LAYERS_SHOWN if drawing is not None else None)
    points = _points_of(cursor, options.hide)
    with (
        reading(path),
        writing(output),
        progress_bar("rendering", len(chosen), quiet=as_json) as show,
        atomic_file(output, existing="replace") as part,
    ):
        if drawing is None:
            _write_page(cursor, options, (chosen, layers), _caption(path), part, show)
        else:
            scheme = "dark" if options.dark else "light"
            paint = drawing.PaintOptions(options.map, scheme, options.size, points, _caption(path))
            request = drawing.RenderRequest(chosen, layers, options.own_scale, fps, paint)
            drawing.render(cursor, request, part, output.suffix, show)
        size_bytes = part.stat().st_size
    _report(output, chosen, layers, cursor, size_bytes, as_json=as_json)
    return SAME


def _report(
    output: Path, ticks: Sequence[int], layers: tuple[str, ...], cursor: ViewCursor, size_bytes: int, *, as_json: bool
) -> None:
    """Print what was written."""
    problems = cursor.shown.problems
    if as_json:
        facts = {"path": str(output), "first_tick": ticks[0], "last_tick": ticks[-1], "pictures": len(ticks)}
        facts |= {"bytes": size_bytes, "layers": list(layers), "not_shown": [why for _, why in problems.values()]}
        print_json(facts)
        return
    size = f", {bytes_text(size_bytes)}" if output.suffix == PAGE else ""
    print_visible(f"{output}: {tick_range(ticks[0], ticks[-1])}, {counted(len(ticks), 'picture')}{size}")
    for tick, why in problems.values():
        print_visible(f"  not shown at tick {tick:,}: {why}")


def _write_page(
    cursor: ViewCursor,
    options: RenderOptions,
    what: tuple[Sequence[int], tuple[str, ...]],
    name: str,
    part: Path,
    show: Callable[[float], None],
) -> None:
    """Write the page in one file. what: the ticks and the layers. Raises UsageError if it is too large."""
    (ticks, layers), hidden, limit = what, tuple(options.hide or ()), options.max_mb
    request = PageRequest(ticks, layers, hidden, options.map, options.own_scale, name, limit * 1_000_000)
    try:
        write_page(cursor, request, part, show)
    except PageSizeError as error:
        raise UsageError(str(error)) from None


def _load_drawing(suffix: str) -> ModuleType:
    """The module that renders. Raises UsageError if a package is not installed."""
    for module, package in (("PIL", "pillow"), *([("imageio_ffmpeg", "imageio-ffmpeg")] if suffix in VIDEOS else [])):
        try:
            importlib.import_module(module)
        except ImportError:
            raise UsageError(missing_package(f"rendering {suffix} files", package, "render")) from None
    return importlib.import_module("replayer.view.drawing.render_range")


def _parsed(ticks: str, output: Path) -> tuple[int, int]:
    match = _RANGE.fullmatch(ticks)
    if match is None:
        raise UsageError(f"--ticks: expected a tick, or the first and the last as A..B, got {ticks!r:.60}")
    if output.suffix == ".png" and match[2] is not None:
        names = ", ".join(SUFFIXES[1:])
        raise UsageError(f"--ticks {ticks}: a PNG holds one tick: give a name that ends in {names} for a range")
    return int(match[1]), int(match[2] or match[1])


def _ticks_of(tape: Tape, text: str, first: int, last: int) -> range:
    """The ticks, counted from the start. Raises UsageError for a tick that the tape does not have."""
    ends = tape.first_tick, tape.last_tick
    begin, end = (tick + ends[1] + 1 if tick < 0 else tick for tick in (first, last))
    if begin > end:
        raise UsageError(f"--ticks {text}: expected the first tick before the last one")
    if not ends[0] <= begin <= end <= ends[1]:
        raise UsageError(f"--ticks {text}: {tape.path} has {tick_range(*ends)}")
    return range(begin, end + 1)


def _layers_of(cursor: ViewCursor, path: Location, names: list[str] | None, shown_max: int | None) -> tuple[str, ...]:
    """The named layers, or the first ones. Raises UsageError for a name that the tape does not have."""
    known = cursor.shown.names
    if not known:
        raise UsageError(
            f"{path}: its state has no field of two dimensions that is more than a list of places: no map; methods of the "
            "simulation draw your own, layers() maps and points() places on them (docs/view.md)"
        )
    for name in names or ():
        if name not in known:
            hint = page_text(did_you_mean(name, known))
            raise UsageError(f"no layer {page_text(name)!r}; the layers are {', '.join(map(page_text, known))}{hint}")
    return tuple(names or known[:shown_max])


def _points_of(cursor: ViewCursor, hidden: list[str] | None) -> dict[int, str]:
    """The kinds of points that are drawn, names by numbers. Raises UsageError for a hidden kind that the tape lacks."""
    known = cursor.shown.point_kinds
    for name in hidden or ():
        if name not in known:
            kinds = f"the kinds are {', '.join(map(page_text, known))}" if known else "this tape has none"
            raise UsageError(f"no points {page_text(name)!r}; {kinds}")
    return {number: name for number, name in enumerate(known) if name not in (hidden or ())}


def _caption(path: Location) -> str:
    return page_text(path.name, 60)
