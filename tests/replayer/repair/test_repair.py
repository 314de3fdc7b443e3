"""Repairs: every tick whose inputs are not lost is in the new tape, rebuilt states are verified, losses are listed."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder import Recorder, RecordingError
from recorder.format.blocks.block import Flags
from recorder.storage.file_names import journal_path, segment_numbers, segment_path
from replayer import Tape
from replayer.repair.repair import repair_tape

from oracle.live_runs import Live
from oracle.repair_runs import (
    TICKS,
    Pushed,
    all_blocks,
    assert_right,
    assert_verified,
    block_at,
    destroy,
    record_pushed,
    record_small,
    spoil,
)
from oracle.second_checks import CheckedTape
from oracle.second_reader import DELTA, DROP, END, FRAMES, FULL, INDEX, META, Reader
from project_paths import GOLDEN
from small_worlds import Herd, Saved, Walkers

pytestmark = pytest.mark.share(0.18)

WORLDS: dict[str, Any] = {"walkers": Pushed, "herd": Herd, "saved": Saved}
REBUILT = int(Flags.REBUILT)


EACH = [*itertools.product(WORLDS, ["payload", "header"]), ("herd", "zeros")]
ORDINARY = [("walkers", "payload"), ("herd", "header"), ("saved", "payload")]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "how"), [pytest.param(*one, marks=[] if one in ORDINARY else pytest.mark.long) for one in EACH]
)
def test_each_block_destroyed_in_turn(tmp_path: Path, name: str, how: str) -> None:
    """Frames cost their ticks, keyframes are rebuilt and marked as such, META, INDEX and END cost nothing."""
    path, make = tmp_path / "run.tape", WORLDS[name]
    live = record_small(path, make())
    data = path.read_bytes()
    blocks = Reader(data).blocks
    assert {block.kind for block in blocks} == {META, FRAMES, FULL, DELTA, END, INDEX}
    for number, block in enumerate(blocks):
        target = tmp_path / f"{number}.tape"
        damaged = destroy(data, block, how)
        path.write_bytes(damaged)
        report = repair_tape(path, target, make)

        assert path.read_bytes() == damaged
        lost = range(block.first_tick, block.first_tick + block.tick_count)
        assert [(first, last) for first, last, _ in report.lost_ticks] == ([(lost[0], lost[-1])] if lost else [])
        assert report.lost_keyframe_ticks == []
        assert (report.first_tick, report.last_tick) == (0, TICKS)
        assert_right(target, live, lost, make)
        if number % 6 == len(how) % 6:  # It takes a process for each interval.
            assert_verified(target, make)
        gone = [b.first_tick for b in blocks if b is block and b.kind in {FULL, DELTA}]
        if block.kind == FULL:
            gone += [b.first_tick for b in blocks if b.kind == DELTA and b.seq - b.baseline == block.seq]
        repaired = [b for b in all_blocks(target) if b.kind in {FULL, DELTA}]
        assert report.rebuilt_ticks == gone == [b.first_tick for b in repaired if b.flags & REBUILT]
        assert [b.first_tick for b in repaired] == [*range(0, TICKS, 7)]
        assert report.copied_keyframes == len(repaired) - len(gone)
        with Tape(target) as tape:
            assert tape.sealed
            assert tape.outcome == ({"reason": "tea"} if block.kind != END else {"reason": "repaired"})
            status = "corrupt" if block.kind != END else "incomplete"  # A power cut may leave the same of END.
            assert tape.meta["repaired"] == {"from": "run.tape", "status": status}


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, Live, list[Any]]:
    """A tape of walkers, their states, and its blocks."""
    return record_pushed(tmp_path / "run.tape")


@pytest.mark.parametrize("number", range(8))
def test_several_blocks_destroyed_at_once(recorded: Any, number: int) -> None:
    """For any destroyed block: the new tape is right, only the destroyed frames are lost, verify agrees."""
    path, live, blocks = recorded
    seed = random.randrange(1 << 30)
    chance, data = random.Random(seed), path.read_bytes()
    # One full keyframe stays: without any, and without the first frames, nothing can be proved.
    chosen = chance.sample([b for b in blocks if (b.kind, b.first_tick) != (FULL, 21)], 2 + number)
    for block in chosen:
        data = destroy(data, block, chance.choice(["payload", "header", "zeros"]))
    path.write_bytes(data)
    target = path.with_name("new.tape")
    print("seed", seed, [(block.kind, block.first_tick) for block in chosen])
    report = repair_tape(path, target, Pushed)

    lost = {t for b in chosen for t in range(b.first_tick, b.first_tick + b.tick_count)}
    lost |= set(range(report.first_tick + 1))
    found = CheckedTape(target)
    assert {t: h for t, h, _ in found.frames()} == {t: live[t][0] for t in live if t not in lost}
    for keyframe in found.keyframes():
        assert (keyframe.state_hash, keyframe.arena) == live[keyframe.tick][:2]
    said = {tick for first, last, _ in report.lost_ticks for tick in range(first, last + 1)}
    if END in {block.kind for block in chosen}:  # Only END knows of ticks at the very ends whose headers are gone.
        lost = {tick for tick in lost if min(said, default=0) <= tick <= report.last_tick}
    assert said >= lost - {report.first_tick}
    assert_verified(target, Pushed)


def test_a_repaired_tape_repaired_again_is_the_same(recorded: Any) -> None:
    """Frames, states, drops with their reasons, marks of rebuilt keyframes: the second repair changes nothing."""
    path, live, blocks = recorded
    once, twice = path.with_name("once.tape"), path.with_name("twice.tape")
    spoil(path, block_at(blocks, FRAMES, 17), block_at(blocks, FULL, 21))
    first = repair_tape(path, once, Pushed)
    second = repair_tape(once, twice, Pushed)

    assert (first.rebuilt_ticks, second.rebuilt_ticks) == ([], [])
    assert [tick for tick, _ in first.lost_keyframe_ticks] == [21, 28, 35]  # What leads there is lost as well.
    assert second.lost_keyframe_ticks == []
    assert first.lost_ticks == second.lost_ticks
    one, two = CheckedTape(once), CheckedTape(twice)
    assert list(one.frames()) == list(two.frames())
    for kind in (FULL, DELTA, DROP):
        same = [[(b.first_tick, b.flags, b.payload) for b in tape.blocks if b.kind == kind] for tape in (one, two)]
        assert same[0] == same[1]

    path.write_bytes(destroy(once.read_bytes(), block_at(all_blocks(once), DELTA, 14), "payload"))
    marked = repair_tape(path, path.with_name("marked.tape"), Pushed)
    again = repair_tape(path.with_name("marked.tape"), path.with_name("again.tape"), Pushed)
    assert (marked.rebuilt_ticks, again.rebuilt_ticks) == ([14], [])
    (kept,) = [b for b in all_blocks(path.with_name("again.tape")) if b.flags & REBUILT]
    assert (kept.kind, kept.first_tick) == (FULL, 14)
    assert live[14][0] in [keyframe.state_hash for keyframe in CheckedTape(path.with_name("again.tape")).keyframes()]


def test_a_tape_of_several_files_becomes_one(tmp_path: Path) -> None:
    """Damage in one file and a missing file: their ticks are lost, all others are in one new file."""
    path = tmp_path / "run.tape"
    live = record_small(path, Pushed(), split=1100, keyframe_interval_ticks=4, full_every=9, deterministic=True)
    numbers = segment_numbers(path)
    assert len(numbers) >= 4
    number, block = next(
        (number, b)
        for number in numbers[1:]
        for b in Reader(segment_path(path, number).read_bytes(), number).blocks
        if b.kind == DELTA
    )
    file = segment_path(path, number)
    file.write_bytes(destroy(file.read_bytes(), block, "payload"))
    report = repair_tape(path, tmp_path / "a.tape", Pushed)
    assert (report.rebuilt_ticks, report.lost_ticks) == ([block.first_tick], [])
    assert segment_numbers(report.path) == [0]
    assert_right(report.path, live, range(0), Pushed)

    gone = next(other for other in numbers[1:-1] if other != number)
    ticks = [b.first_tick for b in Reader(segment_path(path, gone).read_bytes(), gone).blocks if b.kind == FRAMES]
    segment_path(path, gone).unlink()
    report = repair_tape(path, tmp_path / "b.tape", Pushed)
    ((first, last, _),) = report.lost_ticks
    assert first == ticks[0] <= ticks[-1] <= last
    assert_right(report.path, live, range(first, last + 1), Pushed)
    assert_verified(report.path, Pushed)


@pytest.mark.parametrize(("version", "name"), [("0.1", "walkers-unsealed"), ("0.1", "herd"), ("0.2", "dropped")])
def test_tapes_of_every_kind_and_version_can_be_repaired(tmp_path: Path, version: str, name: str) -> None:
    """An intact tape loses nothing: the same frames, states and drops, in the current format."""
    path = GOLDEN / version / f"{name}.tape"
    report = repair_tape(path, tmp_path / "new.tape", None)
    with Tape(path) as old, Tape(report.path) as new:
        ticks = [(new.first_tick, new.last_tick), (old.first_tick, old.last_tick)]
        assert ticks[0] == ticks[1]
        assert new.drops == old.drops
        lost = {tick for drop in old.drops for tick in range(drop.first_tick, drop.last_tick + 1)}
        for tick in {*range(old.first_tick + 1, old.last_tick + 1)} - lost:
            assert new.frame(tick) == old.frame(tick)
        states = [[(k.tick, tape.snapshot(k).arena.tobytes()) for k in tape.keyframes] for tape in (new, old)]
        assert states[0] == states[1]
        assert new.status == ("incomplete" if lost else "not checked")
    assert CheckedTape(report.path).seal["final"]


def test_the_journal_of_a_killed_recording_is_folded_in(tmp_path: Path) -> None:
    """Ticks that only the journal has are in the new tape; the old one keeps its journal."""
    path = tmp_path / "run.tape"
    live = record_small(tmp_path / "other.tape", Pushed(), ticks=33)
    child = os.fork()
    if child == 0:
        tape = Recorder(path, Pushed(), keyframe_interval_ticks=7, full_every=3, sync="block")
        for tick in range(1, 34):
            tape.step(tick)
            if tick == 24:
                tape.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with Tape(path) as tape:
        assert tape.journal_ticks > 0
        assert not tape.sealed
        keyframe = tape.keyframes[2].entry.offset
    data = path.read_bytes()
    path.write_bytes(data[: keyframe + 80] + b"?" + data[keyframe + 81 :])
    journal = journal_path(path).read_bytes()
    report = repair_tape(path, tmp_path / "new.tape", Pushed)

    assert (report.lost_ticks, report.last_tick, report.rebuilt_ticks) == ([], 33, [14])
    assert journal_path(path).read_bytes() == journal
    assert not journal_path(report.path).exists()
    assert_right(report.path, live, range(0), Pushed)
    with Tape(report.path) as tape:
        assert tape.outcome == {"reason": "repaired"}


def test_a_ring_whose_oldest_keyframe_is_lost_begins_with_the_next_one(tmp_path: Path) -> None:
    """The ticks after it are reported as lost: no fresh simulation has been in that state."""
    path = tmp_path / "run.tape"
    live = record_small(path, Pushed(), keep=14)
    oldest = segment_path(path, segment_numbers(path)[1])
    full = next(b for b in Reader(oldest.read_bytes()).blocks if b.kind == FULL)
    oldest.write_bytes(destroy(oldest.read_bytes(), full, "header"))
    report = repair_tape(path, tmp_path / "new.tape", Pushed)

    assert 0 < full.first_tick < report.first_tick
    assert report.lost_ticks == [(full.first_tick, report.first_tick - 1, "the keyframe that leads to them is lost")]
    assert_right(report.path, live, range(0), Pushed)


def test_chained_hashes_without_meta(tmp_path: Path) -> None:
    """The header of the file says that frames have chained hashes; the new one says so, too."""
    path, target = tmp_path / "killed.tape", tmp_path / "new.tape"
    with Recorder(tmp_path / "run.tape", herd := Herd(), mode="changes", hashes="changes") as tape:
        states = [herd.state.hash()]
        for _ in range(12):
            tape.step(None)
            states.append(herd.state.hash())
        # As a kill leaves it: the frames are in the journal, their changes are lost.
        shutil.copy(tmp_path / "run.tape", path)
        shutil.copy(journal_path(tmp_path / "run.tape"), journal_path(path))
    spoil(path, block_at(Reader(path.read_bytes()).blocks, META, 0))
    repair_tape(path, target, Herd)
    with replayer.open(target, world=Herd) as run:
        assert [run[tick].hash() for tick in range(13)] == states
    with pytest.raises(RecordingError, match="can be read, but not resumed"):
        recorder.resume(target, Herd())


@pytest.mark.share(1)
@pytest.mark.filterwarnings("ignore::recorder.errors.IncompleteTapeWarning")
@pytest.mark.parametrize("lost", ["header", "header and keyframe"])
def test_chained_hashes_without_meta_and_without_a_header(tmp_path: Path, lost: str) -> None:
    """The frames alone tell then that they have chained hashes. Found by the model, where a keyframe was lost, too."""
    path, target = tmp_path / "run.tape", tmp_path / "new.tape"
    with Recorder(path, herd := Herd(), mode="changes", hashes="changes", keyframe_interval_ticks=5) as tape:
        states = [herd.state.hash()]
        for _ in range(12):
            tape.step(None)
            states.append(herd.state.hash())
    blocks = Reader(path.read_bytes()).blocks
    spoil(path, block_at(blocks, META, 0))
    if lost == "header and keyframe":
        spoil(path, next(block for block in blocks if block.kind in (FULL, DELTA) and block.first_tick == 5))
    data = bytearray(path.read_bytes())
    data[:64] = bytes(64)
    path.write_bytes(data)
    for tape_path in (path, target):
        with replayer.open(tape_path, world=Herd) as run:
            assert run.tape.recording.recorded_hashes.has_hash_chain
            assert [run[tick].hash() for tick in range(13)] == states
        if tape_path == path:
            repair_tape(path, target, Herd)


@pytest.mark.share(1)
@pytest.mark.parametrize("spoilt", [0, 1])
def test_of_two_keyframes_of_a_tick_the_one_that_can_be_read_counts(tmp_path: Path, spoilt: int) -> None:
    """A resume at tick 0 writes its full keyframe again. The frames that lead away from there are lost, too."""
    path, world = tmp_path / "run.tape", Walkers()
    first = world.state.hash()
    with Recorder(path, world, keyframe_interval_ticks=9):
        pass
    with recorder.resume(path, Walkers()) as tape:
        for _ in range(20):
            tape.step(None)
    blocks = Reader(path.read_bytes()).blocks
    fulls = [block for block in blocks if block.kind == FULL and block.first_tick == 0]
    assert len(fulls) == 2
    others = [
        block
        for block in blocks
        if (block.kind == FRAMES and block.first_tick == 1) or (block.kind in {FULL, DELTA} and block.first_tick == 9)
    ]
    spoil(path, fulls[spoilt], *others)
    report = repair_tape(path, tmp_path / "repaired.tape")
    assert report.first_tick == 0
    with replayer.Timeline(tmp_path / "repaired.tape", Walkers) as run:
        assert run.at(0).hash() == first
