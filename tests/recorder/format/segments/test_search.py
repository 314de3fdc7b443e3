"""The search for the next intact block, around the ends of its windows and past bytes that only resemble one."""

from __future__ import annotations

from typing import Any

import pytest

from recorder.format.blocks.block import ALIGNMENT_BYTES, HEADER_BYTES, TAG
from recorder.format.blocks.file_header import make_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.segments.contents_by_scan import SEARCH_BYTES, _all_zeros, find_block, scan_contents
from recorder.format.segments.segment_encoder import SegmentEncoder, frames_piece
from sim.kernel.plain_data import encode_plain

pytestmark = pytest.mark.share(0.18)


def block_at(offset: int, run: int = 0) -> bytes:
    """An intact block for this offset."""
    encoder = SegmentEncoder(make_file_header(bytes([run]) * 16, 0, 0), b"")
    encoder.next_offset = offset
    return encoder.place(frames_piece(1, 1, encode_frame(1, 1, b"\xc0")))


def reader(data: bytes) -> Any:
    """A file in memory whose reads return exactly the requested size."""

    def read(offset: int, size: int) -> bytes:
        assert offset >= 0
        assert size > 0
        return data[offset : offset + size]

    return read


def marker_of(run: int) -> bytes:
    """The marker of a run's blocks."""
    return make_file_header(bytes([run]) * 16, 0, 0).marker


PLACES = [
    *(0, 8, 64),
    *(n * SEARCH_BYTES + d for n in (1, 2, 3) for d in (-HEADER_BYTES - 8, -HEADER_BYTES, -16, -8, 0, 8, HEADER_BYTES)),
]


@pytest.mark.sample(12)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("filling", [b"\0", b"\xf5", TAG, b"\xf5BLK\xf5BLX"], ids=repr)
def test_a_block_is_found_wherever_it_is(place: int, filling: bytes) -> None:
    """From the start, from just before, from its own offset; not from after it, nor with the marker of another run."""
    block = block_at(place)
    data = (filling * (place // len(filling) + 1))[:place] + block + bytes(200)
    read = reader(data)
    starts = {0, max(0, place - 1), max(0, place - 8), place}
    for start in starts:
        found = find_block(read, start, len(data), marker_of(0))
        assert found is not None
        assert found.offset == place
        assert find_block(read, start, len(data), None) == found
        assert find_block(read, start, len(data), marker_of(1)) is None
    assert find_block(read, place + 1, len(data), marker_of(0)) is None
    assert find_block(read, 0, place, marker_of(0)) is None or place % SEARCH_BYTES  # Only up to the requested end.


@pytest.mark.parametrize("skew", range(1, ALIGNMENT_BYTES))
def test_blocks_stand_at_multiples_of_eight(skew: int) -> None:
    """Bytes between multiples of eight are not a block, even with a matching offset."""
    data = bytes(skew) + block_at(skew) + bytes(64)
    assert find_block(reader(data), 0, len(data), None) is None


def test_of_several_the_first_is_found() -> None:
    """Also after a block of a different run, and after one with a wrong checksum."""
    other, broken, own, later = block_at(0, 1), bytearray(block_at(96)), block_at(192), block_at(288)
    assert {len(one) for one in (other, broken, own, later)} == {96}
    broken[20] ^= 1
    data = other + bytes(broken) + own + later
    found = find_block(reader(data), 0, len(data), marker_of(0))
    assert found is not None
    assert found.offset == 192
    first = find_block(reader(data), 0, len(data), None)
    assert first is not None
    assert first.offset == 0


@pytest.mark.parametrize("size", [0, 1, SEARCH_BYTES - 1, SEARCH_BYTES, SEARCH_BYTES + 1, 3 * SEARCH_BYTES + 5])
@pytest.mark.parametrize("start", [0, 3])
def test_zeros_to_the_end(size: int, start: int) -> None:
    """A byte other than zero, at each end of each window, is seen; a file that became shorter is not a clean end."""
    data = bytes([7] * start) + bytes(size)
    assert _all_zeros(reader(data), start, len(data))
    for place in {0, size // 2, size - 1, SEARCH_BYTES - 1, SEARCH_BYTES, 2 * SEARCH_BYTES}:
        if 0 <= place < size:
            spoiled = bytearray(data)
            spoiled[start + place] = 1
            assert not _all_zeros(reader(bytes(spoiled)), start, len(data))
    assert not _all_zeros(reader(data), start, len(data) + 1)


def segment(*first_ticks: int) -> tuple[bytes, list[int]]:
    """A file with a block of one frame for each of these ticks, and the offsets of the blocks."""
    encoder = SegmentEncoder(make_file_header(bytes(16), 0, 0), encode_plain({"world": None}))
    parts, places = [encoder.start()], []
    for tick in first_ticks:
        places.append(encoder.next_offset)
        parts.append(encoder.place(frames_piece(tick, 1, encode_frame(tick, 1, b"\xc0"))))
    return b"".join(parts), places


def test_a_scan_continues_after_a_long_damage() -> None:
    """Windows of rubbish between blocks: one damage, from the first bad byte to the next intact block."""
    data, places = segment(1, 2, 3)
    spoiled = bytearray(data)
    spoiled[places[1] + 20] ^= 1
    found = scan_contents(reader(bytes(spoiled)), len(spoiled))
    (damage,) = found.damages
    assert (damage.offset, damage.end_offset, damage.ticks) == (places[1], places[2], (2, 2))
    assert "tick 2 missing" in damage.what
    assert not damage.torn or damage.offset >= 0
    assert [entry.first_tick for entry in found.entries] == [0, 1, 3]


@pytest.mark.parametrize("rubbish", [1, 7, 8, SEARCH_BYTES, 2 * SEARCH_BYTES + 3])
def test_rubbish_at_the_end_is_torn(rubbish: int) -> None:
    """All blocks before it are read; and any number of zeros is a clean end."""
    data, _ = segment(1, 2, 3)
    torn = data + b"\x01" * rubbish
    found = scan_contents(reader(torn), len(torn))
    (damage,) = found.damages
    assert (damage.offset, damage.end_offset, damage.torn, found.good_end) == (len(data), len(torn), True, len(data))
    clean = data + bytes(rubbish)
    found = scan_contents(reader(clean), len(clean))
    assert (found.damages, found.good_end) == ([], len(data))
    assert [entry.first_tick for entry in found.entries] == [0, 1, 2, 3]
