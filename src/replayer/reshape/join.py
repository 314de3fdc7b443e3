"""Join two tapes of which the second begins where the first one ends."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.tape.copied_range import UnfitTapeError, copy_extras, copy_frames, copy_place, ensure_whole
from replayer.tape.tape import Tape

_SAME = ("world", "level", "mode", "hashes")  # Facts of META that the ticks of one tape share.


@attrs.frozen
class JoinReport:
    """A tape of two.

    Attributes:
        path: of the new tape.
        first_tick, last_tick: its ticks.
        joined_at: the tick that both tapes have, with the same state.
        size_bytes: of the new tape.
    """

    path: Path
    first_tick: int
    last_tick: int
    joined_at: int
    size_bytes: int


def join_tapes(
    path: str | os.PathLike[str], following: str | os.PathLike[str], target: str | os.PathLike[str]
) -> JoinReport:
    """Write a tape with all ticks of two; nothing is simulated.

    The second tape begins at a tick of the first one, with the state that has the hash recorded there; ticks of the first
    after it are left out. Raises UnfitTapeError if they do not fit, FileExistsError if target exists.
    """
    with Tape(path) as front, Tape(following) as back:
        at = back.first_tick
        _ensure_fit(front, back, at)
        ensure_whole(front, front.first_tick, at)
        ensure_whole(back, at, back.last_tick)
        joined = {"from": [front.path.name, back.path.name], "at": at}
        with TapeCopy(target, front.assembled.run_id, copied_meta(front.assembled, joined=joined)) as copy:
            _copy_keyed(front, copy, front.first_tick, at - 1)
            copy_frames(front, copy, max(_last_copied(front, at) + 1, front.first_tick + 1), at)
            copy_extras(front, copy, front.first_tick, at)
            _copy_keyed(back, copy, at, back.last_tick)
            copy_frames(back, copy, back.keyframes[-1].tick + 1, back.last_tick)
            copy_extras(back, copy, at + 1, back.last_tick)
            copy.finish(back.outcome)
        first, last = front.first_tick, back.last_tick
    return JoinReport(Path(target), first, last, at, Path(target).stat().st_size)


def _copy_keyed(tape: Tape, copy: TapeCopy, first: int, last: int) -> None:
    """Copy the keyframes of a range, and the frames up to the last one."""
    next_tick, has_base = first + 1, False
    for place in tape.keyframes:
        if not first <= place.tick <= last:
            continue
        copy_frames(tape, copy, next_tick, place.tick)
        next_tick = max(next_tick, place.tick + 1)
        copy_place(tape, copy, place, has_base=has_base)
        has_base = has_base or place.is_full


def _last_copied(tape: Tape, before: int) -> int:
    """The tick of the last keyframe before a tick: the frames up to it were copied with it."""
    return max((place.tick for place in tape.keyframes if place.tick < before), default=tape.first_tick)


def _ensure_fit(front: Tape, back: Tape, at: int) -> None:
    if not front.first_tick <= at <= front.last_tick:
        ticks = f"ticks {front.first_tick:,} to {front.last_tick:,}"
        raise UnfitTapeError(f"{back.path.name} begins at tick {at:,}, and {front.path.name} has {ticks}")
    for key in _SAME:
        if front.meta.get(key) != back.meta.get(key):
            raise UnfitTapeError(f"the tapes differ in their {key}: {front.meta.get(key)!r} and {back.meta.get(key)!r}")
    expected, found = front.state_hash(at), back.snapshot(back.keyframes[0]).hash()
    if expected != found:
        raise UnfitTapeError(
            f"at tick {at:,} the tapes have different states: 0x{expected:016x} in {front.path.name}, "
            f"0x{found:016x} in {back.path.name}"
        )
