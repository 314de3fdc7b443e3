"""Encode keyframes as blocks on the writer's thread: full ones, and deltas of the last full one."""

from __future__ import annotations

from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.delta_keyframe import delta_payload
from recorder.format.blocks.full_keyframe import Changes, apply_changes, full_payload
from recorder.format.segments import segment_encoder
from recorder.format.segments.large_group import LARGE_PAYLOAD_BYTES, Group, LargeGroup, stored_bytes_of
from recorder.format.segments.segment_encoder import Piece, SeqReference, delta_pieces, full_pieces
from recorder.writer.buffer_pool import BufferPool
from recorder.writer.jobs import Baseline, KeyframeJob

WORN_BYTES_MIN = 16 << 10  # The bytes of smaller full keyframes do not matter; they stay at regular intervals.
# Of larger buffers, the memory is given to the blocks of the full keyframe that was made from them.
RELEASED_BYTES_MIN = 64 << 20


def writes_pieces(job: KeyframeJob) -> list[Piece]:
    """Make the blocks with the rows that the steps before a keyframe have written."""
    assert job.writes is not None
    return segment_encoder.writes_pieces(*job.writes)


class KeyframeEncoder:
    """Encodes keyframes, and keeps the last full one as the baseline.

    Attributes:
        full_count, delta_count: made so far.
        is_worn: True if a full keyframe is worthwhile now: the deltas since the last one take as many bytes as it does.
    """

    def __init__(self, buffers: BufferPool) -> None:
        """buffers: the pool to which free memory is returned."""
        self._buffers = buffers
        self._baseline: Baseline | None = None
        self._place: SeqReference | None = None
        self.full_count = self.delta_count = 0
        self._full_bytes = self._delta_bytes = 0  # Stored.
        self.is_worn = False

    def make_state(self, job: KeyframeJob) -> str | None:
        """Build the state of a full keyframe from changes. Return a message if it does not have the recorded hash.

        The hash is checked here because a wrong state would make all following keyframes wrong. The message is empty
        if the previous state was already wrong.
        """
        if job.previous is None or job.changes is None:
            return None
        if job.previous.snapshot is None:
            return ""
        made = apply_changes(job.previous.snapshot, job.changes)
        job.previous.snapshot = None
        self._give_back(job.changes, RELEASED_BYTES_MIN)
        job.changes.release()
        if made.hash() != job.state_hash:
            return (
                f"the state at tick {job.tick} has changes that were not marked: the last keyframes may be unusable; "
                'record with changes="audit" to find the write'
            )
        job.baseline.snapshot = made
        return None

    def full(self, job: KeyframeJob) -> Group:
        """Encode a full keyframe whose state is known."""
        assert job.baseline.snapshot is not None
        payload = full_payload(job.tick, job.state_hash, job.baseline.snapshot, job.digest)
        self.full_count += 1
        if payload.size_bytes < LARGE_PAYLOAD_BYTES:
            pieces, self._place = full_pieces(job.tick, payload)
            return pieces
        self._place = SeqReference()
        return LargeGroup(BlockKind.FULL, payload, job.tick, place=self._place)

    def note_full(self, job: KeyframeJob, group: Group) -> None:
        """Note that a full keyframe was put, and release the state of the one before."""
        self._full_bytes, self._delta_bytes = stored_bytes_of(group), 0
        self.is_worn = False
        if job.needs_spare:
            self._buffers.make_ready(job.baseline.layout.size_bytes)
        before, self._baseline = self._baseline, job.baseline
        if before is not None and before.snapshot is not None:  # No further deltas refer to it.
            self._buffers.give(before.snapshot.arena)
            before.snapshot = None

    def delta(self, job: KeyframeJob) -> Group | None:
        """Encode a delta; None if its full keyframe is not on the tape."""
        if self._place is None or job.baseline.snapshot is None or job.changes is None:
            return None
        self.delta_count += 1
        payload = delta_payload(job.tick, job.state_hash, job.changes, job.baseline.snapshot, job.digest)
        if payload.size_bytes < LARGE_PAYLOAD_BYTES:
            return delta_pieces(job.tick, payload, self._place)
        return LargeGroup(BlockKind.DELTA, payload, job.tick, baseline=self._place)

    def note_delta(self, job: KeyframeJob, group: Group) -> None:
        """Note that a delta was put, and release the memory of its rows."""
        assert job.changes is not None
        self._give_back(job.changes)
        job.changes.release()
        # Deltas grow with the distance. If they grow evenly, a full keyframe at this point minimizes the average size of
        # a keyframe: with F bytes for it and d, 2d, 3d ... for n deltas, (F + d n² / 2) / n is smallest where d n² / 2
        # is F.
        self._delta_bytes += stored_bytes_of(group)
        self.is_worn = self._delta_bytes >= self._full_bytes >= WORN_BYTES_MIN

    def _give_back(self, changes: Changes, bytes_max: int | None = None) -> None:
        for memory in changes.taken():
            if bytes_max is None or len(memory) < bytes_max:
                self._buffers.give(memory)

    def release(self) -> None:
        """Release the last full keyframe: no other one will be encoded."""
        self._baseline = None

    def forget(self) -> None:
        """Discard the last full keyframe: deltas of it are not possible any more."""
        self._place = None
