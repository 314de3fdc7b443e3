"""One block: a 72-byte header, the stored bytes, and zeros up to a multiple of 8.

Layout of the header, little-endian:
    tag 4 | crc32c u32 of the header after it | marker 8 | seq u64 | offset u64 | durable u64 | first_tick u64 |
    tick_count u32 | stored_bytes u32 | raw_bytes u32 | payload_crc u32 | kind u8 | codec u8 | flags u16 |
    baseline u32

Invariants:
    1. The header's checksum is verified before any of its lengths is used.
    2. payload_crc covers the stored (compressed) bytes and their padding. It is verified before they are decompressed.
    3. offset is the position of the block in its file, and marker is the tape's. A block that was moved, or that
       belongs to a different run, is not accepted.
    4. Blocks start at multiples of 8.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable

import attrs
import google_crc32c
import lz4.block
import numpy as np

from recorder.errors import CorruptError
from recorder.format.limits import BLOCK_RAW_BYTES_MAX, BLOCK_TICKS_MAX

TAG = b"\xf5BLK"  # The first byte is neither ASCII nor the start of a UTF-8 character: text does not contain a tag.
HEADER_BYTES = 72
ALIGNMENT_BYTES = 8
THOROUGH_LEVEL = 3  # LZ4's first thorough level: frames become a sixth smaller. Level 9 saves only a hundredth more.
OPTIONAL_KIND = 0x80  # Kinds with this bit may be skipped by a reader that does not know them.

_HEADER = struct.Struct("<8sQQQQIIIIBBHI")
_PREFIX = struct.Struct("<4sI")
assert _PREFIX.size + _HEADER.size == HEADER_BYTES


class BlockKind(enum.IntEnum):
    """The kind of a block's content. 0 is reserved: preallocated files are full of zeros."""

    META = 1
    FRAMES = 2
    FULL = 3
    DELTA = 4
    END = 5
    DROP = 6
    INDEX = OPTIONAL_KIND | 1
    EVENTS = OPTIONAL_KIND | 2
    AUX = OPTIONAL_KIND | 3
    TELEMETRY = OPTIONAL_KIND | 4
    CHANGES = OPTIONAL_KIND | 5
    WRITES = OPTIONAL_KIND | 6


class Codec(enum.IntEnum):
    """The compression of a payload."""

    NONE = 0
    LZ4 = 1
    ZSTD = 2  # Of packed tapes, see recorder.format.segments.packed_piece.
    STREAMS = 3  # As ZSTD; the frames of a FRAMES block as streams, see packed/frame_streams.py.


class Flags(enum.IntFlag):
    """Further properties of a block."""

    REBUILT = 1  # Made by a repair, not by the recording.
    SESSION_START = 2  # The first block after the tape was opened for writing.
    CONTINUES = 4  # The payload continues in the next block.
    CONTINUATION = 8  # The payload began in an earlier block.


# The header as a NumPy dtype, to decode many headers at once.
HEADER_DTYPE = np.dtype(
    [
        ("tag", "V4"),
        ("crc", "<u4"),
        ("marker", "V8"),
        ("seq", "<u8"),
        ("offset", "<u8"),
        ("durable_bytes", "<u8"),
        ("first_tick", "<u8"),
        ("tick_count", "<u4"),
        ("stored_bytes", "<u4"),
        ("raw_bytes", "<u4"),
        ("payload_crc", "<u4"),
        ("kind", "u1"),
        ("codec", "u1"),
        ("flags", "<u2"),
        ("baseline", "<u4"),
    ]
)
assert HEADER_DTYPE.itemsize == HEADER_BYTES


@attrs.frozen
class BlockHeader:
    """The header of a block.

    Attributes:
        marker: of the tape.
        seq: number of the block in the tape, from 0.
        offset: of this header in its file, in bytes.
        durable_bytes: length of the file known to be on stable storage when the block was made.
        first_tick: of the frames inside, or the keyframe's tick.
        tick_count: number of frames inside; 0 for a block without frames.
        stored_bytes, raw_bytes: length of the payload as stored, without padding, and decompressed.
        payload_crc: crc32c of the stored bytes and their padding.
        kind: a BlockKind or an unknown number.
        codec: a Codec or an unknown number.
        flags: Flags.
        baseline: for DELTA, the distance in seq back to the start of its full keyframe.
    """

    marker: bytes
    seq: int
    offset: int
    durable_bytes: int
    first_tick: int
    tick_count: int
    stored_bytes: int
    raw_bytes: int
    payload_crc: int
    kind: int
    codec: int
    flags: int
    baseline: int

    @property
    def padded_bytes(self) -> int:
        """Length of the stored bytes with their padding."""
        return -(-self.stored_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    @property
    def end_offset(self) -> int:
        """Offset of the next block."""
        return self.offset + HEADER_BYTES + self.padded_bytes

    @property
    def final_tick(self) -> int:
        """The last tick inside (the first one for a block without frames)."""
        return self.first_tick + max(0, self.tick_count - 1)


def encode_header(header: BlockHeader) -> bytes:
    """The 72 bytes of a header."""
    body = _HEADER.pack(
        header.marker,
        header.seq,
        header.offset,
        header.durable_bytes,
        header.first_tick,
        header.tick_count,
        header.stored_bytes,
        header.raw_bytes,
        header.payload_crc,
        header.kind,
        header.codec,
        header.flags,
        header.baseline,
    )
    return _PREFIX.pack(TAG, google_crc32c.value(body)) + body


def decode_header(data: bytes, offset: int) -> BlockHeader:
    """Read the header that starts data and was found at offset in its file.

    The caller compares the marker (it may not know it yet). Raises CorruptError for anything that is not a header.
    """
    if len(data) < HEADER_BYTES or data[:4] != TAG:
        raise CorruptError(offset, "no block starts here")
    body = data[_PREFIX.size : HEADER_BYTES]
    if _PREFIX.unpack_from(data)[1] != google_crc32c.value(body):
        raise CorruptError(offset, "the checksum of a block header is wrong")
    header = BlockHeader(*_HEADER.unpack(body))
    if header.offset != offset:
        raise CorruptError(offset, f"a block whose header states offset {header.offset}")
    if header.raw_bytes > BLOCK_RAW_BYTES_MAX or header.stored_bytes > header.raw_bytes:
        raise CorruptError(offset, f"a block of {header.stored_bytes} bytes for {header.raw_bytes}")
    if header.tick_count > BLOCK_TICKS_MAX:
        raise CorruptError(offset, f"a block of {header.tick_count} ticks")
    return header


def compress(raw: bytes | memoryview, *, thoroughly: bool = False) -> tuple[Codec, bytes]:
    """Compress raw with LZ4, or keep it unchanged if LZ4 would not make it smaller.

    thoroughly: search longer for repetitions. It takes nine times as long and decompresses as fast.
    """
    mode = {"mode": "high_compression", "compression": THOROUGH_LEVEL} if thoroughly else {}
    packed: bytes = lz4.block.compress(raw, store_size=False, **mode)
    return (Codec.LZ4, packed) if len(packed) < len(raw) else (Codec.NONE, bytes(raw))


def pad(stored: bytes) -> bytes:
    """Append zeros up to a multiple of 8."""
    return stored + bytes(-len(stored) % ALIGNMENT_BYTES)


def damaged(header: BlockHeader, what: str) -> CorruptError:
    """Make the error for a block with an intact header and damaged content."""
    try:
        name = BlockKind(header.kind).name
    except ValueError:
        name = f"kind {header.kind}"
    ticks = (
        (header.first_tick, header.final_tick)
        if header.kind in (BlockKind.FRAMES, BlockKind.FULL, BlockKind.DELTA)
        else None
    )
    named = f"{name}, {ticks_text(ticks)}" if ticks is not None else name
    return CorruptError(header.offset, f"{what} ({named})", name, ticks)


def ticks_text(ticks: tuple[int, int]) -> str:
    """Format a first and a last tick for messages."""
    return f"tick {ticks[0]}" if ticks[0] == ticks[1] else f"ticks {ticks[0]} to {ticks[1]}"


def decode_payload(
    header: BlockHeader, padded: bytes, unpack: Callable[[BlockHeader, bytes], bytes] | None = None
) -> bytes:
    """The raw payload of a block, from its stored bytes with padding.

    unpack: for blocks of packed tapes, whose codecs are otherwise unknown; from the stored bytes, or ValueError.
    Raises CorruptError if the checksum, the codec, the padding or the length is wrong, and as unpack does otherwise.
    """
    if len(padded) != header.padded_bytes or google_crc32c.value(padded) != header.payload_crc:
        raise damaged(header, "the checksum of a block's content is wrong")
    stored = padded[: header.stored_bytes]
    if header.codec == Codec.NONE:
        raw = stored
    elif header.codec == Codec.LZ4:
        try:
            raw = lz4.block.decompress(stored, uncompressed_size=header.raw_bytes)
        except lz4.block.LZ4BlockError as error:
            raise damaged(header, f"a block's content does not decompress: {error}") from None
    elif unpack is not None and header.codec in (Codec.ZSTD, Codec.STREAMS):
        try:
            raw = unpack(header, stored)
        except ValueError as error:
            raise damaged(header, f"a block's content does not decompress: {error}") from None
    else:
        raise damaged(header, f"codec {header.codec} is unknown to this program")
    if len(raw) != header.raw_bytes:
        raise damaged(header, f"expected {header.raw_bytes} bytes of content, got {len(raw)}")
    return raw
