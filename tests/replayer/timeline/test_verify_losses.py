"""Verification of tapes that are torn, damaged or wrong from the start: everything that can be verified is."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

import recorder
import replayer
import replayer.commands.main
from recorder import DesyncError, Recorder, SimulationFailedError
from recorder.format.blocks.block import HEADER_BYTES, BlockKind
from recorder.processes.worker_pipes import PROGRESS_INTERVAL_S
from recorder.storage.file_names import segment_path
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.tape.tape import Tape
from replayer.timeline.verify import Unreached, verify_tape
from sim import Field, Schema, State

from oracle.command_lines import assert_one_line, run
from small_worlds import Saved, Walkers, record

VERIFY = "verify run.tape --sim test_verify_losses:"


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))  # For --sim.
    return Path("run.tape")


def flip(path: Path, kind: int, tick: int, distance: int = 3) -> None:
    """Change a byte of the content of a block."""
    with Tape(path) as tape:
        tape.distrust_index()
        (entry,) = [
            entry
            for segment in tape.segments
            for entry in segment.contents.entries
            if entry.kind == kind and entry.first_tick <= tick <= max(entry.final_tick, entry.first_tick)
        ]
    data = bytearray(path.read_bytes())
    data[entry.offset + HEADER_BYTES + distance] ^= 1
    path.write_bytes(data)


# --- ticks that can be verified


def test_a_torn_block_is_no_corruption(path: Path) -> None:
    """A power cut that tore a block and kept later ones: incomplete, exit code 3; its ticks are listed."""
    tape = Recorder(path, Walkers(), keyframe_interval_ticks=50, sync="never", durability="block")
    for tick in range(1, 201):
        tape.step([[tick % 20, 1]])
        if tick % 20 == 0:
            tape.flush()
    data = path.read_bytes()
    tape.close()
    path.write_bytes(data)
    flip(path, BlockKind.FRAMES, 45)
    report = verify_tape(path, Walkers)

    assert (report.status, report.problems, report.ok) == ("incomplete", [], False)
    (unreached,) = report.unreached
    assert isinstance(unreached, Unreached)
    assert (unreached.first_tick, unreached.last_tick) == (41, 50)
    assert report.verified_ticks == report.tick_count - 10
    assert run(replayer.commands.main.main, "info run.tape") == 3
    assert run(replayer.commands.main.main, VERIFY + "Walkers") == 3


def test_the_interval_right_behind_the_damage_is_proved(path: Path) -> None:
    """The keyframe that ends the gap is verified; the lost frames are those of the damaged block and no more."""
    with Recorder(path, Walkers(), keyframe_interval_ticks=10) as tape:
        for _ in range(60):
            tape.step([])
    flip(path, BlockKind.FRAMES, 25)
    report = verify_tape(path, Walkers)

    assert (report.verified_ticks, report.tick_count, report.status) == (51, 61, "corrupt")
    assert [(gap.first_tick, gap.last_tick) for gap in report.unreached] == [(21, 30)]


def test_the_file_behind_a_missing_one_is_proved_from_its_first_keyframe(path: Path) -> None:
    """Only the ticks of that file are not verified."""
    record(path, Walkers(), [[]] * 80, keyframe_interval_ticks=10, split=600, deterministic=True)
    with Tape(path) as tape:
        ticks = [e.first_tick for e in tape.segments[2].contents.entries if e.kind == BlockKind.FRAMES]
        finals = [e.final_tick for e in tape.segments[2].contents.entries if e.kind == BlockKind.FRAMES]
    segment_path(path, 2).unlink()
    report = verify_tape(path, Walkers)

    lost = finals[-1] - ticks[0] + 1
    assert report.verified_ticks == report.tick_count - lost
    assert [(gap.first_tick, gap.last_tick) for gap in report.unreached] == [(ticks[0], finals[-1])]


def test_the_count_and_the_bar_end_at_the_number_of_ticks(path: Path) -> None:
    """A resumed tape has two keyframes of one tick, which is counted once."""
    with Recorder(path, Walkers()):
        pass
    with recorder.resume(path, Walkers()) as tape:
        for _ in range(10):
            tape.step([])
    seen: list[tuple[int, int]] = []
    report = verify_tape(path, Walkers, progress=lambda done, total: seen.append((done, total)))

    assert (report.verified_ticks, report.tick_count, report.ok) == (11, 11, True)
    assert (seen[-1], max(seen)) == ((11, 11), (11, 11))


class Slow(Walkers):
    """A slow simulation, by a clock of the test."""

    now_s = 0.0

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        Slow.now_s += PROGRESS_INTERVAL_S / 5


class Endless(Walkers):
    """Writes a file when it steps, and never returns."""

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        Path(f"{os.getpid()}.steps").touch()
        signal.pause()


def test_progress_moves_within_an_interval(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the only interval is finished."""
    record(path, Walkers(), [[]] * 40)
    monkeypatch.setattr("time.monotonic", lambda: Slow.now_s)  # Also in the process that is forked from this one.
    seen: list[int] = []
    assert verify_tape(path, Slow, progress=lambda done, _: seen.append(done)).ok

    assert len(set(seen)) > 3
    assert seen == sorted(seen)


def test_an_interrupt_leaves_one_line(path: Path) -> None:
    """Ctrl-C reaches the workers, too; they print nothing."""
    record(path, Walkers(), [[]] * 200, keyframe_interval_ticks=50)
    command = [
        sys.executable,
        "-c",
        "import replayer.commands.main; replayer.commands.main.main()",
        *shlex.split(VERIFY),
        "--jobs",
        "2",
    ]
    command[-3] += "Endless"
    folders = [str(Path(__file__).parent), *sys.path]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, start_new_session=True, env={**os.environ, "PYTHONPATH": ":".join(folders)}
    )
    try:
        wait_until(lambda: len(list(path.parent.glob("*.steps"))) == 2)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, said) == (130, b"error: interrupted\n")


# --- faults of the recorded run


class Unmarked:
    """Declares that it marks its writes, and does not."""

    marks_writes = True

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8", (200,))))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["x"][:3] += 1


def test_keyframes_that_do_not_give_the_recorded_hash(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All ticks match, but no delta can be used: corrupt, with a hint how to find the write."""
    record(path, Unmarked(), [None] * 40, keyframe_interval_ticks=10, changes="marks")
    report = verify_tape(path, Unmarked)

    assert (report.first_bad, report.verified_ticks, report.status) == (None, 41, "corrupt")
    (problem,) = report.problems
    assert "the keyframes of ticks 10, 20, 30, 40 do not give the recorded hash" in str(problem)
    assert run(replayer.commands.main.main, VERIFY + "Unmarked") == 4
    assert 'changes="audit"' in capsys.readouterr().out


class Coin:
    """Throws a coin that is not recorded."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "i8")))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state["x"][()] += random.SystemRandom().randint(0, 1)


@pytest.mark.seldom(0.18)
def test_a_step_that_is_not_deterministic_is_called_that(path: Path) -> None:
    """The two hashes of a desync always differ, and the note states that a second run gave different hashes."""
    record(path, Coin(), [None] * 60, keyframe_interval_ticks=30)
    for _ in range(5):
        report = verify_tape(path, Coin)
        (finding,) = report.findings
        assert finding.expected_hash != finding.actual_hash
        assert "the same interval, run again, gave different hashes" in str(finding.note)
    with replayer.Timeline(path, Coin) as run, pytest.raises(DesyncError) as caught:
        deque(map(run.seek, range(1, 60)), maxlen=0)  # A coin may fall as it fell; not so often.
    assert caught.value.expected_hash != caught.value.actual_hash


# --- simulations that fail


class Failing(Walkers):
    """Raises at tick 21."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["rng"][2] == 21 * 40:
            raise ValueError("boom")


class Forgetful(Walkers):
    """Forgets its inputs."""

    def step(self) -> None:  # type: ignore[override]
        pass


class OtherSaved(Saved):
    """Saves its state with different names."""

    def save(self) -> dict[str, Any]:
        return {f"my_{name}": value for name, value in super().save().items()}


class Refusing(Saved):
    """Refuses to load its own saves."""

    def load(self, saved: dict[str, Any]) -> None:
        raise KeyError(min(saved))


@pytest.mark.parametrize("command", ["verify run.tape", "seek run.tape --tick 25"])
@pytest.mark.parametrize(
    ("recorded", "name", "line"),
    [
        (
            Walkers,
            "Forgetful",
            "the step raised TypeError: Forgetful.step() takes 1 positional argument but 2 were given",
        ),
        (
            Saved,
            "OtherSaved",
            "the simulation has different fields than the tape: grid: expected by the tape, missing in the simulation",
        ),
        (Saved, "Refusing", "load raised KeyError: 'grid' (test_verify_losses.py:"),
    ],
)
def test_what_a_simulation_raises_is_one_line(
    path: Path, capsys: pytest.CaptureFixture[str], command: str, recorded: Any, name: str, line: str
) -> None:
    """Exit code 2: the user's simulation does not fit."""
    record(path, recorded(), [[]] * 30 if recorded is Walkers else list(range(30)), keyframe_interval_ticks=10)
    assert run(replayer.commands.main.main, f"{command} --sim test_verify_losses:{name}") == 2
    assert_one_line(capsys.readouterr(), line)


def test_a_step_that_raises_in_the_replay_alone_is_a_desync(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind ticks that have the recorded states: the simulation fits, and the recorded step did not raise."""
    record(path, Walkers(), [[]] * 30, keyframe_interval_ticks=10)
    line = "the step raised ValueError: boom (test_verify_losses.py:"
    for jobs in (1, 2):
        assert run(replayer.commands.main.main, f"verify run.tape -j {jobs} --sim test_verify_losses:Failing") == 1
        printed = capsys.readouterr().out
        assert printed.startswith("run.tape: DESYNC at tick 21; ")
        assert line in printed
    assert run(replayer.commands.main.main, "verify run.tape --json --sim test_verify_losses:Failing") == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["ok"], facts["first_bad"], facts["raised"].startswith(line)) == (False, 21, True)
    assert run(replayer.commands.main.main, "seek run.tape --tick 25 --sim test_verify_losses:Failing") == 2
    assert_one_line(capsys.readouterr(), f"tick 21: {line}")


def test_in_python_the_cause_is_chained(path: Path) -> None:
    """seek, verify and resume raise the same RecordingError."""
    record(path, Walkers(), [[]] * 30, keyframe_interval_ticks=40)
    with replayer.Timeline(path, Failing) as run, pytest.raises(SimulationFailedError) as caught:
        run.seek(25)
    assert caught.value.tick == 21
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(SimulationFailedError) as caught:
        verify_tape(path, Failing)
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(SimulationFailedError, match="tick 21: the step raised ValueError: boom"):
        recorder.resume(path, Failing())


def test_a_simulation_that_cannot_be_made(path: Path) -> None:
    """The exception of its constructor is printed in one line."""

    def broken() -> None:
        raise ZeroDivisionError("no seed")

    record(path, Walkers(), [[]] * 3)
    with pytest.raises(UnfitSimulationError, match="making the simulation raised ZeroDivisionError: no seed"):
        verify_tape(path, broken)
