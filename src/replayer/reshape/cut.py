"""Cut a stand-alone tape out of another: a range of ticks with the keyframe that they need."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.playback.make_simulation import Factory
from replayer.tape.copied_range import UnfitTapeError, copy_range, ensure_can_begin_anywhere, ensure_whole
from replayer.timeline.timeline import Timeline
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
            raise UnfitTapeError(f"the last tick, {end:,}, is before the first, {begin:,}: exchange them")
        place = next(tape.keyframes_at_or_before(begin), None)
        if place is None:
            raise UnfitTapeError(f"there is no keyframe at or before tick {begin:,}")
        start: Snapshot | None = None
        simulated = 0
        if place.tick == begin or not exact:
            begin = place.tick
        else:
            ensure_can_begin_anywhere(tape)
            simulated = run.seek(begin).simulated_ticks
            start = run.state.snapshot()
        ensure_whole(tape, begin, end)
        cut = {"from": tape.path.name, "run": tape.run_id, "ticks": [begin, end]}
        with TapeCopy(target, tape.assembled.run_id, copied_meta(tape.assembled, cut=cut)) as copy:
            copy_range(tape, copy, begin, end, start)
            copy.finish(tape.outcome if end == tape.last_tick else {"reason": "cut out", "ticks": end})
    return CutReport(Path(target), begin, end, simulated, Path(target).stat().st_size)
