"""Write a new tape from parts of a tape: to save a ring, to repair. The new tape appears complete or not at all.

Invariants:
    1. Nothing is overwritten: the new tape's name must be free when the copy begins and when it ends.
    2. Until it is finished the copy has a temporary name, ending in .part, and is locked. An existing file of this name
       counts as an abandoned copy only if it is unlocked, begins like a tape, or with zeros, and is not sealed.

The temporary name is fixed, and a SegmentedLog writes the file through the five methods of IO, since a tape has its own
protocol. Renaming and syncing are shared with atomic_file.py.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recorder.errors import CorruptError, MissingTickError, RecordingError
from recorder.format.blocks.block import Flags
from recorder.format.blocks.file_header import MAGIC, PACKED_KEY, features_of, make_file_header
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.full_keyframe import full_payload
from recorder.format.limits import PIECE_RAW_BYTES
from recorder.format.recording.assembly import Assembled
from recorder.format.recording.recording import Recording
from recorder.format.segments.block_location import KeyframeLocation, OptionalBlock, optional_blocks
from recorder.format.segments.packed_piece import pack_piece
from recorder.format.segments.seal import TRAILER_BYTES, decode_trailer
from recorder.format.segments.segment_encoder import (
    Piece,
    SegmentEncoder,
    SeqReference,
    delta_pieces,
    drop_piece,
    full_pieces,
    make_piece,
    pieces_of_frames,
)
from recorder.storage.atomic_file import PART_SUFFIX, give_name, is_called, sync_folder
from recorder.storage.open_tape import OpenTape
from recorder.storage.segmented_log import SegmentedLog
from recorder.storage.tape_files import FILE_MODE, TapeFile, TapeFiles, lock
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.state import Snapshot

TAKEN = "a file of this name exists already: choose a different name"


class TapeCopy:
    """A new tape while it is written; a context manager. Without ``finish`` the copy is removed."""

    def __init__(self, path: str | os.PathLike[str], run_id: bytes, meta: bytes, *, level: int | None = None) -> None:
        """Claim the names. level: pack the blocks with Zstandard, at this level; META has to say so.

        Raises FileExistsError if path exists, or if path.part exists and is not an abandoned copy;
        BlockingIOError if a different process is copying to path, OSError if path cannot be written.
        """
        self.path = Path(path).absolute()
        self._ensure_free()
        self._part = Path(f"{os.fspath(self.path)}{PART_SUFFIX}")
        self._io = _claim(self._part)
        self._files = TapeFiles(self._part)  # A copy has one file; a log may need further ones.
        self._full: SeqReference | None = None
        self._level = level
        self._finished = self._closed = False
        encoder = SegmentEncoder(make_file_header(run_id, 0, 0, features_of(decode_plain(meta))), meta)
        self._log = SegmentedLog(self._files, self._io, encoder, lambda *_: meta, syncs=False, record_durable=False)
        try:
            self._log.start()
        except BaseException:
            self._abandon()
            raise

    def _put(self, pieces: list[Piece]) -> None:
        self._log.put(pieces if self._level is None else [pack_piece(piece, self._level) for piece in pieces])

    def frames(self, frames: Sequence[Frame]) -> None:
        """Add frames of consecutive ticks."""
        for piece in pieces_of_frames(frames):
            self._put([piece])
        self._log.write()

    def full(self, tick: int, snapshot: Snapshot, *, rebuilt: bool = False, digest: bytes = b"") -> None:
        """Add a full keyframe; rebuilt: it was re-simulated and has the recorded hash. digest: of its values."""
        flags = Flags.REBUILT if rebuilt else Flags(0)
        pieces, self._full = full_pieces(tick, full_payload(tick, snapshot.hash(), snapshot, digest), flags)
        self._put(pieces)
        self._log.write()

    def delta(self, tick: int, payload: bytes) -> None:
        """Add a delta of the last full keyframe, as it was recorded."""
        assert self._full is not None, "a delta needs a full keyframe before it"
        self._put(delta_pieces(tick, memoryview(payload), self._full))
        self._log.write()

    def drop(self, first_tick: int, last_tick: int, why: str) -> None:
        """Record that frames are missing."""
        self._put([drop_piece(first_tick, last_tick, why)])
        self._log.write()

    def optional(self, block: OptionalBlock) -> None:
        """Add a block that this program need not know. Raises CorruptError or TornError if it is damaged."""
        self.optional_payload(block.entry.kind, block.payload(), block.entry.first_tick)

    def optional_payload(self, kind: int, payload: bytes, first_tick: int) -> None:
        """Add a block of a kind that may be skipped, from its content. first_tick: that it begins with."""
        for start in range(0, max(1, len(payload)), PIECE_RAW_BYTES):
            flags = Flags.CONTINUATION if start else Flags(0)
            flags |= Flags.CONTINUES if start + PIECE_RAW_BYTES < len(payload) else Flags(0)
            piece = payload[start : start + PIECE_RAW_BYTES]
            self._put([make_piece(kind, piece, first_tick, flags=flags)])
        self._log.write()

    def finish(self, outcome: Any) -> None:
        """Seal the new tape, make it durable and give it its name. Raises OSError."""
        self._log.end(outcome)
        self._io.fdatasync()
        if not is_called(self._io.descriptor, self._part):
            raise FileNotFoundError(errno.ENOENT, "the unfinished copy was removed", os.fspath(self._part))
        give_name(self._part, self.path, TAKEN)
        self._finished = True
        sync_folder(self.path.parent)

    def _ensure_free(self) -> None:
        if os.path.lexists(self.path):
            raise FileExistsError(errno.EEXIST, TAKEN, os.fspath(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._abandon()

    def _abandon(self) -> None:
        """Close the copy, and remove it unless it is finished."""
        if self._closed:
            return
        self._closed = True
        self._files.release()
        try:
            if not self._finished and is_called(self._io.descriptor, self._part):
                self._part.unlink()
        finally:
            os.close(self._io.descriptor)  # Last: this releases the lock.


def _claim(part: Path) -> TapeFile:
    """Make an empty file of this name, locked; the file of an abandoned copy is reused."""
    while True:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        io = TapeFile(os.open(part, flags, FILE_MODE))
        try:
            lock(io.descriptor, part, "a different process is copying to this name")
            if is_called(io.descriptor, part):  # Otherwise the process that had the lock has just finished.
                if not _is_abandoned(io):
                    why = "a copy needs this name, but the file is not an abandoned copy: rename it, or the copy"
                    raise FileExistsError(errno.EEXIST, why, os.fspath(part))
                io.truncate(0)
                return io
        except BaseException:
            os.close(io.descriptor)
            raise
        os.close(io.descriptor)


def _is_abandoned(io: TapeFile) -> bool:
    """Return True for an empty file, or the beginning of a tape without an end.

    A power cut may leave zeros in place of the beginning.
    """
    if not stat.S_ISREG(os.fstat(io.descriptor).st_mode):
        return False
    if not MAGIC.startswith(io.pread(0, len(MAGIC))) and any(io.pread(0, mmap.PAGESIZE)):
        return False
    end = max(0, io.size() - TRAILER_BYTES)
    try:
        decode_trailer(io.pread(end, TRAILER_BYTES), end)
    except CorruptError:
        return True
    return False


def copy_run(source: str | os.PathLike[str], target: str | os.PathLike[str], outcome: Any) -> tuple[int, int]:
    """Copy the contents of all files of a tape into one new sealed tape; return its first and last tick.

    Raises as reading and writing do; MissingTickError if there is no keyframe yet.
    """
    with OpenTape(source) as opened:
        assembled = opened.assemble()
        with TapeCopy(target, assembled.run_id, copied_meta(assembled)) as copy:
            copy_all(assembled.recording, copy)
            copy.finish(outcome)
    return assembled.recording.first_tick, assembled.recording.last_tick


def copy_all(recording: Recording, copy: TapeCopy, progress: Callable[[int], None] = lambda _: None) -> None:
    """Copy all frames, keyframes and other blocks. progress: called with the tick of each keyframe copied."""
    others = deque(recording.believing_index(lambda: optional_blocks(recording.segments)))
    next_tick = recording.first_tick + 1
    for place in recording.keyframes:
        next_tick = _copy_frames(recording, copy, next_tick, place.tick)
        while others and others[0].position < (place.segment, place.entry.offset):
            copy.optional(others.popleft())
        copy_keyframe(recording, copy, place)
        progress(place.tick)
    _copy_frames(recording, copy, next_tick, recording.last_tick)
    for other in others:
        copy.optional(other)


def _copy_frames(recording: Recording, copy: TapeCopy, first: int, last: int) -> int:
    """Copy the frames of these ticks, with DROP blocks for missing ones; return the tick to continue with."""
    frames: list[Frame] = []
    tick = first
    while tick <= last:
        try:
            frames.append(recording.frame(tick))
        except MissingTickError as error:
            copy.frames(frames)
            frames = []
            gap = recording.gap_at(tick)
            gap_end = gap[1] if gap is not None else tick
            copy.drop(tick, min(gap_end, last), why_missing(recording, tick, error))
            tick = gap_end
        tick += 1
    copy.frames(frames)
    return max(tick, first)


def copy_keyframe(recording: Recording, copy: TapeCopy, place: KeyframeLocation) -> None:
    """Copy one keyframe unchanged, after a check of its state hash. Raises CorruptError or TornError."""
    snapshot = recording.snapshot(place)
    if place.is_full:
        rebuilt = bool(place.entry.flags & Flags.REBUILT)
        copy.full(place.tick, snapshot, rebuilt=rebuilt, digest=recording.value_digest(place))
    else:
        copy.delta(place.tick, recording.payload(place))


def why_missing(recording: Recording, tick: int, error: RecordingError) -> str:
    """The reason for a missing frame: the recorded one if there is one, otherwise the error."""
    drop = recording.drop_at(tick)
    return drop.why if drop is not None else (error.why if isinstance(error, MissingTickError) else str(error))


def copied_meta(assembled: Assembled, **more: Any) -> bytes:
    """The META of a copy: that of the original, without facts about its files, but with more. The copy of a ring is not a ring."""
    meta = {key: value for key, value in assembled.meta.items() if key not in ("segment", PACKED_KEY)}
    if isinstance(settings := meta.get("settings"), dict):
        meta["settings"] = {**settings, "keep_ticks": None, "keep_s": None}
    return encode_plain({"world": None, **meta, **more})  # decode_meta has checked its size.
