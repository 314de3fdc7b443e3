"""Copy a damaged tape block by block: intact blocks unchanged, rebuilt keyframes, losses as DROP blocks."""

from __future__ import annotations

from collections import deque

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import Flags
from recorder.format.blocks.frame import Frame
from recorder.format.limits import BLOCK_TICKS_MAX, PIECE_RAW_BYTES
from recorder.format.segments.block_location import optional_blocks
from recorder.storage.tape_copy import TapeCopy, why_missing
from replayer.repair.planned_keyframes import PlannedKeyframe, readable_state
from replayer.repair.rebuild import Rebuilder
from replayer.repair.repair_report import RepairLosses
from replayer.tape.tape import Tape
from sim.kernel.state import Snapshot


class RepairCopy:
    """The new tape of a repair, while it is written.

    Attributes:
        copied_keyframes: number of keyframes that were copied unchanged.
        rebuilt_ticks: ticks of keyframes that were rebuilt.
    """

    def __init__(self, tape: Tape, copy: TapeCopy, rebuilder: Rebuilder, losses: RepairLosses) -> None:
        """Copy from tape to copy. losses: everything that cannot be copied or rebuilt is added to it."""
        self._tape, self._copy, self._rebuilder, self._losses = tape, copy, rebuilder, losses
        self._optional = deque(optional_blocks(tape.segments))
        self._full_copied = False
        self._full_seq = -1  # Sequence number, in the original, of the last full keyframe that was copied.
        self.copied_keyframes = 0
        self.rebuilt_ticks: list[int] = []

    def rebuilt_start(self, tick: int, start: Snapshot) -> None:
        """Begin with the state of a fresh simulation."""
        self._copy.full(tick, start, rebuilt=True)
        self.rebuilt_ticks.append(tick)
        self._full_copied = True

    def frames(self, first: int, last: int) -> int:
        """Copy the frames of these ticks, with DROP blocks for missing ones; return the next tick to copy."""
        frames: list[Frame] = []
        gathered_bytes = 0
        lost: tuple[int, int, str] | None = None
        for run in self._tape.recording.runs(first, last):
            if run.error is not None:
                why = lost[2] if lost else why_missing(self._tape.recording, run.first_tick, run.error)
                lost = (lost[0] if lost else run.first_tick, run.last_tick, why)
                self._copy.frames(frames)
                frames = []
                continue
            if lost is not None:
                self._note_lost(*lost)
                lost = None
            frames += run.frames
            gathered_bytes += sum(len(frame.encoded_inputs) for frame in run.frames)
            # Written in pieces: all frames may not fit into memory.
            if gathered_bytes > PIECE_RAW_BYTES or len(frames) > BLOCK_TICKS_MAX:
                self._copy.frames(frames)
                frames, gathered_bytes = [], 0
        self._copy.frames(frames)
        if lost is not None:
            self._note_lost(*lost)
        return max(first, last + 1)

    def optional_blocks(self, position: tuple[int, int] | None) -> None:
        """Copy the blocks of optional kinds before a position; None copies all that are left."""
        while self._optional and (position is None or self._optional[0].position < position):
            block = self._optional.popleft()
            try:
                self._copy.optional(block)
            except (CorruptError, TornError) as error:
                kind = error.kind if isinstance(error, CorruptError) else None
                self._losses.optional.append((kind or f"kind {block.entry.kind}", str(error)))

    def keyframe(self, keyframe: PlannedKeyframe) -> None:
        """Copy a keyframe unchanged if its state can be read and verified, else rebuild it as a full one."""
        place = keyframe.place
        snapshot = readable_state(self._tape, place) if place is not None else None
        if place is not None and snapshot is not None:
            digest = self._tape.recording.value_digest(place)
            if place.is_full:
                rebuilt_before = bool(place.entry.flags & Flags.REBUILT)
                self._copy.full(place.tick, snapshot, rebuilt=rebuilt_before, digest=digest)
                self._full_seq = place.entry.seq
            elif self._full_copied and self._full_seq == place.entry.seq - place.entry.baseline:
                self._copy.delta(place.tick, self._tape.recording.payload(place))
            else:
                self._copy.full(place.tick, snapshot, digest=digest)  # The base of this delta was not copied.
                self._full_seq = -1
            self._full_copied = True
            self.copied_keyframes += 1
            return
        rebuilt, why = self._rebuilder.keyframe(keyframe.tick)
        if rebuilt is not None:
            self._copy.full(keyframe.tick, rebuilt, rebuilt=True)
            self._full_copied, self._full_seq = True, -1
            self.rebuilt_ticks.append(keyframe.tick)
        elif place is not None:
            self._losses.keyframes.append((keyframe.tick, why))

    def _note_lost(self, first: int, last: int, why: str) -> None:
        self._copy.drop(first, last, why)
        self._losses.ticks.append((first, last, why))
