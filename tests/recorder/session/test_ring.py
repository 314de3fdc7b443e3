"""Rings: the last ticks are always available, the disk does not fill up, and ticks can be written out."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder import Recorder
from recorder.storage.file_names import segment_numbers, segment_path
from recorder.storage.tape_files import TapeFile
from replayer import Tape
from replayer.follow.tail import Damage, Ended, Frame, Missed, Tail
from replayer.timeline.verify import verify_tape

from oracle.live_runs import Live, assert_agrees, look_at
from oracle.second_checks import CheckedTape
from project_paths import SUPPORT
from small_worlds import Herd, Walkers

pytestmark = pytest.mark.share(0.18)


def push(tick: int) -> Any:
    """Return inputs for walkers."""
    return [[tick % 20, tick]]


def step_until(tape: Recorder, tick: int, live: Live | None = None) -> None:
    """Step to a tick and keep the states."""
    while tape.tick < tick:
        tape.step(push(tape.tick + 1))
        if live is not None:
            live[tape.tick] = look_at(tape.simulation.state)


def bytes_on_disk(path: Path) -> int:
    """Return the size of all files of the tape."""
    return sum(segment_path(path, number).stat().st_size for number in segment_numbers(path))


@pytest.mark.parametrize(("keep", "interval"), [(40, 3), (60, 10), (8, 1), (10, 7), (3, 20)])
def test_the_last_ticks_are_there_and_not_many_more(tmp_path: Path, keep: int, interval: int) -> None:
    """At any time the last ``keep`` ticks can be reached, plus at most a quarter and an interval; files stay few."""
    path = tmp_path / "run.tape"
    longest = -(-keep // (4 * interval)) * interval  # Ticks of a segment: a quarter, up to the next keyframe.
    firsts, sizes = [], []
    with Recorder(path, Walkers(), keyframe_interval_ticks=interval, full_every=2, keep=keep) as tape:
        for tick in range(1, 4 * keep + 121):
            tape.step(push(tick))
            if tick % 7 == 0:
                tape.flush()
                with Tape(path) as ring:
                    assert ring.last_tick == tick
                    assert min(keep, tick) <= tick - ring.first_tick <= keep + longest + interval
                    assert ring.missing_ticks() == []
                    assert ring.missing_segments == []
                    firsts.append(ring.first_tick)
                assert len(segment_numbers(path)) <= 1 + 1 + -(-keep // longest) + 1
                sizes.append(bytes_on_disk(path))

    assert firsts == sorted(firsts)
    assert len(set(firsts)) > 5
    settled = sizes[len(sizes) // 2 :]
    assert max(settled) < 2 * min(settled) + 4000  # One segment more or less, and the seal.


@pytest.mark.seldom(0.15)
def test_a_ring_kept_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ten ticks a second, three seconds are thirty ticks; after an hour's break everything is old."""
    now_s = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    path = tmp_path / "run.tape"
    with Recorder(path, Walkers(), keyframe_interval_ticks=2, keep="3s") as tape:
        for tick in range(1, 120):
            now_s[0] += 0.1
            tape.step(push(tick))
            tape.flush()
            with Tape(path) as ring:
                assert min(30, tick) <= tick - ring.first_tick <= 30 + 8 + 2 + 2
        now_s[0] += 3600
        step_until(tape, 124)
        tape.flush()
        with Tape(path) as ring:
            assert ring.first_tick >= 110
    assert verify_tape(path, Walkers).ok


@pytest.mark.parametrize(
    "settings",
    [{"keep": 40}, *(pytest.param(one, marks=pytest.mark.long) for one in ({"keep": "1h"}, {})), {"split": 900}],
    ids=str,
)
def test_what_is_there_can_be_written_out_at_any_time(tmp_path: Path, settings: dict[str, Any]) -> None:
    """The copy is sealed, in one file, with the same frames and states; the recording continues undisturbed."""
    path = tmp_path / "run.tape"
    live: Live = {0: look_at(Walkers().state)}
    outs = []
    with Recorder(path, Walkers(), keyframe_interval_ticks=10, full_every=3, **settings) as tape:
        for goal in (3, 60, 141):
            step_until(tape, goal, live)
            out = tmp_path / f"out-{goal}.tape"
            first, last = tape.write_out(out, {"why": goal} if goal > 60 else None)
            with Tape(path) as ring:
                assert (first, last) == (ring.first_tick, goal)
            outs.append((out, first, goal))
        step_until(tape, 200, live)
    for out, first, goal in outs:
        assert segment_numbers(out) == [0]
        found = CheckedTape(out)
        assert_agrees(found, live, [push(tick) for tick in range(1, goal + 1)], first)
        assert [frame[0] for frame in found.frames()] == list(range(first + 1, goal + 1))
        with replayer.Timeline(out, Walkers) as run:
            assert run.tape.outcome == ({"why": goal} if goal > 60 else {"reason": "written out"})
            for tick in range(first, goal + 1, 9):
                run.seek(tick)
                assert run.state.arena.tobytes() == live[tick][1]
    for tape_path in (out, path):
        report = verify_tape(tape_path, Walkers)
        assert (report.ok, report.status, report.verified_ticks) == (True, "intact", report.tick_count)


@pytest.mark.seldom(0.15)
def test_a_written_out_tape_is_not_a_ring_and_can_be_resumed(tmp_path: Path) -> None:
    """The copy is not a ring: none of its ticks is ever dropped."""
    path, out = tmp_path / "run.tape", tmp_path / "out.tape"
    with Recorder(path, Walkers(), keyframe_interval_ticks=5, keep=20) as tape:
        step_until(tape, 90)
        first, _ = tape.write_out(out)
    with recorder.resume(out, Walkers()) as tape:
        step_until(tape, 200)
    with Tape(out) as written:
        assert written.meta["settings"]["keep_ticks"] is None
        assert (written.first_tick, written.last_tick, written.missing_ticks()) == (first, 200, [])
    assert verify_tape(out, Walkers).ok


def test_writing_out_refuses_what_it_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing name, an outcome that is not plain data, a full disk: no file is left, the recording continues."""
    path, taken = tmp_path / "run.tape", tmp_path / "taken.tape"
    taken.write_bytes(b"mine")
    append = TapeFile.append

    def refuse(self: TapeFile, data: bytes) -> None:
        if os.fstat(self.descriptor).st_ino == (tmp_path / "new.tape.part").stat().st_ino:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, data)

    def others() -> list[str]:
        return sorted(file.name for file in tmp_path.iterdir() if not file.name.startswith("run.tape"))

    with Recorder(path, Herd(), keyframe_interval_ticks=5, keep=20) as tape:
        step_until(tape, 50)
        for target in (taken, path):
            with pytest.raises(FileExistsError):
                tape.write_out(target)
        with pytest.raises(TypeError):
            tape.write_out(tmp_path / "new.tape", {"when": object()})
        with pytest.raises(FileNotFoundError):
            tape.write_out(tmp_path / "no" / "such.tape")
        monkeypatch.setattr(TapeFile, "append", refuse)
        with pytest.raises(OSError, match="No space left"):
            tape.write_out(tmp_path / "new.tape")
        monkeypatch.undo()
        assert others() == ["taken.tape"]
        (tmp_path / "new.tape.part").write_bytes(path.read_bytes()[:1000])  # Of a copy that was killed.
        tape.write_out(tmp_path / "new.tape")
        step_until(tape, 60)
    with pytest.raises(ValueError, match="closed"):
        tape.write_out(tmp_path / "late.tape")

    assert taken.read_bytes() == b"mine"
    assert verify_tape(path, Herd).ok
    assert verify_tape(tmp_path / "new.tape", Herd).ok
    assert others() == ["new.tape", "taken.tape"]


RING = """
import sys
from recorder import Recorder
from small_worlds import Walkers
tape = Recorder(sys.argv[1], Walkers(), keyframe_interval_ticks=10, keep=200)
tick = 0
while True:
    tick += 1
    tape.step([[tick % 20, tick]])
    sys.stdout.buffer.write(tick.to_bytes(8, "little"))
    if tick % 7 == 0:
        sys.stdout.buffer.flush()
"""


@pytest.mark.seldom(0.18)
def test_a_killed_ring_has_its_last_ticks(tmp_path: Path) -> None:
    """After kill -9 at any time, every acknowledged tick of the last ``keep`` is there, and the tape can be resumed."""
    path, enough = tmp_path / "run.tape", random.randrange(400, 900)
    print("acknowledged ticks before the kill", enough)
    process = subprocess.Popen([sys.executable, "-c", RING, path], cwd=SUPPORT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        for _ in range(enough):
            acknowledged = int.from_bytes(process.stdout.read(8), "little")
        process.send_signal(signal.SIGKILL)
        process.wait()
        while len(rest := process.stdout.read(8)) == 8:
            acknowledged = int.from_bytes(rest, "little")
    with Tape(path) as ring:
        assert ring.last_tick >= acknowledged
        assert ring.first_tick <= ring.last_tick - 200
        assert ring.status == "incomplete"
        last_tick = ring.last_tick
    report = verify_tape(path, Walkers)
    assert (report.ok, report.status) == (True, "incomplete")

    with recorder.resume(path, Walkers()) as tape:
        assert tape.tick == last_tick
        step_until(tape, last_tick + 50)
    assert verify_tape(path, Walkers).status == "intact"


def test_a_ring_is_followed_sought_and_verified_like_any_tape(tmp_path: Path) -> None:
    """A reader that keeps up misses nothing; ticks before the first one that is kept are refused."""
    path = tmp_path / "run.tape"
    live: Live = {}
    seen: list[Any] = []
    with Recorder(path, Walkers(), keyframe_interval_ticks=5, keep=30) as tape, Tail(path) as tail:
        for goal in range(4, 201, 4):
            step_until(tape, goal, live)
            tape.flush()
            seen += tail.poll()
        tape.close()
        seen += tail.poll()
    assert [one.tick for one in seen if isinstance(one, Frame)] == list(range(1, 201))
    assert not [one for one in seen if isinstance(one, Damage | Missed)]
    assert isinstance(seen[-1], Ended)

    with replayer.Timeline(path, Walkers) as run:
        first = run.first_tick
        assert len(run) == 200 - first + 1
        for tick in (first, first + 1, 190, -1):
            run.seek(tick)
            assert run.state.arena.tobytes() == live[run.tick][1]
        with pytest.raises(recorder.MissingTickError, match=f"the tape has ticks {first} to 200"):
            run.seek(first - 1)
        report = run.verify()
        assert (report.ok, report.status, report.tick_count) == (True, "intact", 200 - first + 1)


@pytest.mark.parametrize("resumed", [False, True])
def test_files_that_were_removed_from_a_sealed_ring(resumed: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """Each file that existed when the ring was closed is missed; those that the ring had removed itself are not."""
    path = tmp_path / "run.tape"
    with Recorder(path, Walkers(), keyframe_interval_ticks=5, keep=40) as tape:
        step_until(tape, 150)
    if resumed:
        with recorder.resume(path, Walkers()) as tape:
            step_until(tape, 201)
    numbers = segment_numbers(path)
    assert numbers[1] > 1
    with Tape(path) as ring:
        assert (ring.missing_segments, ring.check_blocks(), ring.status) == ([], [], "intact")
    for count in range(1, len(numbers) - 1):
        segment_path(path, numbers[count]).unlink()
        with Tape(path) as ring:
            assert (ring.missing_segments, ring.status) == (numbers[1 : count + 1], "corrupt")
