"""Arguments that several commands of ``replay`` share: the tape, the simulation, the tick and the fields."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recorder.console.output import say_on_stderr
from recorder.exit_codes import CORRUPT, INCOMPLETE, UsageError
from recorder.factory_spec import Factory, load_factory
from recorder.format.blocks.block import TAG
from recorder.format.blocks.file_header import MAGIC
from recorder.location.tape_location import Location
from recorder.storage.os_errors import reading
from recorder.visible_text import print_visible
from replayer.commands.whole_of_shards import shown_place
from replayer.playback.make_simulation import version_note
from replayer.playback.rebuild_adapted import why_missing
from replayer.tape.completeness import incomplete_text
from replayer.tape.tape import STOPPED_EARLY, Tape
from replayer.value_text import plain_text

RECORDINGS_FOLDER = "recordings"
_START_BYTES = 1 << 16  # This much of a file shows that it is a tape, even if the file header is damaged.


def choose(tape: Location | None) -> Location:
    """Return the tape that was named, or the newest one in recordings/."""
    return tape if tape is not None else newest_tape()


def newest_tape() -> Path:
    """Return the newest tape in recordings/. Raises UsageError if there is none."""
    if Path(RECORDINGS_FOLDER).is_dir():
        os.scandir(RECORDINGS_FOLDER).close()  # glob takes a folder that cannot be read for an empty one.
    files = [path for path in Path(RECORDINGS_FOLDER).glob("*.tape") if path.is_file()]
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        if looks_like_a_tape(path):
            return path
    here = sorted(path.name for path in Path().glob("*.tape") if path.is_file() and looks_like_a_tape(path))
    way = (
        f"name one of this folder, such as {plain_text(here[0])}" if here else "make one with: record run quiet-meadow"
    )
    raise UsageError(f"no tape was named, and there is none in {RECORDINGS_FOLDER}/; {way}")


def folder_beside(tape: Location) -> Path:
    """The folder for what is written beside a tape; for one at a URL the current folder."""
    return shown_place(tape).parent if isinstance(tape, Path) else Path()


def looks_like_a_tape(path: Path) -> bool:
    """Return True if a file begins as a tape does, even a damaged one, or if it cannot be read."""
    try:
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
    except OSError:
        return True  # Opening it reports the error.
    return start.startswith(MAGIC) or TAG in start


def factory_of(sim: str | None) -> Factory | None:
    """Load the factory that --sim names. Raises UsageError if it cannot be loaded."""
    if sim is None:
        return None
    try:
        return load_factory(sim)
    except ValueError as error:
        lacks = f"No module named {sim.partition(':')[0].partition('.')[0]!r}" in str(error)
        hint = ": run this in the folder of the module, or name that folder in PYTHONPATH" if lacks else ""
        raise UsageError(f"--sim {error}{hint}") from None


def note_version(tape: Tape) -> None:
    """Warn if the tape's world has a different version here, or if its adapter is missing."""
    note = version_note(tape) or why_missing(tape.meta)
    if note is not None:
        print_visible(f"note: {note}", file=sys.stderr)


def note_losses(tape: Tape) -> None:
    """Say on stderr, in one line, if the tape is not complete."""
    text = incomplete_text(tape)
    if text is not None:
        say_on_stderr(f"warning: {text}")


def ensure_states(tape: Tape) -> None:
    """Raise UsageError, with the exit code of replay info, if the tape has no tick to seek."""
    if tape.keyframes:
        return
    if tape.check_blocks():
        raise UsageError(f"{tape.path}: no keyframe can be read: try replay repair", CORRUPT)
    raise UsageError(f"{tape.path}: {STOPPED_EARLY}: there is no tick to go to", INCOMPLETE)


def ensure_seek(
    tick: int | None, episode: int | None, step: int | None, output: Path | None, *, picture_as_json: bool
) -> None:
    """Raise UsageError if the arguments of a seek do not name one tick, or contradict each other."""
    if (tick is None) == (episode is None) or (step is not None and episode is None):
        raise UsageError("expected --tick N, or --episode N with --step N")
    if output is not None and output.suffix != ".npz":
        raise UsageError(f"{output}: expected a name that ends in .npz")
    if picture_as_json:
        raise UsageError("--picture cannot be printed as JSON: with --json, use --field or --output")


@contextmanager
def ready_tape(path: Location) -> Iterator[Tape]:
    """Open a tape that has ticks to seek; warn as note_version does. Raises as reading and ensure_states do."""
    with reading(path), Tape(path) as opened:
        ensure_states(opened)
        note_version(opened)
        yield opened
