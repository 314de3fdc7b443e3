"""Unpack the blocks of packed tapes: Zstandard, and frames stored as streams."""

from __future__ import annotations

from recorder.format.blocks.block import BlockHeader, Codec
from recorder.format.blocks.packed.frame_streams import HEAD_BYTES, join_frames
from recorder.format.zstandard_frames import decompress_frame


def unpack_block(header: BlockHeader, stored: bytes) -> bytes:
    """The payload of a block with codec ZSTD or STREAMS.

    Raises ValueError if it does not unpack, or not to raw_bytes at most; MissingCodecError without the package zstandard.
    """
    if header.codec == Codec.ZSTD:
        return decompress_frame(stored, header.raw_bytes)
    # Streams are smaller than the frames, except for their head.
    return join_frames(decompress_frame(stored, header.raw_bytes + HEAD_BYTES), header.raw_bytes)
