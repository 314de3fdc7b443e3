"""What the commands of ``replay`` are about: which tape, which simulation, which fields; and whether they are there."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recorder.exit_codes import CORRUPT, INCOMPLETE, UsageError
from recorder.factory_spec import Factory, load_factory
from recorder.format.blocks.block import TAG
from recorder.format.blocks.file_header import MAGIC
from recorder.storage.os_errors import reading
from recorder.text import counted
from replayer.playback.make_simulation import version_note
from replayer.playback.rebuild_adapted import why_missing
from replayer.tape.tape import STOPPED_EARLY, Tape
from replayer.value_text import picture
from sim.kernel.registry import World
from sim.kernel.state import Snapshot

RECORDINGS_FOLDER = "recordings"
_LOOK_BYTES = 1 << 16  # So much of a file shows whether it is a tape; its header may be damaged.


def choose(tape: Path | None) -> Path:
    """The tape that was named, or the newest in recordings/."""
    if tape is not None:
        return tape
    files = [path for path in Path(RECORDINGS_FOLDER).glob("*.tape") if path.is_file()]
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        if looks_like_a_tape(path):
            return path
    raise UsageError(
        f"no tape was named and there is none in {RECORDINGS_FOLDER}/; make one with: record run quiet-meadow"
    )


def looks_like_a_tape(path: Path) -> bool:
    """Whether a file begins as a tape does, a damaged one included; one that cannot be read may be anything."""
    try:
        with path.open("rb") as file:
            start = file.read(_LOOK_BYTES)
    except OSError:
        return True  # Whoever opens it says what is wrong.
    return start.startswith(MAGIC) or TAG in start


def factory_of(sim: str | None) -> Factory | None:
    """What --sim names. Raises UsageError if there is no such thing."""
    if sim is None:
        return None
    try:
        return load_factory(sim)
    except ValueError as error:
        raise UsageError(f"--sim {error}") from None


def note_version(tape: Tape) -> None:
    """Warn of another version of the tape's world, or that its adapter is not there."""
    note = version_note(tape) or why_missing(tape.meta)
    if note is not None:
        print(f"note: {note}", file=sys.stderr)


def ensure_states(tape: Tape) -> None:
    """Raise UsageError, with the exit code that replay info has, if there is no tick to go to."""
    if tape.keyframes:
        return
    if tape.check_blocks():
        raise UsageError(f"{tape.path}: no keyframe can be read: try replay repair", CORRUPT)
    raise UsageError(f"{tape.path}: {STOPPED_EARLY}: there is no tick to go to", INCOMPLETE)


def ensure_seek(
    tick: int | None, episode: int | None, step: int | None, output: Path | None, *, picture_as_json: bool
) -> None:
    """Raise UsageError if it is not clear where to seek, or in what form to show it."""
    if (tick is None) == (episode is None) or (step is not None and episode is None):
        raise UsageError("say where to go: --tick N, or --episode N with --step N")
    if output is not None and output.suffix != ".npz":
        raise UsageError(f"{output}: a name that ends in .npz was expected")
    if picture_as_json:
        raise UsageError("--picture is for people: with --json, take --field or --output")


@contextmanager
def ready_tape(path: Path) -> Iterator[Tape]:
    """A tape that has ticks to go to; another version of its world is warned of. Raises as reading and ensure_states."""
    with reading(path), Tape(path) as opened:
        ensure_states(opened)
        note_version(opened)
        yield opened


def layer_picture(snapshot: Snapshot, names: Sequence[str], world: World | None, width: int) -> list[str]:
    """The first of the named fields that has two dimensions as a map; the world's own layer if none is named.

    Raises UsageError if there is nothing that could be drawn.
    """
    flat = [snapshot[name] for name in names if snapshot[name].ndim == 2]
    if not flat and not names and world is not None and world.picture is not None:
        flat = [world.picture(snapshot)]
    if not flat:
        shapes = ", ".join(f"{name} has {counted(snapshot[name].ndim, 'dimension')}" for name in names)
        raise UsageError("--picture needs a field of two dimensions: " + (shapes or "name one with --field"))
    return picture(flat[0], width)
