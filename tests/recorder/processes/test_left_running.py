"""A process that has ended is not waited for because what it left running holds its pipes open."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.processes.interpreter import finish, lines_of, start_python

# A copy of the process stays, with its pipes, until it is ended.
PROGRAM = """
import os, signal, sys
told = sys.stdin.readline()
child = os.fork()
if child == 0:
    signal.pause()
open(sys.argv[1], "w").write(str(child))
print("one", told, end="")
print("two", flush=True)
print("why", file=sys.stderr, flush=True)
os._exit(3)
"""


@pytest.fixture
def note(tmp_path: Path) -> Iterator[Path]:
    """The file to which the program writes the process that it leaves running."""
    yield tmp_path / "child"
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_what_it_printed_is_returned(note: Path) -> None:
    finished = finish(start_python(["-c", PROGRAM, str(note)]), b"x\n")
    assert (finished.exit_code, finished.output, finished.last_words) == (3, b"one x\ntwo\n", "why")


def test_its_lines_end(note: Path) -> None:
    process = start_python(["-c", PROGRAM, str(note)])
    with process:
        assert process.stdin is not None
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert list(lines_of(process)) == [b"one x", b"two"]
        assert process.wait() == 3


def test_lines_come_as_they_are_printed() -> None:
    program = "print('one', flush=True); input(); print('two'); print('three', end='')"
    with start_python(["-c", program]) as process:
        lines = lines_of(process)
        assert next(lines) == b"one"
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert list(lines) == [b"two", b"three"]
