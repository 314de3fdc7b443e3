"""Smeared, inserted, deleted, moved and stale bytes: reported or harmless, only damaged blocks are lost (P2, P3)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from recorder import Recorder
from sim import Field, Schema, State

from oracle.readings import Original, Reading, end_of
from oracle.second_reader import FRAMES, INDEX
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

TICKS = 24


class Adder:
    """Adds its inputs to a few numbers."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("numbers", "i2", (8,))))

    def step(self, inputs: int) -> None:
        self.state["numbers"][inputs % 8] += inputs


def record(path: Path, simulation: Any = Adder, ticks: int = TICKS, **settings: Any) -> Original:
    """A tape with blocks of all ordinary kinds."""
    usual: dict[str, Any] = {"keyframe_interval_ticks": 3, "full_every": 3, "sync": "never", "run_id": bytes(16)}
    with Recorder(path, simulation(), deterministic=True, **usual | settings) as tape:
        for tick in range(1, ticks + 1):
            tape.step(tick if simulation is Adder else [[tick % 20, tick]])
    return Original.at(path)


def assert_honest(reading: Reading, original: Original, hint: Any) -> None:
    """Nothing false was read; everything that was not found was reported."""
    if reading.found is None:
        assert reading.problems, hint
        return
    assert reading.found.is_part_of(original.truth), hint
    # Zeros to the end are a clean end, as in a recording that was not closed.
    assert reading.problems or reading.status == "incomplete" or reading.found == original.truth, hint


def assert_only_hit_is_lost(reading: Reading, original: Original, number: int, start: int, end: int) -> None:
    """Bytes from start up to end of a file were changed: only the content of the blocks there may be lost."""
    assert_honest(reading, original, start)
    assert reading.found is not None
    least = original.lost_by(original.hit(number, start, end))
    assert reading.found.frames.items() >= least.frames.items(), start
    assert reading.found.states.items() >= least.states.items(), start
    if reading.problems:
        first = min(original.places(number, start, end))
        # A seal that became a clean end of zeros is reported as missing, after the last block.
        assert any(first <= offset <= end for offset in reading.offsets), (start, reading.problems)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("settings", "size"), [({}, 2), ({"split": 160}, 2), ({}, 512), ({"split": 160}, 512)], ids=str
)
@pytest.mark.seldom(0.15)
def test_smears(tmp_path: Path, settings: dict[str, Any], size: int) -> None:
    """Random bytes over 2 or 512 others, everywhere in each file: undamaged blocks are read, damaged ones are named."""
    original = record(tmp_path / "run.tape", ticks=9, **settings)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    assert len(original.files) == (2 if settings else 1)
    for number, data in original.files.items():
        for start in range(chance.randrange(5), len(data), 11 if size == 2 else 37):
            end = min(start + size, len(data))
            smear = chance.choice([chance.randbytes(size), bytes(size), b"\xff" * size])[: end - start]
            reading = original.read_with(number, data[:start] + smear + data[end:])
            assert_only_hit_is_lost(reading, original, number, start, end)


@pytest.mark.seldom(0.15)
def test_smears_of_a_page(tmp_path: Path) -> None:
    """4 KiB of a larger tape, at pages and anywhere."""
    original = record(tmp_path / "run.tape", Walkers, 400)
    data = original.files[0]
    assert len(data) > 32768
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    for start in [*range(0, len(data), 4096), *(chance.randrange(len(data)) for _ in range(20))]:
        end = min(start + 4096, len(data))
        smear = chance.choice([chance.randbytes(4096), bytes(4096), data[:4096]])[: end - start]
        reading = original.read_with(0, data[:start] + smear + data[end:])
        assert_only_hit_is_lost(reading, original, 0, start, end)


@pytest.mark.parametrize("settings", [{}, {"split": 160}], ids=str)
def test_inserted_and_deleted_bytes(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Blocks before the change, and in other files, are read; blocks after it have wrong offsets."""
    original = record(tmp_path / "run.tape", ticks=9, **settings)
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    for number, data in original.files.items():
        for place in range(chance.randrange(40), len(data), 61):
            count = chance.choice([1, 7, 8, 64, 72, 512])
            for changed in (
                data[:place] + chance.choice([bytes(count), chance.randbytes(count)]) + data[place:],
                data[:place] + data[place + count :],
            ):
                reading = original.read_with(number, changed)
                assert_honest(reading, original, (number, place, count))
                least = original.lost_by(original.hit(number, place, len(data)))
                if reading.found is None:
                    assert (place < 64, least.frames) == (True, {})
                    continue
                assert reading.found.frames.items() >= least.frames.items(), (number, place, count)
                assert reading.found.states.items() >= least.states.items(), (number, place, count)
                only_zeros_added = changed.rstrip(b"\0") == data.rstrip(b"\0") and len(changed) >= len(data)
                trailer_cut_off = (len(data) - 24, "incomplete") == (len(changed), reading.status)
                assert reading.problems or only_zeros_added or trailer_cut_off, (number, place, count)


def block_bytes(data: bytes, block: Any) -> bytes:
    """A block as it lies in the file."""
    return data[block.offset : end_of(block)]


def test_blocks_that_changed_places(tmp_path: Path) -> None:
    """Any two blocks of a file are swapped: neither is accepted, nor are the blocks between them at wrong offsets."""
    original = record(tmp_path / "run.tape", ticks=9)
    data, blocks = original.files[0], original.blocks[0]
    for first, one in enumerate(blocks):
        for two in blocks[first + 1 :]:
            middle = data[end_of(one) : two.offset]
            changed = (
                data[: one.offset] + block_bytes(data, two) + middle + block_bytes(data, one) + data[end_of(two) :]
            )
            reading = original.read_with(0, changed)
            assert_honest(reading, original, (one.seq, two.seq))
            assert reading.problems
            assert reading.found is not None
            least = original.lost_by(original.hit(0, one.offset, end_of(two)))
            assert reading.found.frames.items() >= least.frames.items()


def test_blocks_that_are_there_twice(tmp_path: Path) -> None:
    """A copy of a block between any two blocks, or over the next one, is not read."""
    original = record(tmp_path / "run.tape", ticks=9)
    data, blocks = original.files[0], original.blocks[0]
    for block in blocks:
        copy = block_bytes(data, block)
        for other in blocks:
            for rest in (other.offset, min(other.offset + len(copy), len(data))):
                changed = data[: other.offset] + copy + data[rest:]
                if changed != data:
                    reading = original.read_with(0, changed)
                    assert_honest(reading, original, (block.seq, other.seq))
                    assert reading.problems
    path = original.path
    path.write_bytes(data + block_bytes(data, blocks[1]))
    reading = original.read_with(0, data + block_bytes(data, blocks[2]))
    assert reading.found is not None
    assert (reading.found.frames, reading.status) == (original.truth.frames, "incomplete")


def test_blocks_of_another_segment_of_the_same_run(tmp_path: Path) -> None:
    """A block at its own offset, but in the file of a different segment, has the wrong marker and is refused."""
    original = record(tmp_path / "run.tape", ticks=20, split=160)
    assert len(original.files) > 2
    tried = 0
    for number, data in original.files.items():
        for other, theirs in original.files.items():
            for block in original.blocks[other]:
                if other != number and end_of(block) <= len(data):
                    changed = data[: block.offset] + block_bytes(theirs, block) + data[end_of(block) :]
                    reading = original.read_with(number, changed)
                    assert_only_hit_is_lost(reading, original, number, block.offset, end_of(block))
                    assert reading.problems or reading.found == original.truth
                    tried += 1
    assert tried > 20


def test_complete_files_of_other_runs_and_segments(tmp_path: Path) -> None:
    """A file of a different run, or of a different segment, is not read as its name suggests."""
    original = record(tmp_path / "run.tape", ticks=40, split=150)
    folder = tmp_path / "other"
    folder.mkdir()
    other = record(folder / "run.tape", ticks=40, split=150, run_id=bytes(range(16)))
    assert other.files.keys() == original.files.keys()
    for number in original.files:
        for theirs in (other.files[number], original.files[(number + 1) % len(original.files)]):
            if number == 0 and theirs is other.files[0]:
                continue  # The first file states the run: the others do not belong to it.
            reading = original.read_with(number, theirs)
            assert reading.found is not None
            assert reading.found.is_part_of(original.truth)
            # Without its last file a tape is like one whose writer ended just before it began that.
            assert reading.status == ("corrupt" if number < max(original.files) else "incomplete")


def test_stale_blocks_of_an_earlier_version_of_the_file(tmp_path: Path) -> None:
    """A lost write: in some places the file still has the bytes of an earlier recording of the same run.

    Marker, offset and checksums of these blocks are right. The seal reveals them, and no frame is ever read as that of a
    different tick.
    """
    path = tmp_path / "run.tape"
    earlier = record(path, ticks=TICKS)
    path.unlink()
    with Recorder(path, Adder(), deterministic=True, keyframe_interval_ticks=3, full_every=3, run_id=bytes(16)) as tape:
        for tick in range(1, TICKS + 1):
            tape.step(tick if tick < 10 else tick + 1)
    original = Original.at(path)
    data, stale = original.files[0], earlier.files[0]
    changed_count = 0
    for block in earlier.blocks[0]:
        changed = data[: block.offset] + block_bytes(stale, block) + data[end_of(block) :]
        if changed == data or block.kind == INDEX:
            continue
        changed_count += 1
        reading = original.read_with(0, changed)
        assert reading.problems, block.offset
        assert reading.found is not None
        for tick, frame in reading.found.frames.items():
            assert frame in (original.truth.frames[tick], earlier.truth.frames[tick])
    assert changed_count > 5
    assert any(block.kind == FRAMES for block in earlier.blocks[0])
