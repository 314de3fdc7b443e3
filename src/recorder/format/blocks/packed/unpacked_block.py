"""Unpack the blocks of packed tapes: Zstandard, and frames stored as streams."""

from __future__ import annotations

from recorder.format.blocks.block import BlockHeader, Codec
from recorder.format.blocks.packed.frame_streams import STREAMS_SIZE_MAX, join_frames
from recorder.format.zstandard_frames import decompress_frame, decompress_frames


def unpack_block(header: BlockHeader, stored: bytes) -> bytes:
    """The payload of a block with codec ZSTD or STREAMS.

    Raises ValueError if it does not unpack, or not to raw_bytes at most; MissingCodecError without the package zstandard.
    """
    return unpack(header.codec, stored, header.raw_bytes)


def unpack(codec: int, stored: bytes, raw_bytes: int) -> bytes:
    """The payload, of raw_bytes at most. Raises as unpack_block."""
    if codec == Codec.ZSTD:
        return decompress_frame(stored, raw_bytes)
    return join_frames(decompress_frames(stored, STREAMS_SIZE_MAX * raw_bytes), raw_bytes)
