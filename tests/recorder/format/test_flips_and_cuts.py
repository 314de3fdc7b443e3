"""Every flipped bit and every cut of a small tape, compared with the truth (promises P1 and P2)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recorder import CorruptError, RecordingError, UnreadableError
from recorder.format.blocks.block import HEADER_BYTES, TAG
from replayer.tape.tape import Tape

from oracle.readings import Reading, read_everything
from oracle.second_reader import CONTINUATION, DELTA, FRAMES, FULL, INDEX, Reader, ticks_of
from oracle.small_tapes import make_tape, truth_of

pytestmark = pytest.mark.share(0.18)


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.long) for turn in range(1, 8))])
@pytest.mark.parametrize(("sync", "sealed"), [("never", True), ("block", False)])
def test_every_flipped_bit_is_found(tmp_path: Path, sync: str, sealed: bool, turn: int) -> None:  # noqa: FBT001
    """A single flipped bit is reported, or everything read is the truth; nothing false is ever read.

    Each turn flips one bit of each byte; all turns together flip every bit.
    The tape is corrupt, unless the bit lies after all bytes that are known to have been durable. END and the trailer of a
    sealed tape do: a power cut before they were synced may have left the same.
    """
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=sealed, sync=sync)
    truth, blocks = truth_of(data), Reader(data).blocks
    assert len(data) < 3072
    assert read_everything(path) == Reading(truth, "intact" if sealed else "incomplete", [])

    unreported = set()
    descriptor = os.open(path, os.O_WRONLY)
    for place in range(len(data)):
        os.pwrite(descriptor, bytes([data[place] ^ 1 << (place // 8 + place + turn) % 8]), place)
        reading = read_everything(path)
        assert reading.found is not None
        assert reading.found.is_part_of(truth), place
        if reading.problems:
            durable_bytes = blocks[-1].offset  # Of END, if the tape is sealed.
            is_corrupt = any(isinstance(problem, CorruptError) for problem in reading.problems)
            assert is_corrupt == (place < durable_bytes), place
            assert is_corrupt or reading.status == "incomplete", place
        else:
            assert reading.found == truth, place
            unreported.add(place)
        os.pwrite(descriptor, data[place : place + 1], place)
    os.close(descriptor)
    # Only the content of an INDEX, which is a cache, may be damaged without a report.
    indexes = [block for block in blocks if block.kind == INDEX]
    assert all(
        any(0 <= place - index.offset - HEADER_BYTES < index.stored + 7 for index in indexes) for place in unreported
    )


@pytest.mark.parametrize("sync", ["never", "block"])
@pytest.mark.seldom(0.15)
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
    """Preallocated room after the last block changes nothing; one byte other than zero in it is torn."""
    path = tmp_path / "run.tape"
    data = make_tape(path, sealed=sealed)
    path.write_bytes(data + bytes(count))
    assert read_everything(path) == Reading(truth_of(data), "intact" if sealed else "incomplete", [])

    path.write_bytes(data + bytes(count - 1) + b"\x01")
    reading = read_everything(path)
    assert (bool(reading.problems), reading.status, reading.found) == (True, "incomplete", truth_of(data))


@pytest.mark.parametrize("data", [b"", b"\x89", bytes(64), bytes(4096), b"text\n" * 50, TAG * 100], ids=len)
def test_other_files_are_unreadable(tmp_path: Path, data: bytes) -> None:
    """A file without a header and without a block raises UnreadableError, which names it."""
    path = tmp_path / "run.tape"
    path.write_bytes(data)
    with pytest.raises(UnreadableError) as caught:
        Tape(path)
    assert caught.value.path == str(path)
