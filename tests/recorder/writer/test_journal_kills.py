"""Recordings that are killed at any moment: the journal has every tick that ``step`` returned for (promise P10)."""

from __future__ import annotations

import errno
import random
import warnings
from typing import Any

import pytest

import recorder.writer.journal
from recorder import Recorder, RecordingWarning
from recorder.format.recording.assembly import SegmentInput, assemble

from oracle.fake_files import FailingFiles, GatedFiles, MemoryFiles, use_files
from oracle.second_reader import FRAMES, Reader
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)


def push(tick: int) -> Any:
    """Inputs for walkers."""
    return [[tick % 20, tick]]


def step_to(tape: Recorder, tick: int) -> None:
    """Record up to a tick."""
    while tape.tick < tick:
        tape.step(push(tape.tick + 1))


def live_hashes(ticks: int) -> dict[int, int]:
    """The hashes of a run that is not recorded."""
    walkers = Walkers()
    hashes = {0: walkers.state.hash()}
    for tick in range(1, ticks + 1):
        walkers.step(push(tick))
        hashes[tick] = walkers.state.hash()
    return hashes


def ticks_on_disk(segments: dict[int, bytes], journal: bytes, live: dict[int, int]) -> int:
    """The last tick that is there after a kill; all ticks up to it are there, and right."""
    sources = [
        SegmentInput(number, lambda offset, size, data=data: data[offset : offset + size], len(data))
        for number, data in sorted(segments.items())
    ]
    recording = assemble(sources, journal).recording
    for tick in range(recording.first_tick + 1, recording.last_tick + 1):
        frame = recording.frame(tick)
        assert (frame.state_hash, frame.inputs) == (live[tick], push(tick))
    return recording.last_tick


class Observed(MemoryFiles):
    """Files that keep a copy of the disk after each operation, and in the middle of each append."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged = -1
        self.disks: list[tuple[int, dict[int, bytes], bytes]] = []
        self.after = self._keep_after_operation

    def keep(self) -> tuple[int, dict[int, bytes], bytes]:
        """Keep and return the disk as it is now, and the last acknowledged tick before."""
        disk = (
            self.acknowledged,
            {n: bytes(data) for n, data in list(self.segments.items())},
            bytes(self.journal or b""),
        )
        self.disks.append(disk)
        return disk

    def _keep_after_operation(self) -> None:
        operation = self.history[-1]
        acknowledged, segments, journal = self.keep()
        if operation.kind == "append" and operation.data and not operation.new:
            whole = segments[operation.segment]
            torn = whole[: len(whole) - len(operation.data) + random.randrange(len(operation.data))]
            self.disks.append((acknowledged, segments | {operation.segment: torn}, journal))


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "settings",
    [{}, {"sync": "block"}, {"sync": "never"}, {"split": 900}, {"keep": 20}, {"deterministic": True}],
    ids=str,
)
@pytest.mark.parametrize("area_bytes", [128, 300])
@pytest.mark.seldom(0.15)
def test_a_kill_at_any_operation_loses_no_tick(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], area_bytes: int
) -> None:
    """During every write, truncation, growth or seal: every tick that step returned for is there."""
    monkeypatch.setattr(recorder.writer.journal, "AREA_BYTES", area_bytes)
    ticks = 45
    live = live_hashes(ticks)
    files = Observed()
    use_files(monkeypatch, files)
    with Recorder("memory", Walkers(), keyframe_interval_ticks=7, full_every=3, **settings) as tape:
        files.acknowledged = 0
        for tick in range(1, ticks + 1):
            tape.step(push(tick))
            files.acknowledged = tick
            files.keep()
            if tick % 9 == 0:
                tape.flush()
    assert files.disks[-1][0] == ticks
    for acknowledged, segments, journal in files.disks:
        if acknowledged >= 0:
            assert ticks_on_disk(segments, journal, live) >= acknowledged


def test_a_kill_while_the_disk_is_slow_loses_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocked appends, areas that fill and grow, a frame larger than an area: the journal has all frames."""
    monkeypatch.setattr(recorder.writer.journal, "AREA_BYTES", 300)
    live = live_hashes(80)
    files = use_files(monkeypatch, GatedFiles())
    with Recorder("memory", Walkers(), keyframe_interval_ticks=7) as tape:
        for tick in range(1, 81):
            tape.step(push(tick))
            segments = {number: bytes(data) for number, data in files.segments.items()}
            assert ticks_on_disk(segments, bytes(files.journal or b""), live) == tick
        assert files.calls.count("map_journal") > 2
        files.gate.set()  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_recording_continues_without_a_larger_journal(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """If it cannot grow, a warning states the cost; the tape is complete in the end."""
    monkeypatch.setattr(recorder.writer.journal, "AREA_BYTES", 300)

    class SlowAndFull(GatedFiles):
        def map_journal(self, size: int, fill: Any) -> bytearray:
            if self.journal is not None:
                raise OSError(code, errno.errorcode[code])
            return super().map_journal(size, fill)

    files = use_files(monkeypatch, SlowAndFull())
    tape = Recorder("memory", Walkers())
    with pytest.warns(RecordingWarning, match=rf"journal cannot be used .*{errno.errorcode[code]}"):
        step_to(tape, 39)
    files.gate.set()  # type: ignore[attr-defined]
    tape.close()
    assert ticks_on_disk({0: bytes(files.segments[0])}, b"", live_hashes(40)) == 39


@pytest.mark.parametrize("kind", ["map_journal", "append"])
def test_a_journal_that_cannot_be_made_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """If configured so: the constructor raises OSError or WriterFailedError, and leaves no thread and no file."""
    files = use_files(monkeypatch, FailingFiles(1, kind, forever=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception, match="ENOSPC"):
            Recorder("memory", Walkers(), on_error="raise")
    assert (files.released, files.segments) == (True, {})


def test_a_recording_begins_without_a_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """If there is no room for one, a warning states the cost, and it is used as soon as it can be made."""
    monkeypatch.setattr(recorder.writer.journal, "RETRY_S", 0.0)
    files = FailingFiles(1, "map_journal", forever=True)
    use_files(monkeypatch, files)
    tape = Recorder("memory", Walkers())
    with pytest.warns(RecordingWarning, match=r"journal cannot be used .*ENOSPC"):
        step_to(tape, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step_to(tape, 20)
    assert files.journal is None
    tape.flush()
    files.recover()
    step_to(tape, 39)
    live = live_hashes(40)
    segments = {number: bytes(data) for number, data in files.segments.items()}
    assert ticks_on_disk(segments, bytes(files.journal or b""), live) == 39
    tape.close()
    assert files.journal is None


def test_a_journal_of_another_run_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a tape was copied over a different one, the journal's frames are ignored, and that is not damage."""
    journals = []
    for run_id in (bytes(16), bytes(range(16))):
        files = use_files(monkeypatch, MemoryFiles())
        with Recorder("memory", Walkers(), run_id=run_id) as tape:
            step_to(tape, 3)
            journals.append(bytes(files.journal or b""))
    data = bytes(files.segments[0])
    frames = next(block for block in Reader(data).blocks if block.kind == FRAMES)
    cut = data[: frames.offset]

    def opened(journal: bytes) -> Any:
        return assemble([SegmentInput(0, lambda offset, size: cut[offset : offset + size], len(cut))], journal)

    assert [(opened(journal).recording.last_tick, opened(journal).damages) for journal in journals] == [
        (0, []),
        (3, []),
    ]
