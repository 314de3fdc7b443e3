"""Find the blocks of a segment by hopping from header to header.

Sans I/O: the caller passes ``read(offset, size)``, which returns up to size bytes. Only headers are read, except for
blocks that were not yet durable when the tape stopped. These are checked completely: a power cut may have torn them.

Invariants:
    1. A block is accepted only if its header's checksum, its marker and its own offset are right.
    2. Scanning never raises for damage. Damage is in the result, with the offset at which intact blocks continue.
    3. Zeros to the end of the file are a clean end (a preallocated file).
"""

from __future__ import annotations

import struct

import attrs
import google_crc32c
import numpy as np

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import (
    ALIGNMENT_BYTES,
    HEADER_BYTES,
    HEADER_DTYPE,
    TAG,
    BlockHeader,
    BlockKind,
    Flags,
    damaged,
    decode_header,
    ticks_text,
)
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.blocks.file_header import FileHeader, decode_file_header
from recorder.format.limits import BLOCK_RAW_BYTES_MAX, BLOCK_TICKS_MAX
from recorder.format.segments.index import TICKING_KINDS, Entry, IndexPart, make_part, part_of_headers
from recorder.format.segments.seal import TRAILER_BYTES, Seal, decode_seal, decode_trailer
from recorder.format.segments.segment_contents import (
    Contents,
    Damage,
    LazyIndexPart,
    NoTapeError,
    Read,
    read_header,
    read_payload,
)

HOP_BYTES = 1 << 16  # Size of one read while hopping: some blocks of frames, little of a keyframe.
SEARCH_BYTES = 1 << 16  # Size of one read while searching for the next intact block.

# Of a block header: tag, crc32c, marker, offset, tick_count, stored_bytes, raw_bytes.
_QUICK = struct.Struct("<4sI8s8xQ16xIII")


@attrs.define
class ScanProgress:
    """The blocks before the first damage that a scan has found: the next scan of the same file continues after them.

    Files of a tape only grow, except for what a crash left half written, which is never part of the progress.

    Attributes:
        head: the bytes of the file header.
        headers: of the blocks, back to back.
        last: offset and bytes of the last of them.
        offset: where the next block begins.
        sealed_offset: of the END block that the last trailer names; -1 without a trailer.
        checked_bytes: up to here the blocks that were not yet durable were read completely, and are intact.
    """

    head: bytes = b""
    headers: bytearray = attrs.Factory(bytearray)
    last: tuple[int, bytes] = (0, b"")
    offset: int = 0
    sealed_offset: int = -1
    checked_bytes: int = 0

    def continue_after(self, read: Read, size_bytes: int, head: bytes) -> bool:
        """Return True if the file still has the last block; otherwise forget all blocks."""
        place, header = self.last
        if header and self.head == head and self.offset <= size_bytes and read(place, HEADER_BYTES) == header:
            return True
        self.headers.clear()
        self.head, self.last, self.offset, self.sealed_offset, self.checked_bytes = head, (0, b""), 0, -1, 0
        return False

    def add(self, headers: list[bytes], offset: int, sealed_offset: int) -> None:
        """Add blocks that end at offset."""
        if headers:
            self.last = _QUICK.unpack_from(headers[-1])[3], headers[-1]
            self.headers += b"".join(headers)
        self.offset, self.sealed_offset = offset, sealed_offset


def scan_contents(
    read: Read, size_bytes: int, expected_marker: bytes | None = None, progress: ScanProgress | None = None
) -> Contents:
    """Find the blocks of a segment by hopping from header to header and past damage.

    expected_marker: of the segment, used if its file header is damaged; by default that of the first intact block.
    progress: of the last scan of the same file; it is updated.
    Raises NoTapeError if there is no header and no block, UnsupportedVersionError for a newer format.
    """
    damages: list[Damage] = []
    file_header: FileHeader | None = None
    head, progress = read(0, FILE_HEADER_BYTES), progress or ScanProgress()
    try:
        file_header = decode_file_header(head)
        marker, offset = file_header.marker, file_header.size_bytes
    except (CorruptError, TornError) as error:
        first = find_block(read, 0, size_bytes, expected_marker)
        if first is None:
            raise NoTapeError(str(error)) from None
        marker, offset = first.marker, first.offset
        damages.append(Damage(0, offset, _what(error), torn=False))
    scan = _Scan(read, size_bytes, marker, damages)
    scan.run(progress.offset if progress.continue_after(read, size_bytes, head) else offset, progress)
    part = scan.part
    return Contents(
        marker=marker,
        header=file_header,
        parts=[LazyIndexPart(part.summary(0), lambda: part)],
        indexes=scan.indexes,
        damages=_with_missing_ticks(scan, file_header),
        seal=scan.seal,
        size_bytes=size_bytes,
        by_index=False,
        good_end=scan.good_end,
    )


def _with_missing_ticks(scan: _Scan, file_header: FileHeader | None) -> list[Damage]:
    """The damages of a scan. Those without a readable header get the range of the ticks that are missing there."""
    part = scan.part
    rows = np.flatnonzero(np.isin(part.columns["kind"], TICKING_KINDS))
    offsets = part.columns["offset"][rows]
    named = []
    for damage in scan.damages:
        if damage.kind is None:
            after = int(np.searchsorted(offsets, np.uint64(damage.end_offset)))
            before = int(np.searchsorted(offsets, np.uint64(damage.offset))) - 1
            ticks = _ticks_between(
                part.entry(int(rows[before])) if before >= 0 else None,
                part.entry(int(rows[after])) if after < len(rows) else None,
                _start_of(part, scan.seal, file_header),
                scan.seal.last_tick if scan.seal is not None else None,
            )
            if ticks is not None:
                missing = ticks if ticks[0] <= ticks[1] else None
                text = f"{ticks_text(missing)} missing" if missing is not None else "no ticks are missing"
                damage = attrs.evolve(damage, ticks=missing, what=f"{damage.what} ({text})")  # noqa: PLW2901 - the same
        named.append(damage)
    return named


@attrs.frozen
class _Start:
    """The start of a segment, as far as it is known.

    Attributes:
        first_tick: of its first state; None if unknown.
        state_seq: the number of the block that follows META; None if unknown.
    """

    first_tick: int | None
    state_seq: int | None


def _start_of(part: IndexPart, seal: Seal | None, file_header: FileHeader | None) -> _Start:
    if seal is not None:
        return _Start(seal.first_tick, None)
    first_tick = 0 if file_header is not None and file_header.segment == 0 else None
    if file_header is not None:
        return _Start(first_tick, file_header.first_seq + 1)
    is_meta = len(part) > 0 and part.columns["kind"][0] == BlockKind.META
    return _Start(first_tick, int(part.columns["seq"][0]) + 1 if is_meta else None)


def _ticks_between(
    before: Entry | None, after: Entry | None, start: _Start, last_tick: int | None
) -> tuple[int, int] | None:
    """The first and the last tick expected between two blocks; None if unknown. last_tick: of a sealed segment."""
    if after is not None:
        high = after.first_tick - 1 if after.kind == BlockKind.FRAMES else after.first_tick
    elif last_tick is not None:
        high = last_tick
    else:
        return None
    if before is not None:
        return before.final_tick + 1, high
    if after is not None and after.kind == BlockKind.FULL:
        if after.first_tick == start.first_tick or after.seq == start.state_seq:
            return high + 1, high  # It is the first state of the segment.
        if start.first_tick is None:
            return None
    return high if start.first_tick is None else start.first_tick, high


class _Scan:
    """One pass over the headers of a segment."""

    def __init__(self, read: Read, size_bytes: int, marker: bytes, damages: list[Damage]) -> None:
        self._read = read
        self._size_bytes = size_bytes
        self._marker = marker
        self._durable_bytes = 0
        self._sealed_offset = -1  # Of the END block that the last trailer names.
        self._closed = _is_closed(read, size_bytes, marker)
        self.part = make_part([], 0)
        self.indexes: list[Entry] = []
        self.damages = damages
        self.seal: Seal | None = None
        self.good_end = 0
        self._end_offset = 0

    def run(self, offset: int, progress: ScanProgress) -> None:
        self._sealed_offset = progress.sealed_offset
        after_damage: list[bytes] = []
        while offset < self._size_bytes:
            headers: list[bytes] = []
            offset = self._hop(offset, headers)
            if self.damages:
                after_damage += headers
            else:
                progress.add(headers, offset, self._sealed_offset)
            if offset >= self._size_bytes:
                break
            skipped = self._skip(offset, self._error_at(offset))
            if skipped is None:
                break
            offset = skipped
        self.good_end = offset
        self._accept(bytes(progress.headers) + b"".join(after_damage), progress.checked_bytes)
        if not self.damages:
            progress.checked_bytes = progress.offset
        torn = [damage.offset for damage in self.damages if damage.torn]
        self.good_end = min([self.good_end, *torn])

    def _hop(self, offset: int, headers: list[bytes]) -> int:
        """Append the headers of consecutive intact blocks. Return the first offset without one, or the end.

        A fast version of a loop over read_header: about a microsecond per block.
        """
        window, start = b"", 0
        marker, size_bytes = self._marker, self._size_bytes
        while offset < size_bytes:
            place = offset - start
            if place + HEADER_BYTES > len(window):
                window, start, place = self._read(offset, HOP_BYTES), offset, 0
            header = window[place : place + HEADER_BYTES]
            if len(header) < HEADER_BYTES:
                break
            tag, crc, own_marker, own_offset, tick_count, stored_bytes, raw_bytes = _QUICK.unpack_from(header)
            if tag != TAG or own_offset != offset or own_marker != marker:
                break
            if crc != google_crc32c.value(header[8:]) or not stored_bytes <= raw_bytes <= BLOCK_RAW_BYTES_MAX:
                break
            end_offset = offset + HEADER_BYTES + (stored_bytes + 7 & ~7)
            if tick_count > BLOCK_TICKS_MAX or end_offset > size_bytes:
                break
            headers.append(header)
            offset = end_offset
        return offset

    def _error_at(self, offset: int) -> CorruptError | TornError:
        """The reason why there is no complete block at offset."""
        try:
            header = read_header(self._read, offset, self._marker)
        except (CorruptError, TornError) as error:
            return error
        return TornError(offset, header.end_offset, self._size_bytes)

    def _skip(self, offset: int, error: CorruptError | TornError) -> int | None:
        """The offset at which to continue after bytes that are not a block of this segment; None at the end."""
        try:
            marker, sealed_offset = decode_trailer(self._read(offset, TRAILER_BYTES), offset)
            if marker == self._marker:
                self._sealed_offset = sealed_offset
                return offset + TRAILER_BYTES
        except CorruptError:
            pass
        following = find_block(self._read, offset + ALIGNMENT_BYTES, self._size_bytes, self._marker)
        if following is not None:
            self._add_damage(offset, following.offset, error)
            return following.offset
        if not _all_zeros(self._read, offset, self._size_bytes):
            self._add_damage(offset, self._size_bytes, error)
        return None

    def _accept(self, encoded: bytes, checked_bytes: int) -> None:
        """Build the part and the lists from all headers, after a complete check of the blocks that may be torn."""
        headers = np.frombuffer(encoded, HEADER_DTYPE)
        last = len(headers) - 1

        def decoded(row: int) -> BlockHeader:
            start = row * HEADER_BYTES
            return decode_header(encoded[start : start + HEADER_BYTES], int(headers["offset"][row]))

        if last >= 0:
            self._durable_bytes = int(headers["durable_bytes"].max())
            self._end_offset = decoded(last).end_offset
        intact = np.ones(len(headers), np.bool_)
        unsure = (headers["offset"] >= max(self._durable_bytes, checked_bytes)) | (headers["kind"] == BlockKind.END)
        for row in np.flatnonzero(unsure).tolist():
            intact[row] = self._is_intact(decoded(row), is_last=row == last)
        is_index = headers["kind"] == BlockKind.INDEX
        kept = intact & ~is_index & ((headers["flags"] & int(Flags.CONTINUATION)) == 0)
        if last >= 0 and headers["flags"][last] & int(Flags.CONTINUES) and kept.any():
            # The recording ended inside a keyframe of several pieces: the keyframe is incomplete.
            first = int(np.flatnonzero(kept)[-1])
            kept[first] = False
            error = damaged(decoded(first), "the last pieces of a keyframe are missing")
            self._add_damage(int(headers["offset"][first]), self._end_offset, error)
        self.part = part_of_headers(headers[kept], self._end_offset)
        self.indexes = list(part_of_headers(headers[intact & is_index], self._end_offset).entries())
        self.damages = [
            attrs.evolve(damage, torn=damage.offset >= self._durable_bytes and not self._closed)
            for damage in sorted(self.damages, key=lambda damage: damage.offset)
        ]

    def _is_intact(self, header: BlockHeader, *, is_last: bool) -> bool:
        """Return True if the payload of a block is intact. Adds a damage if not; sets the seal if the block is END."""
        try:
            payload = read_payload(self._read, header)
            if header.kind == BlockKind.END and is_last and header.offset == self._sealed_offset:
                self.seal = decode_seal(payload, header.offset)
        except (CorruptError, TornError) as error:
            named = error if isinstance(error, CorruptError) and error.kind else damaged(header, _what(error))
            self._add_damage(header.offset, header.end_offset, named)
            return False
        return True

    def _add_damage(self, offset: int, end_offset: int, error: CorruptError | TornError) -> None:
        kind_and_ticks = (error.kind, error.ticks) if isinstance(error, CorruptError) else (None, None)
        # torn is set when all headers are known.
        self.damages.append(Damage(offset, end_offset, _what(error), False, 0, *kind_and_ticks))


def _is_closed(read: Read, size_bytes: int, marker: bytes) -> bool:
    """Return True if the file ends with END and its trailer: then everything before them was durable.

    A trailer alone does not prove that. Both are appended at once, and a power cut before the sync may lose the sectors
    of END and keep those of the trailer.
    """
    try:
        place = max(0, size_bytes - TRAILER_BYTES)
        own_marker, end_offset = decode_trailer(read(place, TRAILER_BYTES), place)
        if own_marker != marker or end_offset >= place:
            return False
        end = read_header(read, end_offset, marker)
        read_payload(read, end)
    except (CorruptError, TornError):
        return False
    return end.kind == BlockKind.END and end.end_offset == place


def _what(error: CorruptError | TornError) -> str:
    """The text of an error without the offset, which Damage has as an attribute."""
    return error.what if isinstance(error, CorruptError) else "the file ends inside a block"


def find_block(read: Read, offset: int, size_bytes: int, marker: bytes | None) -> BlockHeader | None:
    """The first intact block header at or after offset, with this marker or, if None, with any."""
    place = -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    while place < size_bytes:
        data = read(place, SEARCH_BYTES + HEADER_BYTES)
        tag_offset = data.find(TAG)
        while 0 <= tag_offset < SEARCH_BYTES:
            if tag_offset % ALIGNMENT_BYTES == 0:
                try:
                    header = decode_header(data[tag_offset : tag_offset + HEADER_BYTES], place + tag_offset)
                    if marker is None or header.marker == marker:
                        return header
                except CorruptError:
                    pass  # Not a header: the search continues after it.
            tag_offset = data.find(TAG, tag_offset + 1)
        place += SEARCH_BYTES
    return None


def _all_zeros(read: Read, offset: int, size_bytes: int) -> bool:
    while offset < size_bytes:
        data = read(offset, SEARCH_BYTES)
        if not data or data.count(0) != len(data):
            return False
        offset += len(data)
    return True
