"""The moments after a refusing disk accepts data again: nothing waits forever, nothing is forgotten."""

from __future__ import annotations

import contextlib
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

import recorder.writer.journal
from recorder import Recorder
from recorder.format.recording.assembly import Assembled, SegmentInput, assemble
from recorder.storage.file_names import segment_numbers
from recorder.storage.tape_files import TapeFile
from replayer import Tape

from oracle.fake_files import FailingFiles, MemoryFiles, use_files
from small_worlds import Walkers

pytestmark = pytest.mark.filterwarnings("ignore::recorder.RecordingWarning")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once, with no memory for blocks that a disk refuses."""
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    monkeypatch.setattr("recorder.writer.writer.BACKLOG_BYTES_MAX", 0)


def refuse(files: FailingFiles) -> None:
    """From now on every append fails."""
    files.k, files.kind, files.forever, files._count = 1, "append", True, 0


def step_to(tape: Recorder, tick: int) -> None:
    """Record up to a tick."""
    while tape.tick < tick:
        tape.step([[tape.tick % 20, 1]])


def read(files: MemoryFiles) -> Assembled:
    """The tape in these files."""
    sources = [
        SegmentInput(number, lambda offset, size, data=bytes(data): data[offset : offset + size], len(data))
        for number, data in sorted(files.segments.items())
    ]
    return assemble(sources)


@pytest.mark.seldom(0.15)
def test_a_full_journal_does_not_wait_for_frames_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keyframe that ends the dropping comes from the thread that would wait."""
    monkeypatch.setattr(recorder.writer.journal, "AREA_BYTES", 300)
    monkeypatch.setattr(recorder.writer.journal, "SLOW_AREA_BYTES_MAX", 300)
    files = FailingFiles(0)
    use_files(monkeypatch, files)
    tape = Recorder("memory", Walkers(), keyframe_interval_ticks=10**6, sync="never")
    assert tape._journal is not None
    step_to(tape, 3)
    tape.flush()
    refuse(files)
    step_to(tape, 30)
    with pytest.raises(recorder.WriterFailedError):
        tape.flush()
    step_to(tape, 40)
    wait_until(lambda: tape._writer._dropped.since is not None and tape._writer.handoff.is_done)
    assert tape._journal._suspended
    files.recover()
    wait_until(lambda: not tape._writer.failing)

    stepping = threading.Thread(target=step_to, args=(tape, 60), daemon=True)
    stepping.start()
    stepping.join(20)
    assert not stepping.is_alive()
    tape.flush()
    assert not tape._writer.loses_frames
    step_to(tape, 90)
    assert not tape._journal._suspended
    tape.close()
    (drop,) = read(files).recording.drops
    assert drop.last_tick <= 42
    assert read(files).recording.last_tick == 90


@pytest.mark.parametrize("split", [None, 300])
def test_a_refused_full_keyframe_is_made_up_for(monkeypatch: pytest.MonkeyPatch, split: int | None) -> None:
    """The next one comes as soon as the disk accepts data, not an interval later; it begins the file that is due."""
    files = FailingFiles(0)
    use_files(monkeypatch, files)
    settings: dict[str, Any] = {"durability": "block", "sync": "never", "split": split}
    tape = Recorder("memory", Walkers(), keyframe_interval_ticks=20, full_every=1, **settings)
    step_to(tape, 19)
    tape.flush()
    assert len(files.segments) == 1
    refuse(files)
    step_to(tape, 20)  # The append of its frame fails, and then there is no room for the keyframe.
    wait_until(lambda: tape._writer.failing and tape._writer.handoff.is_done)
    files.recover()
    wait_until(lambda: not tape._writer.failing)
    assert tape.statistics().writer.dropped == []
    step_to(tape, 25)
    tape.flush()
    assert tape._writer.segment_number == (0 if split is None else 1)
    step_to(tape, 50)
    tape.flush()
    tape.close()
    recording = read(files).recording
    assert [(place.tick, place.is_full) for place in recording.keyframes] == [(0, True), (21, True), (41, True)]
    assert [segment.number for segment in recording.segments] == ([0] if split is None else [0, 1, 2])
    assert (recording.drops, recording.missing_ticks(), recording.last_tick) == ([], [], 50)


def test_given_up_segments_are_closed_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated failures of syncs cost a file each on the disk, but no open file."""
    failing = True
    fdatasync = TapeFile.fdatasync

    def fail(self: TapeFile) -> None:
        if failing and (sync_count := next(counter)) % 2:
            raise OSError(5, f"Input/output error {sync_count}")
        fdatasync(self)

    counter = itertools.count()
    monkeypatch.setattr(TapeFile, "fdatasync", fail)
    tape = Recorder(tmp_path / "run.tape", Walkers(), keyframe_interval_ticks=10, split=8000)
    for tick in range(1, 60):
        step_to(tape, tick)
        with contextlib.suppress(recorder.WriterFailedError):
            tape.flush()
    assert len(segment_numbers(tmp_path / "run.tape")) > 10
    assert len(tape._files._open) <= 3  # type: ignore[attr-defined]
    assert len(tape._writer._log._past) + len(tape._writer._log._given_up) <= 1
    failing = False
    tape.close()
    with Tape(tmp_path / "run.tape") as finished:
        assert (finished.status, finished.last_tick) == ("not checked", 59)


def test_a_notice_that_is_taken_does_not_hide_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread may fail between the check of its error and the reset of the signal."""
    use_files(monkeypatch, MemoryFiles())
    tape = Recorder("memory", Walkers())

    class FailingMeanwhile(type(tape._writer)):  # type: ignore[misc]
        @property
        def _error(self) -> BaseException | None:
            error = self.__dict__.get("_error")
            self.__dict__.setdefault("_error", None)
            if error is None:  # Just after the check.
                self.__dict__["_error"] = OSError("x")
                self.signal = True
            return error

        @_error.setter
        def _error(self, error: BaseException | None) -> None:
            self.__dict__["_error"] = error

    error = tape._writer.__dict__.pop("_error")
    assert error is None
    tape._writer.__class__ = FailingMeanwhile
    tape._writer.take_notices()
    assert tape._writer.signal
    tape._writer.__class__ = FailingMeanwhile.__base__
    for call in (lambda: tape.step([]), tape.close):
        with pytest.raises(recorder.WriterFailedError):
            call()


@pytest.mark.seldom(0.15)
def test_the_writers_error_is_reported_and_not_one_of_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """It occurred during a step, which returned to the recorder normally: every later call states the cause."""
    files = FailingFiles(0)
    use_files(monkeypatch, files)
    tape = Recorder("memory", Walkers(), on_error="raise")

    handoff = tape._writer.handoff

    def fail(_: int) -> None:
        refuse(files)
        tape._writer.wait_until(lambda: False)  # As while the queue is full.

    monkeypatch.setattr(handoff, "make_room", fail)
    handoff.wake_at_bytes = 0
    for _ in range(3):
        with pytest.raises(recorder.WriterFailedError, match="ENOSPC"):
            tape.step([])
    for call in (tape.flush, tape.close):
        with pytest.raises(recorder.WriterFailedError, match="ENOSPC"):
            call()
