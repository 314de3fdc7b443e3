"""Find the blocks of a tape: by its seal and index in a few reads, or by hopping from header to header.

Sans I/O: the caller gives ``read(offset, size)``, which returns up to size bytes. Only headers are read, save for the
blocks that were not yet durable when the tape stopped: these are checked whole, since a power cut may have torn them.

Invariants:
    1. A block counts only if its header's checksum, its marker and its own offset are right.
    2. Scanning never raises for damage; damage is in the result, with the place where sound blocks go on.
    3. Zeros to the end of the file are a clean end (a preallocated file).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import attrs

from recorder.errors import CorruptError, TornError
from recorder.format.block import (
    ALIGNMENT_BYTES,
    HEADER_BYTES,
    TAG,
    BlockHeader,
    Flags,
    Kind,
    decode_header,
    decode_payload,
)
from recorder.format.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.file_header import FileHeader, decode_file_header
from recorder.format.index import Entry, decode_index, entry_of
from recorder.format.seal import TRAILER_BYTES, Seal, decode_seal, decode_trailer

Read = Callable[[int, int], bytes]

SEARCH_BYTES = 1 << 16  # How much is read at a time when looking for the next sound block.


@attrs.frozen
class Damage:
    """A stretch of the file that holds no sound block.

    Attributes:
        offset: where it starts.
        end_offset: where sound blocks go on, or the end of the file.
        what: what was expected and found.
        torn: the file simply ends here, above all that was known to be durable.
    """

    offset: int
    end_offset: int
    what: str
    torn: bool


@attrs.frozen
class Contents:
    """What is on a tape.

    Attributes:
        marker: of the tape.
        header: the file header, or None if it is damaged.
        entries: blocks in file order, without INDEX blocks and continuation pieces.
        indexes: the INDEX blocks, in file order.
        damages: in file order; empty for an intact tape.
        seal: what END says, or None if the tape was not closed.
        size_bytes: of the file when it was looked at.
    """

    marker: bytes
    header: FileHeader | None
    entries: list[Entry]
    indexes: list[Entry]
    damages: list[Damage]
    seal: Seal | None
    size_bytes: int


class NoTapeError(Exception):
    """Nothing in the file is a block of a tape; the reader adds the path."""


def read_contents(read: Read, size_bytes: int) -> Contents:
    """The blocks of a tape, by its index if it is sealed and sound, else by scan_contents.

    Raises NoTapeError if there is no header and no block, UnsupportedVersionError for a newer format.
    """
    try:
        return _indexed_contents(read, size_bytes)
    except (CorruptError, TornError):
        return scan_contents(read, size_bytes)


def read_payload(read: Read, header: BlockHeader) -> bytes:
    """The raw payload of one block. Raises CorruptError or TornError."""
    padded = read(header.offset + HEADER_BYTES, header.padded_bytes)
    if len(padded) < header.padded_bytes:
        raise TornError(header.offset, header.end_offset, header.offset + HEADER_BYTES + len(padded))
    return decode_payload(header, padded)


def read_header(read: Read, offset: int, marker: bytes) -> BlockHeader:
    """The block header at offset of the tape with this marker. Raises CorruptError or TornError."""
    data = read(offset, HEADER_BYTES)
    if 0 < len(data) < HEADER_BYTES and data[: len(TAG)] == TAG[: len(data)]:
        raise TornError(offset, offset + HEADER_BYTES, offset + len(data))
    header = decode_header(data, offset)
    if header.marker != marker:
        raise CorruptError(offset, "a block of another tape")
    return header


def _indexed_contents(read: Read, size_bytes: int) -> Contents:
    file_header = decode_file_header(read(0, FILE_HEADER_BYTES))
    place = size_bytes - TRAILER_BYTES
    if place < FILE_HEADER_BYTES:
        raise TornError(place, TRAILER_BYTES, size_bytes)
    marker, end_offset = decode_trailer(read(place, TRAILER_BYTES), place)
    if end_offset >= place:
        raise CorruptError(place, "a trailer that leads past itself")
    end = read_header(read, end_offset, file_header.marker)
    if marker != file_header.marker or end.kind != Kind.END or end.end_offset != place:
        raise CorruptError(place, "a trailer that leads to no END block")
    seal = decode_seal(read_payload(read, end), end_offset)
    parts: list[list[Entry]] = [[entry_of(end)]]
    indexes: list[Entry] = []
    offset = seal.index_offset
    while offset:
        index = read_header(read, offset, file_header.marker)
        if index.kind != Kind.INDEX:
            raise CorruptError(offset, "no INDEX where one should be")
        entries, offset = decode_index(read_payload(read, index), offset)
        parts.append(entries)
        indexes.append(entry_of(index))
    entries = [entry for part in reversed(parts) for entry in part]
    frame_count = sum(entry.tick_count for entry in entries if entry.kind == Kind.FRAMES)
    if frame_count != seal.frame_count or max(entry.final_tick for entry in entries) != seal.last_tick:
        raise CorruptError(seal.index_offset, "an index that does not list what the seal counts")
    return Contents(
        marker=file_header.marker,
        header=file_header,
        entries=entries,
        indexes=indexes[::-1],
        damages=[],
        seal=seal,
        size_bytes=size_bytes,
    )


def scan_contents(read: Read, size_bytes: int) -> Contents:
    """The blocks of a tape, found by hopping from header to header and past damage.

    Raises NoTapeError if there is no header and no block, UnsupportedVersionError for a newer format.
    """
    damages: list[Damage] = []
    file_header: FileHeader | None = None
    try:
        file_header = decode_file_header(read(0, FILE_HEADER_BYTES))
        marker, offset = file_header.marker, file_header.size_bytes
    except (CorruptError, TornError) as error:
        found = _find_block(read, 0, size_bytes, None)
        if found is None:
            raise NoTapeError(str(error)) from None
        marker, offset = found.marker, found.offset
        damages.append(Damage(0, offset, _what(error), torn=False))
    scan = _Scan(read, size_bytes, marker)
    scan.run(offset)
    damages += scan.damages
    return Contents(marker, file_header, scan.entries, scan.indexes, damages, scan.seal, size_bytes)


class _Scan:
    """One walk over the headers of a tape."""

    def __init__(self, read: Read, size_bytes: int, marker: bytes) -> None:
        self._read = read
        self._size_bytes = size_bytes
        self._marker = marker
        self._durable_bytes = 0
        self._sealed_offset = -1  # Of the END block that the last trailer names.
        self._closed = False  # The file ends with a trailer, so that nothing before it was cut off.
        with contextlib.suppress(CorruptError):
            self._closed = decode_trailer(read(max(0, size_bytes - TRAILER_BYTES), TRAILER_BYTES), 0)[0] == marker
        self.entries: list[Entry] = []
        self.indexes: list[Entry] = []
        self.damages: list[Damage] = []
        self.seal: Seal | None = None

    def run(self, offset: int) -> None:
        headers: list[BlockHeader] = []
        while offset < self._size_bytes:
            try:
                header = read_header(self._read, offset, self._marker)
                if header.end_offset > self._size_bytes:
                    raise TornError(offset, header.end_offset, self._size_bytes)
            except (CorruptError, TornError) as error:
                skipped = self._skip(offset, error)
                if skipped is None:
                    break
                offset = skipped
                continue
            headers.append(header)
            self._durable_bytes = max(self._durable_bytes, header.durable_bytes)
            offset = header.end_offset
        self._accept(headers)

    def _skip(self, offset: int, error: CorruptError | TornError) -> int | None:
        """Where to go on after something that is no block of ours; None at the end."""
        try:
            marker, sealed_offset = decode_trailer(self._read(offset, TRAILER_BYTES), offset)
            if marker == self._marker:
                self._sealed_offset = sealed_offset
                return offset + TRAILER_BYTES
        except CorruptError:
            pass
        following = _find_block(self._read, offset + ALIGNMENT_BYTES, self._size_bytes, self._marker)
        if following is not None:
            self.damages.append(Damage(offset, following.offset, _what(error), torn=False))
            return following.offset
        if not _all_zeros(self._read, offset, self._size_bytes):
            self._add_damage(offset, self._size_bytes, error, at_end=True)
        return None

    def _accept(self, headers: list[BlockHeader]) -> None:
        for header in headers:
            if header.offset >= self._durable_bytes or header.kind == Kind.END:
                try:
                    payload = read_payload(self._read, header)
                    if header.kind == Kind.END and header is headers[-1] and header.offset == self._sealed_offset:
                        self.seal = decode_seal(payload, header.offset)
                except (CorruptError, TornError) as error:
                    self._add_damage(header.offset, header.end_offset, error, at_end=header is headers[-1])
                    continue
            if header.kind == Kind.INDEX:
                self.indexes.append(entry_of(header))
            elif not header.flags & Flags.CONTINUATION:
                self.entries.append(entry_of(header))
        if headers and headers[-1].flags & Flags.CONTINUES and self.entries:
            # The recording ended in the middle of a keyframe of several pieces: it is no keyframe.
            self._add_damage(
                self.entries.pop().offset,
                headers[-1].end_offset,
                CorruptError(headers[-1].end_offset, "the last pieces of a keyframe are missing"),
                at_end=True,
            )
        self.damages.sort(key=lambda damage: damage.offset)

    def _add_damage(self, offset: int, end_offset: int, error: CorruptError | TornError, *, at_end: bool) -> None:
        torn = at_end and offset >= self._durable_bytes and not self._closed
        self.damages.append(Damage(offset, end_offset, _what(error), torn=torn))


def _what(error: CorruptError | TornError) -> str:
    """What is wrong, without the place, which a Damage names itself."""
    return error.what if isinstance(error, CorruptError) else "the file ends inside a block"


def _find_block(read: Read, offset: int, size_bytes: int, marker: bytes | None) -> BlockHeader | None:
    """The first sound block header at or after offset, of this marker or, if None, of any."""
    place = -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    while place < size_bytes:
        data = read(place, SEARCH_BYTES + HEADER_BYTES)
        found = data.find(TAG)
        while 0 <= found < SEARCH_BYTES:
            if found % ALIGNMENT_BYTES == 0:
                try:
                    header = decode_header(data[found : found + HEADER_BYTES], place + found)
                    if marker is None or header.marker == marker:
                        return header
                except CorruptError:
                    pass  # Not a header after all: the search goes on behind it.
            found = data.find(TAG, found + 1)
        place += SEARCH_BYTES
    return None


def _all_zeros(read: Read, offset: int, size_bytes: int) -> bool:
    while offset < size_bytes:
        data = read(offset, SEARCH_BYTES)
        if not data or data.count(0) != len(data):
            return False
        offset += len(data)
    return True
