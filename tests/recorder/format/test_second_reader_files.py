"""Tapes of several files, journals and sessions, read by the second reader and compared with the live runs."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder import Recorder
from recorder.storage.tape_files import TapeFile
from replayer.repair.repair import repair_tape

from oracle.live_runs import Live, assert_agrees, assert_whole, look_at, record_live
from oracle.second_checks import CheckedTape
from oracle.second_reader import DROP, END, FRAMES, FULL, META, REBUILT, SESSION_START, unpack
from project_paths import SUPPORT
from small_worlds import Walkers


def test_a_split_tape(tmp_path: Path) -> None:
    """Each segment begins with a full keyframe and is sealed; together they are the run."""
    path, inputs = tmp_path / "run.tape", [None] * 200
    cadence = {"keyframe_interval_ticks": 5, "full_every": 4}
    live = record_live(path, Walkers(), inputs, **cadence, split=2500, deterministic=True)
    found = CheckedTape(path)

    assert len(found.segments) > 3
    assert_agrees(found, live, inputs)
    assert len(list(found.frames())) == 200
    for number, segment in enumerate(found.segments):
        assert [block.kind for block in segment.blocks[:2]] == [META, FULL]
        assert segment.seal["final"] is (number == len(found.segments) - 1)
        assert segment.seal["outcome"] == ({"reason": "closed"} if segment.seal["final"] else None)
        others = {key: value for key, value in segment.meta.items() if key != "segment"}
        assert others == {key: value for key, value in found.meta.items() if key != "segment"}


def test_a_ring(tmp_path: Path) -> None:
    """The first segment has only META, those after it are removed from the front, and at least `keep` ticks stay."""
    path, inputs = tmp_path / "run.tape", [None] * 500
    live = record_live(path, Walkers(), inputs, keyframe_interval_ticks=5, keep=80)
    found = CheckedTape(path)
    first_tick = next(found.keyframes()).tick

    assert 0 < first_tick <= 500 - 80
    assert_agrees(found, live, inputs, first_tick)
    assert len(list(found.frames())) == 500 - first_tick
    assert [block.kind for block in found.segments[0].blocks if block.kind < 0x80][:-1] == [META]
    assert found.segments[1].segment > 1


def test_a_ring_that_was_written_out(tmp_path: Path) -> None:
    """A copy of a ring is one sealed segment that begins at a later tick."""
    path, out = tmp_path / "run.tape", tmp_path / "out.tape"
    with Recorder(path, Walkers(), keyframe_interval_ticks=5, keep=40) as tape:
        live = {0: look_at(tape.simulation.state)}
        for tick in range(1, 151):
            tape.step()
            live[tick] = look_at(tape.simulation.state)
        first_tick, last_tick = tape.write_out(out)
    found = CheckedTape(out)

    assert (0 < first_tick <= 110, last_tick) == (True, 150)
    assert_agrees(found, live, [None] * 150, first_tick)
    assert [frame[0] for frame in found.frames()] == list(range(first_tick + 1, 151))
    assert (len(found.segments), found.seal["final"], found.run_id) == (1, True, CheckedTape(path).run_id)


def test_a_repaired_tape(tmp_path: Path) -> None:
    """Lost ticks are a DROP in the copy, a rebuilt keyframe is marked, and the order is right."""
    path, target, inputs = tmp_path / "run.tape", tmp_path / "repaired.tape", [[[1, tick]] for tick in range(60)]
    live = record_live(path, Walkers(), inputs, keyframe_interval_ticks=10, full_every=3)
    data = bytearray(path.read_bytes())
    frames = [block for block in CheckedTape(path).blocks if block.kind == FRAMES]
    full = [block for block in CheckedTape(path).blocks if block.kind == FULL][1]
    for block in (frames[0], frames[5], full):
        data[block.offset + 72 + 20] ^= 1
    path.write_bytes(data)
    repair_tape(path, target, Walkers)
    found = CheckedTape(target)

    assert found.meta["repaired"]["from"] == "run.tape"
    assert [unpack(block.payload)[0]["first_tick"] for block in found.blocks if block.kind == DROP] == [1, 51]
    assert [tick for tick, _, _ in found.frames()] == list(range(11, 51))
    assert [keyframe.tick for keyframe in found.keyframes()] == list(range(0, 61, 10))
    assert next(block.first_tick for block in found.blocks if block.flags & REBUILT) == 30
    assert all(keyframe.arena == live[keyframe.tick][1] for keyframe in found.keyframes())


def failing(calls: set[int], real: Callable[..., Any]) -> Callable[..., Any]:
    """A method that raises OSError at these of its calls, counted from 1."""
    count = [0]

    def method(self: TapeFile, *arguments: Any) -> Any:
        count[0] += 1
        if count[0] in calls:
            raise OSError(errno.EIO, "Input/output error")
        return real(self, *arguments)

    return method


@pytest.mark.sample(12)
@pytest.mark.parametrize("call", range(1, 12))
@pytest.mark.parametrize("method", ["fdatasync", "append"])
@pytest.mark.parametrize("settings", [{}, {"split": 600}, {"sync": "never"}], ids=str)
@pytest.mark.filterwarnings("ignore::recorder.RecordingWarning")
def test_a_segment_that_takes_over_from_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, call: int, settings: dict[str, Any]
) -> None:
    """A failed segment is valid up to the offset at which the next one takes over; nothing is lost."""
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    path, inputs = tmp_path / "run.tape", [None] * 12
    if method == "append":  # A failed append cannot be truncated either.
        monkeypatch.setattr(TapeFile, "truncate", failing({1, 2, 3}, TapeFile.truncate))
    monkeypatch.setattr(TapeFile, method, failing({call}, getattr(TapeFile, method)))
    try:
        live = record_live(path, Walkers(), inputs, **{"keyframe_interval_ticks": 2, "sync": "block"} | settings)
    except OSError:
        assert (method, call) == ("append", 1)  # Without a first segment there is no tape.
        return
    assert_whole(CheckedTape(path), live, inputs, 2, 10)


# --- journals, sessions


@pytest.mark.parametrize("settings", [{"sync": "block"}, {"durability": "block"}, {"durability": "none"}], ids=str)
def test_every_durability(tmp_path: Path, settings: dict[str, Any]) -> None:
    """With every durability, a closed tape is complete and has no journal."""
    path, inputs = tmp_path / "run.tape", [None] * 50
    live = record_live(path, Walkers(), inputs, keyframe_interval_ticks=5, **settings)

    assert_whole(CheckedTape(path), live, inputs, 5, 10)
    assert sorted(tmp_path.iterdir()) == [path]
    durable = [block.durable for block in CheckedTape(path).blocks]
    assert durable == sorted(durable)
    assert any(durable) is (settings != {"durability": "none"})


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from recorder import Recorder
from small_worlds import Walkers
tape = Recorder(sys.argv[2], Walkers(), keyframe_interval_ticks=5, split=int(sys.argv[4]) or None)
for tick in range(1, int(sys.argv[3]) + 1):
    tape.step([[tick % 20, tick]])
os.kill(os.getpid(), signal.SIGKILL)
"""


def record_and_kill(path: Path, ticks: int, split: int = 0) -> Live:
    """Record in a process that kills itself after its last step; return the truth about the run."""
    arguments = [str(SUPPORT), str(path), str(ticks), str(split)]
    finished = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
    assert finished.returncode == -signal.SIGKILL
    world = Walkers()
    live = {0: look_at(world.state)}
    for tick in range(1, ticks + 1):
        world.step([[tick % 20, tick]])
        live[tick] = look_at(world.state)
    return live


@pytest.mark.parametrize(("ticks", "split"), [(1, 0), (3, 0), (57, 0), (400, 2500)])
def test_a_process_that_was_killed(tmp_path: Path, ticks: int, split: int) -> None:
    """The blocks and the journal next to them contain every tick whose step has returned."""
    path = tmp_path / "run.tape"
    live = record_and_kill(path, ticks, split)
    found = CheckedTape(path)

    assert not found.seal or not found.seal["final"]
    assert_agrees(found, live, [[[tick % 20, tick]] for tick in range(1, ticks + 1)])
    assert [tick for tick, _, _ in found.frames()] == list(range(1, ticks + 1))
    assert len(found.journal) > 0


def test_a_journal_of_another_run(tmp_path: Path) -> None:
    """Its frames are ignored."""
    path, other = tmp_path / "run.tape", tmp_path / "other.tape"
    record_and_kill(path, 7)
    record_live(other, Walkers(), [])
    os.replace(f"{path}.journal", f"{other}.journal")  # noqa: PTH105 - as short as possible

    assert list(CheckedTape(other).frames()) == []


def test_a_resumed_tape(tmp_path: Path) -> None:
    """Sessions follow each other in one tape: META, END and trailer occur inside it, and no frame is missing."""
    path, inputs = tmp_path / "run.tape", [[[tick % 20, tick]] for tick in range(1, 41)]
    live = record_and_kill(path, 20)
    for end in (30, 40):
        with recorder.resume(path, Walkers()) as tape:
            while tape.tick < end:
                tape.step(inputs[tape.tick])
                live[tape.tick] = look_at(tape.simulation.state)
    found = CheckedTape(path)

    assert_agrees(found, live, inputs)
    assert len(list(found.frames())) == 40
    starts = [n for n, block in enumerate(found.blocks) if block.flags & SESSION_START]
    assert [found.blocks[n].kind for n in starts] == [META] * 3
    assert [(found.blocks[n + 1].kind, found.blocks[n + 1].first_tick) for n in starts] == [
        (FULL, 0),
        (FULL, 20),
        (FULL, 30),
    ]
    assert [block.kind for block in found.blocks].count(END) == 2
    assert found.seal["final"]
