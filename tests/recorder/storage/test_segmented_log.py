"""Tapes of several files: refusals, the place of each block, and the order of blocks on a failing disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recorder import Recorder
from recorder.storage.file_names import journal_path, segment_numbers, segment_path
from recorder.storage.tape_files import TapeFile, TapeFiles
from replayer.tape.tape import Tape
from sim import Field, Schema, State

from small_worlds import Walkers


def record(path: Path, ticks: int = 40, **settings: Any) -> None:
    """Record some ticks of walkers."""
    usual: dict[str, Any] = {"keyframe_interval_ticks": 5, "full_every": 3, "deterministic": True}
    with Recorder(path, Walkers(), **usual | settings) as tape:
        for tick in range(1, ticks + 1):
            tape.step([[tick % 20, tick]])


def test_files_of_an_earlier_recording_are_refused_at_once(tmp_path: Path) -> None:
    """Otherwise the recording would meet them at its second file. They are left alone, and no file is made."""
    path = tmp_path / "run.tape"
    record(path, split=300)
    path.unlink()
    left = {other.name: other.read_bytes() for other in tmp_path.iterdir()}
    assert len(left) > 2
    for settings in ({}, {"split": 300}, {"keep": 10}):
        with pytest.raises(FileExistsError, match=r"run\.tape\.1'"):
            record(path, **settings)
        assert {other.name: other.read_bytes() for other in tmp_path.iterdir()} == left


@pytest.mark.parametrize("durability", ["tick", "block", "none"])
@pytest.mark.filterwarnings("ignore:.*was left by a recording:recorder.RecordingWarning")
def test_the_journal_of_an_earlier_recording_is_not_taken_for_our_own(tmp_path: Path, durability: Any) -> None:
    """Without its tape it is useless, and with deterministic both may have the same run id."""
    path = tmp_path / "run.tape"
    child = os.fork()
    if child == 0:
        tape = Recorder(path, Walkers(), deterministic=True, durability="tick")
        for tick in range(1, 9):
            tape.step([[tick, 1000]])
        os._exit(0)
    os.waitpid(child, 0)
    assert journal_path(path).exists()
    path.unlink()

    tape = Recorder(path, Walkers(), deterministic=True, durability=durability)
    for tick in range(1, 4):
        tape.step([[tick, 1]])
    tape._writer.flush(sync=False)
    with Tape(path) as read:
        assert (read.last_tick, read.status) == (3, "incomplete")
        assert [read.frame(tick).inputs for tick in (1, 2, 3)] == [[[tick, 1]] for tick in (1, 2, 3)]
    tape.close()
    assert not journal_path(path).exists()


def test_a_file_that_could_not_be_made_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the folder cannot be synced there is no tape, and its name is free for the next attempt."""

    def fail(folder: Path) -> None:
        raise OSError(5, "Input/output error", str(folder))

    path = tmp_path / "run.tape"
    with monkeypatch.context() as patched:
        patched.setattr("recorder.storage.tape_files.sync_folder", fail)
        with pytest.raises(OSError, match="Input/output error"):
            record(path)
    assert list(tmp_path.iterdir()) == []
    record(path)
    with Tape(path) as read:
        assert read.status == "not checked"


def test_a_file_in_the_wrong_place_is_reported(tmp_path: Path) -> None:
    """The first file is overwritten with a different one of the same run: nothing false is read, and it is reported."""
    path = tmp_path / "run.tape"
    record(path, split=300)
    numbers = segment_numbers(path)
    assert len(numbers) > 3
    data = {number: segment_path(path, number).read_bytes() for number in numbers}
    for number in numbers:
        for other in numbers:
            if number == other:
                continue
            segment_path(path, number).write_bytes(data[other])
            with Tape(path) as read:
                assert read.status == ("corrupt" if number != numbers[-1] else "incomplete"), (number, other)
        segment_path(path, number).write_bytes(data[number])


def test_one_segment_can_be_opened_alone(tmp_path: Path) -> None:
    """Each begins with a full keyframe, and can be read as a tape if nothing else is left."""
    path = tmp_path / "run.tape"
    record(path, split=300)
    with Tape(path) as whole:
        hashes = {tick: whole.state_hash(tick) for tick in range(whole.last_tick + 1)}
    alone = tmp_path / "alone"
    alone.mkdir()
    seen: set[int] = set()
    for number in segment_numbers(path):
        (alone / "part.tape").write_bytes(segment_path(path, number).read_bytes())
        with Tape(alone / "part.tape") as read:
            assert read.check_blocks() == []
            ticks = range(read.first_tick, read.last_tick + 1)
            assert [read.state_hash(tick) for tick in ticks] == [hashes[tick] for tick in ticks]
            seen |= set(ticks)
    assert seen == set(hashes)


def test_a_segment_is_not_part_of_the_tape_before_it_is_published(tmp_path: Path) -> None:
    """Nor are unfinished files of a killed process; the next writer removes them."""
    path = tmp_path / "run.tape"
    files = TapeFiles(path)
    files.create(0).append(b"first")
    files.create(1).append(b"second")
    assert segment_numbers(path) == [0]
    files.publish(1)
    assert segment_path(path, 1).read_bytes() == b"second"
    files.create(1).append(b"other")
    assert segment_path(path, 1).read_bytes() == b"second"
    files.publish(1)
    assert segment_path(path, 1).read_bytes() == b"other"
    files.create(2).append(b"third")
    files.release()
    assert sorted(other.name for other in tmp_path.iterdir()) == ["run.tape", "run.tape.1"]

    for name in ("run.tape.2.new", "run.tape.journal.new", "run.tape.new", "run.tape.2.new.old", "other.tape.1.new"):
        (tmp_path / name).write_bytes(b"?")
    files.open(0)
    files.release()
    left = ["other.tape.1.new", "run.tape", "run.tape.1", "run.tape.2.new.old", "run.tape.new"]
    assert sorted(other.name for other in tmp_path.iterdir()) == left


class Still:
    """Random bytes, of which no block gets smaller; three blocks for a keyframe."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("tick", "i8"), Field("noise", "u8", (400_000,))))
        self.state["noise"][:] = np.random.default_rng(3).integers(0, 1 << 63, 400_000, np.uint64)

    def step(self, _: Any) -> None:
        """Count."""
        self.state["tick"][...] += 1


@pytest.mark.filterwarnings("ignore::recorder.RecordingWarning")  # Of the refusal, if there is time for it.
@pytest.mark.parametrize("failing", [0, 1, 3])
def test_a_large_keyframe_is_appended_in_parts(failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is the same; if the disk refuses a later part, the parts before it are cut off and written again."""
    options: dict[str, Any] = {"deterministic": True, "keyframe_interval_ticks": 2, "full_every": 1, "trial_ms": 0}
    whole, parted = tmp_path / "whole.tape", tmp_path / "parted.tape"
    with Recorder(whole, Still(), **options) as tape:
        for _ in range(3):
            tape.step(None)
    monkeypatch.setattr("recorder.storage.segmented_log.APPEND_BYTES", 1 << 20)
    appended: list[int] = []
    refused: list[int] = []
    append = TapeFile.append

    def refuse_once(self: TapeFile, data: bytes) -> None:
        appended.append(len(data))
        if failing and not refused and sum(size > 1 << 19 for size in appended) == 3 + failing:  # Three are of tick 0.
            refused.append(len(data))
            append(self, data[:1000])
            raise OSError(28, "No space left on device")
        append(self, data)

    monkeypatch.setattr(TapeFile, "append", refuse_once)
    with Recorder(parted, Still(), **options) as tape:
        for _ in range(3):
            tape.step(None)
    assert len(refused) == bool(failing)
    assert max(appended) < 3 << 20
    assert parted.read_bytes() == whole.read_bytes()
