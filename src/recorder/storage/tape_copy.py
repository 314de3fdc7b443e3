"""Write a new tape from parts of another: to get a ring out, to repair. The new tape appears whole or not at all.

Invariants:
    1. Nothing is written over: the new tape's name must be free, when the copy begins and when it ends.
    2. Until it is finished the copy has another name, ending in .part, and is locked. What is called so already is
       taken for an abandoned copy only if it is unlocked, begins as a tape does and is not sealed.

The temporary name is fixed, and the file is written by a SegmentedLog behind the five methods of IO: a tape has its own
protocol. What it shares with atomic_file.py is how a name is given and made durable.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recorder.errors import CorruptError, MissingTickError, RecordingError
from recorder.format.blocks.block import Flags
from recorder.format.blocks.file_header import MAGIC, features_of, make_file_header
from recorder.format.blocks.frame import Frame
from recorder.format.blocks.full_keyframe import full_payload
from recorder.format.limits import PIECE_RAW_BYTES
from recorder.format.recording.assembly import Assembled
from recorder.format.recording.recording import Recording
from recorder.format.segments.block_location import KeyframeLocation, OptionalBlock, optional_blocks
from recorder.format.segments.seal import TRAILER_BYTES, decode_trailer
from recorder.format.segments.segment_encoder import (
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

TAKEN = "there is a file of this name already"


class TapeCopy:
    """A new tape while it is written; a context manager. Without ``finish`` nothing is left of it."""

    def __init__(self, path: str | os.PathLike[str], run_id: bytes, meta: bytes) -> None:
        """Claim the names.

        Raises FileExistsError if there is something at path, or something that is no abandoned copy at path.part;
        BlockingIOError if another copy to path is being made, OSError if it cannot be written.
        """
        self.path = Path(path).absolute()
        self._ensure_free()
        self._part = Path(f"{os.fspath(self.path)}{PART_SUFFIX}")
        self._io = _claim(self._part)
        self._files = TapeFiles(self._part)  # A copy has one file; this is for what a log may need beside it.
        self._full: SeqReference | None = None
        self._finished = self._closed = False
        encoder = SegmentEncoder(make_file_header(run_id, 0, 0, features_of(decode_plain(meta))), meta)
        self._log = SegmentedLog(self._files, self._io, encoder, lambda *_: meta, syncs=False, tell_durable=False)
        try:
            self._log.start()
        except BaseException:
            self._abandon()
            raise

    def frames(self, frames: Sequence[Frame]) -> None:
        """Add frames of consecutive ticks."""
        for piece in pieces_of_frames(frames):
            self._log.put([piece])
        self._log.write()

    def full(self, tick: int, snapshot: Snapshot, *, rebuilt: bool = False) -> None:
        """Add a full keyframe; rebuilt: it was re-simulated, and proved by the recorded hash."""
        flags = Flags.REBUILT if rebuilt else Flags(0)
        pieces, self._full = full_pieces(tick, full_payload(tick, snapshot.hash(), snapshot), flags)
        self._log.put(pieces)
        self._log.write()

    def delta(self, tick: int, payload: bytes) -> None:
        """Add a delta upon the last full keyframe, as it was recorded."""
        assert self._full is not None, "a delta needs a full keyframe before it"
        self._log.put(delta_pieces(tick, memoryview(payload), self._full))
        self._log.write()

    def drop(self, first_tick: int, last_tick: int, why: str) -> None:
        """Write down that frames are missing."""
        self._log.put([drop_piece(first_tick, last_tick, why)])
        self._log.write()

    def optional(self, block: OptionalBlock) -> None:
        """Add a block that this program need not know. Raises CorruptError or TornError if it is damaged."""
        payload, kind, first_tick = block.payload(), block.entry.kind, block.entry.first_tick
        for start in range(0, max(1, len(payload)), PIECE_RAW_BYTES):
            flags = Flags.CONTINUATION if start else Flags(0)
            flags |= Flags.CONTINUES if start + PIECE_RAW_BYTES < len(payload) else Flags(0)
            piece = payload[start : start + PIECE_RAW_BYTES]
            self._log.put([make_piece(kind, piece, first_tick, flags=flags)])
        self._log.write()

    def finish(self, outcome: Any) -> None:
        """Seal the new tape, make it durable and give it its name. Raises OSError."""
        self._log.end(outcome)
        self._io.fdatasync()
        if not is_called(self._io.descriptor, self._part):
            raise FileNotFoundError(errno.ENOENT, "the unfinished copy was taken away", os.fspath(self._part))
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
        """Close the copy, and take it away unless it is finished."""
        if self._closed:
            return
        self._closed = True
        self._files.release()
        try:
            if not self._finished and is_called(self._io.descriptor, self._part):
                self._part.unlink()
        finally:
            os.close(self._io.descriptor)  # Last: this gives the lock back.


def _claim(part: Path) -> TapeFile:
    """An empty file of this name, locked; one that an abandoned copy has left is used again."""
    while True:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        io = TapeFile(os.open(part, flags, FILE_MODE))
        try:
            lock(io.descriptor, part, "another copy to this name is being made")
            if is_called(io.descriptor, part):  # Else whoever had the lock has just finished.
                if not _is_abandoned(io):
                    why = "this is no abandoned copy, and a copy would be written there: give one of them another name"
                    raise FileExistsError(errno.EEXIST, why, os.fspath(part))
                io.truncate(0)
                return io
        except BaseException:
            os.close(io.descriptor)
            raise
        os.close(io.descriptor)


def _is_abandoned(io: TapeFile) -> bool:
    """Whether this is nothing, or the beginning of a tape without an end."""
    if not stat.S_ISREG(os.fstat(io.descriptor).st_mode) or not MAGIC.startswith(io.pread(0, len(MAGIC))):
        return False
    end = max(0, io.size() - TRAILER_BYTES)
    try:
        decode_trailer(io.pread(end, TRAILER_BYTES), end)
    except CorruptError:
        return True
    return False


def copy_run(source: str | os.PathLike[str], target: str | os.PathLike[str], outcome: Any) -> tuple[int, int]:
    """Copy all that a tape holds, in whatever files, into one new sealed tape; its first and last tick.

    Raises as reading and writing do; MissingTickError if there is no keyframe yet.
    """
    with OpenTape(source) as opened:
        assembled = opened.assemble()
        recording = assembled.recording
        first, last = recording.first_tick, recording.last_tick
        with TapeCopy(target, assembled.run_id, copied_meta(assembled)) as copy:
            places = recording.keyframes
            others = deque(recording.believing_index(lambda: optional_blocks(recording.segments)))
            next_tick = first + 1
            for place in places:
                next_tick = _copy_frames(recording, copy, next_tick, place.tick)
                while others and others[0].position < (place.segment, place.entry.offset):
                    copy.optional(others.popleft())
                copy_keyframe(recording, copy, place)
            _copy_frames(recording, copy, next_tick, last)
            for other in others:
                copy.optional(other)
            copy.finish(outcome)
    return first, last


def _copy_frames(recording: Recording, copy: TapeCopy, first: int, last: int) -> int:
    """Copy the frames of these ticks; a DROP block where the recording has none. The tick to go on with."""
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
    """Copy one keyframe as it is, after its state was proved. Raises CorruptError or TornError."""
    snapshot = recording.snapshot(place)
    if place.is_full:
        copy.full(place.tick, snapshot, rebuilt=bool(place.entry.flags & Flags.REBUILT))
    else:
        copy.delta(place.tick, recording.payload(place))


def why_missing(recording: Recording, tick: int, error: RecordingError) -> str:
    """Why there is no frame of tick: what the recording itself says, if it says something, else the error."""
    said = recording.drop_at(tick)
    return said.why if said is not None else (error.why if isinstance(error, MissingTickError) else str(error))


def copied_meta(assembled: Assembled, **more: Any) -> bytes:
    """The META of a copy: the original's, without what was about its files; the copy of a ring drops nothing any more."""
    known = {key: value for key, value in assembled.meta.items() if key != "segment"}
    if isinstance(settings := known.get("settings"), dict):
        known["settings"] = {**settings, "keep_ticks": None, "keep_s": None}
    return encode_plain({"world": None, **known, **more})  # decode_meta has seen that it fits.
