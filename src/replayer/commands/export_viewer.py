"""The part of ``replay export`` for viewers: everything that a tape holds, in one file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from recorder.console.argument_types import Positive, Whole
from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import UsageError
from recorder.location.tape_location import Location
from recorder.storage.os_errors import writing
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.commands.arguments import factory_of, ready_tape
from replayer.export.viewers.tick_range import OnProgress, TickRange, TickRangeRequest
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape
from replayer.value_text import plain_text, tick_range
from sim.extras import missing_package
from sim.kernel.registry import UnknownWorldError

VIEWER_FORMATS = {  # The kind of file, the package that writes it, and the extra that installs the package.
    ".rrd": ("Rerun files", "rerun-sdk", "rerun"),
    ".mcap": ("MCAP files", "mcap", "mcap"),
}
LINES_SHOWN = 5  # Of the report of missing ticks.

Write = Callable[[TickRange, Path, OnProgress], None]

_FOR = "For .rrd and .mcap:"


@attrs.frozen(kw_only=True)
class ViewerOptions:
    """The options for viewers on the command line, each with its help."""

    every: Annotated[
        Positive | None,
        Parameter(help=f"{_FOR} write a state every N ticks. By default N keeps the states below 256 MiB."),
    ] = None
    first: Annotated[
        Whole | None, Parameter(name="--from", help=f"{_FOR} the first tick. Negative ticks count from the end.")
    ] = None
    last: Annotated[Whole | None, Parameter(name="--to", help=f"{_FOR} the last tick, included.")] = None
    field: Annotated[
        list[str] | None,
        Parameter(negative="", help=f"{_FOR} a field of the states. May be repeated. By default all but opaque ones."),
    ] = None
    keyframes: Annotated[
        bool, Parameter(negative="", help=f"{_FOR} only the states of keyframes, which needs no simulation.")
    ] = False
    tick_seconds: Annotated[
        float | None,
        Parameter(validator=Number(gt=0), help="For .mcap: the length of a tick in seconds. By default 1."),
    ] = None

    @property
    def given(self) -> list[str]:
        """The options that were given, by their names on the command line."""
        names = {"first": "--from", "last": "--to", "tick_seconds": "--tick-seconds"}
        options = attrs.asdict(self, filter=lambda _, value: value is not None and value is not False)
        return [names.get(name, f"--{name}") for name in options]


def export_for_viewer(
    path: Location, output: Path, options: ViewerOptions, *, events: bool, sim: str | None, as_json: bool
) -> int:
    """Write the file, print what is in it, and return the exit code.

    Raises UsageError for options that contradict each other, and as reading a tape and making its simulation do.
    """
    if options.keyframes and options.every:
        raise UsageError("--keyframes takes the states of all keyframes, --every takes others: give one of the two")
    if options.tick_seconds is not None and output.suffix != ".mcap":
        raise UsageError("--tick-seconds is for .mcap; Rerun counts ticks: leave it out")
    write = _writer(output.suffix, options.tick_seconds)
    request = TickRangeRequest(
        options.first, options.last, options.every, options.field or (), options.keyframes, with_rebuilt_events=events
    )
    with ready_tape(path) as tape:
        source = _source(tape, factory_of(sim), request)
        with writing(output), progress_bar("states", source.last - source.first + 1, quiet=as_json) as show:
            write(source, output, show)
        lines, code = source.losses()
    shown = [plain_text(line) for line in lines]
    if as_json:
        print_json(_facts(source, output) | {"missing": shown})
        return code
    print_visible(f"{output}: {_describe(source)}")
    for line in shown[:LINES_SHOWN]:
        print_visible(f"  {line}", file=sys.stderr)
    if len(shown) > LINES_SHOWN:
        print_visible(f"  and {counted(len(shown) - LINES_SHOWN, 'more line')} of what is missing", file=sys.stderr)
    return code


def _source(tape: Tape, factory: Factory | None, request: TickRangeRequest) -> TickRange:
    try:
        return TickRange(tape, factory, request)
    except UnknownWorldError as error:
        raise UsageError(f"{tape.path}: {error.args[0]}; or give --keyframes, which needs no simulation") from None


def _writer(suffix: str, tick_seconds: float | None) -> Write:
    """Return the function that writes such a file. Raises UsageError if its package is not installed."""
    try:
        if suffix == ".rrd":
            from replayer.export.viewers.rerun import write_rerun  # noqa: PLC0415 - an extra, and takes long to import

            return write_rerun
        from replayer.export.viewers.mcap import Clock, write_mcap  # noqa: PLC0415 - an extra, too
    except ModuleNotFoundError:
        raise missing_viewer_package(suffix) from None
    return lambda source, output, on_progress: write_mcap(
        source, output, on_progress, Clock.of_seconds(tick_seconds or 1.0)
    )


def missing_viewer_package(suffix: str) -> UsageError:
    """Return an error that names the missing package and the command that installs it."""
    files, package, extra = VIEWER_FORMATS[suffix]
    return UsageError(missing_package(f"writing {files}", package, extra))


def _facts(source: TickRange, output: Path) -> dict[str, Any]:
    return {
        "path": str(output),
        "first_tick": source.first,
        "last_tick": source.last,
        "every": None if source.request.keyframes else source.every,
        "states": source.state_count,
    }


def _describe(source: TickRange) -> str:
    states = counted(source.state_count, "state")
    kind = "of keyframes" if source.request.keyframes else f"every {source.every:,} ticks" if source.every > 1 else ""
    return f"{tick_range(source.first, source.last)}, {states}{f' {kind}' if kind else ''}"
