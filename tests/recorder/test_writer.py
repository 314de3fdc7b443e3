"""The writer: where frames are cut, and what happens when the disk fails or is slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder import Recorder, UnreadableError, WriterFailedError
from recorder.format.encoder import TapeEncoder
from recorder.format.file_header import FileHeader
from recorder.format.frame import encode_frame
from recorder.format.limits import FRAMES_RAW_BYTES
from recorder.format.plain_data import encode_plain
from recorder.writer import Writer
from replayer.tape import Tape
from sim import Field, Schema, State

from oracle.fake_logs import FailingLog, GatedLog, MemoryLog, use_log
from oracle.second_reader import FRAMES, Reader


class Adder:
    """Adds its inputs to a number."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "i8"), Field("still", "i8", (50,))))

    def step(self, inputs: int) -> None:
        self.state["sum"][...] += inputs


def frame_of(tick: int, size: int) -> bytes:
    """A frame of exactly so many bytes."""
    frame = encode_frame(tick, 0, b"\xc5" + (size - 22).to_bytes(2, "big") + bytes(size - 22))
    assert len(frame) == size
    return frame


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([], []),
        ([30], [1]),
        ([8192, 8192], [2]),
        ([8192, 8193], [1, 1]),
        ([FRAMES_RAW_BYTES], [1]),
        ([FRAMES_RAW_BYTES + 1], [1]),
        ([30, FRAMES_RAW_BYTES + 1, 30], [1, 1, 1]),
        ([FRAMES_RAW_BYTES - 30, 30, 30], [2, 1]),
        ([1024] * 33, [16, 16, 1]),
    ],
)
def test_frames_are_cut_at_16_kib(sizes: list[int], counts: list[int]) -> None:
    """A block takes frames up to 16,384 bytes and not one byte more; a longer frame has a block of its own."""
    log = MemoryLog()
    encoder = TapeEncoder(FileHeader(bytes(16), bytes(8)), encode_plain({}))
    writer = Writer(
        log, encoder, path="x", first_tick=1, sync_interval_s=None, sync_each_block=False, deterministic=True
    )
    for tick, size in enumerate(sizes, start=1):
        writer.put_frame(frame_of(tick, size))
    writer.stop()

    reader = Reader(log.data)
    assert [block.tick_count for block in reader.blocks if block.kind == FRAMES] == counts
    assert [tick for tick, _, _ in reader.frames()] == list(range(1, len(sizes) + 1))
    assert (log.closed, log.sync_count, reader.seal) == (True, 0, None)


def run(sync: str = "block", ticks: int = 9) -> Recorder:
    """Record some ticks with a keyframe each two."""
    tape = Recorder("memory", Adder(), keyframe_interval_ticks=2, full_every=2, sync=sync, deterministic=True)
    with tape:
        for tick in range(1, ticks + 1):
            tape.step(tick)
    return tape


def calls_of_a_sound_run(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """What a run without failures writes."""
    log = use_log(monkeypatch, MemoryLog())
    run()
    return log


def assert_is_a_sound_beginning(path: Path, data: bytes, whole: bytes) -> None:
    """The tape is the beginning of the whole one and reads as such."""
    assert whole.startswith(data)
    path.write_bytes(data)
    truth = {tick: (state_hash, inputs) for tick, state_hash, inputs in Reader(whole).frames()}
    try:
        tape = Tape(path)
    except UnreadableError:
        assert len(data) < 64
        return
    with tape:
        assert tape.status == ("intact" if data == whole else "incomplete")
        assert tape.check_blocks() == []
        for place in tape.keyframes:
            assert tape.snapshot(place)["sum"] == place.tick * (place.tick + 1) // 2
        if tape.keyframes:
            assert tape.missing_ticks() == []
            for tick in range(1, tape.last_tick + 1):
                frame = tape.frame(tick)
                assert (frame.state_hash, frame.inputs) == truth[tick]


@pytest.mark.parametrize(("method", "kept"), [("append", 0.0), ("append", 0.5), ("append", 1.0), ("sync", 0.0)])
def test_a_failing_disk_reaches_the_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, kept: float
) -> None:
    """Whichever call fails: WriterFailedError with the cause chained, nothing more is written, all before is sound."""
    sound = calls_of_a_sound_run(monkeypatch)
    call_count = {"append": sound.append_count, "sync": sound.sync_count}[method]
    assert call_count > 10
    for k in range(1, call_count + 1):
        log = use_log(monkeypatch, FailingLog(method, k, kept))
        with pytest.raises(WriterFailedError) as caught:
            run()
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.path == "memory"
        assert str(caught.value.__cause__) == caught.value.why
        assert log.closed
        assert (log.append_count, log.sync_count) == ((k - 1, k - 1) if method == "append" else (k, k - 1))
        assert_is_a_sound_beginning(tmp_path / "run.tape", log.data, sound.data)

    use_log(monkeypatch, FailingLog(method, call_count + 1))
    run()


def test_after_a_failure_every_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """step, flush and close raise WriterFailedError; a second close does nothing."""
    log = use_log(monkeypatch, FailingLog("append", 4))
    tape = Recorder("memory", Adder(), keyframe_interval_ticks=1, sync="never", deterministic=True)
    tape.step(1)
    for call in (tape.flush, tape.flush, lambda: tape.step(1), tape.close):
        with pytest.raises(WriterFailedError, match="No space left"):
            call()
    tape.close()
    assert [tick for tick, _, _ in Reader(log.data).frames()] == [1]


def test_an_exception_under_way_is_not_hidden_by_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own exception leaves the with block, with the writer's failure as a note."""
    use_log(monkeypatch, FailingLog("append", 3))
    tape = Recorder("memory", Adder(), deterministic=True)
    with pytest.raises(KeyError) as caught, tape:
        raise KeyError("mine")
    assert "No space left" in caught.value.__notes__[0]


def test_a_keyframe_is_skipped_while_the_disk_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is no room, keyframes are skipped; the one after them is full, and no frame is lost."""
    monkeypatch.setattr("recorder.writer.KEYFRAME_BYTES_MAX", 0)  # One at a time.
    log = use_log(monkeypatch, GatedLog())
    with Recorder("memory", Adder(), keyframe_interval_ticks=1, sync="never") as tape:
        for tick in range(1, 5):
            tape.step(tick)
        assert tape.statistics().keyframes_skipped == 4
        log.gate.set()
        tape.flush()
        tape.step(5)
        tape.flush()
        tape.step(6)
    assert tape.statistics().keyframes_skipped == 4

    reader = Reader(log.data)
    assert [(k.tick, k.is_full) for k in reader.keyframes()] == [(0, True), (5, True), (6, False)]
    assert [(tick, inputs) for tick, _, inputs in reader.frames()] == [(tick, tick) for tick in range(1, 7)]


def test_bytes_do_not_depend_on_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With deterministic, a disk that lets nothing through until the end gives the same bytes as a fast one."""
    fast, slow = MemoryLog(), GatedLog()
    written: list[bytes] = []
    for log in (fast, slow):
        use_log(monkeypatch, log)
        with Recorder("memory", Adder(), keyframe_interval_ticks=200, sync="0s", deterministic=True) as tape:
            for tick in range(1, 150):
                tape.step(tick)
                if log is fast and tick == 1:
                    assert fast.synced.wait(30)  # As the writer does all the time with sync="0s".
            if log is slow:
                slow.gate.set()
        written.append(log.data)
    assert fast.sync_count > 1
    assert written[0] == written[1]
