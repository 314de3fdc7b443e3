"""The moments after a disk that refused takes data again: nothing waits for ever, nothing is forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import recorder.journal
from recorder import Recorder
from recorder.format.assembly import Assembled, Source, assemble

from oracle.fake_files import FailingFiles, MemoryFiles, use_files
from small_worlds import Walkers

pytestmark = pytest.mark.filterwarnings("ignore::recorder.RecordingWarning")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once, and have no memory for what a refusing disk does not take."""
    monkeypatch.setattr("recorder.writer.RETRY_S", (0.0, 0.0))
    monkeypatch.setattr("recorder.writer.BACKLOG_BYTES_MAX", 0)


def until(condition: Callable[[], Any]) -> None:
    """Wait for the writer's thread."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def refuse(files: FailingFiles) -> None:
    """From now on no append succeeds."""
    files.k, files.kind, files.forever, files._count = 1, "append", True, 0


def step_to(tape: Recorder, tick: int) -> None:
    """Record up to a tick."""
    while tape.tick < tick:
        tape.step([[tape.tick % 20, 1]])


def read(files: MemoryFiles) -> Assembled:
    """The tape in these files."""
    sources = [
        Source(number, lambda offset, size, data=bytes(data): data[offset : offset + size], len(data))
        for number, data in sorted(files.segments.items())
    ]
    return assemble(sources)


def test_a_full_journal_does_not_wait_for_frames_that_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keyframe that ends the dropping comes from the thread that would wait."""
    monkeypatch.setattr(recorder.journal, "AREA_BYTES", 300)
    monkeypatch.setattr(recorder.journal, "SLOW_AREA_BYTES_MAX", 300)
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
    until(lambda: tape._writer._dropping_from is not None and not tape._writer._queue)
    assert tape._journal._suspended
    files.recover()
    until(lambda: not tape._writer.failing)

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
    """The next one comes as soon as the disk takes data, not a cadence later; it begins the file that is due."""
    files = FailingFiles(0)
    use_files(monkeypatch, files)
    settings: dict[str, Any] = {"durability": "block", "sync": "never", "split": split}
    tape = Recorder("memory", Walkers(), keyframe_interval_ticks=20, full_every=1, **settings)
    step_to(tape, 19)
    tape.flush()
    assert len(files.segments) == 1
    refuse(files)
    step_to(tape, 20)  # The append of its frame fails, and then there is no room for the keyframe.
    until(lambda: tape._writer.failing and not tape._writer._queue)
    files.recover()
    until(lambda: not tape._writer.failing)
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
