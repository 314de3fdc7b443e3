"""The writer: sizes of frame blocks, slow disks, and the way of a disk's failure to the caller."""

from __future__ import annotations

from pathlib import Path

import pytest
from waiting import wait_until

from recorder import Recorder, UnreadableError, WriterFailedError
from recorder.format.blocks.file_header import make_file_header
from recorder.format.blocks.frame import encode_frame
from recorder.format.limits import FRAMES_RAW_BYTES
from recorder.format.segments.segment_encoder import SegmentEncoder
from recorder.recording_options import RecordingOptions
from recorder.storage.segmented_log import SegmentedLog
from recorder.writer.writer import Writer
from replayer.tape.tape import Tape
from sim import Field, Schema, State
from sim.kernel.plain_data import encode_plain

from oracle.fake_files import FailingFiles, GatedFiles, MemoryFiles, use_files
from oracle.second_checks import CheckedReader
from oracle.second_reader import FRAMES


class Adder:
    """Adds its inputs to a number."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("sum", "i8"), Field("still", "i8", (50,))))

    def step(self, inputs: int) -> None:
        self.state["sum"][...] += inputs


def frame_of(tick: int, size: int) -> bytes:
    """A frame of exactly this many bytes."""
    frame = encode_frame(tick, 0, b"\xc5" + (size - 22).to_bytes(2, "big") + bytes(size - 22))
    assert len(frame) == size
    return frame


def settings_of(**more: object):
    """Settings without any influence of the clock."""
    usual = {"keyframe_interval_ticks": 1, "full_every": 1, "durability": "block", "sync": "never", "on_error": "raise"}
    return RecordingOptions(**{**usual, "deterministic": True, "blame": "none", **more})


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([], []),
        ([30], [1]),
        ([FRAMES_RAW_BYTES // 2] * 2, [2]),
        ([FRAMES_RAW_BYTES // 2, FRAMES_RAW_BYTES // 2 + 1], [1, 1]),
        ([FRAMES_RAW_BYTES], [1]),
        ([FRAMES_RAW_BYTES + 1], [1]),
        ([30, FRAMES_RAW_BYTES + 1, 30], [1, 1, 1]),
        ([FRAMES_RAW_BYTES - 30, 30, 30], [2, 1]),
        ([4096] * 33, [16, 16, 1]),
    ],
)
def test_frames_are_cut_at_64_kib(sizes: list[int], counts: list[int]) -> None:
    """A block takes frames up to 65,536 bytes and not one byte more; a longer frame gets a block alone."""
    files = MemoryFiles()
    encoder = SegmentEncoder(make_file_header(bytes(16), 0, 0), encode_plain({}))
    log = SegmentedLog(files, files.create(0), encoder, lambda *_: b"", syncs=False, record_durable=False)
    log.start()
    writer = Writer(files, log, settings_of(), path="x", first_tick=1)
    for tick, size in enumerate(sizes, start=1):
        writer.put_frame(frame_of(tick, size))
    writer.stop()

    reader = CheckedReader(bytes(files.segments[0]))
    assert [block.tick_count for block in reader.blocks if block.kind == FRAMES] == counts
    assert [tick for tick, _, _ in reader.frames()] == list(range(1, len(sizes) + 1))
    assert (files.released, files.calls.count("fdatasync"), reader.seal) == (True, 0, None)


def run(sync: str = "block", ticks: int = 9) -> Recorder:
    """Record some ticks with a keyframe every two."""
    tape = Recorder(
        "memory",
        Adder(),
        keyframe_interval_ticks=2,
        full_every=2,
        durability="block",
        sync=sync,
        on_error="raise",
        deterministic=True,
    )
    with tape:
        for tick in range(1, ticks + 1):
            tape.step(tick)
    return tape


def files_without_failures(monkeypatch: pytest.MonkeyPatch) -> MemoryFiles:
    """The files of a run without failures."""
    files = use_files(monkeypatch, MemoryFiles())
    run()
    return files


def test_a_late_thread_changes_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deterministic tape is the same if the first keyframe waits before the writer's thread begins."""
    punctual, begin = files_without_failures(monkeypatch), Writer._run

    def begin_late(writer: Writer) -> None:
        wait_until(lambda: bool(writer.handoff.items))
        begin(writer)

    monkeypatch.setattr(Writer, "_run", begin_late)
    assert files_without_failures(monkeypatch).segments == punctual.segments


def assert_is_an_intact_beginning(path: Path, data: bytes, whole: bytes) -> None:
    """The tape is a beginning of the complete one and reads as such."""
    assert whole.startswith(data)
    path.write_bytes(data)
    truth = {tick: (state_hash, inputs) for tick, state_hash, inputs in CheckedReader(whole).frames()}
    try:
        tape = Tape(path)
    except UnreadableError:
        assert len(data) < 64
        return
    with tape:
        assert tape.status == ("not checked" if data == whole else "incomplete")
        assert tape.check_blocks() == []
        for place in tape.keyframes:
            assert tape.snapshot(place)["sum"] == place.tick * (place.tick + 1) // 2
        if tape.keyframes:
            assert tape.missing_ticks() == []
            for tick in range(1, tape.last_tick + 1):
                frame = tape.frame(tick)
                assert (frame.state_hash, frame.inputs) == truth[tick]


@pytest.mark.parametrize(("method", "kept"), [("append", 0.0), ("append", 0.5), ("append", 1.0), ("fdatasync", 0.0)])
@pytest.mark.seldom(0.18)
def test_a_failing_disk_reaches_the_caller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, kept: float
) -> None:
    """For every call: WriterFailedError with its cause, nothing more is written, everything before is intact."""
    complete = files_without_failures(monkeypatch)
    call_count = complete.calls.count(method)
    assert call_count > 10
    for k in range(1, call_count + 1):
        files = use_files(monkeypatch, FailingFiles(k, method, kept=kept))
        if (k, method) == (1, "append"):
            with pytest.raises(OSError, match="ENOSPC"):
                run()
            assert files.segments == {}
            continue
        with pytest.raises(WriterFailedError) as caught:
            run()
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.path == "memory"
        assert caught.value.why.startswith(str(caught.value.__cause__))
        assert files.released
        assert files.calls.count(method) == k
        if not files.segments:  # The constructor has already raised, for header and META or the first keyframe.
            assert k <= 2
            continue
        assert_is_an_intact_beginning(tmp_path / "run.tape", bytes(files.segments[0]), bytes(complete.segments[0]))

    use_files(monkeypatch, FailingFiles(call_count + 1, method))
    run()


def test_after_a_failure_every_call_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """step, flush and close raise WriterFailedError; a second close does nothing."""
    files = use_files(monkeypatch, FailingFiles(4, "append"))
    settings = {"durability": "block", "sync": "never", "on_error": "raise"}
    tape = Recorder("memory", Adder(), keyframe_interval_ticks=1, deterministic=True, **settings)
    tape.step(1)
    for call in (tape.flush, tape.flush, lambda: tape.step(1), tape.close):
        with pytest.raises(WriterFailedError, match="ENOSPC"):
            call()
    tape.close()
    assert [tick for tick, _, _ in CheckedReader(bytes(files.segments[0])).frames()] == [1]


def test_an_exception_under_way_is_not_hidden_by_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own exception leaves the with block, with the writer's failure as a note."""
    use_files(monkeypatch, FailingFiles(3, "append"))
    tape = Recorder("memory", Adder(), deterministic=True, on_error="raise")
    with pytest.raises(KeyError) as caught, tape:
        raise KeyError("mine")
    assert "ENOSPC" in caught.value.__notes__[0]


def test_a_keyframe_is_skipped_while_the_disk_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is no room, keyframes are skipped; the one after them is full, and no frame is lost."""
    monkeypatch.setattr("recorder.writer.handoff_queue.KEYFRAME_BYTES_MAX", 0)  # One at a time.
    files = use_files(monkeypatch, GatedFiles())
    with Recorder("memory", Adder(), keyframe_interval_ticks=1, sync="never") as tape:
        for tick in range(1, 5):
            tape.step(tick)
        skipped = tape.statistics().keyframes_skipped
        assert skipped >= 3  # One is in the thread, and no second one waits: both would be in memory.
        files.gate.set()
        tape.flush()
        tape.step(5)
        tape.flush()
        tape.step(6)
    assert tape.statistics().keyframes_skipped == skipped

    reader = CheckedReader(bytes(files.segments[0]))
    keyframes = [(k.tick, k.is_full) for k in reader.keyframes()]
    assert keyframes[0] == (0, True)
    assert keyframes[-2:] == [(5, True), (6, False)]
    assert len(keyframes) == 7 - skipped
    assert [(tick, inputs) for tick, _, inputs in reader.frames()] == [(tick, tick) for tick in range(1, 7)]


def test_what_is_in_no_block_yet_waits() -> None:
    """On a slow disk, also for frames that the thread has taken: the number of waiting frames is bounded."""
    files = GatedFiles(free_appends=1)
    encoder = SegmentEncoder(make_file_header(bytes(16), 0, 0), encode_plain({}))
    log = SegmentedLog(files, files.create(0), encoder, lambda *_: b"", syncs=False, record_durable=False)
    log.start()
    writer = Writer(files, log, settings_of(), path="x", first_tick=1)
    for tick in range(1, 31):
        writer.put_frame(frame_of(tick, 60_000))
    total = 30 * 60_000
    assert files.is_held.wait(30)
    assert total > writer.statistics().waiting_bytes >= total - 2 * 60_000  # One is in a block, one may be gathered.
    files.gate.set()
    writer.stop()
    assert writer.statistics().waiting_bytes == 0


def test_bytes_do_not_depend_on_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With deterministic, a disk that blocks everything until the end gives the same bytes as a fast one."""
    fast, slow = MemoryFiles(), GatedFiles()
    for files in (fast, slow):
        use_files(monkeypatch, files)
        settings = {"durability": "block", "sync": "1ms", "deterministic": True}
        with Recorder("memory", Adder(), keyframe_interval_ticks=200, **settings) as tape:
            for tick in range(1, 150):
                tape.step(tick)
                if files is fast and tick == 1:
                    assert fast.synced.wait(30)  # As the writer does all the time with sync="1ms".
            if files is slow:
                slow.gate.set()
    assert fast.calls.count("fdatasync") > 1
    assert fast.segments == slow.segments
