"""Refusals of resume before it writes a byte; torn tails of any size, which are kept completely."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
from recorder import CorruptError, Recorder, RecordingError
from recorder.reopen import torn_tail
from recorder.storage.file_names import journal_path, segment_numbers, segment_path
from recorder.storage.tape_files import TapeFile
from replayer import Tape
from sim import Blob, Field, Schema, State, Table

from oracle.crashes import record_until
from small_worlds import Herd, Walkers

SETTINGS: dict[str, Any] = {"keyframe_interval_ticks": 5, "full_every": 3}


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, with their contents."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """A tape in several files, sealed."""
    path = tmp_path / "sp.tape"
    with Recorder(path, Walkers(), split=1200, **SETTINGS) as tape:
        record_until(tape, lambda _: None, 60, 5)
    assert len(segment_numbers(path)) > 4
    return path


def test_a_later_file_of_a_tape_is_refused(split: Path) -> None:
    """Blocks added to it would lie in the middle of the tape."""
    before = files_of(split.parent)
    for number in segment_numbers(split)[1:]:
        with pytest.raises(RecordingError, match=rf"this is file {number} of {split}; name that one") as caught:
            recorder.resume(segment_path(split, number), Walkers())
        assert type(caught.value) is RecordingError
    assert files_of(split.parent) == before
    shutil.copy(segment_path(split, 2), split.with_name("other.tape"))
    with pytest.raises(RecordingError, match="this is file 2 of a tape in several files; name the first of them"):
        recorder.resume(split.with_name("other.tape"), Walkers())


def test_the_first_file_alone_is_not_the_complete_tape(split: Path) -> None:
    """Its seal announces a further file. A tape whose last files are lost is refused in the same way."""
    alone = split.with_name("new.tape")
    shutil.copy(split, alone)
    last = segment_numbers(split)[-1]
    segment_path(split, last).unlink()
    before = files_of(split.parent)
    for path, number in ((alone, 1), (split, last)):
        with pytest.raises(CorruptError, match=f"segment {number} is missing"):
            recorder.resume(path, Walkers())
    assert files_of(split.parent) == before


def test_a_tape_whose_writer_died_between_two_files_is_resumed(split: Path) -> None:
    """It leaves the same files, but with a journal."""
    for number in segment_numbers(split)[1:]:
        segment_path(split, number).unlink()
    journal_path(split).write_bytes(bytes(100))
    with Tape(split) as tape:
        last_tick = tape.last_tick
    with recorder.resume(split, Walkers()) as resumed:
        assert resumed.tick == last_tick


@pytest.mark.parametrize(
    "change",
    [
        {"keyframe_interval_ticks": 0},
        {"full_every": 0},
        {"keep_ticks": "a"},
        {"sync_interval_s": "a"},
        {"split_bytes": "x"},
        {"durability": []},
    ],
    ids=str,
)
def test_invalid_settings_are_called_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    """Before anything is written; torn tail and journal stay, too."""
    path, describe = tmp_path / "run.tape", recorder.session.recorder.describe

    def describe_wrongly(*arguments: Any, **more: Any) -> dict[str, Any]:
        described = describe(*arguments, **more)
        return {**described, "settings": {**described["settings"], **change}}

    with monkeypatch.context() as patch:
        patch.setattr("recorder.session.recorder.describe", describe_wrongly)
        with Recorder(path, Walkers(), **SETTINGS) as tape:
            record_until(tape, lambda _: None, 12, 5)
    with path.open("ab") as file:
        file.write(b"torn")
    before = files_of(tmp_path)

    with pytest.raises(CorruptError, match=rf"the tape's settings are invalid: .*{next(iter(change))}"):
        recorder.resume(path, Walkers())
    assert files_of(tmp_path) == before


class Fields:
    """A simulation with the given fields, whose step does nothing."""

    def __init__(self, *entries: Any) -> None:
        self.state = State(Schema(Field("tick", "i8"), *entries))

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - there are none
        self.state["tick"][...] += 1


@pytest.mark.parametrize(
    ("recorded", "present", "text"),
    [
        (Field("x", "i8", (20,)), Field("x", "i8", (21,)), r"x: expected shape \(20,\), got shape \(21,\)"),
        (Field("x", "i8", (20,)), Field("x", "f8", (20,)), "x: expected int64, got float64"),
        (
            Field("x", "i8", (2, 3)),
            Field("x", "i8", (3, 2)),
            r"x: expected shape \(2, 3\), got shape \(3, 2\)",
        ),
        (Field("x", "i8"), Field("x", "i8", (1,)), r"x: expected shape \(\), got shape \(1,\)"),
        (Field("x", "u1", (256,)), Blob("x"), "x: expected a field, got a blob"),
        (
            Table("t", Field("x", "i8", (2,))),
            Table("t", Field("x", "i8", (3,))),
            r"t.x: expected rows of shape \(2,\), got rows of shape \(3,\)",
        ),
        (
            Field("x", "i8"),
            Field("y", "i8"),
            "the simulation has different fields than the tape: x: expected by the tape",
        ),
    ],
)
def test_a_simulation_of_a_different_size_is_refused(tmp_path: Path, recorded: Any, present: Any, text: str) -> None:
    """Its step would get arrays of a different size."""
    path = tmp_path / "run.tape"
    with Recorder(path, Fields(recorded)) as tape:
        record_until(tape, lambda _: None, 3, 5)
    before = files_of(tmp_path)
    with pytest.raises(TypeError, match=text):
        recorder.resume(path, Fields(present))
    assert files_of(tmp_path) == before
    recorder.resume(path, Fields(recorded)).close()


def test_tables_and_blobs_may_be_of_any_length(tmp_path: Path) -> None:
    """Grown capacity is not a different field."""
    path = tmp_path / "run.tape"
    with Recorder(path, Herd(), **SETTINGS) as tape:
        record_until(tape, lambda _: None, 40, 5)
    fresh = Herd()
    assert fresh.state.layout.capacities != tape.simulation.state.layout.capacities
    with recorder.resume(path, fresh) as resumed:
        assert resumed.tick == 40


# --- torn tails


@pytest.fixture
def torn(tmp_path: Path) -> tuple[Path, bytes]:
    """A tape with a long torn tail, and the tail."""
    path = tmp_path / "run.tape"
    with Recorder(path, Walkers(), **SETTINGS) as tape:
        record_until(tape, lambda _: None, 12, 5)
    tail = np.random.default_rng(1).bytes(10_000) + bytes(500)
    with path.open("ab") as file:
        file.write(tail)
    return path, tail


def test_a_tail_is_kept_in_pieces(torn: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """No read is longer than a piece, and the system may return less than requested."""
    path, tail = torn
    sizes = []

    def read_less(self: TapeFile, offset: int, size: int) -> bytes:
        sizes.append(size)
        return pread(self, offset, min(size, 300) if size <= 700 else size)

    pread = TapeFile.pread
    monkeypatch.setattr(torn_tail, "PIECE_BYTES", 700)
    keep = torn_tail._copy_to_separate_file

    def keep_and_watch(*arguments: Any) -> str | None:
        with monkeypatch.context() as patch:
            patch.setattr(TapeFile, "pread", read_less)
            return keep(*arguments)

    monkeypatch.setattr(torn_tail, "_copy_to_separate_file", keep_and_watch)
    with recorder.resume(path, Walkers()) as tape:
        assert tape.resumed.torn_file == f"{path}.torn-1"
    assert path.with_name("run.tape.torn-1").read_bytes() == tail
    assert max(sizes) == 700
    assert len(sizes) > 2 * len(tail) // 700


def test_a_tail_that_cannot_be_kept_completely_is_not_cut_off(
    torn: tuple[Path, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the tail cannot be read, or the copy cannot be written, the tape is unchanged."""
    path, _ = torn
    before = path.read_bytes()

    def some(*_: Any) -> Iterator[bytes]:
        yield b"x" * 100

    with monkeypatch.context() as patch:
        patch.setattr(torn_tail, "_pieces", some)
        with pytest.raises(OSError, match="100 of 10500 half-written bytes could be read; nothing is cut off"):
            recorder.resume(path, Walkers())
    assert path.read_bytes() == before
    path.with_name("run.tape.torn-1").unlink()

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(TapeFile, "append", refuse)
        with pytest.raises(OSError, match="No space left"):
            recorder.resume(path, Walkers())
    assert files_of(path.parent) == {"run.tape": before}
    recorder.resume(path, Walkers()).close()
    assert path.with_name("run.tape.torn-1").exists()
