"""The end of a segment that was closed properly: the END block's payload and the trailer after it.

END payload, a MessagePack map:
    meta             a copy of the META payload, as bytes, in case the first one is lost
    digest           BLAKE2b, 32 bytes, over the 72-byte headers of all blocks before END, in file order
    block_count      the number of these blocks
    frame_count, first_tick, last_tick
    index_offset     of the last INDEX block
    outcome          why and how the recording ended, plain data
    run_id, segment  as in the file header, in case that is lost
    final            false: the tape continues in the next segment
    previous_digest  the digest of the segment before, empty if that one was never closed
    counts           the number of blocks in the index, by kind
    parts            the INDEX blocks in file order, each as [offset, first_tick, last_tick, first_seq]
    oldest_segment   in a ring only: the lowest number above 0 of a segment that existed when the tape was sealed
Tapes of format 0.1 end with outcome.

Trailer, 24 bytes, little-endian: tag 4 | crc32c u32 of the rest | marker 8 | offset of END u64. It is read from the
end of the file. A trailer that is followed by blocks, because the recording was resumed, has no meaning.

The headers contain the checksums of the payloads. So the digest reveals any block that was removed, added, moved, or
replaced with corrected checksums. It is not a signature: anyone who can write the tape can write a new digest.
"""

from __future__ import annotations

import struct
from typing import Any

import attrs
import google_crc32c

from recorder.errors import CorruptError
from recorder.format.segments.index import IndexPartSummary
from sim.kernel.plain_data import decode_plain, encode_plain

TRAILER_TAG = b"\xf5END"
TRAILER_BYTES = 24
DIGEST_BYTES = 32

_PREFIX = struct.Struct("<4sI")
_BODY = struct.Struct("<8sQ")
assert _PREFIX.size + _BODY.size == TRAILER_BYTES


@attrs.frozen
class Seal:
    """The content of an END block.

    Attributes: as in the module's docstring; parts is None and run_id empty in older tapes, which do not have them.
    oldest_segment is 0 in tapes that are no rings, and in older ones.
    """

    meta: bytes
    digest: bytes
    block_count: int
    frame_count: int
    first_tick: int
    last_tick: int
    index_offset: int
    outcome: Any
    run_id: bytes = b""
    segment: int = 0
    final: bool = True
    previous_digest: bytes = b""
    counts: dict[int, int] = attrs.field(factory=dict)
    parts: list[IndexPartSummary] | None = None
    oldest_segment: int = 0


def encode_seal(seal: Seal) -> bytes:
    """Encode the payload of an END block."""
    plain = {field.name: getattr(seal, field.name) for field in attrs.fields(Seal)}
    if not seal.oldest_segment:
        del plain["oldest_segment"]
    return encode_plain(plain | {"parts": [list(attrs.astuple(part)) for part in seal.parts or []]})


def decode_seal(payload: bytes, offset: int) -> Seal:
    """Decode the seal in an END block at offset. Raises CorruptError if the payload is not a seal."""
    try:
        plain = decode_plain(payload)
        match plain:
            case {
                "meta": bytes(),
                "digest": bytes(),
                "block_count": int(),
                "frame_count": int(),
                "first_tick": int(),
                "last_tick": int(),
                "index_offset": int(index_offset),
                "outcome": _,
            } if 0 <= index_offset < offset:
                values = {field.name: plain[field.name] for field in attrs.fields(Seal) if field.name in plain}
                return Seal(**values | _later_keys(plain, offset))
    except ValueError as error:
        raise CorruptError(offset, f"an END block that cannot be decoded: {error}") from None
    raise CorruptError(offset, "an END block that is incomplete")


def _later_keys(plain: dict[Any, Any], offset: int) -> dict[str, Any]:
    """The keys that format 0.2 added. Raises CorruptError if their types are wrong."""
    match plain:
        case {
            "run_id": bytes(),
            "segment": int(),
            "final": bool(),
            "previous_digest": bytes(),
            "counts": dict(counts),
            "parts": list(parts),
        } if all(isinstance(part, list) and len(part) == 4 for part in parts):
            flat = [number for part in parts for number in part] + [*counts.keys(), *counts.values()]
            if all(isinstance(number, int) and number >= 0 for number in flat):
                oldest = plain.get("oldest_segment", 0)
                if isinstance(oldest, int) and 0 <= oldest <= plain["segment"]:
                    return {"parts": [IndexPartSummary(*part) for part in parts]}
        case {"run_id": _} | {"segment": _} | {"final": _} | {"previous_digest": _} | {"parts": _}:
            pass
        case _:
            return {}
    raise CorruptError(offset, "an END block with values of the wrong types")


def encode_trailer(marker: bytes, end_offset: int) -> bytes:
    """Encode the 24 bytes after END."""
    body = _BODY.pack(marker, end_offset)
    return _PREFIX.pack(TRAILER_TAG, google_crc32c.value(body)) + body


def decode_trailer(data: bytes, offset: int) -> tuple[bytes, int]:
    """Decode the marker and the offset of END from the trailer that starts data. Raises CorruptError if there is none."""
    if len(data) < TRAILER_BYTES or data[:4] != TRAILER_TAG:
        raise CorruptError(offset, "no trailer here")
    body = data[_PREFIX.size : TRAILER_BYTES]
    if _PREFIX.unpack_from(data)[1] != google_crc32c.value(body):
        raise CorruptError(offset, "the checksum of the trailer is wrong")
    marker, end_offset = _BODY.unpack(body)
    return marker, end_offset
