"""A forked child and its parent's tape: the child is refused, the parent is not affected."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

import recorder
from recorder import ForkedRecorderError, Recorder
from recorder.storage.file_names import journal_path
from recorder.storage.open_tape import is_locked
from recorder.storage.tape_files import TapeFiles
from replayer import Tape
from replayer.timeline.verify import verify_tape

from project_paths import SUPPORT
from small_worlds import Walkers


def in_child(act: Callable[[], Any]) -> Any:
    """Return the result of act, or the text of its exception, from a forked child that ends without cleaning up."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking while other threads run.
        child = os.fork()
    if child == 0:
        try:
            found = act()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the parent looks at it
            found = repr(error)
        os.write(theirs, repr(found).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        found = ast.literal_eval(pipe.read())
    os.waitpid(child, 0)
    return found


@pytest.fixture
def tape(tmp_path: Path) -> Any:
    """A recording under way."""
    with Recorder(tmp_path / "run.tape", Walkers(), keyframe_interval_ticks=5) as tape:
        for tick in range(1, 13):
            tape.step([[tick, tick]])
        yield tape


def files_of(tape: Recorder) -> dict[str, bytes]:
    """Return all files in the tape's folder after everything recorded is written."""
    tape.flush()
    return {path.name: path.read_bytes() for path in Path(tape.path).parent.iterdir()}


@pytest.mark.parametrize(
    "use",
    [
        lambda tape: tape.step([]),
        lambda tape: tape.flush(),
        lambda tape: tape.write_out(f"{tape.path}.out"),
    ],
    ids=["step", "flush", "write_out"],
)
def test_a_child_cannot_record(tape: Recorder, use: Any) -> None:
    """The error names the process that owns the recorder; the child's simulation is not stepped."""
    before = files_of(tape)

    def try_it() -> Any:
        state_hash = tape.simulation.state.hash()
        try:
            use(tape)
        except ForkedRecorderError as error:
            return error.owner, str(error), tape.simulation.state.hash() == state_hash
        return None

    owner = os.getpid()
    text = f"this recorder belongs to process {owner}: a forked child cannot write its tape"
    assert in_child(try_it) == (owner, text, True)
    assert files_of(tape) == before


def test_a_childs_close_does_nothing(tape: Recorder) -> None:
    """Leaving its with block does nothing either, with an exception or without; the parent continues and seals."""
    before = files_of(tape)

    def leave() -> Any:
        tape.close()
        tape.__exit__(None, None, None)
        tape.__exit__(KeyError, KeyError("x"), None)
        return "left"

    assert in_child(leave) == "left"
    assert files_of(tape) == before
    for tick in range(13, 31):
        tape.step([[tick % 20, tick]])
    tape.close({"reason": "parent"})
    with Tape(tape.path) as finished:
        assert (finished.status, finished.outcome, finished.last_tick) == ("not checked", {"reason": "parent"}, 30)
    assert verify_tape(tape.path, Walkers).ok


def test_a_childs_child_cannot_either(tape: Recorder) -> None:
    """At any depth of forks."""

    def try_it() -> Any:
        try:
            tape.step()
        except ForkedRecorderError as error:
            return error.owner
        return None

    assert in_child(lambda: in_child(try_it)) == os.getpid()


def test_a_child_that_ends_as_usual_leaves_the_tape_alone(tmp_path: Path) -> None:
    """Python's normal end of a process writes no seal, prints no warning and removes no journal."""
    program = """
import os, sys, warnings
import recorder
from small_worlds import Walkers
warnings.simplefilter("error", ResourceWarning)
tape = recorder.Recorder(sys.argv[1], Walkers())
tape.step()
tape.flush()
if os.fork() == 0:
    sys.exit(0)  # As in a child of code that knows nothing of the recorder.
os.wait()
assert os.path.exists(sys.argv[1] + ".journal")
assert os.path.getsize(sys.argv[1]) == tape.statistics().writer.written_bytes
tape.step()
tape.close()
"""
    path = tmp_path / "run.tape"
    finished = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, path],
        cwd=SUPPORT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    assert verify_tape(path, Walkers).verified_ticks == 3
    assert not journal_path(path).exists()


def test_a_child_that_outlives_its_parent_does_not_hold_the_tape(tmp_path: Path) -> None:
    """The lock ends with the recording process: after a kill its tape can be resumed while the child still lives."""
    program = """
import os, signal, sys
import recorder
from small_worlds import Walkers
tape = recorder.Recorder(sys.argv[1], Walkers())
for _ in range(7):
    tape.step()
child = os.fork()
if child == 0:
    signal.pause()
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "run.tape"
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, path], cwd=SUPPORT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process.stdout:
        child = int(process.stdout.readline())
    process.wait()
    try:
        os.kill(child, 0)  # The child lives.
        wait_until(lambda: not is_locked(path), 10)  # The child releases the files when it first runs.
        with recorder.resume(path, Walkers()) as tape:
            assert tape.tick == 7
            tape.step()
        os.kill(child, 0)
    finally:
        os.kill(child, 9)
    assert verify_tape(path, Walkers).verified_ticks == 9


def test_a_child_may_record_a_tape_of_its_own(tape: Recorder, tmp_path: Path) -> None:
    """Only the parent's tape is refused, not recording."""

    def record_own() -> Any:
        with Recorder(tmp_path / "child.tape", Walkers()) as own:
            own.step()
            own.step()
        return "recorded"

    assert in_child(record_own) == "recorded"
    assert verify_tape(tmp_path / "child.tape", Walkers).ok
    assert tape.step() is None
    with pytest.raises(BlockingIOError):
        recorder.resume(tape.path, Walkers())


def test_a_child_leaves_a_file_that_its_parent_is_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked while the next segment has no name yet: the parent names it, and nothing is written twice."""
    making, go_on = threading.Event(), threading.Event()
    create = TapeFiles.create

    def slowly(self: TapeFiles, segment: int) -> Any:
        io = create(self, segment)
        if segment:
            making.set()
            assert go_on.wait(20)
        return io

    monkeypatch.setattr(TapeFiles, "create", slowly)
    with Recorder(tmp_path / "run.tape", Walkers(), keyframe_interval_ticks=5, split=500, on_error="raise") as tape:
        while not making.wait(0.005):
            tape.step([[1, 1]])
        assert in_child(lambda: sorted(path.suffix for path in tmp_path.glob("*.new"))) == [".new"]
        go_on.set()
        for _ in range(10):
            tape.step([[1, 1]])
        tape.flush()
    with Tape(tmp_path / "run.tape") as finished:
        assert finished.status == "not checked"
