"""The index: the offsets of blocks. It is a cache: a scan from block to block finds the same entries.

Payload of an INDEX block: MessagePack map {previous, count} | columns back to back, little-endian, each with count
values:
    offset u64 | first_tick u64 | tick_count u32 | seq u64 | baseline u32 | kind u8 | flags u16
head_bytes u32 precedes the map, as in a keyframe. previous is the offset of the INDEX before this one, 0 if there
is none. Continuation pieces are not listed.

END lists the INDEX blocks, each as an IndexPartSummary: a reader finds the one it needs without reading the others.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError
from recorder.format.blocks.block import BlockHeader, BlockKind
from recorder.format.limits import INDEX_BLOCKS
from sim.kernel.plain_data import decode_plain, encode_plain

ENTRIES_MAX = 2 * INDEX_BLOCKS  # One append may exceed INDEX_BLOCKS by some blocks.
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
TICKING_KINDS = (
    BlockKind.FRAMES,
    BlockKind.FULL,
    BlockKind.DELTA,
)  # Only these define the range of ticks of a part.


@attrs.frozen
class Entry:
    """The entry of one block in the index, or in the result of a scan.

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


@attrs.frozen
class IndexPartSummary:
    """The entry of one INDEX block in END.

    Attributes:
        offset: of the INDEX block.
        first_tick, last_tick: of the frames and keyframes that it lists; both 0 if it lists none.
        first_seq: of the first block that it lists; 0 if it lists none.
    """

    offset: int
    first_tick: int
    last_tick: int
    first_seq: int


class IndexPart:
    """Consecutive blocks of a segment, as columns.

    Attributes:
        columns: one array for each attribute of Entry, all of equal length.
        end_offset: an upper bound for the end of the last block.
        frame_rows, frame_ticks: rows of the blocks with frames, and their first ticks, ascending.
        keyframe_rows, keyframe_ticks: rows of the keyframes, and their ticks, ascending.
    """

    def __init__(self, columns: dict[str, npt.NDArray[Any]], end_offset: int) -> None:
        self.columns = columns
        self.end_offset = end_offset
        kinds, ticks = columns["kind"], columns["first_tick"]
        self.frame_rows, self.frame_ticks = _in_order(np.flatnonzero(kinds == BlockKind.FRAMES), ticks)
        keyframes = np.flatnonzero((kinds == BlockKind.FULL) | (kinds == BlockKind.DELTA))
        self.keyframe_rows, self.keyframe_ticks = _in_order(keyframes, ticks)

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def entry(self, row: int) -> Entry:
        """The entry of one block."""
        return Entry(*(int(self.columns[name][row]) for name, _ in _COLUMNS))

    def entries(self) -> Iterator[Entry]:
        """All blocks in file order."""
        columns = (self.columns[name].tolist() for name, _ in _COLUMNS)
        return (Entry(*values) for values in zip(*columns, strict=True))

    def row_of_seq(self, seq: int) -> int | None:
        """The row of the block with this number; None if the part does not contain it."""
        seqs = self.columns["seq"]
        if seq < 0:
            return None
        row = int(np.searchsorted(seqs, np.uint64(seq)))
        return row if row < len(seqs) and seqs[row] == seq else None

    def end_of(self, row: int) -> int:
        """An upper bound for the end of the block in a row and of the pieces that continue it."""
        offsets = self.columns["offset"]
        return int(offsets[row + 1]) if row + 1 < len(offsets) else self.end_offset

    def before(self, offset: int) -> IndexPart:
        """The blocks before offset."""
        count = int(np.searchsorted(self.columns["offset"], offset))
        if count == len(self):
            return self
        end_offset = min(offset, self.end_of(count - 1)) if count else offset
        return IndexPart({name: column[:count] for name, column in self.columns.items()}, end_offset)

    def summary(self, offset: int) -> IndexPartSummary:
        """The entry of this part in END. offset: of its INDEX block."""
        ticking = np.isin(self.columns["kind"], TICKING_KINDS)
        if not ticking.any():
            return IndexPartSummary(offset, 0, 0, int(self.columns["seq"][0]) if len(self) else 0)
        first, count = self.columns["first_tick"][ticking], self.columns["tick_count"][ticking].astype(np.int64)
        final = first.astype(np.int64) + np.maximum(count - 1, 0)
        return IndexPartSummary(offset, int(first.min()), int(final.max()), int(self.columns["seq"][0]))


def _in_order(rows: npt.NDArray[Any], ticks: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    row_ticks = ticks[rows]
    if len(row_ticks) > 1 and not (row_ticks[1:] >= row_ticks[:-1]).all():  # Only in a hostile tape.
        order = np.argsort(row_ticks, kind="stable")
        rows, row_ticks = rows[order], row_ticks[order]
    return rows, row_ticks


def make_part(entries: Sequence[Entry], end_offset: int) -> IndexPart:
    """Make a part from entries in file order."""
    columns = {
        name: np.array([getattr(entry, name) for entry in entries], dtype).astype(np.dtype(dtype).newbyteorder("="))
        for name, dtype in _COLUMNS
    }
    return IndexPart(columns, end_offset)


def part_of_headers(headers: npt.NDArray[Any], end_offset: int) -> IndexPart:
    """Make a part from block headers in file order, as an array of block.HEADER_DTYPE."""
    columns = {
        name: np.ascontiguousarray(headers[name]).astype(np.dtype(dtype).newbyteorder("="), copy=False)
        for name, dtype in _COLUMNS
    }
    return IndexPart(columns, end_offset)


def summarize(entries: Sequence[Entry], offset: int) -> IndexPartSummary:
    """The entry in END for the INDEX block at offset that lists these entries."""
    return make_part(entries, offset).summary(offset)


def entry_of(header: BlockHeader) -> Entry:
    """The entry of a block."""
    return Entry(
        header.offset, header.first_tick, header.tick_count, header.seq, header.baseline, header.kind, header.flags
    )


def encode_index(entries: Sequence[Entry], previous: int) -> bytes:
    """Encode the payload of an INDEX block."""
    head = encode_plain({"previous": previous, "count": len(entries)})
    columns = [np.array([getattr(entry, name) for entry in entries], dtype).tobytes() for name, dtype in _COLUMNS]
    return b"".join([_HEAD_SIZE.pack(len(head)), head, *columns])


def decode_index(payload: bytes, offset: int) -> tuple[IndexPart, int]:
    """Decode the list of blocks and the offset of the INDEX before. offset: of this block, for messages.

    Raises CorruptError if the payload is not an index.
    """
    try:
        (head_bytes,) = _HEAD_SIZE.unpack_from(payload)
        match decode_plain(payload[_HEAD_SIZE.size : _HEAD_SIZE.size + head_bytes]):
            case {"previous": int(previous), "count": int(count)} if 0 <= count <= ENTRIES_MAX:
                pass
            case _:
                raise ValueError("previous or count is missing")
        place, columns = _HEAD_SIZE.size + head_bytes, {}
        for name, dtype in _COLUMNS:
            column = np.frombuffer(payload, dtype, count, place)
            columns[name] = column.astype(np.dtype(dtype).newbyteorder("="), copy=False)
            place += column.nbytes
    except (struct.error, ValueError) as error:
        raise CorruptError(offset, f"an index that cannot be decoded: {error}") from None
    if place != len(payload) or not 0 <= previous < offset:
        raise CorruptError(offset, f"expected an index of {place} bytes, got {len(payload)}")
    offsets = columns["offset"]
    if count and (int(offsets[-1]) >= offset or not (offsets[1:] > offsets[:-1]).all()):
        raise CorruptError(offset, "an index whose blocks do not lie before it in ascending order")
    return IndexPart(columns, offset), previous
