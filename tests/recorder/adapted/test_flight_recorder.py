"""A flight recorder: the last ticks are on a tape after an exception, a signal, a kill; and nothing if all went well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from failing_worlds import Levers, Robot, Till

import replayer
from recorder import FlightRecorder, RecordingWarning

from project_paths import SUPPORT

RING: dict[str, Any] = {"trial_ms": 0, "keyframe_interval_ticks": 5}


def names(folder: Path) -> list[str]:
    """The files in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_a_run_without_an_incident_leaves_nothing(tmp_path: Path) -> None:
    """The ring is a file while the run lasts."""
    with FlightRecorder(tmp_path / "crash.tape", keep=20) as flight:
        tape = flight.record(Levers(), **RING)
        for tick in range(100):
            tape.step(tick)
        assert "crash.ring.tape" in names(tmp_path)
    assert names(tmp_path) == []
    with pytest.raises(SystemExit):
        leave(tmp_path / "crash.tape")
    assert names(tmp_path) == []


def leave(path: Path) -> None:
    """End the program in a ring, as programs do that are done."""
    with FlightRecorder(path, keep=20) as flight:
        flight.record(Levers(), **RING).step(1)
        sys.exit(0)


def fly(path: Path, simulation: Any, inputs: list[Any]) -> None:
    """Record in a ring of 20 ticks until a step raises."""
    with FlightRecorder(path, keep=20) as flight:
        tape = flight.record(simulation, **RING)
        for one in inputs:
            tape.step(one)
        assert tape.tick < 60, "too long"


def test_an_exception_and_a_failed_assertion_are_written_out(tmp_path: Path) -> None:
    """With the inputs of the step that raised; the note of the exception has the command that opens the last tick."""
    path = tmp_path / "crash.tape"
    with pytest.raises(KeyError) as raised:
        fly(path, Till(), [[["sell", 1]]] * 50 + [[["lock", 0]], [["sell", 7]], [["sell", 1]]])
    with pytest.raises(AssertionError) as failed:
        fly(path, Till(), [[["sell", 1]]] * 70)

    assert names(tmp_path) == ["crash-2.tape", "crash.tape"]
    (note,) = raised.value.__notes__
    assert note.startswith(f"{path} has the last ")
    assert note.endswith(f" ticks: replay seek {path} --tick 51 --sim failing_worlds:Till")
    with replayer.open(path, Till) as run:
        assert run.verify().ok
        assert 30 >= run.last_tick - run.first_tick >= 20
        assert (run.last_tick, run.tape.outcome["step"]) == (51, {"tick": 52, "inputs": [["sell", 7]]})
        assert int(run[-1]["cash"]) == 100
    assert "--tick 70" in failed.value.__notes__[-1]
    with replayer.open(tmp_path / "crash-2.tape", Till) as run:
        assert run.tape.outcome["exception"].startswith("AssertionError: too long")
        assert run.last_tick == 70


def test_an_object_and_a_tape_written_out_by_hand(tmp_path: Path) -> None:
    """The object is used as before; what was written out stays, and the run continues."""
    with FlightRecorder(tmp_path / "crash.tape", keep=20) as flight:
        robot = flight.record(Robot(), step="push", **RING)
        for _ in range(30):
            robot.push("right")
        flight.write_out({"reason": "odd"})
        robot.push("right")
        with pytest.raises(ValueError, match="a simulation already"):
            flight.record(Robot())
    assert names(tmp_path) == ["crash.tape"]
    assert flight.written == [tmp_path / "crash.tape"]
    with replayer.open(tmp_path / "crash.tape", Robot) as run:
        assert run.verify().ok
        assert (run.last_tick, run.tape.outcome) == (30, {"reason": "odd"})
    with pytest.raises(ValueError, match="no simulation yet"):
        FlightRecorder(tmp_path / "other.tape").write_out()


def test_after_a_signal_the_run_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGUSR1 writes out, also during a step; the handler before it is there again at the end."""
    before = signal.getsignal(signal.SIGUSR1)

    class Signalled(Levers):
        def step(self, inputs: Any) -> None:
            super().step(inputs)
            if inputs == 40:
                os.kill(os.getpid(), signal.SIGUSR1)

    with FlightRecorder(tmp_path / "crash.tape", keep=20, signals=[signal.SIGUSR1]) as flight:
        tape = flight.record(Signalled(), **RING)
        for tick in range(1, 60):
            tape.step(tick)
        assert tape.tick == 59
    assert signal.getsignal(signal.SIGUSR1) is before
    assert names(tmp_path) == ["crash.tape"]
    printed = capsys.readouterr().err
    with replayer.open(tmp_path / "crash.tape", Levers) as run:
        assert run.verify().ok
        assert (run.last_tick, run.tape.outcome) == (39, {"reason": "written out", "signal": "SIGUSR1"})
        ticks = run.last_tick - run.first_tick  # At least 20: the writer removes older ones now and then.
    assert ticks >= 20
    assert printed.startswith(f"SIGUSR1: {tmp_path}/crash.tape has the last {ticks} ticks: replay seek ")


PROGRAM = """
import os, signal, sys
from failing_worlds import Levers
from recorder import FlightRecorder

class Hangs(Levers):
    def step(self, inputs):
        super().step(inputs)
        if inputs == 40:
            os.kill(os.getpid(), int(sys.argv[1]))
            while True:
                pass

with FlightRecorder("crash.tape", keep=20, signals=[signal.SIGTERM]) as flight:
    tape = flight.record(Hangs(), trial_ms=0, keyframe_interval_ticks=5)
    for tick in range(1, 60):
        tape.step(tick)
"""


@pytest.mark.parametrize(("number", "left"), [(15, "crash.tape"), (9, "crash.ring.tape")])
def test_a_step_that_hangs_until_the_process_is_ended(tmp_path: Path, number: int, left: str) -> None:
    """SIGTERM writes out and ends the process as it would have; after a kill the ring itself is there."""
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(number)], cwd=tmp_path, env=environment, timeout=60, check=False
    )
    assert finished.returncode == -number
    with replayer.Tape(tmp_path / left) as tape:
        assert tape.last_tick == 39
        assert tape.first_tick <= 20
    if number == 9:
        with pytest.warns(RecordingWarning, match="is left of a run that was killed"):
            fly(tmp_path / "crash.tape", Levers(), [1, 2])
        assert "crash.ring.tape" in names(tmp_path)
        assert "crash.ring-2.tape" not in names(tmp_path)


FORKING = """
import os, signal
from failing_worlds import Levers
from recorder import FlightRecorder

with FlightRecorder("crash.tape", keep=20, signals=[signal.SIGTERM]) as flight:
    tape = flight.record(Levers(), trial_ms=0, keyframe_interval_ticks=5)
    for tick in range(1, 60):
        tape.step(tick)
        if tick == 30 and not os.fork():
            raise ValueError("in the child")
        if tick == 40 and not (child := os.fork()):
            os.kill(os.getpid(), signal.SIGTERM)
    codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)]
    assert sorted(codes) == [-15, 1], codes
    assert flight.write_out().exists()
"""


def test_a_forked_child_does_not_touch_the_ring(tmp_path: Path) -> None:
    """Neither by an exception nor by a signal: the ring is its parent's."""
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    command = [sys.executable, "-c", FORKING]
    finished = subprocess.run(
        command, cwd=tmp_path, env=environment, timeout=60, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert "in the child" in finished.stderr
    assert names(tmp_path) == ["crash.tape"]
    with replayer.open(tmp_path / "crash.tape", Levers) as run:
        assert run.last_tick == 59
