"""The bytes of the tick journal: the frames that are not yet in a block of the tape.

The journal is a file next to the tape and exists while the recording runs. It is preallocated, mapped into memory, and
the only file whose bytes are written more than once. Two areas are written in turn: one can be reused while the other
still holds frames that are not on the tape.

File header, 64 bytes, little-endian:
    magic 8 | major u16 | minor u16 | zeros u32 | area_bytes u64 | run_id 16 | zeros 20 | crc32c u32 of all before it
Areas, each of area_bytes, from byte 64 on:
    generation u64 | crc32c u32 of run_id and generation | zeros u32 | records back to back
Record:
    size u32 of the frame | crc32c u32 of run_id, generation and frame | frame

The size is stored last. A record is valid if its checksum is right; the first invalid record ends its area. The checksum
covers the generation: records left from an earlier use of the area are invalid. The area with the higher generation
holds the later frames.
"""

from __future__ import annotations

import struct

import attrs
import google_crc32c

from recorder.errors import CorruptError, UnsupportedVersionError
from recorder.format.blocks.file_header import RUN_ID_BYTES
from recorder.format.blocks.frame import Frame, decode_frame
from recorder.format.limits import INPUT_BYTES_MAX

MAGIC = b"\x89TAJ\r\n\x1a\n"
MAJOR, MINOR = 0, 2
HEADER_BYTES = 64
AREA_COUNT = 2
AREA_HEADER = struct.Struct("<QII")
RECORD_HEAD_BYTES = 8
AREA_BYTES_MAX = 16 * INPUT_BYTES_MAX  # No writer makes larger areas; a hostile size is refused.

_HEADER = struct.Struct("<8sHHIQ16s20x")
_CRC = struct.Struct("<I")
_RECORD = struct.Struct("<II")
_GENERATION = struct.Struct("<Q")
assert _HEADER.size + _CRC.size == HEADER_BYTES


@attrs.frozen
class JournalContents:
    """The content of a journal.

    Attributes:
        run_id: of the tape that it belongs to.
        frames: all valid frames, in the order of their ticks.
    """

    run_id: bytes
    frames: list[Frame]


def journal_bytes(area_bytes: int) -> int:
    """The size of a journal with areas of this size."""
    return HEADER_BYTES + AREA_COUNT * area_bytes


def encode_journal_header(run_id: bytes, area_bytes: int) -> bytes:
    """Encode the first 64 bytes of a journal."""
    assert len(run_id) == RUN_ID_BYTES
    body = _HEADER.pack(MAGIC, MAJOR, MINOR, 0, area_bytes, run_id)
    return body + _CRC.pack(google_crc32c.value(body))


def area_salt(run_id: bytes, generation: int) -> int:
    """The start value of the checksums of an area's records; also the checksum in the area's header."""
    return int(google_crc32c.value(run_id + _GENERATION.pack(generation)))


def encode_area_header(run_id: bytes, generation: int) -> bytes:
    """Encode the first 16 bytes of an area."""
    return AREA_HEADER.pack(generation, area_salt(run_id, generation), 0)


def decode_journal(data: bytes) -> JournalContents:
    """Decode the frames in a journal.

    Raises CorruptError if its header is damaged, UnsupportedVersionError for a newer format. A damaged record ends its
    area. That is not an error: a killed process sometimes leaves one.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptError(0, f"a journal of {len(data)} bytes")
    magic, major, minor, _, area_bytes, run_id = _HEADER.unpack_from(data)
    if magic != MAGIC or _CRC.unpack_from(data, _HEADER.size)[0] != google_crc32c.value(data[: _HEADER.size]):
        raise CorruptError(0, "the header of a journal is damaged")
    if major != MAJOR:
        raise UnsupportedVersionError(f"journal {major}.{minor}", f"journal {MAJOR}.{MINOR}")
    if not AREA_HEADER.size < area_bytes <= AREA_BYTES_MAX:
        raise CorruptError(0, f"a journal with areas of {area_bytes} bytes")
    frames: dict[int, Frame] = {}
    for generation, start in sorted(_areas(data, run_id, area_bytes)):
        for frame in _records(data, start, start + area_bytes, area_salt(run_id, generation)):
            frames[frame.tick] = frame  # The later area takes precedence.
    return JournalContents(run_id, [frames[tick] for tick in sorted(frames)])


def _areas(data: bytes, run_id: bytes, area_bytes: int) -> list[tuple[int, int]]:
    """Generation and start of each area that was ever used."""
    areas = []
    for number in range(AREA_COUNT):
        start = HEADER_BYTES + number * area_bytes
        if start + AREA_HEADER.size <= len(data):
            generation, crc, _ = AREA_HEADER.unpack_from(data, start)
            if generation and crc == area_salt(run_id, generation):
                areas.append((generation, start))
    return areas


def _records(data: bytes, start: int, end: int, salt: int) -> list[Frame]:
    place, end = start + AREA_HEADER.size, min(end, len(data))
    frames: list[Frame] = []
    while place + RECORD_HEAD_BYTES <= end:
        size, crc = _RECORD.unpack_from(data, place)
        first = place + RECORD_HEAD_BYTES
        if not 0 < size <= end - first:
            break
        encoded = data[first : first + size]
        if google_crc32c.extend(salt, encoded) != crc:
            break
        try:
            frames.append(decode_frame(encoded, place))
        except CorruptError:
            break  # Only a hostile journal has a right checksum over something that is not a frame.
        place = first + size
    return frames
