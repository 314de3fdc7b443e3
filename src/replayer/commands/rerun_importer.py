"""The command ``rerun-importer-tape``: the Rerun viewer starts it for each file that it opens, and reads its stdout.

Whether the file is a tape was looked at before this module was imported, see simulation_flight_recorder. What the viewer
passes along is obeyed where it makes sense for a tape, which has a timeline of its own.
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
from replayer.commands.arguments import ready_tape
from replayer.commands.export_viewer import missing_viewer_package
from replayer.export.viewers.tick_range import TickRange, TickRangeRequest
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.tape.tape import Tape
from replayer.value_text import plain_text
from sim.kernel.registry import ConfigError, UnknownWorldError

app = App(
    name="rerun-importer-tape",
    help="Open a tape in the Rerun viewer, which starts this by itself.\n\n"
    "Example: rerun run.tape\n\n"
    "Exit code: 66 for a file that is no tape; then other importers have their turn.",
    help_format="plaintext",
)


def load(_: Sequence[str]) -> App:
    """The program; all that it needs is imported."""
    return app


@app.default
def import_tape(*words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]) -> int:
    """Write what a tape holds to stdout, as Rerun's own format.

    Parameters
    ----------
    words
        The path, and what the viewer passes along.
    """
    given = _arguments(words)
    try:
        from replayer.export.viewers.rerun import stream_rerun  # noqa: PLC0415 - an extra, and takes long to import
    except ModuleNotFoundError:
        raise missing_viewer_package(".rrd") from None
    with ready_tape(given.path) as tape, _own_stdout() as output:
        stream_rerun(
            _source(tape),
            output,
            application=given.application_id,
            recording_id=given.recording_id,
            prefix=given.entity_path_prefix,
        )
    return SAME  # What is missing stands in the recording: the viewer would show another code as a failure.


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    """What a tape can make use of; times and the recording that is open are for files without a timeline."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("path", type=Path)
    parser.add_argument("--application-id")
    parser.add_argument("--recording-id")
    parser.add_argument("--entity-path-prefix", default="")
    return parser.parse_known_args(words)[0]


def _source(tape: Tape) -> TickRange:
    """All of the tape; without its simulation, the states of its keyframes."""
    try:
        return TickRange(tape, None, TickRangeRequest())
    except (UnknownWorldError, UnfitSimulationError, ConfigError) as error:
        print(f"note: only the states of keyframes are shown: {plain_text(str(error.args[0]))}", file=sys.stderr)
        source = TickRange(tape, None, TickRangeRequest(keyframes=True))
        source.problems.append(f"no states but those of keyframes: {error.args[0]}")
        return source


@contextmanager
def _own_stdout() -> Iterator[BinaryIO]:
    """Inside, what a simulation prints goes to stderr, so that nothing comes between what the viewer reads."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(kept), "wb") as output, redirect_stdout(sys.stderr):
            yield output
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def main() -> None:
    """The console script ``rerun-importer-tape``."""
    arguments = sys.argv[1:]
    sys.exit(run_app(load(arguments), arguments))
