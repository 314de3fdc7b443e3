"""Compress the blocks of a finished tape once more, for storage: with Zstandard, and frames as streams.

Invariant: what a packed piece unpacks to was compared with the piece's payload, byte for byte.
"""

from __future__ import annotations

import attrs
import google_crc32c
import lz4.block

from recorder.format.blocks.block import BlockKind, Codec, pad
from recorder.format.blocks.packed.frame_streams import FORMS, STREAMS_SIZE_MAX, split_frames
from recorder.format.blocks.packed.unpacked_block import unpack
from recorder.format.segments.segment_encoder import Piece
from recorder.format.zstandard_frames import compress_frame, compress_frames

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
    for form in FORMS if piece.kind == BlockKind.FRAMES else ():
        streams = split_frames(raw, form)
        if streams is not None and sum(map(len, streams)) <= STREAMS_SIZE_MAX * len(raw):
            forms += [(Codec.STREAMS, compress_frames(each, level)) for each in (streams, [b"".join(streams)])]
    codec, packed = min(forms, key=lambda form: len(form[1]))
    if len(packed) >= piece.stored_bytes:
        return piece
    assert unpack(codec, packed, len(raw)) == raw, "a block must unpack to itself"
    padded = pad(packed)
    crc = google_crc32c.value(padded)
    return attrs.evolve(piece, codec=codec, padded=padded, stored_bytes=len(packed), payload_crc=crc)
