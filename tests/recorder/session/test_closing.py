"""The end of a recording: an exception with any text, an interrupt during close, a full disk."""

from __future__ import annotations

import errno
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recorder import Recorder, RecordingWarning, WriterFailedError, resume
from recorder.storage.tape_files import TapeFile
from replayer import Tape
from sim import Field, Schema, State

from project_paths import SUPPORT
from small_worlds import Walkers

pytestmark = pytest.mark.share(0.18)


class UnspeakableError(Exception):
    """An exception whose text cannot be computed."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("bad \udcff name"), "RuntimeError: bad ? name"),
        (RuntimeError("x" * (1 << 20)), f"RuntimeError: {'x' * 3986}… (1,048,590 characters)"),
        (UnspeakableError(), "UnspeakableError: its text cannot be had (RuntimeError)"),
    ],
    ids=["surrogate", "long", "unspeakable"],
)
def test_an_exception_with_any_text_seals_the_tape(tmp_path: Path, error: Exception, text: str) -> None:
    """The exception leaves the with block unchanged, and the tape records its text as far as possible."""
    path = tmp_path / "run.tape"
    tape = Recorder(path, Walkers())
    tape.step([])
    with pytest.raises(type(error)) as caught, tape:
        raise error
    assert caught.value is error
    with Tape(path) as read:
        assert read.status == "not checked"
        assert read.outcome == {"reason": "exception", "exception": text}


class Scattered:
    """A state that does not compress."""

    def __init__(self, n: int) -> None:
        self.state = State(Schema(Field("x", "i8", (n,))))
        self.state["x"][:] = np.random.default_rng(0).integers(0, 2**62, n)

    def step(self, inputs: Any) -> None:
        """Do nothing."""


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limit each file of this process to size bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("settings", [{}, {"keep": 10}, {"on_error": "raise"}], ids=str)
def test_a_tape_that_cannot_be_begun_leaves_nothing(tmp_path: Path, settings: dict[str, Any]) -> None:
    """If the first keyframe cannot be written, the error names the tape, and no file is left."""
    path = tmp_path / "run.tape"
    with files_of_at_most(3000), pytest.raises(WriterFailedError, match=r"run\.tape: .*File too large"):
        Recorder(path, Scattered(5000), **settings)
    with files_of_at_most(100), pytest.raises(OSError, match=r"run\.tape"):
        Recorder(path, Scattered(5000), **settings)
    assert list(tmp_path.iterdir()) == []
    with Recorder(path, Scattered(5000), **settings) as tape:
        tape.step()
    with Tape(path) as read:
        assert read.status == "not checked"


def test_a_recording_continues_without_room_for_its_journal(tmp_path: Path) -> None:
    """The warning names the journal and its size; with on_error="raise" the error does."""
    path = tmp_path / "run.tape"
    with files_of_at_most(1 << 20):
        tape = Recorder(path, Walkers())
        with pytest.warns(RecordingWarning, match=r"it needs 2,097,216 bytes: '.*run\.tape\.journal'"):
            tape.step([])
        assert [file.name for file in tmp_path.iterdir()] == ["run.tape"]
        with pytest.raises(OSError, match=r"it needs 2,097,216 bytes: '.*other\.tape\.journal'"):
            Recorder(tmp_path / "other.tape", Walkers(), on_error="raise")
        tape.close()
    with Tape(path) as read:
        assert (read.status, read.last_tick) == ("not checked", 1)
    assert [file.name for file in tmp_path.iterdir()] == ["run.tape"]


INTERRUPTED = """
import linecache, os, signal, sys, threading
from recorder import Recorder
from recorder.storage.tape_files import TapeFile
from small_worlds import Walkers
fdatasync, is_syncing, is_released = TapeFile.fdatasync, threading.Event(), threading.Event()
is_interrupted = threading.Event()
def held(self):
    is_syncing.set()
    is_released.wait()
    fdatasync(self)
def interrupt():
    is_syncing.wait()
    while not is_interrupted.wait(0.01):  # One that arrives just before the wait does not end it.
        os.kill(os.getpid(), signal.SIGINT)
def interrupted(number, frame):
    # Python's own wait loses its lock if it is interrupted in the lines before this one.
    if linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() == "waiter.acquire()" and not is_interrupted.is_set():
        is_interrupted.set()
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupted)
tape = Recorder(sys.argv[1], Walkers(), durability=sys.argv[2])
for tick in range(50):
    tape.step([[1, 1]])
tape.flush()
TapeFile.fdatasync = held
threading.Thread(target=interrupt).start()
try:
    tape.close({"reason": "first"})
    sys.exit("not interrupted")
except KeyboardInterrupt:
    is_released.set()
try:
    tape.step([])
    sys.exit("not closed")
except ValueError:
    pass
if sys.argv[3] == "again":
    tape.close()
    tape.close()
    assert not tape._writer._thread.is_alive()
    assert not os.path.exists(sys.argv[1] + ".journal")
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("durability", ["tick", "block"])
@pytest.mark.parametrize("then", ["again", "exit"])
def test_an_interrupted_close_can_be_ended(tmp_path: Path, durability: str, then: str) -> None:
    """A second close waits for the writer, and so does the end of the program; the tape is sealed then."""
    path = tmp_path / "run.tape"
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED, path, durability, then],
        cwd=SUPPORT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    with Tape(path) as read:
        assert (read.status, read.outcome, read.last_tick) == ("not checked", {"reason": "first"}, 50)


def test_a_full_disk_at_the_end_is_reported_as_a_missing_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ticks are in the file and only the seal is missing: the message does not ask to record again."""
    monkeypatch.setattr("recorder.writer.retries.RETRY_S", (0.0, 0.0))
    path = tmp_path / "run.tape"
    tape = Recorder(path, Walkers())
    for _ in range(900):
        tape.step([])
    tape.flush()
    message = r"run\.tape: .*No space.*; all 900 ticks are on the tape, which is not sealed: make room and resume it$"
    with monkeypatch.context() as patched:
        patched.setattr(TapeFile, "append", no_space)
        with pytest.raises(WriterFailedError, match=message):
            tape.close()
    with resume(path, Walkers()) as tape:
        assert (tape.tick, tape.resumed.journal_ticks) == (900, 0)
    with Tape(path) as read:
        assert (read.status, read.last_tick) == ("not checked", 900)


def no_space(*_: Any) -> None:
    """Raise the error of a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")
