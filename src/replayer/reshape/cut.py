"""Cut a stand-alone tape out of another: a range of ticks with the keyframe that they need."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.playback.make_simulation import Factory
from replayer.reshape.copied_range import UnfitTapeError, copy_extras, copy_frames, copy_place, ensure_whole
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.exactness import Level
from sim.kernel.state import Snapshot


@attrs.frozen
class CutReport:
    """A tape that was cut out.

    Attributes:
        path: of the new tape.
        first_tick, last_tick: its ticks.
        simulated: the number of steps run to reach its first state; 0 if that is a keyframe of the old tape.
        size_bytes: of the new tape.
    """

    path: Path
    first_tick: int
    last_tick: int
    simulated: int
    size_bytes: int


def cut_tape(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    first: int,
    last: int,
    world: Factory | None = None,
    *,
    exact: bool = False,
) -> CutReport:
    """Write the ticks from first to last of a tape to a new one; ticks keep their numbers.

    Without exact the new tape begins at the keyframe at or before first, and nothing is simulated. exact: it begins at
    first; its state is re-simulated, and has the recorded hash.

    Raises UnfitTapeError if the tape cannot be cut there, MissingTickError for ticks that it does not have,
    FileExistsError if target exists, and as Timeline.seek does.
    """
    with Timeline(path, world) as run:
        tape = run.tape
        begin, end = run.absolute_tick(first), run.absolute_tick(last)
        if end < begin:
            raise UnfitTapeError(f"the last tick, {end:,}, is before the first, {begin:,}")
        place = next(tape.keyframes_at_or_before(begin), None)
        if place is None:
            raise UnfitTapeError(f"there is no keyframe at or before tick {begin:,}")
        start: Snapshot | None = None
        simulated = 0
        if place.tick == begin or not exact:
            begin = place.tick
        else:
            _ensure_can_begin_anywhere(tape)
            simulated = run.seek(begin).simulated_ticks
            start = run.state.snapshot()
        ensure_whole(tape, begin, end)
        cut = {"from": tape.path.name, "run": tape.run_id, "ticks": [begin, end]}
        with TapeCopy(target, tape.assembled.run_id, copied_meta(tape.assembled, cut=cut)) as copy:
            _copy(tape, copy, begin, end, start)
            copy.finish(tape.outcome if end == tape.last_tick else {"reason": "cut out", "ticks": end})
    return CutReport(Path(target), begin, end, simulated, Path(target).stat().st_size)


def _copy(tape: Tape, copy: TapeCopy, begin: int, end: int, start: Snapshot | None) -> None:
    """Copy the range; start: its first state if that is no keyframe of the tape."""
    if start is not None:
        copy.full(begin, start)
    next_tick, has_base = begin + 1, False
    for place in tape.keyframes:
        if not begin <= place.tick <= end or (start is not None and place.tick == begin):
            continue
        copy_frames(tape, copy, next_tick, place.tick)
        next_tick = max(next_tick, place.tick + 1)
        # A delta refers to the last full keyframe of the old tape; the copy has it once a full one was copied unchanged.
        copy_place(tape, copy, place, has_base=has_base)
        has_base = has_base or place.is_full
    copy_frames(tape, copy, next_tick, end)
    copy_extras(tape, copy, begin, end)


def _ensure_can_begin_anywhere(tape: Tape) -> None:
    """Raise UnfitTapeError if a new keyframe would change how the run continues, or could not be proved."""
    if tape.meta.get("level") == Level.CANONICAL.value:
        raise UnfitTapeError(
            "the run loaded its state at each keyframe: a part can only begin at one (without --exact)"
        )
    if tape.recording.recorded_hashes.has_hash_chain:
        raise UnfitTapeError("its ticks have chained hashes: a part can only begin at a keyframe (without --exact)")
