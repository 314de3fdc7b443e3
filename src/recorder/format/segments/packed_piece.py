"""Compress the blocks of a finished tape once more, for storage: with Zstandard, and frames as streams.

Invariant: what a packed piece unpacks to was compared with the piece's payload, byte for byte.
"""

from __future__ import annotations

import attrs
import google_crc32c
import lz4.block

from recorder.format.blocks.block import BlockKind, Codec, pad
from recorder.format.blocks.packed.frame_streams import join_frames, split_frames
from recorder.format.segments.segment_encoder import Piece
from recorder.format.zstandard_frames import compress_frame, decompress_frame

LEVELS = (1, 19)  # Zstandard has higher ones, which need so much memory to unpack that few programs allow them.
LEVEL_USUAL = 19


def pack_piece(piece: Piece, level: int) -> Piece:
    """Return the piece with the smallest of its forms: as it is, packed, or, for frames, packed as streams.

    level: see LEVELS. Raises MissingCodecError.
    """
    if piece.kind in (BlockKind.META, BlockKind.END, BlockKind.INDEX):
        return piece
    stored = piece.padded[: piece.stored_bytes]
    raw = stored if piece.codec == Codec.NONE else lz4.block.decompress(stored, uncompressed_size=piece.raw_bytes)
    forms = [(Codec.ZSTD, compress_frame(raw, level))]
    streams = split_frames(raw) if piece.kind == BlockKind.FRAMES else None
    if streams is not None:
        forms.append((Codec.STREAMS, compress_frame(streams, level)))
    codec, packed = min(forms, key=lambda form: len(form[1]))
    if len(packed) >= piece.stored_bytes:
        return piece
    content = decompress_frame(packed, len(raw) if streams is None else max(len(raw), len(streams)))
    assert (content if codec == Codec.ZSTD else join_frames(content, len(raw))) == raw, "a block must unpack to itself"
    padded = pad(packed)
    crc = google_crc32c.value(padded)
    return attrs.evolve(piece, codec=codec, padded=padded, stored_bytes=len(packed), payload_crc=crc)
