"""The blocks of one payload, which are placed together; those of a large payload are made while they are written."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.payload import Payload
from recorder.format.segments.segment_encoder import Piece, SeqReference, cut

LARGE_PAYLOAD_BYTES = 64 << 20  # Of keyframes; all blocks of a smaller one may be in memory.


class LargeGroup:
    """The blocks of one large payload: at no time are all of them in memory. They may be made several times.

    Attributes:
        size_bytes: of the payload.
        stored_bytes: of the blocks, once all were made.
    """

    def __init__(
        self,
        kind: BlockKind,
        payload: Payload,
        tick: int,
        *,
        place: SeqReference | None = None,
        baseline: SeqReference | None = None,
    ) -> None:
        """place: receives the seq of the first block. baseline: of a delta, the place of its full keyframe."""
        self.size_bytes, self.stored_bytes = payload.size_bytes, 0
        self._kind, self._payload, self._tick, self._place, self._baseline = kind, payload, tick, place, baseline

    def __iter__(self) -> Iterator[Piece]:
        self.stored_bytes = 0
        for piece in cut(self._kind, self._payload, self._tick, 0, self._place, self._baseline):
            self.stored_bytes += piece.stored_bytes
            yield piece


Group = list[Piece] | LargeGroup


def stored_bytes_of(group: Group) -> int:
    """The size of all blocks without their headers; of a large group, once they were made."""
    if isinstance(group, LargeGroup):
        return group.stored_bytes
    return sum(piece.stored_bytes for piece in group)
