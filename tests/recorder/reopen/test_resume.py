"""Resuming: the same run, bit for bit, from a tape in any state; a tape that cannot be resumed stays unchanged."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import recorder
from recorder import CorruptError, DesyncError, MissingTickError, Recorder, RecordingError, UnreadableError
from recorder.reopen.next_session import needed_up_to
from recorder.storage.file_names import journal_path, segment_numbers, segment_path
from recorder.storage.tape_files import TapeFile
from replayer import Tape
from replayer.timeline.verify import verify_tape
from sim import UnknownWorldError
from sim.kernel.registry import find_world
from sim.scenario.scenario_file import load_scenario

from oracle.crashes import live_run, record_until
from oracle.live_runs import assert_agrees
from oracle.repair_runs import destroy
from oracle.second_checks import CheckedReader, CheckedTape
from oracle.second_reader import DELTA, END, FRAMES, FULL, META, SESSION_START, Reader, unpack
from project_paths import GOLDEN, SUPPORT
from small_worlds import Herd, Saved, Walkers

pytestmark = pytest.mark.share(0.18)

GOLDEN_0_1 = GOLDEN / "0.1"


def push(tick: int) -> Any:
    """Return inputs for walkers."""
    return [[tick % 20, tick]]


WORLDS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "walkers": (Walkers, push),
    "herd": (Herd, lambda _: None),
    "saved": (Saved, lambda tick: tick * 7 % 50),
}


def files_of(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder, with their contents."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def record_and_die(path: Path, make: Any, inputs: Callable[[int], Any], ticks: int, **settings: Any) -> None:
    """Record some ticks in a process, then kill it with SIGKILL."""
    child = os.fork()
    if child == 0:
        tape = Recorder(path, make(), **{"keyframe_interval_ticks": 7, "full_every": 3} | settings)
        record_until(tape, inputs, ticks, 10)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("name", WORLDS)
def test_every_kind_of_simulation_continues_bit_for_bit(tmp_path: Path, name: str) -> None:
    """Random streams, growing tables, blobs and save/load: each session continues as the run without a crash does."""
    make, inputs = WORLDS[name]
    path, seed = tmp_path / "run.tape", random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    live = live_run(make, inputs, 80)
    record_and_die(path, make, inputs, 12 + chance.randrange(9))
    while True:
        used = make()
        for tick in range(chance.randrange(4)):
            used.step(inputs(tick + 1))  # In any state.
        tape = recorder.resume(path, used)
        assert tape.simulation.state.arena.tobytes() == live[tape.tick][1]
        if tape.tick > 55:
            break
        chunk = tape.tick + 1 + chance.randrange(15)
        with tape:
            while tape.tick < chunk:
                tape.step(inputs(tape.tick + 1))
                assert tape.simulation.state.arena.tobytes() == live[tape.tick][1]
        data = path.read_bytes()
        path.write_bytes(data[: len(data) - chance.randrange(700)])
    with tape:
        record_until(tape, inputs, 80, 9)

    assert_agrees(CheckedTape(path), live, [inputs(tick) for tick in range(1, 81)])
    report = verify_tape(path, make)
    assert (report.ok, report.status, report.verified_ticks) == (True, "intact", 81)


def test_the_state_of_the_tape_is_reported(tmp_path: Path) -> None:
    """The returned recorder and the new session's META hold the tick from which it continues."""
    path = tmp_path / "run.tape"
    record_and_die(path, Walkers, push, 33)
    with path.open("ab") as file:
        file.write(b"\xf5BLK half a header")
    tape = recorder.resume(path, Walkers())
    found = tape.resumed
    assert (found.tick, found.keyframe_tick, found.journal_ticks, found.torn_file) == (33, 28, 3, f"{path}.torn-1")
    assert (tmp_path / "run.tape.torn-1").read_bytes() == b"\xf5BLK half a header"
    assert journal_path(path).exists()
    tape.close({"reason": "done"})

    assert sorted(files_of(tmp_path)) == ["run.tape", "run.tape.torn-1"]
    *_, session = [b for b in CheckedReader(path.read_bytes()).blocks if b.kind == META]
    assert session.flags & SESSION_START
    assert unpack(session.payload)[0]["resumed_at_tick"] == 33
    with Tape(path) as finished:
        settings = {"first_tick": 33, "last_tick": 33, "changes": []}
        outside = {"replaced": [], "unknown_before": 33, "settings": settings}  # Of the session that was killed.
        assert (finished.status, finished.outcome) == ("not checked", {"reason": "done", "outside": outside})
        assert [place.tick for place in finished.keyframes][-2:] == [28, 33]


def test_progress_is_reported(tmp_path: Path) -> None:
    """Progress from the keyframe to the last tick is reported step by step."""
    path, seen = tmp_path / "run.tape", []
    record_and_die(path, Walkers, push, 33)
    recorder.resume(path, Walkers(), progress=lambda done, total: seen.append((done, total))).close()
    assert seen == [(done, 5) for done in range(1, 6)]


@pytest.mark.parametrize("settings", [{}, {"split": 1500}, {"deterministic": True}, {"keep": 21}], ids=str)
def test_a_sealed_tape_is_continued_after_its_trailer(tmp_path: Path, settings: dict[str, Any]) -> None:
    """No existing byte changes; the old seal no longer counts, and the new one covers everything."""
    path = tmp_path / "run.tape"
    live = live_run(Walkers, push, 90)
    with Recorder(path, Walkers(), keyframe_interval_ticks=7, full_every=3, **settings) as tape:
        record_until(tape, push, 40, 10)
    before = files_of(tmp_path)
    with recorder.resume(path, Walkers()) as tape:
        assert tape.resumed.torn_file is None
        record_until(tape, push, 60, 10)

    after = files_of(tmp_path)
    assert all(after[name].startswith(data) for name, data in before.items() if name in after)
    assert ("keep" in settings) or after.keys() >= before.keys()
    found = CheckedTape(path)
    first_tick = next(found.keyframes()).tick
    assert_agrees(found, live, [push(tick) for tick in range(1, 61)], first_tick)
    assert sum(block.kind == END and unpack(block.payload)[0]["final"] for block in found.blocks) == 2
    report = verify_tape(path, Walkers)
    assert (report.ok, report.status) == (True, "intact")


@pytest.mark.parametrize("ticks", [4, 10], ids=["short sessions", "longer ones"])
@pytest.mark.seldom(0.15)
def test_a_ring_stays_as_small_as_it_was_through_many_sessions(tmp_path: Path, ticks: int) -> None:
    """Segments of earlier sessions are dropped in time; the last ticks are always available."""
    path = tmp_path / "run.tape"
    record_and_die(path, Walkers, push, 100, keep=24, keyframe_interval_ticks=3)
    for goal in range(100 + ticks, 100 + 15 * ticks, ticks):
        with recorder.resume(path, Walkers()) as tape:
            record_until(tape, push, goal, 5)
        assert len(segment_numbers(path)) <= 1 + 5 + 33 // ticks
        with Tape(path) as ring:
            assert ring.last_tick == goal
            assert 24 <= ring.last_tick - ring.first_tick <= 24 + 6 + 3
            assert ring.missing_segments == []
    assert verify_tape(path, Walkers).ok


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::recorder.RecordingWarning")
def test_a_ring_keeps_what_the_deltas_behind_a_failed_sync_refer_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that took over has deltas of a keyframe in the one before: after a resume, both are needed as long."""
    path, sync, fails = tmp_path / "run.tape", TapeFile.fdatasync, False

    def fdatasync(self: TapeFile) -> None:
        nonlocal fails
        if fails:
            fails = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(self)

    monkeypatch.setattr(TapeFile, "fdatasync", fdatasync)
    settings: dict[str, Any] = {"keep": 24, "keyframe_interval_ticks": 1, "full_every": 1000, "sync": "block"}
    tape = Recorder(path, Walkers(), durability="block", **settings)
    for tick in range(7):
        fails = tick == 3
        record_until(tape, push, tick + 1, 1)
        tape.flush()
    tape._abandon()
    assert len(segment_numbers(path)) > 2
    with recorder.resume(path, Walkers()) as tape:
        for tick in range(8, 60):
            record_until(tape, push, tick, 1)
            with Tape(path) as ring:
                assert ring.first_tick <= max(0, ring.last_tick - 24)


def test_a_ring_keeps_a_file_behind_which_an_empty_one_was_sealed() -> None:
    """Found by the model: file 4 has ticks 30 to 40 and was taken over by file 5, which was sealed without any tick."""

    def file(number: int, ticks: tuple[int, int] | None, clip: int | None = None) -> Any:
        parts = [SimpleNamespace(summary=SimpleNamespace(last_tick=ticks[1] if ticks else 0))]
        seal = object() if clip is None else None
        return SimpleNamespace(number=number, clip=clip, contents=SimpleNamespace(seal=seal), parts=parts)

    earlier = [file(0, None), file(4, (30, 40), clip=2272), file(5, None), file(6, (40, 50))]
    assert dict(needed_up_to(earlier, 55)) == {0: 0, 4: 40, 5: 0, 6: 50}


# --- refusals


@pytest.fixture
def died(tmp_path: Path) -> Path:
    """A tape whose writer was killed, with a torn tail and a journal."""
    path = tmp_path / "run.tape"
    record_and_die(path, Walkers, push, 33)
    with path.open("ab") as file:
        file.write(b"torn")
    return path


class Edited(Walkers):
    """Walkers, edited: one of them limps."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        self.state["x"][3] -= 1


@pytest.mark.parametrize(
    ("simulation", "changes", "error", "text"),
    [
        (Edited, "auto", DesyncError, "desync at tick 29"),
        (Herd, "auto", TypeError, "different fields than the tape: .*grass"),
        (Walkers, "sometimes", ValueError, "expected changes to be auto, marks, .* got 'sometimes'"),
        (dict, "auto", TypeError, "dict is not a simulation"),
        (lambda: None, "auto", TypeError, "small_worlds.Walkers"),
        (lambda: Walkers, "auto", TypeError, "got the class Walkers"),
    ],
)
def test_a_wrong_simulation_leaves_every_byte_as_it_was(
    died: Path, simulation: Any, changes: Any, error: type[Exception], text: str
) -> None:
    """Torn tail and journal stay, too; the right simulation can resume the tape afterwards."""
    before = files_of(died.parent)
    with pytest.raises(error, match=text):
        recorder.resume(died, simulation(), changes=changes)
    assert files_of(died.parent) == before

    tape = recorder.resume(died, Walkers())
    assert tape.tick == 33
    tape.close()


def test_a_world_that_is_not_installed_is_named(tmp_path: Path) -> None:
    """A tape of a registered world needs no simulation, but it needs the world."""
    path, loaded = tmp_path / "run.tape", load_scenario("quiet-meadow")
    with Recorder(path, loaded.world.make(loaded.config)) as tape:
        tape.step([])
    with recorder.resume(path) as tape:
        assert tape.tick == 1
        assert type(tape.simulation) is type(find_world("meadow").make(loaded.config))
    data = path.read_bytes()
    copy = tmp_path / "copy.tape"
    notes = {"world": {"name": "atlantis", "version": 1, "config": {}}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recorder.session.recorder.describe", lambda *_, **__: described | notes)
        with Tape(path) as tape:
            described = dict(tape.meta)
        with Recorder(copy, Walkers()) as other:
            other.step()
    before = files_of(tmp_path)
    with pytest.raises(UnknownWorldError, match="atlantis"):
        recorder.resume(copy)
    assert files_of(tmp_path) == before
    assert path.read_bytes() == data


def test_a_tape_that_is_being_recorded_is_refused(tmp_path: Path) -> None:
    """A different process and the same one are refused; the recording is not disturbed."""
    path = tmp_path / "run.tape"
    with Recorder(path, Walkers()) as tape:
        tape.step()
        with pytest.raises(BlockingIOError, match="another process is recording into this tape"):
            recorder.resume(path, Walkers())
        program = f"import recorder\nfrom small_worlds import Walkers\nrecorder.resume({str(path)!r}, Walkers())"
        finished = subprocess.run(
            [sys.executable, "-c", program], cwd=SUPPORT, capture_output=True, text=True, check=False
        )
        assert "BlockingIOError" in finished.stderr.splitlines()[-1]
        tape.step()
    assert verify_tape(path, Walkers).ok
    with recorder.resume(path, Walkers()) as tape:
        assert tape.tick == 2


def test_a_corrupt_tape_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """Damage in durable data needs replay repair; tried with each block in turn; every byte stays."""
    path = tmp_path / "run.tape"
    record_and_die(path, Walkers, push, 33, sync="block")
    data = path.read_bytes()
    blocks = [b for b in CheckedReader(data).blocks if b.kind in {FRAMES, FULL, DELTA}]
    assert len(blocks) > 8
    for block in blocks[:-2]:
        path.write_bytes(data[: block.offset + 20] + b"?" + data[block.offset + 21 :])
        before = files_of(tmp_path)
        with pytest.raises(CorruptError, match="replay repair") as caught:
            recorder.resume(path, Walkers())
        assert caught.value.offset == block.offset
        assert len(str(caught.value).splitlines()) == 1
        assert files_of(tmp_path) == before


@pytest.mark.parametrize("settings", [{}, {"split": 1500}], ids=["one file", "split"])
@pytest.mark.parametrize("how", ["payload", "header", "zeros"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_lost_description_is_refused_with_what_to_do(tmp_path: Path, settings: dict[str, Any], how: str) -> None:
    """META of the first file is damaged: every byte stays."""
    path = tmp_path / "run.tape"
    tape = Recorder(path, Walkers(), sync="never", keyframe_interval_ticks=3, **settings)
    record_until(tape, push, 12, 1)
    tape._abandon()
    data = path.read_bytes()
    path.write_bytes(destroy(data, next(block for block in Reader(data).blocks if block.kind == META), how))
    before = files_of(tmp_path)
    with pytest.raises(CorruptError, match="replay repair"):
        recorder.resume(path, Walkers())
    assert files_of(tmp_path) == before


def test_a_damaged_keyframe_before_the_last_tick_is_skipped(tmp_path: Path) -> None:
    """Durable data is not read completely; if the keyframe's content is wrong, the one before it is used."""
    path = tmp_path / "run.tape"
    record_and_die(path, Walkers, push, 33, sync="block")
    data = path.read_bytes()
    last = [b for b in CheckedReader(data).blocks if b.kind in {FULL, DELTA}][-1]
    path.write_bytes(data[: last.offset + 75] + b"?" + data[last.offset + 76 :])
    with recorder.resume(path, Walkers()) as tape:
        assert (last.first_tick, tape.resumed.tick, tape.resumed.keyframe_tick) == (28, 33, 21)


def test_a_missing_file_of_a_split_tape_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    path = tmp_path / "run.tape"
    record_and_die(path, Walkers, push, 60, split=1200)
    segment_path(path, 1).unlink()
    before = files_of(tmp_path)
    with pytest.raises(CorruptError, match="segment 1 is missing"):
        recorder.resume(path, Walkers())
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("name", ["herd", "walkers-unsealed"])
def test_a_tape_of_format_01_is_only_read(tmp_path: Path, name: str) -> None:
    """The message does not call the tape corrupt: it is intact, and of a different version."""
    path = tmp_path / "old.tape"
    shutil.copy(GOLDEN_0_1 / f"{name}.tape", path)
    before = files_of(tmp_path)
    with pytest.raises(RecordingError, match="can be read, but not resumed") as caught:
        recorder.resume(path, Herd() if name == "herd" else Walkers())
    assert type(caught.value) is RecordingError
    assert files_of(tmp_path) == before


def test_an_empty_tape_is_refused(died: Path) -> None:
    """Before the first keyframe there is no state to continue from; a file that is not a tape is called so."""
    data = died.read_bytes()
    first = next(b for b in CheckedReader(data[:-4]).blocks if b.kind == FULL)
    journal_path(died).unlink()
    for size in (64, 70, 300, first.offset, first.offset + 100):
        died.write_bytes(data[:size])
        with pytest.raises(MissingTickError):
            recorder.resume(died, Walkers())
        assert files_of(died.parent) == {died.name: data[:size]}
    for content in (b"", data[:40], b"Dear diary, today I wrote 64 bytes of text and not one of them was a tape."):
        died.write_bytes(content)
        with pytest.raises(UnreadableError):
            recorder.resume(died, Walkers())
    died.unlink()
    with pytest.raises(FileNotFoundError):
        recorder.resume(died, Walkers())
