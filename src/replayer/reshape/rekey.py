"""Write a tape with another spacing of keyframes: each new one is re-simulated and has the recorded hash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import attrs

from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.playback.make_simulation import Factory
from replayer.tape.copied_range import UnfitTapeError, copy_extras, copy_frames, ensure_whole
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.exactness import Level

Progress = Callable[[int, int], None]  # Ticks done so far, ticks in all.


# Settings of keyframes that do not come at even distances.
_UNEVEN = ("keyframe_after_ms", "seek_budget_ms", "keyframe_interval_max_ticks")


@attrs.frozen
class RekeyReport:
    """A tape with new keyframes.

    Attributes:
        path: of the new tape.
        keyframes_before, keyframes: numbers of keyframes of the old tape and of the new one.
        bytes_before, size_bytes: sizes of both.
    """

    path: Path
    keyframes_before: int
    keyframes: int
    bytes_before: int
    size_bytes: int


def rekey_tape(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    interval_ticks: int,
    world: Factory | None = None,
    *,
    progress: Progress | None = None,
) -> RekeyReport:
    """Write a tape with a full keyframe every interval_ticks ticks, counted from its first one; all else is as it was.

    Raises UnfitTapeError if the tape cannot have other keyframes, FileExistsError if target exists, DesyncError where a
    state does not have the recorded hash, and as Timeline.seek does.
    """
    if interval_ticks < 1:
        raise UnfitTapeError(f"expected at least 1 tick from keyframe to keyframe, got {interval_ticks}")
    with Timeline(path, world) as run:
        tape = run.tape
        first, last = run.first_tick, run.last_tick
        _ensure_fit(tape)
        ensure_whole(tape, first, last)
        made = 0
        with TapeCopy(target, tape.assembled.run_id, _meta(tape, interval_ticks)) as copy:
            next_tick = first + 1
            for tick in range(first, last + 1, interval_ticks):
                run.seek(tick)
                copy_frames(tape, copy, next_tick, tick)
                next_tick = max(next_tick, tick + 1)
                place = tape.keyframe_at(tick)
                copy.full(
                    tick, run.state.snapshot(), digest=b"" if place is None else tape.recording.value_digest(place)
                )
                made += 1
                if progress is not None:
                    progress(tick - first, last - first)
            copy_frames(tape, copy, next_tick, last)
            copy_extras(tape, copy, first, last)
            copy.finish(tape.outcome)
        before = len(tape.keyframes), tape.size_bytes
    return RekeyReport(Path(target), before[0], made, before[1], Path(target).stat().st_size)


def _meta(tape: Tape, interval_ticks: int) -> bytes:
    """The META of the new tape: its settings tell the keyframes that it has."""
    recorded = {key: value for key, value in (tape.meta.get("settings") or {}).items() if key not in _UNEVEN}
    settings = {**recorded, "keyframe_interval_ticks": interval_ticks, "full_every": 1}
    more = {"settings": settings, "rekeyed": {"from": tape.path.name}}
    return copied_meta(attrs.evolve(tape.assembled, meta={**tape.assembled.meta, **more}))


def _ensure_fit(tape: Tape) -> None:
    if tape.meta.get("level") == Level.CANONICAL.value:
        raise UnfitTapeError("the run loaded its state at each keyframe: with others it would go on differently")
    if tape.recording.recorded_hashes.has_hash_chain:
        raise UnfitTapeError("its ticks have chained hashes, which need the keyframes that it has")
