"""A recording verified while it is made: a hidden defect is reported with the keyframe after it, and nothing is harmed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
from recorder.exit_codes import DIFFERS, INCOMPLETE, SAME, UNREADABLE, USAGE
from replayer.commands.main import main
from replayer.timeline.live_verify import IntervalCheck, LiveVerifier
from sim import Field, Schema, State

from project_paths import ROOT

INTERVAL = 10


class Leaky:
    """Counts its steps outside the state, and reads that count from some tick on."""

    def __init__(self, reads_from: int = 0) -> None:
        self.state = State(Schema(Field("steps", "i8"), Field("value", "i8")))
        self.reads_from, self.hidden = reads_from, 0

    def step(self, inputs: Any) -> None:
        """Count, and read the hidden count late."""
        self.hidden += 1
        self.state["steps"][...] += 1
        self.state["value"][...] += inputs
        if self.reads_from and self.state["steps"] >= self.reads_from:
            self.state["value"][...] += self.hidden


def leaky() -> Leaky:
    """A simulation that reads its hidden count from tick 25 on."""
    return Leaky(25)


class Fragile(Leaky):
    """Raises from a tick on if this process has not seen its first step: a verification begins later."""

    seen = False

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["steps"] == 1:
            type(self).seen = True
        if self.state["steps"] >= 25 and not type(self).seen:
            raise RuntimeError("not seen")


def checks(verifier: LiveVerifier) -> list[tuple[int, int, int | None]]:
    """The intervals that are new: first and last tick, and the first divergent one."""
    return [
        (one.first_tick, one.last_tick, one.finding.tick if one.finding is not None else None)
        for one in verifier.poll()
        if well(one)
    ]


def well(check: IntervalCheck) -> bool:
    """Fail if ticks could not be compared."""
    assert check.problem is None
    return True


@pytest.mark.seldom(0.15)
def test_a_hidden_defect_is_reported_with_the_keyframe_after_it(tmp_path: Path) -> None:
    """Tick 25 reads what no state has: interval 20 to 30 says so when tick 30 is recorded, and none before does."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, leaky(), keyframe_interval_ticks=INTERVAL, trial_ms=0) as tape:
        tape.flush()
        with LiveVerifier(path, leaky) as verifier:
            found = []
            for tick in range(1, 31):
                tape.step(1)
                tape.flush()
                found += [(tick, *one) for one in checks(verifier)]
            assert found == [(10, 0, 10, None), (20, 10, 20, None), (30, 20, 30, 25)]


def test_a_sound_run_is_followed_to_its_end(tmp_path: Path) -> None:
    """The ticks after the last keyframe are verified once the recording is closed; also if the tape grew by a resume."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Leaky(), keyframe_interval_ticks=INTERVAL, trial_ms=0) as tape:
        for _ in range(13):
            tape.step(1)
        tape.flush()
        with LiveVerifier(path, Leaky) as verifier:
            assert checks(verifier) == [(0, 10, None)]
            assert checks(verifier) == []
            for _ in range(10):
                tape.step(2)
            tape.close()
            assert not verifier.is_over
            assert checks(verifier) == [(10, 20, None), (20, 23, None)]
            assert verifier.is_over
            assert checks(verifier) == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each interval, or JSON; the exit code says whether all match and whether it was the end."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, leaky(), keyframe_interval_ticks=INTERVAL, trial_ms=0) as tape:
        for _ in range(24):
            tape.step(1)
        tape.flush()
        assert status(["follow", str(path), "--no-wait", "--sim", f"{__name__}:leaky"]) == INCOMPLETE
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition(":")[0] for line in lines] == ["ticks 0 to 10", "ticks 10 to 20", "ticks 20 to 24"]
        for _ in range(24):
            tape.step(1)
    assert status(["follow", str(path), "--json", "--sim", f"{__name__}:leaky"]) == DIFFERS
    facts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["ok"], one["first_bad"], one["last_tick"]) for one in facts] == [
        (True, None, 10),
        (True, None, 20),
        (False, 25, 30),
    ]
    assert facts[-1]["fields"] == ["value"]
    assert facts[-1]["head_tick"] == 48
    with recorder.Recorder(tmp_path / "good.tape", Leaky(), keyframe_interval_ticks=INTERVAL) as tape:
        tape.step(1)
    assert status(["follow", str(tmp_path / "good.tape"), "--sim", f"{__name__}:Leaky"]) == SAME


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each."""
    (tmp_path / "text.tape").write_text("not a tape" * 100)
    assert status(["follow", str(tmp_path / "none.tape")]) == USAGE
    assert status(["follow", str(tmp_path / "text.tape")]) == UNREADABLE
    assert capsys.readouterr().err.count("\n") == 2


def status(words: list[str]) -> int:
    """Run a command line and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


@pytest.mark.seldom(0.15)
def test_a_follower_that_is_killed_leaves_the_recording_as_it_is(tmp_path: Path) -> None:
    """Byte for byte that of a run that no one followed."""

    def record(path: Path, follower: bool) -> bytes:  # noqa: FBT001 - of this test alone
        process = None
        with recorder.Recorder(path, Leaky(), keyframe_interval_ticks=INTERVAL, deterministic=True, trial_ms=0) as tape:
            for tick in range(200):
                tape.step(tick % 3)
                if tick == 50 and follower:
                    tape.flush()
                    process = followed(path)
        if process is not None:
            process.wait()
        return path.read_bytes()

    def followed(path: Path) -> subprocess.Popen[str]:
        """A follower that is killed once it has verified an interval."""
        process = subprocess.Popen(
            [sys.executable, "-m", "replayer", "follow", str(path), "--sim", f"{Path(__file__).stem}:Leaky"],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(ROOT / "tests/support")]),
            },
        )
        assert process.stdout is not None
        assert "all match" in process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.stdout.close()
        return process

    plain = record(tmp_path / "plain.tape", follower=False)
    flushed = record(tmp_path / "followed.tape", follower=True)
    with recorder.Recorder(
        tmp_path / "alone.tape", Leaky(), keyframe_interval_ticks=INTERVAL, deterministic=True, trial_ms=0
    ) as tape:
        for tick in range(200):
            tape.step(tick % 3)
            if tick == 50:
                tape.flush()
    assert flushed == (tmp_path / "alone.tape").read_bytes()
    assert len(plain) <= len(flushed)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_step_that_raises_only_in_the_replay_is_a_desync(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As replay verify says it, with one line."""
    path = tmp_path / "run.tape"
    with recorder.Recorder(path, Fragile(), keyframe_interval_ticks=INTERVAL, trial_ms=0) as tape:
        for _ in range(40):
            tape.step(1)
    Fragile.seen = False
    with pytest.raises(SystemExit) as ended:
        main(["follow", str(path), "--sim", f"{__name__}:Fragile", *options])
    assert ended.value.code == DIFFERS
    last = capsys.readouterr().out.splitlines()[-1]
    if options:
        assert json.loads(last)["first_bad"] == 25
    else:
        assert last.startswith("DESYNC at tick 25: the step raised RuntimeError: not seen")
        assert last.endswith("; when it was recorded, it did not raise")
