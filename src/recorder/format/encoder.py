"""Turn payloads into the blocks of one tape, in order: numbers, offsets, checksums, index and seal.

Bytes out, nothing else: the caller appends what each method returns to the file, in the order of the calls.

Invariants:
    1. next_offset is the length of all that was returned so far.
    2. Each INDEX lists the blocks since the INDEX before it; continuation pieces and INDEX blocks are not listed.
    3. A delta's baseline is the full keyframe encoded last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import google_crc32c

from recorder.format.block import BlockHeader, Codec, Flags, Kind, compress, encode_header, pad
from recorder.format.file_header import FileHeader, encode_file_header
from recorder.format.index import Entry, encode_index, entry_of
from recorder.format.limits import BLOCK_RAW_BYTES_MAX, INDEX_BLOCKS, PIECE_RAW_BYTES
from recorder.format.seal import DIGEST_BYTES, Seal, encode_seal, encode_trailer

_INDEX_PAYLOAD_BYTES_MAX = 64 * (INDEX_BLOCKS + 2)
assert _INDEX_PAYLOAD_BYTES_MAX <= BLOCK_RAW_BYTES_MAX, "an INDEX must fit into one block"


class TapeEncoder:
    """Makes the bytes of one tape from its start to its seal."""

    def __init__(self, header: FileHeader, meta: bytes) -> None:
        """header: of the file. meta: the META payload."""
        self._header = header
        self._meta = meta
        self._digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._entries: list[Entry] = []
        self._index_offset = 0
        self._full_seq: int | None = None
        self._next_seq = 0
        self._frame_count = 0
        self._first_tick: int | None = None
        self._last_tick = 0
        self.next_offset = 0
        self.durable_bytes = 0  # Set by the writer after each sync; goes into every header.

    def start(self) -> bytes:
        """The file header and the META block."""
        head = encode_file_header(self._header)
        self.next_offset = len(head)
        return head + self._block(Kind.META, self._meta, 0, flags=Flags.SESSION_START)

    def frames(self, first_tick: int, count: int, payload: bytes) -> bytes:
        """A FRAMES block of count frames from first_tick on."""
        assert count > 0
        self._frame_count += count
        self._see_tick(first_tick, first_tick + count - 1)
        return self._block(Kind.FRAMES, payload, first_tick, tick_count=count)

    def full(self, tick: int, payload: memoryview) -> bytes:
        """The blocks of a full keyframe."""
        self._see_tick(tick, tick)
        self._full_seq = self._next_seq
        return b"".join(self._pieces(Kind.FULL, payload, tick, 0))

    def delta(self, tick: int, payload: memoryview) -> bytes:
        """The blocks of a delta keyframe upon the last full one."""
        assert self._full_seq is not None, "a delta needs a full keyframe before it"
        self._see_tick(tick, tick)
        return b"".join(self._pieces(Kind.DELTA, payload, tick, self._next_seq - self._full_seq))

    def end(self, outcome: Any) -> bytes:
        """The last INDEX, END and the trailer. outcome: plain data."""
        index = self._index()
        seal = Seal(
            meta=self._meta,
            digest=self._digest.digest(),
            block_count=self._next_seq,
            frame_count=self._frame_count,
            first_tick=self._first_tick or 0,
            last_tick=self._last_tick,
            index_offset=self._index_offset,
            outcome=outcome,
        )
        end_offset = self.next_offset
        end = self._block(Kind.END, encode_seal(seal), self._last_tick)
        trailer = encode_trailer(self._header.marker, end_offset)
        self.next_offset += len(trailer)
        return index + end + trailer

    def index_if_due(self) -> bytes:
        """An INDEX block if INDEX_BLOCKS blocks came since the last one, else nothing."""
        return self._index() if len(self._entries) >= INDEX_BLOCKS else b""

    def _index(self) -> bytes:
        offset = self.next_offset
        payload = encode_index(self._entries, self._index_offset)
        self._entries = []
        block = self._block(Kind.INDEX, payload, self._last_tick)
        self._index_offset = offset
        return block

    def _see_tick(self, first_tick: int, final_tick: int) -> None:
        if self._first_tick is None:
            self._first_tick = first_tick
        self._last_tick = max(self._last_tick, final_tick)

    def _pieces(self, kind: Kind, payload: memoryview, tick: int, baseline: int) -> Iterable[bytes]:
        for start in range(0, len(payload), PIECE_RAW_BYTES):
            flags = Flags(0)
            if start:
                flags |= Flags.CONTINUATION
            if start + PIECE_RAW_BYTES < len(payload):
                flags |= Flags.CONTINUES
            piece = payload[start : start + PIECE_RAW_BYTES]
            yield self._block(kind, piece, tick, flags=flags, baseline=baseline)

    def _block(
        self,
        kind: Kind,
        payload: bytes | memoryview,
        first_tick: int,
        *,
        tick_count: int = 0,
        flags: int = 0,
        baseline: int = 0,
    ) -> bytes:
        assert len(payload) <= BLOCK_RAW_BYTES_MAX, "no reader would take this block"
        codec, stored = compress(payload) if kind != Kind.META else (Codec.NONE, bytes(payload))
        padded = pad(stored)
        header = BlockHeader(
            marker=self._header.marker,
            seq=self._next_seq,
            offset=self.next_offset,
            durable_bytes=self.durable_bytes,
            first_tick=first_tick,
            tick_count=tick_count,
            stored_bytes=len(stored),
            raw_bytes=len(payload),
            payload_crc=google_crc32c.value(padded),
            kind=kind,
            codec=codec,
            flags=flags,
            baseline=baseline,
        )
        encoded = encode_header(header)
        self._digest.update(encoded)
        if kind != Kind.INDEX and not flags & Flags.CONTINUATION:
            self._entries.append(entry_of(header))
        self._next_seq += 1
        self.next_offset = header.end_offset
        return encoded + padded
