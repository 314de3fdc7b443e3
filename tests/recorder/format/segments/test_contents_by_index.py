"""The index of an intact segment gives the same blocks as a scan, with a few reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.format.blocks.block import HEADER_BYTES, BlockKind
from recorder.format.blocks.file_header import HEADER_BYTES as FILE_HEADER_BYTES
from recorder.format.segments.contents_by_index import INDEX_READ_BYTES, TAIL_BYTES, read_contents
from recorder.format.segments.contents_by_scan import scan_contents
from recorder.format.segments.segment_contents import Contents, Read

from oracle.second_reader import END, INDEX, Reader
from oracle.small_tapes import make_tape
from project_paths import GOLDEN

SEALED = [
    *("0.1/herd.tape", "0.1/saved.tape", "0.2/herd.tape", "0.2/saved.tape"),
    *("0.2/split.tape", "0.2/split.tape.1", "0.2/split.tape.2", "0.2/ring.tape.13"),
]


def strict(data: bytes, reads: list[tuple[int, int]]) -> Read:
    """A reader that notes each read and refuses reads past the end, except for the last one."""

    def read(offset: int, size: int) -> bytes:
        assert isinstance(offset, int)
        assert isinstance(size, int)
        assert 0 <= offset <= len(data)
        assert size >= 0
        reads.append((offset, size))
        return data[offset : offset + size]

    return read


def assert_alike(found: Contents, scanned: Contents) -> None:
    """Assert that both results are equal."""
    assert (found.by_index, scanned.by_index) == (True, False)
    assert found.entries == scanned.entries
    assert (found.marker, found.header, found.seal) == (scanned.marker, scanned.header, scanned.seal)
    assert found.seal is not None
    assert (found.damages, scanned.damages) == ([], [])
    assert (found.size_bytes, found.good_end) == (scanned.size_bytes, scanned.good_end)


def assert_parts_fit(found: Contents, data: bytes) -> None:
    """Assert that each part lists the blocks before its INDEX block, and that its summary fits."""
    blocks = [block for block in Reader(data).blocks if not block.flags & 8]
    starts = [0]
    for lazy in found.parts:
        part = lazy.load()
        own = [block for block in blocks[starts[-1] :] if block.kind != INDEX][: len(part)]
        assert [entry.offset for entry in part.entries()] == [block.offset for block in own]
        assert lazy.summary.first_seq == own[0].seq
        ticking = [block for block in own if block.kind in {BlockKind.FRAMES, BlockKind.FULL, BlockKind.DELTA}]
        ticks = [block.first_tick for block in ticking]
        assert lazy.summary.first_tick == min(ticks, default=0)
        last = max((block.first_tick + max(0, block.tick_count - 1) for block in ticking), default=0)
        assert lazy.summary.last_tick == last
        for row, block in enumerate(own):
            assert block.offset + HEADER_BYTES <= part.end_of(row) <= len(data)
        starts.append(blocks.index(own[-1]) + 1)
    assert [block.kind for block in blocks[starts[-1] :]] == []
    assert blocks[-1].kind == END


@pytest.mark.parametrize("name", SEALED)
def test_golden_tapes(name: str) -> None:
    """Golden tapes of every version."""
    data = (GOLDEN / name).read_bytes()
    reads: list[tuple[int, int]] = []
    found = read_contents(strict(data, reads), len(data))
    assert_alike(found, scan_contents(strict(data, []), len(data)))
    assert_parts_fit(found, data)
    if found.indexes:
        assert found.indexes == scan_contents(strict(data, []), len(data)).indexes


@pytest.fixture(params=[3, 4, 1000])
def small_parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], bytes]:
    """Make tapes whose INDEX blocks list a few blocks each."""

    def make(path: Path) -> bytes:
        monkeypatch.setattr("recorder.format.segments.segment_encoder.INDEX_BLOCKS", request.param)
        return make_tape(path)

    return make


def test_many_parts(tmp_path: Path, small_parts: Callable[[Path], bytes]) -> None:
    """The list in END suffices: only header, tail and requested INDEX blocks are read."""
    data = small_parts(tmp_path / "a.tape")
    indexes = [block.offset for block in Reader(data).blocks if block.kind == INDEX]
    reads: list[tuple[int, int]] = []
    found = read_contents(strict(data, reads), len(data))

    tail = max(0, len(data) - TAIL_BYTES)
    assert reads == [(0, FILE_HEADER_BYTES), (tail, len(data) - tail)]
    assert len(found.parts) == len(indexes) + 1
    reads.clear()
    for lazy, offset in zip(found.parts, indexes, strict=False):
        lazy.load()
        lazy.load()
        assert reads == [(offset, INDEX_READ_BYTES)]
        reads.clear()
    found.parts[-1].load()
    assert reads == []
    assert_alike(found, scan_contents(strict(data, []), len(data)))
    assert_parts_fit(found, data)


def test_a_tail_that_does_not_reach_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If END is longer than the tail of the first read, the rest is read; the results are the same."""
    data = make_tape(tmp_path / "a.tape")
    end = Reader(data).blocks[-1]
    scanned = scan_contents(strict(data, []), len(data))
    for tail_bytes in (24, 25, len(data) - end.offset - 1, len(data) - end.offset, len(data) - 1, len(data)):
        monkeypatch.setattr("recorder.format.segments.contents_by_index.TAIL_BYTES", tail_bytes)
        reads: list[tuple[int, int]] = []
        found = read_contents(strict(data, reads), len(data))
        near = len(data) - tail_bytes
        expected_reads = [(end.offset, HEADER_BYTES), (end.offset + HEADER_BYTES, -(-end.stored // 8) * 8)]
        assert reads == [
            (0, FILE_HEADER_BYTES),
            (near, tail_bytes),
            *(read for read in expected_reads if read[0] < near),
        ]
        assert_alike(found, scanned)
