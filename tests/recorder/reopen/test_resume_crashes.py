"""Resuming after a kill at any operation, five times over: no acknowledged tick is lost, and the run stays the same."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder import MissingTickError, Recorder, UnreadableError, WriterFailedError
from recorder.reopen.resume import resume_in
from recorder.session.session import Resumed
from recorder.storage.file_names import segment_numbers, segment_path

from oracle.crashes import Moment, Watch, lay_out, live_run, record_until, watch_recording, watch_resuming
from oracle.fake_files import FailingFiles, MemoryFiles, use_files
from oracle.live_runs import Live, assert_agrees
from oracle.second_checks import CheckedTape
from oracle.second_reader import META, SESSION_START, unpack
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)

DEATHS = 5
INTERVAL = 5

Make = Callable[[], Any]


def push(tick: int) -> Any:
    """Return inputs for walkers."""
    return [[tick % 20, tick]]


@pytest.fixture(autouse=True)
def small_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the journal to small areas, so that both are used and it has to grow."""
    monkeypatch.setattr("recorder.writer.journal.AREA_BYTES", 300)


def assert_resumed(tape: Recorder, moment: Moment, live: Live, *, nothing_lost: bool) -> None:
    """Check that the world is at the last recorded tick, in the state that it had there."""
    assert not nothing_lost or tape.tick >= moment.acknowledged, moment.label
    assert tape.resumed.tick == tape.tick, moment.label
    assert tape.simulation.state.arena.tobytes() == live[tape.tick][1], moment.label


def assert_tail_kept(moment: Moment, files: MemoryFiles) -> None:
    """Check that bytes removed from the files were kept elsewhere, byte for byte; zeros need not be."""
    gone = files.aside[len(moment.image.aside) :]
    for number, data in moment.image.segments.items():
        now = bytes(files.segments.get(number, b""))
        same = next((n for n, (a, b) in enumerate(zip(data, now, strict=False)) if a != b), min(len(data), len(now)))
        if same < len(data) and files.segments.get(number) is not None:
            assert any(data.endswith(kept) and len(data) - len(kept) <= same for kept in gone), moment.label


def assert_whole(files: MemoryFiles, folder: Path, live: Live, inputs: Any, last_tick: int) -> None:
    """Check the finished tape, by the second reader, against a run that never crashed."""
    found = CheckedTape(lay_out(files, folder))
    first_tick = next(found.keyframes()).tick
    assert_agrees(found, live, [inputs(tick) for tick in range(1, last_tick + 1)], first_tick)
    assert [frame[0] for frame in found.frames()] == list(range(first_tick + 1, last_tick + 1))
    assert found.seal["final"]
    assert found.blocks[-1].durable == 0 or found.meta["settings"]["sync_interval_s"] is not None
    assert files.journal is None
    sessions = [unpack(b.payload)[0] for b in found.blocks if b.kind == META and b.flags & SESSION_START]
    ticks = [session["resumed_at_tick"] for session in sessions if "resumed_at_tick" in session]
    assert ticks == sorted(ticks)


LEVELS: list[tuple[str, str, dict[str, Any]]] = [
    ("tick", "1s", {}),
    ("tick", "block", {}),
    ("tick", "never", {}),
    ("tick", "1s", {"split": 700}),
    ("tick", "block", {"keep": 12}),
    ("block", "1ms", {}),
    ("block", "never", {"split": 700}),
    ("none", "never", {}),
    ("tick", "1s", {"deterministic": True}),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("durability", "sync", "more"), LEVELS)
def test_five_deaths_from_every_operation_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any, sync: str, more: dict[str, Any]
) -> None:
    """After a kill at an operation, complete or torn, four more sessions die at some point; the run stays the same."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    live = live_run(Walkers, push, 90)
    settings = {"keyframe_interval_ticks": INTERVAL, "full_every": 3, "durability": durability, "sync": sync} | more
    moments = watch_recording(monkeypatch, Walkers, push, 14, **settings)
    finished_count = 0
    for start in chance.sample(moments, min(len(moments), 8)):
        moment = start
        try:
            for _ in range(DEATHS - 1):
                watch, tape = watch_resuming(moment, Walkers)
                assert_resumed(tape, moment, live, nothing_lost=durability == "tick")
                with tape:
                    record_until(tape, push, tape.tick + 5, 4)
                assert_tail_kept(moment, watch.files)
                moment = chance.choice(watch.moments)
        except (UnreadableError, MissingTickError):
            # Killed before the first block: nothing to resume from.
            assert moment.acknowledged == 0 or durability != "tick", moment.label
            assert moment is start
            continue
        watch, tape = watch_resuming(moment, Walkers)
        assert_resumed(tape, moment, live, nothing_lost=durability == "tick")
        with tape:
            record_until(tape, push, 60, 7)
        assert_whole(watch.files, tmp_path, live, push, 60)
        finished_count += 1
    assert finished_count > 2


@pytest.mark.parametrize("more", [{}, {"split": 700}, {"sync": "block", "keep": 8}], ids=str)
@pytest.mark.seldom(0.15)
def test_a_death_at_every_operation(monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]) -> None:
    """After each operation of a run, and in the middle of each append: no acknowledged tick is lost."""
    live = live_run(Walkers, push, 14)
    moments = watch_recording(monkeypatch, Walkers, push, 14, **{"keyframe_interval_ticks": INTERVAL} | more)
    assert len(moments) > 40
    for moment in moments:
        try:
            watch, tape = watch_resuming(moment, Walkers)
        except (UnreadableError, MissingTickError):
            assert moment.acknowledged == 0, moment.label
            continue
        tape.close()
        assert_resumed(tape, moment, live, nothing_lost=True)
        assert_tail_kept(moment, watch.files)


def a_death(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Moment:
    """A recording that died late, inside a frame block, with frames in the journal."""
    settings = {"keyframe_interval_ticks": INTERVAL, "full_every": 3} | settings
    moments = watch_recording(monkeypatch, Walkers, push, 17, **settings)
    torn = [moment for moment in moments if "torn at 0.95" in moment.label and 10 <= moment.acknowledged < 17]
    return torn[-1]


@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore::recorder.RecordingWarning")
@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("on_error", ["continue", "raise"])
@pytest.mark.seldom(0.15)
def test_an_io_error_while_resuming_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_error: Any, *, forever: bool
) -> None:
    """Each call may fail, survived or not: after a kill the tape can be resumed, with every tick."""
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    monkeypatch.setattr(
        "recorder.writer.journal.AREA_BYTES", 1 << 16
    )  # A full disk that also fails is a separate test.
    moment = a_death(monkeypatch, on_error=on_error)
    live = live_run(Walkers, push, 60)
    k, failed = 0, True
    while failed:
        k += 1
        files = FailingFiles(k, forever=forever, kept=0.5 * (k % 2))
        files.segments = {number: bytearray(data) for number, data in moment.image.segments.items()}
        files.journal = bytearray(moment.image.journal)
        watch = Watch(files, moment.acknowledged)
        tape = None
        try:
            tape = watch.tape = resume_in(files, "memory", Walkers())
            assert_resumed(tape, moment, live, nothing_lost=True)
            record_until(tape, push, tape.tick + 6, 100)
        except (OSError, WriterFailedError):
            assert files.released or tape is not None, k
        failed = files.failed_calls > 0
        acknowledged = tape.tick if tape is not None else moment.acknowledged
        after = watch.now(acknowledged)
        if tape is not None:
            with contextlib.suppress(WriterFailedError):
                tape.close()
        last, resumed = watch_resuming(after, Walkers)
        # Without a journal, of which the user is warned, a kill loses the ticks that are not in a block yet.
        assert_resumed(resumed, after, live, nothing_lost="map_journal" not in files.failed_kinds)
        with resumed:
            record_until(resumed, push, 30, 20)
        assert_whole(last.files, tmp_path, live, push, 30)
    assert k > 15


@pytest.mark.parametrize(
    "settings", [{"sync": "1s"}, {"sync": "block"}, {"sync": "never"}, {"deterministic": True}], ids=str
)
def test_a_block_never_claims_more_durable_than_was_synced(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """Data of an earlier process may not be on the disk yet: a resumed tape is synced before it claims more."""
    watch, tape = watch_resuming(a_death(monkeypatch, **settings), Walkers)
    with tape:
        record_until(tape, push, 40, 4)
    synced, size, highest = 0, len(watch.moments[0].image.segments[0]), 0
    for operation in watch.files.history:
        if operation.kind == "append":
            (durable,) = struct.unpack_from("<Q", operation.data, 32)
            assert durable <= synced
            size, highest = size + len(operation.data), max(highest, durable)
        elif operation.kind == "truncate":
            size = operation.size
        elif operation.kind == "fdatasync":
            synced = size
    assert bool(highest) is (settings not in ({"sync": "never"}, {"deterministic": True}))


@pytest.mark.parametrize("begun", [0, 5, 64, 70, 200])
def test_a_file_that_was_only_begun_is_begun_again(tmp_path: Path, begun: int) -> None:
    """A writer that died while it created the next file of a split tape left little in it; those bytes are kept."""
    path = tmp_path / "run.tape"
    live = live_run(Walkers, push, 60)
    with Recorder(path, Walkers(), keyframe_interval_ticks=INTERVAL, split=500) as tape:
        record_until(tape, push, 40, 4)
    *_, before, last = segment_numbers(path)
    data = segment_path(path, last).read_bytes()[:begun]
    segment_path(path, last).write_bytes(data)
    tape = recorder.resume(path, Walkers())
    kept = tmp_path / "run.tape.torn-1"
    assert (kept.read_bytes() if kept.exists() else b"") == data
    assert segment_numbers(path)[-1] == before
    with tape:
        record_until(tape, push, 60, 4)

    found = CheckedTape(path)
    assert_agrees(found, live, [push(tick) for tick in range(1, 61)])
    assert found.seal["last_tick"] == 60


def test_a_file_that_is_not_of_the_tape_is_left_alone(tmp_path: Path) -> None:
    """A different tape with the name of the next file is not removed: it is named, and nothing is done."""
    path, other = tmp_path / "run.tape", tmp_path / "run.tape.1"
    for name in (path, other):
        with Recorder(name, Walkers()) as tape:
            tape.step()
    before = path.read_bytes(), other.read_bytes()
    with pytest.raises(FileExistsError, match=r"not part of the recording.*run\.tape\.1'"):
        recorder.resume(path, Walkers())
    assert (path.read_bytes(), other.read_bytes()) == before
    other.rename(tmp_path / "other.tape")
    with recorder.resume(path, Walkers()) as tape:
        assert tape.resumed == Resumed(1, 0, None, 0, {"reason": "closed"})
        tape.step()


@pytest.mark.sample(3)
@pytest.mark.filterwarnings("ignore::recorder.RecordingWarning")
@pytest.mark.parametrize(
    ("kind", "k"),
    [
        pytest.param(kind, k, marks=() if k in ordinary else pytest.mark.long)
        for kind, ordinary in (("fdatasync", {1, 3}), ("append", {2}), ("publish", {3}))
        for k in (1, 2, 3)
    ],
)
def test_a_kill_while_a_segment_takes_over_loses_nothing(monkeypatch: pytest.MonkeyPatch, k: int, kind: str) -> None:
    """A call fails, a new segment repeats what was not durable, and the process dies at any moment of that."""
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    watch = Watch(use_files(monkeypatch, FailingFiles(k if kind != "append" else k + 2, kind, kept=0.5)))
    with Recorder("memory", Walkers(), keyframe_interval_ticks=INTERVAL, split=500) as tape:
        watch.tape = tape
        record_until(tape, push, 17, 3)
    assert watch.files.failed_calls == 1
    for moment in watch.moments:
        if moment.acknowledged:
            _, tape = watch_resuming(moment, Walkers)
            tape.close()
            assert tape.resumed.tick >= moment.acknowledged, moment.label
