"""The command ``rerun-importer-tape``: the Rerun viewer starts it for each file that it opens, and reads its stdout.

simulation_flight_recorder checks that the file is a tape before it imports this module. Options of the viewer that make
no sense for a tape, which has its own timeline, are ignored.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import App, Parameter

from recorder.console.app import run_app
from recorder.exit_codes import SAME
from recorder.visible_text import print_visible
from replayer.commands.arguments import ready_tape
from replayer.commands.export_viewer import missing_viewer_package
from replayer.export.viewers.tick_range import TickRange, TickRangeRequest
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.tape.tape import Tape
from replayer.value_text import plain_text
from sim.kernel.registry import ConfigError, UnknownWorldError

app = App(
    name="rerun-importer-tape",
    help="Open a tape in the Rerun viewer. The viewer starts this command itself.\n\n"
    "Example: rerun run.tape\n\n"
    "Exit code: 66 for a file that is not a tape. The viewer then tries others.",
    help_format="plaintext",
)


def load(_: Sequence[str]) -> App:
    """Return the program; everything that it needs is imported already."""
    return app


@app.default
def import_tape(*words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]) -> int:
    """Write the contents of a tape to stdout, in Rerun's own format.

    Parameters
    ----------
    words
        The path, and the options that the viewer passes.
    """
    arguments = _arguments(words)
    try:
        from replayer.export.viewers.rerun import stream_rerun  # noqa: PLC0415 - an extra, and takes long to import
    except ModuleNotFoundError:
        raise missing_viewer_package(".rrd") from None
    with ready_tape(arguments.path) as tape, _own_stdout() as output:
        stream_rerun(
            _source(tape),
            output,
            application=arguments.application_id,
            recording_id=arguments.recording_id,
            prefix=arguments.entity_path_prefix,
        )
    return SAME  # The recording itself lists what is missing. The viewer would show any other code as a failure.


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the options that apply to a tape; the times and the open recording are for files without a timeline."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("path", type=Path)
    parser.add_argument("--application-id")
    parser.add_argument("--recording-id")
    parser.add_argument("--entity-path-prefix", default="")
    return parser.parse_known_args(words)[0]


def _source(tape: Tape) -> TickRange:
    """Return all of the tape, or only the states of its keyframes if its simulation cannot be made."""
    try:
        return TickRange(tape, None, TickRangeRequest())
    except (UnknownWorldError, UnfitSimulationError, ConfigError) as error:
        print_visible(
            f"note: only the states of keyframes are shown: {plain_text(str(error.args[0]))}", file=sys.stderr
        )
        source = TickRange(tape, None, TickRangeRequest(keyframes=True))
        source.problems.append(f"only the states of keyframes: {error.args[0]}")
        return source


@contextmanager
def _own_stdout() -> Iterator[BinaryIO]:
    """Yield stdout for the viewer alone; what a simulation prints goes to stderr meanwhile."""
    sys.stdout.flush()
    viewer_output = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(viewer_output), "wb") as output, redirect_stdout(sys.stderr):
            yield output
    finally:
        sys.stdout.flush()
        os.dup2(viewer_output, 1)
        os.close(viewer_output)


def main() -> None:
    """The console script ``rerun-importer-tape``."""
    arguments = sys.argv[1:]
    sys.exit(run_app(load(arguments), arguments))
