"""A disk that refuses: written data stays, the simulation continues by default, every failure is reported."""

from __future__ import annotations

import errno
import warnings
from typing import Any

import pytest

from recorder import Recorder, RecordingWarning, WriterFailedError
from recorder.format.recording.assembly import Assembled, SegmentInput, assemble
from recorder.format.segments.segment_contents import NoTapeError

from oracle.fake_files import FailingFiles, MemoryFiles, use_files
from oracle.power_cuts import Adder

pytestmark = pytest.mark.share(0.18)

TICKS = 40
CONTINUING = {"keyframe_interval_ticks": 7, "full_every": 3, "deterministic": True, "sync": "block"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once, since these disks recover at once or never."""
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))


def truth() -> dict[int, bytes]:
    """The states of the live run."""
    simulation = Adder()
    live = {0: simulation.state.arena.tobytes()}
    for tick in range(1, TICKS + 1):
        simulation.step(tick)
        live[tick] = simulation.state.arena.tobytes()
    return live


TRUTH = truth()


def read(files: MemoryFiles) -> Assembled | None:
    """The tape in these files; None if there is no intact block."""
    sources = [
        SegmentInput(number, lambda offset, size, data=bytes(data): data[offset : offset + size], len(data))
        for number, data in sorted(files.segments.items())
    ]
    try:
        return assemble(sources, bytes(files.journal or b""))
    except NoTapeError:
        return None


def reachable(assembled: Assembled) -> dict[int, bytes]:
    """The reachable states: from each keyframe with the frames that follow it."""
    recording, found = assembled.recording, {}
    for place in recording.keyframes:
        simulation = Adder()
        simulation.state.restore(recording.snapshot(place))
        found[place.tick] = simulation.state.arena.tobytes()
        tick = place.tick
        dropped = {t for drop in recording.drops for t in range(drop.first_tick, drop.last_tick + 1)}
        while tick < recording.last_tick and tick + 1 not in dropped:
            frame = recording.frame(tick + 1)
            simulation.step(frame.inputs)
            assert simulation.state.hash() == frame.state_hash
            tick += 1
            found[tick] = simulation.state.arena.tobytes()
    return found


def run(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> tuple[list[Warning], Exception | None]:
    """Record TICKS ticks; return the warnings, and the exception raised at the end."""
    use_files(monkeypatch, files)
    raised: Exception | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tape = Recorder("memory", Adder(), **{**CONTINUING, **settings})
            files.started = True
            for tick in range(1, TICKS + 1):
                tape.step(tick)
                if tick % 10 == 0 and settings.get("on_error") != "raise":
                    tape._writer.wait_until(lambda: tape._writer.handoff.is_done)  # Let the thread meet the failure.
            tape.close()
        except (OSError, WriterFailedError) as error:
            raised = error
    return [warning.message for warning in caught], raised  # type: ignore[misc]


def calls_without_failures(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> list[str]:
    """The calls of a run without failures."""
    files = MemoryFiles()
    assert run(files, monkeypatch, **settings) == ([], None)
    return files.calls


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param(settings, kept, marks=() if kept in ordinary else pytest.mark.long)
        for settings, ordinary in (
            ({"durability": "tick"}, {0.5}),
            ({"durability": "block"}, {1.0}),
            ({"durability": "tick", "split": 600}, {0.0, 0.5}),
        )
        for kept in (0.0, 0.5, 1.0)
    ],
    ids=str,
)
def test_a_call_that_fails_once_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, kept: float, settings: dict[str, Any]
) -> None:
    """For every call: the run continues, warns, and every tick is on a sealed, intact tape in the end."""
    for kind in ("append", "fdatasync", "truncate", "create", "publish", "remove"):
        count = calls_without_failures(monkeypatch, **settings).count(kind)
        assert count or kind in {"truncate", "publish", "remove"}
        for k in range(1, count + 1):
            files = FailingFiles(k, kind, kept=kept)
            notices, raised = run(files, monkeypatch, **settings)
            if raised is not None and files.segments == {}:
                assert (kind, k) in {("create", 1), ("append", 1)}  # Before there is a tape, the constructor raises.
                continue
            assert raised is None, (kind, k)
            assembled = read(files)
            assert assembled is not None
            assert (assembled.status, assembled.recording.drops) == ("not checked", []), (kind, k)
            assert reachable(assembled) == TRUTH, (kind, k)
            assert any(isinstance(notice, RecordingWarning) for notice in notices), (kind, k)
            assert files.journal is None


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["events", "changes"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_large_blocks_are_made_again(monkeypatch: pytest.MonkeyPatch, kept: float, mode: str) -> None:
    """Blocks that are made while they are written, of keyframes and of many changes: still nothing is lost."""
    monkeypatch.setattr("recorder.writer.keyframe_encoder.LARGE_PAYLOAD_BYTES", 1)
    monkeypatch.setattr("recorder.session.keyframe_policy.LARGE_STATE_BYTES", 1)
    monkeypatch.setattr("sim.kernel.changes.tick_changes.MANY_WORDS", 1)
    test_a_call_that_fails_once_loses_nothing(monkeypatch, kept, {"durability": "block", "mode": mode})


@pytest.mark.parametrize("kept", [0.0, 0.5, 1.0])
def test_a_call_that_fails_together_with_the_next(monkeypatch: pytest.MonkeyPatch, kept: float) -> None:
    """The append fails, and so does its repair or the retry: still nothing is lost."""

    class TwoInARow(FailingFiles):
        def happens(self, kind: str) -> float:
            self._count += 1
            self.calls.append(kind)
            if self.k and self.k <= self._count < self.k + 2 and kind != "pread":
                self.failed_calls += 1
                self._refusal = OSError(errno.EIO, "EIO")
                return self.kept
            return 1.0

    count = len(calls_without_failures(monkeypatch))
    for k in range(3, count + 1):
        files = TwoInARow(k, kept=kept)
        _, raised = run(files, monkeypatch)
        if raised is None:
            assembled = read(files)
            assert assembled is not None
            assert (assembled.status, assembled.recording.drops) == ("not checked", []), k
            assert reachable(assembled) == TRUTH, k


@pytest.mark.parametrize("on_error", ["continue", "raise"])
@pytest.mark.parametrize("kind", ["append", "fdatasync", None])
def test_a_call_that_fails_forever_is_reported(
    monkeypatch: pytest.MonkeyPatch, kind: str | None, on_error: str
) -> None:
    """close (or, with "raise", an earlier call) raises; nothing is invented; durable data is there."""
    count = len([call for call in calls_without_failures(monkeypatch) if kind in {None, call}])
    for k in range(1, count + 1):
        files = FailingFiles(k, kind, forever=True)
        notices, raised = run(files, monkeypatch, on_error=on_error)
        assert raised is not None, k
        late = k > count - 18  # At the very end there is no call left that could warn; close raises.
        if on_error == "continue" and files.started and not late:
            assert any(isinstance(notice, RecordingWarning) for notice in notices), k
        assembled = read(files)
        if assembled is not None and assembled.recording.keyframes:
            found = reachable(assembled)
            assert found.items() <= TRUTH.items(), k
            assert assembled.status == "incomplete" or found == TRUTH, k  # END may exist there, but not durably.
            assert set(found) == set(range(len(found))), k  # A beginning of the run, without a gap.


@pytest.mark.seldom(0.15)
def test_a_failed_sync_is_never_repeated_on_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that was not durable is in a new segment, and the file whose sync failed is not synced again."""
    count = calls_without_failures(monkeypatch).count("fdatasync")
    assert count > 5
    for k in range(1, count + 1):
        files = FailingFiles(k, "fdatasync", code=errno.EIO)
        _, raised = run(files, monkeypatch)
        assert raised is None
        failed = files.sync_attempts[k - 1]
        assert all(io.segment != failed.segment for io in files.sync_attempts[k:]), k
        assert max(files.segments) == 1
        after = read(files)
        assert after is not None
        assert after.recording.segments[0].clip is not None
        assert after.recording.segments[0].clip <= len(files.segments[0])


def test_ticks_that_memory_cannot_hold_are_recorded_as_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long outage costs a range of ticks, named by a DROP block; all others are reachable; the run is sealed."""
    monkeypatch.setattr("recorder.writer.writer.BACKLOG_BYTES_MAX", 0)
    files = FailingFiles(0)
    use_files(monkeypatch, files)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tape = Recorder("memory", Adder(), **{**CONTINUING, "durability": "block"})
        for tick in range(1, TICKS + 1):
            if tick == 12:
                files.k, files.kind, files.forever, files._count = 1, "append", True, 0
            if tick == 30:
                files.recover()
                tape.flush()
            tape.step(tick)
            if tick % 3 == 0:
                tape._writer.wait_until(lambda: tape._writer.handoff.is_done)
        tape.close()
    assembled = read(files)
    assert assembled is not None
    (drop,) = assembled.recording.drops
    assert tape.statistics().writer.dropped == [(drop.first_tick, drop.last_tick)]
    assert 8 <= drop.first_tick <= 22
    assert drop.last_tick == 30  # The first tick after the disk recovered has a full keyframe.
    assert "ENOSPC" in drop.why
    assert (assembled.status, assembled.final) == ("incomplete", True)
    assert reachable(assembled) == {
        tick: arena for tick, arena in TRUTH.items() if not drop.first_tick <= tick < drop.last_tick
    }
    texts = [str(warning.message) for warning in caught]
    assert any(f"frames from tick {drop.first_tick} on are lost" in text for text in texts)
    assert any("accepts the recording again" in text for text in texts)


def test_a_flush_says_that_the_disk_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it refuses, flush raises and step does not; afterwards flush returns."""
    files = FailingFiles(0)
    use_files(monkeypatch, files)
    tape = Recorder("memory", Adder(), **CONTINUING)
    tape.step(1)
    tape.flush()
    files.k, files.kind, files.forever, files._count = 1, "append", True, 0
    tape.step(2)
    with pytest.raises(WriterFailedError, match="ENOSPC"):
        tape.flush()
    with pytest.warns(RecordingWarning, match="continues in memory"):
        tape.step(3)
    files.recover()
    tape._writer.flush()
    with pytest.warns(RecordingWarning, match="accepts the recording again"):
        tape.step(4)
    tape.close()
    assembled = read(files)
    assert assembled is not None
    assert (assembled.status, assembled.recording.last_tick) == ("not checked", 4)
