"""``replayer.open``: a timeline of a tape, with a warning if the tape is not complete."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, overload

from recorder.errors import IncompleteTapeWarning
from replayer.playback.make_simulation import Factory
from replayer.playback.near_states import NEAR_BYTES_MAX, NearStates
from replayer.playback.subject_type import SubjectT
from replayer.tape.completeness import incomplete_text
from replayer.tape.tape import Mode
from replayer.timeline.timeline import Timeline
from sim.kernel.hooks import HasAdapter
from sim.user_warning import warn_user


@overload
def open_timeline(
    path: str | os.PathLike[str],
    world: Callable[[], HasAdapter] | None = None,  # Its subject is what the adapter wraps: of any type.
    *,
    dump_folder: str | os.PathLike[str] | None = None,
    mode: Mode = "salvage",
    memory_bytes: int | None = None,
    near_bytes: int = NEAR_BYTES_MAX,
) -> Timeline[Any]: ...
@overload
def open_timeline(
    path: str | os.PathLike[str],
    world: Callable[[], SubjectT],
    *,
    dump_folder: str | os.PathLike[str] | None = None,
    mode: Mode = "salvage",
    memory_bytes: int | None = None,
    near_bytes: int = NEAR_BYTES_MAX,
) -> Timeline[SubjectT]: ...
def open_timeline(
    path: str | os.PathLike[str],
    world: Factory | None = None,
    *,
    dump_folder: str | os.PathLike[str] | None = None,
    mode: Mode = "salvage",
    memory_bytes: int | None = None,
    near_bytes: int = NEAR_BYTES_MAX,
) -> Timeline[Any]:
    """Open a tape to go to its ticks: a Timeline, which is a context manager.

    path: the tape, a path or a URL. world: makes the simulation, called without arguments: your class, or a function
    that returns an object like the recorded one; not needed for a registered world. dump_folder: for the dumps of
    desyncs; None writes none. mode: "salvage" reads all that is intact of a damaged tape, "prefix" what comes before
    the damage, "strict" refuses it. memory_bytes: for one state; None allows a quarter of the memory of this process.
    near_bytes: for states near the last seek, all together.

    A tape that was cut off, is damaged or lacks ticks is opened with what is whole of it, and one IncompleteTapeWarning
    says what that is. A tape that is being recorded at the moment gives none.

    Raises OSError if the file cannot be opened, UnreadableError if it is not a tape, UnsupportedVersionError if a newer
    program wrote it, CorruptError for damage in mode "strict". The first seek raises what a wrong world causes.

    Examples:
        >>> run = replayer.open("run.tape", world=Walkers)
        >>> run.seek(700).simulated_ticks
        100
        >>> report = run.step_back()
        >>> run.tick, run.state["x"].dtype
        (699, dtype('int64'))
    """
    NearStates(near_bytes)  # It refuses a budget that is none.
    timeline = Timeline(
        path, world, dump_folder=dump_folder, mode=mode, memory_bytes=memory_bytes, near_bytes=near_bytes
    )
    text = incomplete_text(timeline.tape)
    if text is not None:
        try:
            warn_user(text, IncompleteTapeWarning)
        except IncompleteTapeWarning:  # Warnings are errors here: the caller gets no timeline to close.
            timeline.close()
            raise
    return timeline
