"""The journal's bytes at their limits: lengths, areas, records, and hostile figures."""

from __future__ import annotations

import struct
from typing import Any

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.errors import CorruptError, UnsupportedVersionError
from recorder.format.blocks.frame import encode_frame
from recorder.format.journal_bytes import (
    AREA_BYTES_MAX,
    MAGIC,
    area_salt,
    decode_journal,
    encode_area_header,
    encode_journal_header,
    journal_bytes,
)

RUN_ID = bytes(range(16))
FRAME_BYTES = len(encode_frame(1, 1, b"\xc0"))
RECORD_BYTES = 8 + FRAME_BYTES


def frame(tick: int) -> bytes:
    """A frame of a tick; all frames have the same length."""
    return encode_frame(tick, tick * 3, b"\xc0")


def record(generation: int, encoded: bytes, *, size: int | None = None) -> bytes:
    """A record with a right checksum."""
    crc = google_crc32c.extend(area_salt(RUN_ID, generation), encoded)
    return struct.pack("<II", len(encoded) if size is None else size, crc) + encoded


def journal(*areas: bytes, area_bytes: int = 16 + 2 * RECORD_BYTES) -> bytes:
    """A journal with these areas, followed by zeros."""
    body = b"".join(area.ljust(area_bytes, b"\0") for area in areas)
    return (encode_journal_header(RUN_ID, area_bytes) + body).ljust(journal_bytes(area_bytes), b"\0")


def area(generation: int, *records: bytes) -> bytes:
    """One area."""
    return encode_area_header(RUN_ID, generation) + b"".join(records)


def ticks(data: bytes) -> list[int]:
    """The ticks of the valid frames."""
    return [one.tick for one in decode_journal(data).frames]


def test_areas_that_are_full_to_the_last_byte() -> None:
    """Records fill both areas; the area with the higher generation takes precedence."""
    full = [
        area(number, record(number, frame(first)), record(number, frame(first + 1)))
        for number, first in ((1, 1), (2, 3))
    ]
    assert ticks(journal(*full)) == [1, 2, 3, 4]
    assert ticks(journal(*reversed(full))) == [1, 2, 3, 4]
    again = area(3, record(3, encode_frame(2, 99, b"\xc0")), record(3, frame(3)))
    found = decode_journal(journal(full[0], again)).frames
    assert [(one.tick, one.state_hash) for one in found] == [(1, 3), (2, 99), (3, 9)]
    assert decode_journal(journal(again, full[0])).frames == found


@pytest.mark.parametrize("cut", range(16 + RECORD_BYTES + 1))
def test_a_journal_that_is_cut_short(cut: int) -> None:
    """Complete records are valid; a header alone is an empty journal, and one byte less is an error."""
    whole = journal(
        area(1, record(1, frame(1)), record(1, frame(2))), area(2, record(2, frame(3)), record(2, frame(4)))
    )
    data = whole[: len(whole) - cut]
    assert ticks(data) == [1, 2, 3] if cut and cut <= RECORD_BYTES else ticks(data)[:2] == [1, 2]
    assert ticks(whole[:64]) == []
    assert ticks(whole[: 64 + 16]) == []
    with pytest.raises(CorruptError, match="63 bytes"):
        decode_journal(whole[:63])


def test_records_that_do_not_count_end_their_area() -> None:
    """Wrong checksums, sizes of zero, sizes past the area, other generations: nothing after them is used."""
    good, later = record(1, frame(1)), record(1, frame(2))
    wrong: list[bytes] = [
        bytes(8) + later,
        record(1, frame(9), size=FRAME_BYTES + 1),
        record(1, frame(9), size=(16 + 3 * RECORD_BYTES)),
        record(2, frame(9)),
        record(1, b"\xc0" * FRAME_BYTES),
        record(1, b""),
        good[:9] + bytes([good[9] ^ 1]) + good[10:],
    ]
    for one in wrong:
        data = journal(area(1, good, one, later), area(2, record(2, frame(7))), area_bytes=16 + 4 * RECORD_BYTES)
        assert ticks(data) == [1, 7], one
    assert ticks(journal(area(1, record(1, b"\xc0")))) == []  # One byte that is not a frame.


@pytest.mark.parametrize("header", [struct.pack("<QII", 0, 0, 0), struct.pack("<QII", 1, 5, 0)])
def test_areas_that_were_never_used(header: bytes) -> None:
    """Generation zero, with or without its right checksum, and a wrong checksum mark an unused area."""
    none = struct.pack("<QII", 0, area_salt(RUN_ID, 0), 0)
    for head in (header, none):
        generation = struct.unpack_from("<Q", head)[0]
        assert ticks(journal(head + record(generation, frame(1)), area(2, record(2, frame(5))))) == [5]


def with_header(**changes: Any) -> bytes:
    """A journal with a changed header and a right checksum."""
    fields = {"magic": MAGIC, "major": 0, "minor": 2, "zeros": 0, "area_bytes": 100, "run_id": RUN_ID} | changes
    body = struct.pack("<8sHHIQ16s20x", *fields.values())
    return body + struct.pack("<I", google_crc32c.value(body))


def test_headers_of_journals() -> None:
    """A different magic, major or size of areas, each with a right checksum; and each bit flipped."""
    assert decode_journal(with_header()).run_id == RUN_ID
    assert decode_journal(with_header(area_bytes=AREA_BYTES_MAX)).frames == []
    assert decode_journal(with_header(minor=9)).frames == []
    for wrong in (
        {"magic": b"\x89TAX\r\n\x1a\n"},
        {"area_bytes": 16},
        {"area_bytes": AREA_BYTES_MAX + 1},
        {"area_bytes": 0},
    ):
        with pytest.raises(CorruptError):
            decode_journal(with_header(**wrong))
    with pytest.raises(UnsupportedVersionError):
        decode_journal(with_header(major=1))
    data = with_header()
    for bit in range(8 * 64):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptError):
            decode_journal(bytes(flipped))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 12), max_size=14), min_size=1, max_size=2), st.integers(-1, 13))
def test_what_follows_a_tick_without_a_gap(stored: list[list[int]], after: int) -> None:
    """As a search tick by tick finds it, with runs, gaps, and ticks in an order that no writer makes."""
    areas = [area(number, *(record(number, frame(tick)) for tick in one)) for number, one in enumerate(stored, 1)]
    contents = decode_journal(journal(*areas, area_bytes=16 + 14 * RECORD_BYTES))
    there, expected = {tick for one in stored for tick in one}, []
    while after + 1 + len(expected) in there:
        expected.append(after + 1 + len(expected))
    found = contents.following(after)
    assert (list(found), len(found)) == (expected, len(expected))
    assert [one.tick for one in found.values()] == expected
    assert all(tick not in found and found.get(tick) is None for tick in (after, after + 1 + len(expected)))


def test_the_later_area_has_the_later_frame_of_a_tick() -> None:
    """Each tick of both areas is that of the higher generation, whichever comes first in the file."""
    other = encode_frame(2, 77, b"\xc0")
    both = [area(2, record(2, other)), area(1, record(1, frame(1)), record(1, frame(2)))]
    found = decode_journal(journal(*both)).following(0)
    assert [(tick, one.state_hash) for tick, one in found.items()] == [(1, 3), (2, 77)]
