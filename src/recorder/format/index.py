"""The index: where the blocks before it lie. A cache; everything in it can be found again by hopping from block to block.

Payload: MessagePack map {previous, count} | columns back to back, little-endian, each with count values:
    offset u64 | first_tick u64 | tick_count u32 | seq u64 | baseline u32 | kind u8 | flags u16
head_bytes u32 stands before the map, as in a keyframe. previous is the offset of the INDEX before this one, 0 if there
is none. Continuation pieces are not listed.
"""

from __future__ import annotations

import itertools
import struct

import attrs
import numpy as np

from recorder.errors import CorruptError
from recorder.format.block import BlockHeader
from recorder.format.limits import INDEX_BLOCKS
from recorder.format.plain_data import decode_plain, encode_plain

ENTRIES_MAX = 2 * INDEX_BLOCKS  # One append may bring some blocks more than INDEX_BLOCKS.
_HEAD_SIZE = struct.Struct("<I")
_COLUMNS = (
    ("offset", "<u8"),
    ("first_tick", "<u8"),
    ("tick_count", "<u4"),
    ("seq", "<u8"),
    ("baseline", "<u4"),
    ("kind", "<u1"),
    ("flags", "<u2"),
)


@attrs.frozen
class Entry:
    """What the index, or a scan, knows of one block.

    Attributes: as in BlockHeader; final_tick is the last tick inside.
    """

    offset: int
    first_tick: int
    tick_count: int
    seq: int
    baseline: int
    kind: int
    flags: int

    @property
    def final_tick(self) -> int:
        """The last tick inside (the first one for a block without frames)."""
        return self.first_tick + max(0, self.tick_count - 1)


def entry_of(header: BlockHeader) -> Entry:
    """The entry for a block."""
    return Entry(
        header.offset, header.first_tick, header.tick_count, header.seq, header.baseline, header.kind, header.flags
    )


def encode_index(entries: list[Entry], previous: int) -> bytes:
    """The payload of an INDEX block."""
    head = encode_plain({"previous": previous, "count": len(entries)})
    columns = [np.array([getattr(entry, name) for entry in entries], dtype).tobytes() for name, dtype in _COLUMNS]
    return b"".join([_HEAD_SIZE.pack(len(head)), head, *columns])


def decode_index(payload: bytes, offset: int) -> tuple[list[Entry], int]:
    """The entries, and the offset of the INDEX before. offset: of this block, for messages.

    Raises CorruptError if the payload is no index.
    """
    try:
        (head_bytes,) = _HEAD_SIZE.unpack_from(payload)
        match decode_plain(payload[_HEAD_SIZE.size : _HEAD_SIZE.size + head_bytes]):
            case {"previous": int(previous), "count": int(count)} if 0 <= count <= ENTRIES_MAX:
                pass
            case _:
                raise ValueError("previous or count is missing")
        place, columns = _HEAD_SIZE.size + head_bytes, []
        for _, dtype in _COLUMNS:
            column = np.frombuffer(payload, dtype, count, place)
            columns.append(column.tolist())
            place += column.nbytes
    except (struct.error, ValueError) as error:
        raise CorruptError(offset, f"an index that cannot be decoded: {error}") from None
    if place != len(payload) or not 0 <= previous < offset:
        raise CorruptError(offset, f"an index of {len(payload)} bytes where {place} were expected")
    if any(here >= after for here, after in itertools.pairwise([*columns[0], offset])):
        raise CorruptError(offset, "an index of blocks that do not lie one after the other before it")
    return [Entry(*values) for values in zip(*columns, strict=True)], previous
