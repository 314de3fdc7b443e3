"""Keyframes as blocks, on the writer's thread: a full one, and the deltas upon it."""

from __future__ import annotations

from recorder.format.blocks.delta_keyframe import delta_payload
from recorder.format.blocks.full_keyframe import Changes, apply_changes, full_payload
from recorder.format.segments.segment_encoder import Piece, SeqReference, delta_pieces, full_pieces
from recorder.writer.buffer_pool import BufferPool
from recorder.writer.jobs import Baseline, KeyframeJob

WORN_BYTES_MIN = 16 << 10  # Of smaller full keyframes nobody would notice the bytes; which of them are full is regular.


class KeyframeBlocks:
    """Knows the last full keyframe of the tape.

    Attributes:
        full_count, delta_count: made so far.
        is_worn: whether the deltas since the last full keyframe take as many bytes as it does, and these are worth it.
    """

    def __init__(self, buffers: BufferPool) -> None:
        """buffers: to which memory goes that is no longer needed."""
        self._buffers = buffers
        self._baseline: Baseline | None = None
        self._place: SeqReference | None = None
        self.full_count = self.delta_count = 0
        self._full_bytes = self._delta_bytes = 0  # Stored.
        self.is_worn = False

    def make_state(self, job: KeyframeJob) -> str | None:
        """Make the state of a full keyframe that is known by what changed; a sentence if that is not what was recorded.

        The hash is looked at here because every keyframe from now on would be wrong with it. Empty if the state that
        the changes come upon has been wrong already.
        """
        if job.upon is None or job.changes is None:
            return None
        if job.upon.snapshot is None:
            return ""
        made = apply_changes(job.upon.snapshot, job.changes)
        job.upon.snapshot = None
        self._give_back(job.changes)
        if made.hash() != job.state_hash:
            return (
                f"the state at tick {job.tick} has changes that were not marked: the last keyframes may be of no use; "
                'record with changes="audit" to find the write'
            )
        job.baseline.snapshot = made
        return None

    def full(self, job: KeyframeJob) -> list[Piece]:
        """The blocks of a full keyframe whose state is known."""
        assert job.baseline.snapshot is not None
        pieces, self._place = full_pieces(job.tick, full_payload(job.tick, job.state_hash, job.baseline.snapshot))
        self.full_count += 1
        self._full_bytes, self._delta_bytes = sum(piece.stored_bytes for piece in pieces), 0
        self.is_worn = False
        if job.wants_spare:
            self._buffers.make_ready(job.baseline.layout.size_bytes)
        before, self._baseline = self._baseline, job.baseline
        if before is not None and before.snapshot is not None:  # Nothing comes upon it any more.
            self._buffers.give(before.snapshot.arena)
            before.snapshot = None
        return pieces

    def delta(self, job: KeyframeJob) -> list[Piece] | None:
        """The blocks of a delta; None if the full keyframe that it comes upon is not on the tape."""
        if self._place is None or job.baseline.snapshot is None or job.changes is None:
            return None
        self.delta_count += 1
        payload = delta_payload(job.tick, job.state_hash, job.changes, job.baseline.snapshot)
        pieces = delta_pieces(job.tick, payload, self._place)
        self._give_back(job.changes)
        # Deltas grow with the distance. A full keyframe here, and not before or behind, makes the bytes a keyframe the
        # fewest if they grow evenly: with F bytes for it and d, 2d, 3d ... for n deltas, (F + d n² / 2) / n is least
        # where d n² / 2 is F.
        self._delta_bytes += sum(piece.stored_bytes for piece in pieces)
        self.is_worn = self._delta_bytes >= self._full_bytes >= WORN_BYTES_MIN
        return pieces

    def _give_back(self, changes: Changes) -> None:
        for memory in changes.taken():
            self._buffers.give(memory)

    def forget(self) -> None:
        """There is no full keyframe that deltas could come upon."""
        self._place = None
