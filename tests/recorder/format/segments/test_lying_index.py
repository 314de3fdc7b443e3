"""An index that is destroyed or wrong costs only time (promise P7)."""

from __future__ import annotations

import struct
from pathlib import Path

import attrs
import pytest

from recorder.format.blocks.block import BlockKind
from recorder.format.segments.contents_by_index import read_contents
from recorder.format.segments.contents_by_scan import scan_contents
from recorder.format.segments.index import encode_index
from recorder.format.segments.seal import encode_trailer
from replayer.tape.tape import Tape
from replayer.timeline.verify import check_seal

from oracle.second_reader import END, INDEX, Reader
from oracle.small_tapes import lie, make_tape, offsets_found, read_everything, truth_of


def test_without_its_index_a_tape_gives_the_same_answers(tmp_path: Path) -> None:
    """A destroyed index, trailer, file header or END costs only time: a scan finds the same blocks."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    *_, index, end = Reader(data).blocks
    truth = truth_of(data)
    with Tape(path) as tape:
        by_index = tape.segments[0].contents.entries
        assert tape.distrust_index() is False
        assert tape.segments[0].contents.entries == by_index
    for place in (index.offset + 5, index.offset + 80, len(data) - 9, 30, end.offset + 80):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        _, _, found = read_everything(path)
        assert found is not None
        assert (found.frames, found.states, found.meta) == (truth.frames, truth.states, truth.meta)
    path.write_bytes(data[: index.offset] + bytes(end.offset - index.offset) + data[end.offset :])
    assert offsets_found(path) == [entry.offset for entry in by_index]


@pytest.mark.parametrize("column", ["offset", "first_tick", "tick_count", "seq", "baseline", "kind", "flags"])
def test_a_lying_index_is_found_out(tmp_path: Path, column: str) -> None:
    """An intact INDEX with one changed value gives the truth or a RecordingError; a scan gives the truth."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    truth, blocks = truth_of(data), Reader(data).blocks
    index = blocks[-2]
    with Tape(path) as tape:
        entries = [entry for entry in tape.segments[0].contents.entries if entry.kind != BlockKind.END]
    for number in range(len(entries)):
        for value in (0, 1, 200, 2**64 - 1):
            limit = {"kind": 0xFF, "flags": 0xFFFF, "tick_count": 2**32 - 1, "baseline": 2**32 - 1}.get(
                column, 2**64 - 1
            )
            lying = list(entries)
            lying[number] = attrs.evolve(lying[number], **{column: min(value, limit)})
            lie(path, data, encode_index(lying, 0), index)
            if lying == entries:
                continue
            problem, _, found = read_everything(path)
            assert problem  # The seal does not fit the new header of INDEX.
            assert found is not None
            assert found.is_part_of(truth)
            with Tape(path) as tape:
                tape.distrust_index()
                assert tape.segments[0].contents.entries[:-1] == entries


def test_an_index_that_leaves_out_a_block_is_found_out(tmp_path: Path) -> None:
    """If the index omits a block, the seal counts more blocks, and a scan finds it."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    truth, index = truth_of(data), Reader(data).blocks[-2]
    with Tape(path) as tape:
        entries = [entry for entry in tape.segments[0].contents.entries if entry.kind != BlockKind.END]
    for number in range(len(entries)):
        lie(path, data, encode_index(entries[:number] + entries[number + 1 :], 0), index)
        with Tape(path) as tape:
            assert check_seal(tape)
            tape.distrust_index()
            assert len(tape.segments[0].contents.entries) == len(entries) + 1
        with Tape(path) as tape:
            assert [tape.frame(tick).state_hash for tick in truth.frames] == [one[0] for one in truth.frames.values()]


@pytest.mark.parametrize("place", [0, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_trailer_that_leads_astray_is_ignored(tmp_path: Path, place: int) -> None:
    """An intact trailer with a wrong offset of END does not seal the tape, and all blocks are found."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    path.write_bytes(data[:-24] + encode_trailer(data[40:48], place))
    with Tape(path) as tape:
        assert not tape.sealed
        assert tape.status == "incomplete"
        assert len(tape.segments[0].contents.entries) == len([b for b in Reader(data).blocks if b.kind != INDEX])


def test_hopping_and_index_agree_on_every_sealed_tape(tmp_path: Path) -> None:
    """read_contents and scan_contents find the same blocks and seal."""
    data = make_tape(tmp_path / "run.tape")

    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    by_index, scanned = read_contents(read, len(data)), scan_contents(read, len(data))
    assert by_index.entries == scanned.entries
    assert (by_index.seal, by_index.header, by_index.damages) == (scanned.seal, scanned.header, scanned.damages)
    assert [struct.pack("B", entry.kind) for entry in read_contents(read, len(data)).entries][-1] == bytes([END])
