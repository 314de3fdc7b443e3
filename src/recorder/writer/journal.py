"""The tick journal: each frame is in memory-mapped storage before ``step`` returns, so kill -9 loses none.

The system keeps a store to a mapped file even if the process is killed. The frames stay there until the writer's thread
has put them into a block of the tape.

Invariants:
    1. An area is reused only after all of its frames are in the tape, or dropped and noted there.
    2. A record's size is stored last, and its checksum covers the generation of its area.
    3. A journal that replaces a smaller one is complete before it does.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import google_crc32c

from recorder.format.journal_bytes import (
    AREA_COUNT,
    AREA_HEADER,
    HEADER_BYTES,
    RECORD_HEAD_BYTES,
    area_salt,
    encode_area_header,
    encode_journal_header,
    journal_bytes,
)
from recorder.storage.file_interfaces import Buffer, Files
from recorder.writer.writer import Writer

AREA_BYTES = 1 << 20  # Thousands of ordinary frames; the writer needs milliseconds to put them into the tape.
SLOW_AREA_BYTES_MAX = 32 << 20  # While the disk is slow the areas grow to this size; then the simulation waits.
RETRY_S = 1.0  # From a refusal to the next attempt to make a journal, or larger areas.

_U32 = struct.Struct("<I")
_pack_u32 = _U32.pack_into
_extend_crc = google_crc32c.extend
_SMALL_BYTES = 1 << 12  # Of a frame: smaller ones are stored with their checksum by one call.
_pack_records: list[Callable[..., None] | None] = [None] * _SMALL_BYTES  # Made for each size that comes.
_TICK = struct.Struct(">Q")
_TICK_OFFSET = 2  # Of the tick in an encoded frame, after the type bytes of the array and of the integer.


def _make_pack(size: int) -> Callable[..., None]:
    pack = _pack_records[size] = struct.Struct(f"<I{size}s").pack_into
    return pack


class Journal:
    """Keeps frames safe until they are in the tape; used by the simulation's thread."""

    def __init__(self, files: Files, run_id: bytes, writer: Writer, *, required: bool = False) -> None:
        """Make the journal. If there is no room for it, notify the caller and retry later.

        required: raise OSError instead.
        """
        self._files = files
        self._run_id = run_id
        self._writer = writer
        self._generation = 0
        self._suspended = False
        self._retry_at_s = 0.0
        self._memory: Buffer = bytearray()
        self._area = self._area_bytes = 0
        self._place = self._end = self._full_end = 0
        self._last_ticks = [-1] * AREA_COUNT
        if not self._try_to_map(AREA_BYTES, []) and required:
            raise self._refusal

    def put(self, tick: int, frame: bytes) -> None:
        """Keep the frame of tick. Raises WriterFailedError if it waits for a writer that fails."""
        size = len(frame)
        place = self._place
        end = place + RECORD_HEAD_BYTES + size
        if end > self._end:
            if not self._make_room(size):
                return
            place = self._place
            end = place + RECORD_HEAD_BYTES + size
        memory = self._memory
        if size < _SMALL_BYTES:
            pack = _pack_records[size] or _make_pack(size)
            pack(memory, place + 4, _extend_crc(self._salt, frame), frame)
        else:
            memory[place + RECORD_HEAD_BYTES : end] = frame
            _pack_u32(memory, place + 4, _extend_crc(self._salt, frame))
        _pack_u32(memory, place, size)
        self._place = end
        self._last_ticks[self._area] = tick

    def close(self) -> None:
        """Remove the journal, since all frames are in the tape. Raises OSError."""
        self._files.remove_journal()

    def renew(self) -> None:
        """Make the journal again, with the frames that are not in the tape, since its file was removed from outside."""
        self._writer.journal_is_gone = False
        self._try_to_map(self._area_bytes or AREA_BYTES, self._kept())

    def _make_room(self, size: int) -> bool:
        """Make room for a frame of size bytes; return False if it cannot be put into the journal."""
        needed = AREA_HEADER.size + RECORD_HEAD_BYTES + size
        while True:
            other = 1 - self._area
            is_free = self._last_ticks[other] <= self._writer.written_tick
            if is_free and needed <= self._area_bytes:
                self._suspended = False
                self._begin_area(other)
                return True
            if self._writer.failing:
                return self._suspend("the disk refuses, and the journal is full")
            if self._writer.loses_frames:  # Only this thread can end that, with the keyframe after this step.
                return self._suspend("it is full, and frames are lost until the next full keyframe")
            if needed > self._area_bytes or self._area_bytes < SLOW_AREA_BYTES_MAX:
                return self._grow(needed)
            self._writer.wait_until(self._need_not_wait)

    def _need_not_wait(self) -> bool:
        writer = self._writer
        return writer.failing or writer.loses_frames or self._last_ticks[1 - self._area] <= writer.written_tick

    def _grow(self, needed: int) -> bool:
        """Replace the journal by one with larger areas that contains the frames that are not in the tape yet."""
        if time.monotonic() < self._retry_at_s:
            return False
        kept = self._kept()
        area_bytes = max(AREA_BYTES, 2 * self._area_bytes)
        while area_bytes < AREA_HEADER.size + sum(map(len, kept)) + RECORD_HEAD_BYTES * len(kept) + needed:
            area_bytes *= 2
        return self._try_to_map(area_bytes, kept)

    def _try_to_map(self, area_bytes: int, frames: list[bytes]) -> bool:
        try:
            self._map(area_bytes, frames)
        except (OSError, MemoryError) as error:
            self._refusal = error
            self._retry_at_s = time.monotonic() + RETRY_S  # An attempt can take longer than a step.
            return self._suspend(str(error) or "memory ran out")
        self._suspended = False
        return True

    def _suspend(self, why: str) -> bool:
        """Notify the caller, once, that frames are not safe from a kill for a while; return False."""
        if not self._suspended:
            self._suspended = True
            self._writer.notify(f"the journal cannot be used ({why}): for a while, kill -9 may lose ticks")
        return False

    def _kept(self) -> list[bytes]:
        """The frames that are not in the tape, in the order of their ticks."""
        kept = []
        for area in (1 - self._area, self._area):
            place, end = self._start_of(area) + AREA_HEADER.size, self._place if area == self._area else self._full_end
            while self._last_ticks[area] > self._writer.written_tick and place < end:
                (size,) = _U32.unpack_from(self._memory, place)
                frame = self._memory[place + RECORD_HEAD_BYTES : place + RECORD_HEAD_BYTES + size]
                place += RECORD_HEAD_BYTES + size
                if _TICK.unpack_from(frame, _TICK_OFFSET)[0] > self._writer.written_tick:
                    kept.append(bytes(frame))
        return kept

    def _map(self, area_bytes: int, frames: list[bytes]) -> None:
        """Make a new journal whose first area contains frames."""

        def fill(memory: Buffer) -> None:
            memory[:HEADER_BYTES] = encode_journal_header(self._run_id, area_bytes)
            place = HEADER_BYTES + AREA_HEADER.size
            memory[HEADER_BYTES:place] = encode_area_header(self._run_id, generation)
            for frame in frames:
                end = place + RECORD_HEAD_BYTES + len(frame)
                memory[place:end] = _U32.pack(len(frame)) + _U32.pack(_extend_crc(salt, frame)) + frame
                place = end

        generation = self._generation + 1
        salt = area_salt(self._run_id, generation)
        self._memory = self._files.map_journal(journal_bytes(area_bytes), fill)
        self._generation, self._salt, self._area_bytes = generation, salt, area_bytes
        self._area = 0
        self._place = HEADER_BYTES + AREA_HEADER.size + sum(map(len, frames)) + RECORD_HEAD_BYTES * len(frames)
        self._end = HEADER_BYTES + area_bytes
        self._full_end = 0
        self._last_ticks = [-1] * AREA_COUNT
        if frames:
            self._last_ticks[0] = _TICK.unpack_from(frames[-1], _TICK_OFFSET)[0]

    def _begin_area(self, area: int) -> None:
        start = self._start_of(area)
        self._full_end = self._place  # Of the full area.
        self._generation += 1
        self._salt = area_salt(self._run_id, self._generation)
        _pack_u32(self._memory, start + AREA_HEADER.size, 0)
        self._memory[start : start + AREA_HEADER.size] = encode_area_header(self._run_id, self._generation)
        self._area = area
        self._place = start + AREA_HEADER.size
        self._end = start + self._area_bytes
        self._last_ticks[area] = -1
        self._writer.wake()  # To free the full area before this one is full.

    def _start_of(self, area: int) -> int:
        return HEADER_BYTES + area * self._area_bytes
