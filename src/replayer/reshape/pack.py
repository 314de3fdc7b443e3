"""Write a tape again for storage, as small as it gets: the same frames, keyframes and other blocks, packed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import attrs

from recorder.errors import CorruptError
from recorder.format.blocks.file_header import PACKED_KEY
from recorder.format.recording.recording import Recording
from recorder.format.segments.block_location import optional_blocks
from recorder.format.segments.packed_piece import LEVEL_USUAL, LEVELS
from recorder.format.zstandard_frames import ensure_zstandard
from recorder.storage.tape_copy import TapeCopy, copied_meta, copy_all
from replayer.tape.copied_range import ensure_whole
from replayer.tape.tape import Tape

FRAMES_AT_ONCE = 1_000  # Of a comparison, from one report of progress to the next.


@attrs.frozen
class PackReport:
    """A packed tape.

    Attributes:
        path: of the new tape.
        first_tick, last_tick: its ticks, those of the old one.
        bytes_before, size_bytes: sizes of both.
    """

    path: Path
    first_tick: int
    last_tick: int
    bytes_before: int
    size_bytes: int


def pack_tape(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    level: int = LEVEL_USUAL,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> PackReport:
    """Write the contents of a complete tape to a new one, packed; nothing is simulated, and the old tape is not changed.

    Every block is unpacked again before it is written. Then the new tape is read, and each frame, each keyframe's state
    and each other block is compared with the old tape's; without that it is not kept. Ticks keep their numbers, and the
    tape its hashes, its run id and its outcome. level: of Zstandard, 1 to 19. progress: ticks done, and twice all ticks.

    Raises UnfitTapeError for a tape that is not complete, ValueError for another level, MissingCodecError without the
    package zstandard, FileExistsError if target exists, and as reading and writing do.
    """
    if not LEVELS[0] <= level <= LEVELS[1]:
        raise ValueError(f"level: expected {LEVELS[0]} to {LEVELS[1]}, got {level}")
    ensure_zstandard()
    with Tape(path) as tape:
        first, last = tape.first_tick, tape.last_tick
        ensure_whole(tape, first, last)
        total = 2 * (last - first)
        meta = copied_meta(tape.assembled, **{PACKED_KEY: {"from": tape.path.name, "level": level}})
        with TapeCopy(target, tape.assembled.run_id, meta, level=level) as copy:
            copy_all(tape.recording, copy, lambda tick: progress(tick - first, total))
            copy.finish(tape.outcome)
        try:
            with Tape(target) as packed:
                _ensure_same(tape.recording, packed.recording, lambda tick: progress(last - 2 * first + tick, total))
        except BaseException:
            Path(target).unlink()
            raise
        return PackReport(Path(target), first, last, tape.size_bytes, Path(target).stat().st_size)


def _ensure_same(old: Recording, new: Recording, progress: Callable[[int], None]) -> None:
    """Compare everything that two tapes hold. Raises CorruptError if anything differs."""
    if (old.first_tick, old.last_tick) != (new.first_tick, new.last_tick):
        raise CorruptError(0, "the packed tape has other ticks")
    for tick in range(old.first_tick + 1, old.last_tick + 1):
        if old.frame(tick).encode() != new.frame(tick).encode():
            raise CorruptError(0, f"the packed frame of tick {tick} differs")
        if tick % FRAMES_AT_ONCE == 0:
            progress(tick)
    for ours, theirs in zip(old.keyframes, new.keyframes, strict=True):
        same = ours.tick == theirs.tick and old.value_digest(ours) == new.value_digest(theirs)
        if not same or old.snapshot(ours).arena.tobytes() != new.snapshot(theirs).arena.tobytes():
            raise CorruptError(0, f"the packed keyframe of tick {ours.tick} differs")
    pairs = zip(optional_blocks(old.segments), optional_blocks(new.segments), strict=True)
    for ours_block, theirs_block in pairs:
        if ours_block.payload() != theirs_block.payload() or ours_block.entry.kind != theirs_block.entry.kind:
            raise CorruptError(0, f"a packed block from tick {ours_block.entry.first_tick} on differs")
    progress(old.last_tick)
