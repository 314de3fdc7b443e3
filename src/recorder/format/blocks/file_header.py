"""The 64 bytes at the start of a tape.

Layout, little-endian:
    magic 8 | major u16 | minor u16 | header_size u32 | incompatible u32 | compatible u32 | run_id 16 | marker 8 |
    segment u32 | first_seq u64 | crc32c u32 of all before it

The magic reveals text-mode damage, as PNG's does. A reader obeys header_size, refuses unknown incompatible bits, and
ignores unknown compatible ones. The marker is repeated in every block: a tape whose header is lost can still be opened.
Each segment has a different marker: a block is not accepted in a segment that it was not written to.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import attrs
import google_crc32c

from recorder.errors import CorruptError, TornError, UnsupportedVersionError
from recorder.format.digests import new_digest
from recorder.format.zstandard_frames import ensure_zstandard

MAGIC = b"\x89TAP\r\n\x1a\n"
HEADER_BYTES = 64
RUN_ID_BYTES = 16
HEADER_BYTES_MAX = 4096  # A later version may have a longer header, not an arbitrary one.
MAJOR, MINOR = 0, 2
LINKED = 1  # Bit of incompatible: frames may have chained hashes in place of state hashes.
PACKED = 2  # Bit of incompatible: blocks may be compressed with Zstandard, and frames stored as streams.
INCOMPATIBLE_KNOWN = LINKED | PACKED
PACKED_KEY = "packed"  # In META of such a tape.

MARKER_BYTES = 8

_LAYOUT = struct.Struct("<8sHHIII16s8sIQ")
_CRC = struct.Struct("<I")
assert _LAYOUT.size + _CRC.size == HEADER_BYTES


@attrs.frozen
class FileHeader:
    """The first bytes of a tape.

    Attributes:
        run_id: 16 bytes, new for each recording.
        marker: 8 bytes that are in every block of this segment and hardly anywhere else.
        segment: number of this file among those of the tape, from 0.
        first_seq: of the first block in this file.
        major, minor: version of the format; this program reads one major version.
        incompatible, compatible: flag words for features added later.
        size_bytes: of the header; the first block starts there.
    """

    run_id: bytes
    marker: bytes
    segment: int = 0
    first_seq: int = 0
    major: int = MAJOR
    minor: int = MINOR
    incompatible: int = 0
    compatible: int = 0
    size_bytes: int = HEADER_BYTES


def encode_file_header(header: FileHeader) -> bytes:
    """Encode a header as 64 bytes; run_id must have 16 and marker 8 bytes."""
    assert len(header.run_id) == 16
    assert len(header.marker) == 8
    body = _LAYOUT.pack(
        MAGIC,
        header.major,
        header.minor,
        HEADER_BYTES,
        header.incompatible,
        header.compatible,
        header.run_id,
        header.marker,
        header.segment,
        header.first_seq,
    )
    return body + _CRC.pack(google_crc32c.value(body))


def decode_file_header(data: bytes) -> FileHeader:
    """Read the header at the start of data.

    Raises TornError if data is the beginning of a header, CorruptError if magic or checksum are wrong,
    UnsupportedVersionError if the tape needs a newer program, or a package that is not installed.
    """
    begins = bytes(data[: len(MAGIC)])
    if begins != MAGIC[: len(begins)]:
        raise CorruptError(0, f"expected a tape, which starts with {MAGIC!r}, got {begins!r}")
    if len(data) < HEADER_BYTES:
        raise TornError(0, HEADER_BYTES, len(data))
    body, (crc,) = data[: _LAYOUT.size], _CRC.unpack_from(data, _LAYOUT.size)
    _, major, minor, size, incompatible, compatible, run_id, marker, segment, first_seq = _LAYOUT.unpack(body)
    if crc != google_crc32c.value(body):
        raise CorruptError(0, "the checksum of the file header is wrong")
    if major != MAJOR or incompatible & ~INCOMPATIBLE_KNOWN:
        raise UnsupportedVersionError(
            f"format {major}.{minor} with feature flags {incompatible:#x}",
            f"format {MAJOR}.{MINOR} with feature flags {INCOMPATIBLE_KNOWN:#x}",
        )
    if incompatible & PACKED:
        ensure_zstandard()
    if not HEADER_BYTES <= size <= HEADER_BYTES_MAX or size % 8:
        raise CorruptError(0, f"a file header of {size} bytes")
    return FileHeader(run_id, marker, segment, first_seq, major, minor, incompatible, compatible, size)


def make_file_header(run_id: bytes, segment: int, first_seq: int, incompatible: int = 0) -> FileHeader:
    """Make the header of a new segment of the run; incompatible: bits of the features that a reader must know."""
    if len(run_id) != RUN_ID_BYTES:
        raise ValueError(f"run_id: expected {RUN_ID_BYTES} bytes, got {len(run_id)}")
    return FileHeader(run_id, marker_of(run_id, segment), segment, first_seq, incompatible=incompatible)


def features_of(meta: Mapping[str, Any]) -> int:
    """The bits of incompatible for a tape with this META: the features that a reader must know."""
    settings = meta.get("settings")
    linked = LINKED if isinstance(settings, Mapping) and settings.get("hashes") == "changes" else 0
    return linked | (PACKED if PACKED_KEY in meta else 0)


def marker_of(run_id: bytes, segment: int) -> bytes:
    """The marker of a segment: BLAKE2b, 8 bytes, of the run id and the segment's number as u32."""
    return new_digest(MARKER_BYTES, run_id + segment.to_bytes(4, "little")).digest()
