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

import bisect
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

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
READ_BYTES = 1 << 14  # Size of one read: a hundred records, and pages of memory that are in use anyway.
AREA_BYTES_MAX = 16 * INPUT_BYTES_MAX  # No writer makes larger areas; a hostile size is refused.

_HEADER = struct.Struct("<8sHHIQ16s20x")
_CRC = struct.Struct("<I")
_RECORD = struct.Struct("<II")
_GENERATION = struct.Struct("<Q")
assert _HEADER.size + _CRC.size == HEADER_BYTES


@attrs.define
class AreaFrames:
    """The valid frames of an area.

    Attributes:
        by_tick: the frames.
        _firsts, _lasts: of each run of ticks without a gap, ascending, as a writer stores them.
        _is_ascending: False once a tick did not follow; no writer makes that, and no run is known then.
    """

    by_tick: dict[int, Frame] = attrs.Factory(dict)
    _firsts: list[int] = attrs.Factory(list)
    _lasts: list[int] = attrs.Factory(list)
    _is_ascending: bool = True

    def add(self, frame: Frame) -> None:
        """Add the frame of the next record."""
        tick = frame.tick
        self.by_tick[tick] = frame
        if self._lasts and tick == self._lasts[-1] + 1:
            self._lasts[-1] = tick
            return
        self._is_ascending = self._is_ascending and (not self._lasts or tick > self._lasts[-1])
        self._firsts.append(tick)
        self._lasts.append(tick)

    def end_of_run(self, tick: int) -> int:
        """A tick up to which no frame is missing from tick on, which must be there; tick itself at least."""
        return self._lasts[bisect.bisect_right(self._firsts, tick) - 1] if self._is_ascending else tick


class FramesInOrder(Mapping[int, Frame]):
    """The frames of the ticks from first to last, by their ticks."""

    def __init__(self, latest_first: Sequence[AreaFrames], first: int, last: int) -> None:
        """latest_first: the areas that have them. last: first - 1 if there is none."""
        self._areas, self._ticks = [area.by_tick for area in latest_first], range(first, last + 1)

    def __getitem__(self, tick: int) -> Frame:
        if tick in self._ticks:
            for frames in self._areas:
                if tick in frames:
                    return frames[tick]
        raise KeyError(tick)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ticks)

    def __len__(self) -> int:
        return len(self._ticks)


@attrs.frozen
class JournalContents:
    """The content of a journal.

    Attributes:
        run_id: of the tape that it belongs to.
        areas: what each area contains; of one tick, the last area has the later frame.
        size_bytes: of the file; None if there is none.
        problem: why it has no frames, if its header cannot be read; otherwise empty.
    """

    run_id: bytes = b""
    areas: Sequence[AreaFrames] = ()
    size_bytes: int | None = None
    problem: str = ""

    @property
    def frames(self) -> list[Frame]:
        """All valid frames, in the order of their ticks."""
        merged = {tick: frame for area in self.areas for tick, frame in area.by_tick.items()}
        return [merged[tick] for tick in sorted(merged)]

    def following(self, tick: int) -> FramesInOrder:
        """The frames that follow tick without a gap. Their number does not change how long it takes."""
        latest_first, last = self.areas[::-1], tick
        while ends := [area.end_of_run(last + 1) for area in latest_first if last + 1 in area.by_tick]:
            last = max(ends)
        return FramesInOrder(latest_first, tick + 1, last)


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
    return JournalReader().decode(_from(data), len(data))


def journal_contents(data: bytes) -> JournalContents:
    """Decode the frames in a journal as decode_journal does; a header that cannot be read is a problem, not an error."""
    return JournalReader().contents(_from(data), len(data))


def _from(data: bytes) -> Callable[[int, int], bytes]:
    return lambda offset, size: data[offset : offset + size]


@attrs.define
class _Area:
    """The records of an area that are decoded.

    Attributes:
        generation: of the area.
        end_offset: of the last record.
        frames: of these records.
    """

    generation: int
    end_offset: int
    frames: AreaFrames = attrs.Factory(AreaFrames)


class JournalReader:
    """Decodes one journal file repeatedly while it is written: each record is read once.

    A record is never written again before its area has a new generation.
    """

    def __init__(self) -> None:
        self._header = b""
        self._areas: dict[int, _Area] = {}

    def contents(self, read: Callable[[int, int], bytes], size_bytes: int) -> JournalContents:
        """Decode as decode does; a header that cannot be read is a problem, not an error."""
        try:
            return self.decode(read, size_bytes)
        except CorruptError as error:
            return JournalContents(size_bytes=size_bytes, problem=error.what)
        except UnsupportedVersionError as error:
            return JournalContents(size_bytes=size_bytes, problem=str(error))

    def decode(self, read: Callable[[int, int], bytes], size_bytes: int) -> JournalContents:
        """Decode the frames in the journal as it is now. read: takes an offset and a size. Raises as decode_journal."""
        header = read(0, HEADER_BYTES)
        run_id, area_bytes = _decode_header(header)
        if header != self._header:
            self._header, self._areas = header, {}
        areas = []
        for generation, start in sorted(_areas(read, run_id, area_bytes)):
            area = self._areas.get(start)
            if area is None or area.generation != generation:
                area = self._areas[start] = _Area(generation, start + AREA_HEADER.size)
            end = min(start + area_bytes, size_bytes)
            area.end_offset = _decode_records(read, area, end, area_salt(run_id, generation))
            areas.append(area.frames)
        return JournalContents(run_id, areas, size_bytes)


def _decode_header(data: bytes) -> tuple[bytes, int]:
    """The run and the size of an area in the header of a journal."""
    if len(data) < HEADER_BYTES:
        raise CorruptError(0, f"a journal of {len(data)} bytes")
    magic, major, minor, _, area_bytes, run_id = _HEADER.unpack_from(data)
    if magic != MAGIC or _CRC.unpack_from(data, _HEADER.size)[0] != google_crc32c.value(data[: _HEADER.size]):
        raise CorruptError(0, "the header of a journal is damaged")
    if major != MAJOR:
        raise UnsupportedVersionError(f"journal {major}.{minor}", f"journal {MAJOR}.{MINOR}")
    if not AREA_HEADER.size < area_bytes <= AREA_BYTES_MAX:
        raise CorruptError(0, f"a journal with areas of {area_bytes} bytes")
    return run_id, area_bytes


def _areas(read: Callable[[int, int], bytes], run_id: bytes, area_bytes: int) -> list[tuple[int, int]]:
    """Generation and start of each area that was ever used."""
    areas = []
    for number in range(AREA_COUNT):
        start = HEADER_BYTES + number * area_bytes
        header = read(start, AREA_HEADER.size)
        if len(header) == AREA_HEADER.size:
            generation, crc, _ = AREA_HEADER.unpack(header)
            if generation and crc == area_salt(run_id, generation):
                areas.append((generation, start))
    return areas


def _decode_records(read: Callable[[int, int], bytes], area: _Area, end: int, salt: int) -> int:
    """Add the frames of the records after those that are decoded; return the end of the last valid record."""
    place = start = area.end_offset
    window = b""
    while place + RECORD_HEAD_BYTES <= end:
        if place + RECORD_HEAD_BYTES > start + len(window):
            window, start = read(place, min(READ_BYTES, end - place)), place
        if len(window) < RECORD_HEAD_BYTES:
            break  # The file has become shorter.
        size, crc = _RECORD.unpack_from(window, place - start)
        if not 0 < size <= end - place - RECORD_HEAD_BYTES:
            break
        record_end = place + RECORD_HEAD_BYTES + size
        if record_end > start + len(window):
            window, start = read(place, min(max(READ_BYTES, record_end - place), end - place)), place
        encoded = window[place - start + RECORD_HEAD_BYTES : record_end - start]
        if len(encoded) < size or google_crc32c.extend(salt, encoded) != crc:
            break
        try:
            frame = decode_frame(encoded, place)
        except CorruptError:
            break  # Only a hostile journal has a right checksum over something that is not a frame.
        area.frames.add(frame)
        place = record_end
    return place
