"""Every flip, every cut and every moved block of a small tape, compared with the truth."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import attrs
import google_crc32c
import numpy as np
import pytest

from recorder import Recorder, RecordingError, UnreadableError, UnsupportedVersionError
from recorder.format.block import HEADER_BYTES, TAG, BlockHeader, Kind, decode_header, encode_header, pad
from recorder.format.by_index import read_contents
from recorder.format.index import entry_of
from recorder.format.scan import scan_contents
from recorder.format.seal import encode_trailer
from replayer.tape import Tape
from replayer.verify import check_seal
from sim import Field, Schema, State

from oracle.second_reader import CONTINUATION, DELTA, END, FRAMES, FULL, INDEX, Reader, ticks_of


class Adder:
    """Adds its inputs to a few numbers."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("numbers", "i2", (8,))))

    def step(self, inputs: int) -> None:
        self.state["numbers"][inputs % 8] += inputs


TICKS = 7


def make_tape(path: Path, *, sealed: bool = True, run_id: bytes = bytes(range(16)), sync: str = "never") -> bytes:
    """Seven ticks with keyframes at 0, 3 and 6; unsealed is the same file up to END."""
    with Recorder(path, Adder(), keyframe_interval_ticks=3, sync=sync, deterministic=True, run_id=run_id) as tape:
        for number in range(1, TICKS + 1):
            tape.step(number)
    data = path.read_bytes()
    if not sealed:
        *_, index, _ = Reader(data).blocks
        data = data[: index.offset]
        path.write_bytes(data)
    return data


@attrs.frozen
class Found:
    """What reading everything on a tape gave; two equal ones are the same recording."""

    frames: dict[int, Any]
    states: dict[int, Any]
    meta: dict[str, Any]
    sealed: bool


def read_everything(path: Path) -> tuple[bool, str, Found | None]:
    """Whether a problem was reported, the status, and what was found in spite of it."""
    try:
        tape = Tape(path)
    except RecordingError:
        return True, "unreadable", None
    with tape:
        problem = bool(tape.damages or check_seal(tape) or tape.check_blocks() or not tape.meta)
        frames: dict[int, Any] = {}
        states: dict[int, Any] = {}
        try:
            problem = problem or bool(tape.missing_ticks())
            for tick in range(1, tape.last_tick + 1):
                frame = tape.frame(tick)
                frames[tick] = (frame.state_hash, frame.inputs)
        except RecordingError:
            problem = True
        for place in tape.keyframes:
            try:
                snapshot = tape.snapshot(place)
                states[place.tick] = (place.is_full, snapshot.hash(), snapshot.arena.tobytes())
            except RecordingError:
                problem = True
        return problem, tape.status, Found(frames, states, tape.meta, tape.sealed)


def truth_of(data: bytes) -> Found:
    """The same by the second reader."""
    reader = Reader(data)
    frames = {tick: (state_hash, inputs) for tick, state_hash, inputs in reader.frames()}
    states = {keyframe.tick: (keyframe.is_full, keyframe.state_hash, keyframe.arena) for keyframe in reader.keyframes()}
    return Found(frames, states, reader.meta, reader.seal is not None)


def is_part_of(found: Found, truth: Found) -> bool:
    """Nothing was invented: all that was found is true."""
    return (
        found.frames.items() <= truth.frames.items()
        and found.states.items() <= truth.states.items()
        and found.meta in ({}, truth.meta)
    )


@pytest.mark.parametrize(("sync", "sealed"), [("never", True), ("block", False)])
def test_every_flipped_bit_is_found(tmp_path: Path, sync: str, sealed: bool) -> None:  # noqa: FBT001
    """A single flipped bit is reported, or all that is read is the truth; nothing false is ever read."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=sealed, sync=sync)
    truth = truth_of(data)
    assert len(data) < 3072
    assert read_everything(path) == (False, "intact" if sealed else "incomplete", truth)

    unreported = set()
    descriptor = os.open(path, os.O_WRONLY)
    for bit in range(len(data) * 8):
        place = bit // 8
        os.pwrite(descriptor, bytes([data[place] ^ 1 << bit % 8]), place)
        problem, status, found = read_everything(path)
        assert status != "unreadable", bit
        assert found is not None
        assert is_part_of(found, truth), bit
        if not problem:
            assert found == truth, bit
            unreported.add(place)
        os.pwrite(descriptor, data[place : place + 1], place)
    os.close(descriptor)
    # Only the content of an INDEX, which is a cache, may be damaged without a word.
    indexes = [block for block in Reader(data).blocks if block.kind == INDEX]
    assert all(
        any(0 <= place - index.offset - HEADER_BYTES < index.stored + 7 for index in indexes) for place in unreported
    )


@pytest.mark.parametrize("sync", ["never", "block"])
def test_every_cut_gives_the_complete_blocks(tmp_path: Path, sync: str) -> None:
    """A tape cut at any byte opens, has exactly the complete blocks, and is never called corrupt."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sync=sync)
    reader, truth = Reader(data), truth_of(data)
    ends = [block.offset + HEADER_BYTES + -(-block.stored // 8) * 8 for block in reader.blocks]
    for size in range(len(data) - 1, -1, -1):
        os.truncate(path, size)
        whole = [block for block, end in zip(reader.blocks, ends, strict=True) if end <= size]
        try:
            tape = Tape(path)
        except UnreadableError:
            assert size < 64
            continue
        with tape:
            listed = [block.offset for block in whole if block.kind != INDEX and not block.flags & CONTINUATION]
            assert [entry.offset for entry in tape.segments[0].contents.entries] == listed
            assert (tape.sealed, tape.status) == (False, "incomplete")
            assert bool(tape.damages) == (size not in {64, *ends})
            assert tape.check_blocks() == []
            for block in whole:
                if block.kind == FRAMES:
                    for tick in ticks_of(block):
                        frame = tape.frame(tick)
                        assert (frame.state_hash, frame.inputs) == truth.frames[tick]
            places = {place.tick: place for place in tape.keyframes}
            assert list(places) == [block.first_tick for block in whole if block.kind in {FULL, DELTA}]
            if size in ends:
                for tick, place in places.items():
                    assert tape.snapshot(place).arena.tobytes() == truth.states[tick][2]
            assert tape.meta == (truth.meta if whole else {})
            if not places:
                with pytest.raises(RecordingError):
                    assert tape.last_tick


@pytest.mark.parametrize("count", [1, 7, 8, 24, 72, 4096, 65536, 65537])
@pytest.mark.parametrize("sealed", [True, False])
def test_zeros_at_the_end_are_a_clean_end(tmp_path: Path, sealed: bool, count: int) -> None:  # noqa: FBT001
    """Preallocated room behind the last block changes nothing; one other byte in it is torn."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=sealed)
    path.write_bytes(data + bytes(count))
    assert read_everything(path) == (False, "intact" if sealed else "incomplete", truth_of(data))

    path.write_bytes(data + bytes(count - 1) + b"\x01")
    problem, status, found = read_everything(path)
    assert (problem, status, found) == (True, "incomplete", truth_of(data))


@pytest.mark.parametrize("data", [b"", b"\x89", bytes(64), bytes(4096), b"text\n" * 50, TAG * 100], ids=len)
def test_what_is_no_tape_is_unreadable(tmp_path: Path, data: bytes) -> None:
    """A file without a header and without a block is UnreadableError, which names it."""
    path = tmp_path / "run.tape"
    path.write_bytes(data)
    with pytest.raises(UnreadableError) as caught:
        Tape(path)
    assert caught.value.path == str(path)


def block_bytes(data: bytes, block: Any) -> bytes:
    """A block as it lies in the file."""
    return data[block.offset : block.offset + HEADER_BYTES + -(-block.stored // 8) * 8]


def offsets_found(path: Path) -> list[int]:
    """Where blocks are found by hopping."""
    with Tape(path) as tape:
        tape.distrust_index()
        return [entry.offset for entry in tape.segments[0].contents.entries]


def test_swapped_blocks_do_not_count(tmp_path: Path) -> None:
    """Two blocks that changed places are both refused, those after them too unless they lie where they were."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    blocks = Reader(data).blocks
    for first in range(len(blocks) - 1):
        one, two = block_bytes(data, blocks[first]), block_bytes(data, blocks[first + 1])
        start = blocks[first].offset
        path.write_bytes(data[:start] + two + one + data[start + len(one) + len(two) :])
        expected = [b.offset for b in blocks if b.kind != INDEX and b.seq not in {first, first + 1}]
        assert offsets_found(path) == expected
        problem, _, found = read_everything(path)
        assert problem
        assert found is not None
        assert is_part_of(found, truth_of(data))


def test_duplicated_blocks_do_not_count(tmp_path: Path) -> None:
    """A block that was pasted at the end, or over the block after it, is not read there."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=False)
    truth, blocks = truth_of(data), Reader(data).blocks
    for block in blocks:
        path.write_bytes(data + block_bytes(data, block))
        problem, status, found = read_everything(path)
        assert (problem, status, found) == (True, "incomplete", truth)
        assert offsets_found(path) == [b.offset for b in blocks]


def test_blocks_of_another_run_do_not_count(tmp_path: Path) -> None:
    """A block of another run at its right place, with right checksums, is refused and its ticks are missing."""
    path = tmp_path / "run.tape"
    other = make_tape(tmp_path / "other.tape", run_id=bytes(16))
    data = make_tape(path)
    for block in Reader(data).blocks:
        theirs = block_bytes(other, block)
        if len(theirs) == len(block_bytes(data, block)):
            path.write_bytes(data[: block.offset] + theirs + data[block.offset + len(theirs) :])
            assert block.offset not in offsets_found(path)
            if block.kind != INDEX:
                assert read_everything(path)[0]
    assert any(block.kind == FRAMES for block in Reader(data).blocks)


def test_a_trailer_of_another_run_does_not_seal(tmp_path: Path) -> None:
    """Only a trailer with the tape's marker seals it."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    path.write_bytes(data[:-24] + encode_trailer(b"12345678", Reader(data).blocks[-1].offset))
    with Tape(path) as tape:
        assert (tape.sealed, tape.status, len(tape.damages)) == (False, "incomplete", 1)


def test_a_tape_inside_the_inputs_is_not_read(tmp_path: Path) -> None:
    """Blocks inside a payload do not count when the block around them is destroyed, whatever offset they claim."""
    path = tmp_path / "run.tape"
    inner = make_tape(tmp_path / "inner.tape", run_id=bytes(16))
    blocks = Reader(inner).blocks
    header = decode_header(inner[blocks[2].offset :][:HEADER_BYTES], blocks[2].offset)

    class Reads:
        def __init__(self) -> None:
            self.state = State(Schema(Field("length", "i8")))

        def step(self, inputs: bytes) -> None:
            self.state["length"][...] += len(inputs)

    with Recorder(path, Reads(), deterministic=True, run_id=bytes(range(16))) as tape:
        tape.step(np.random.default_rng(0).bytes(4096))
    data = path.read_bytes()
    frames = next(block for block in Reader(data).blocks if block.kind == FRAMES)
    assert frames.codec == 0
    listed = [block for block in Reader(data).blocks if block.kind != INDEX]
    place = -(-(frames.offset + 200) // 8) * 8
    embedded = encode_header(attrs.evolve(header, offset=place)) + bytes(200) + inner
    start = place - frames.offset - HEADER_BYTES
    payload = frames.payload[:start] + embedded + frames.payload[start + len(embedded) :]
    data = rewritten(data, frames, payload)
    path.write_bytes(data)
    assert offsets_found(path) == [block.offset for block in listed]
    for destroyed in (frames.offset, frames.offset + 30, frames.offset + 70):
        path.write_bytes(data[:destroyed] + bytes([data[destroyed] ^ 0x40]) + data[destroyed + 1 :])
        assert offsets_found(path) == [block.offset for block in listed if block.kind != FRAMES]


def rewritten(data: bytes, block: Any, payload: bytes) -> bytes:
    """The tape with another payload of the same length in a block that is not compressed, its checksums mended."""
    assert (len(payload), block.codec) == (block.stored, 0)
    header = decode_header(data[block.offset :][:HEADER_BYTES], block.offset)
    padded = pad(payload)
    header = attrs.evolve(header, payload_crc=google_crc32c.value(padded))
    return data[: block.offset] + encode_header(header) + padded + data[header.end_offset :]


def test_without_its_index_a_tape_gives_the_same_answers(tmp_path: Path) -> None:
    """A destroyed index, trailer, file header or END costs nothing but time: hopping finds the same blocks."""
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
    """A sound INDEX with another value in any place gives the truth or a RecordingError; hopping gives the truth."""
    from recorder.format.index import encode_index

    path = tmp_path / "run.tape"
    data = make_tape(path)
    truth, blocks = truth_of(data), Reader(data).blocks
    index = blocks[-2]
    with Tape(path) as tape:
        entries = [entry for entry in tape.segments[0].contents.entries if entry.kind != Kind.END]
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
            assert is_part_of(found, truth)
            with Tape(path) as tape:
                tape.distrust_index()
                assert tape.segments[0].contents.entries[:-1] == entries


def lie(path: Path, data: bytes, payload: bytes, index: Any) -> None:
    """Write the tape with another INDEX payload; what lies behind it moves, with mended offsets and checksums."""
    *_, end = Reader(data).blocks
    header = decode_header(data[index.offset :][:HEADER_BYTES], index.offset)
    padded = pad(payload)
    header = attrs.evolve(
        header, stored_bytes=len(payload), raw_bytes=len(payload), codec=0, payload_crc=google_crc32c.value(padded)
    )
    end_header = decode_header(data[end.offset :][:HEADER_BYTES], end.offset)
    moved = attrs.evolve(end_header, offset=header.end_offset)
    path.write_bytes(
        data[: index.offset]
        + encode_header(header)
        + padded
        + encode_header(moved)
        + data[end.offset + HEADER_BYTES : -24]
        + encode_trailer(header.marker, moved.offset)
    )


def test_an_index_that_leaves_out_a_block_is_found_out(tmp_path: Path) -> None:
    """Whatever an index hides, the seal counts more, and hopping finds it."""
    from recorder.format.index import encode_index

    path = tmp_path / "run.tape"
    data = make_tape(path)
    truth, index = truth_of(data), Reader(data).blocks[-2]
    with Tape(path) as tape:
        entries = [entry for entry in tape.segments[0].contents.entries if entry.kind != Kind.END]
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
    """A sound trailer that names another place than END's does not seal, and all blocks are found."""
    path = tmp_path / "run.tape"
    data = make_tape(path)
    path.write_bytes(data[:-24] + encode_trailer(data[40:48], place))
    with Tape(path) as tape:
        assert not tape.sealed
        assert tape.status == "incomplete"
        assert len(tape.segments[0].contents.entries) == len([b for b in Reader(data).blocks if b.kind != INDEX])


def test_unknown_kinds_that_may_be_skipped_hide_nothing(tmp_path: Path) -> None:
    """A block of a later version with the high bit in its kind is listed and passed over."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=False)
    for kind in (0x7F, 0xFF, Kind.EVENT, Kind.ATTACH, Kind.DROP):  # 0x7F is the one that must not be skipped.
        block = BlockHeader(
            marker=data[40:48], seq=99, offset=len(data), durable_bytes=0, first_tick=2, tick_count=0, stored_bytes=8,
            raw_bytes=8, payload_crc=google_crc32c.value(b"whatever"), kind=kind, codec=0, flags=0x8000, baseline=0,
        )  # fmt: skip
        path.write_bytes(data + encode_header(block) + b"whatever")
        with Tape(path) as tape:
            assert tape.segments[0].contents.entries[-1] == entry_of(block)
            if kind == 0x7F:
                with pytest.raises(UnsupportedVersionError, match="blocks of kind \\[127\\]"):
                    tape.frame(1)
                with pytest.raises(UnsupportedVersionError):
                    tape.snapshot(tape.keyframes[0])
                continue
        assert read_everything(path) == (False, "incomplete", truth_of(data))


def test_hopping_and_index_agree_on_every_sealed_tape(tmp_path: Path) -> None:
    """read_contents and scan_contents find the same blocks and seal."""
    data = make_tape(tmp_path / "run.tape")

    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    by_index, scanned = read_contents(read, len(data)), scan_contents(read, len(data))
    assert by_index.entries == scanned.entries
    assert (by_index.seal, by_index.header, by_index.damages) == (scanned.seal, scanned.header, scanned.damages)
    assert [struct.pack("B", entry.kind) for entry in read_contents(read, len(data)).entries][-1] == bytes([END])


def test_torn_is_told_from_corrupt(tmp_path: Path) -> None:
    """A damaged last payload above the durable watermark is torn, the one before it corrupt."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=False, sync="block")
    *_, before, last = Reader(data).blocks
    assert (before.durable, last.durable) == (before.offset, last.offset)
    path.write_bytes(data[:-8] + bytes([data[-8] ^ 1]) + data[-7:])
    assert read_everything(path)[:2] == (True, "incomplete")
    assert offsets_found(path)[-1] == before.offset

    path.write_bytes(data[: before.offset] + bytes(8) + data[before.offset + 8 :])
    assert read_everything(path)[:2] == (True, "corrupt")


@pytest.mark.parametrize("shift", range(9))
def test_blocks_lie_at_multiples_of_8(tmp_path: Path, shift: int) -> None:
    """Behind damage, a block that says rightly where it lies counts only at a multiple of 8."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=False)
    *_, last = Reader(data).blocks
    header = attrs.evolve(decode_header(data[last.offset :][:HEADER_BYTES], last.offset), offset=len(data) + 8 + shift)
    payload = block_bytes(data, last)[HEADER_BYTES:]
    path.write_bytes(data + b"damaged." + b"-" * shift + encode_header(header) + payload)
    assert (offsets_found(path)[-1] == header.offset) == (shift in {0, 8})
