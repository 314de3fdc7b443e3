"""Python processes with different environment variables, a different hash seed or a different interpreter.

A process has one task and prints the result on stdout. If it fails, the last line on stderr gives the reason.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import attrs

from recorder.processes.lifetimes.descendants import kill_with_descendants
from recorder.processes.lifetimes.parent_death import end_with_parent

_LOOK_S = 0.5  # So often it is asked whether a process has ended whose pipes are still open.

PythonProcess = subprocess.Popen[bytes]
_taken = list[str]()  # The words after the name of this program, once they were taken from sys.argv.


@attrs.frozen
class Finished:
    """The end of a process.

    Attributes:
        exit_code: its own, or minus the signal that killed it.
        output: what it wrote to stdout.
        last_words: the last line that is not blank on stderr; "" if there is none.
    """

    exit_code: int
    output: bytes
    last_words: str


def start_python(
    program: Sequence[str],
    *,
    interpreter: str = sys.executable,
    environment: Mapping[str, str | None] | None = None,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    is_own_session: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> PythonProcess:
    """Start an interpreter. program: its arguments, see module_program.

    environment: changes to the variables of this process: a value to set, or None to unset. stdin, stdout, stderr: file
    descriptors or constants of subprocess. is_own_session: True keeps the terminal's Ctrl-C from it. folder: its current
    folder; None for that of this process. Raises OSError.
    """
    variables = dict(os.environ)
    for name, value in (environment or {}).items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    return subprocess.Popen(  # noqa: S603 - our own program; the interpreter is the user's choice
        [interpreter, *program],
        env=variables,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=is_own_session,
        cwd=folder,
    )


def module_program(module: str, arguments: Iterable[str] = ()) -> list[str]:
    """Return the arguments that run a module.

    -P keeps the current folder off the module path: a user's file there may have the name of a module.
    """
    return ["-P", "-m", module, *arguments]


def with_module_path() -> dict[str, str | None]:
    """The environment variables by which a process finds the modules that this one finds."""
    return {"PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}


def finish(process: PythonProcess, stdin_bytes: bytes | None = None) -> Finished:
    """Write stdin_bytes to a process and wait until it has ended. An interrupt of the wait kills it.

    What it may have left running is not waited for, though that can hold the pipes open.
    """
    with process:
        try:
            output, errors = _communicate(process, stdin_bytes)
        except BaseException:
            end_all([process])
            raise
    return Finished(process.returncode, output or b"", last_line(errors or b""))


def _communicate(process: PythonProcess, stdin_bytes: bytes | None) -> tuple[bytes | None, bytes | None]:
    has_ended = False
    while True:
        try:
            return process.communicate(stdin_bytes, timeout=_LOOK_S)
        except subprocess.TimeoutExpired as late:
            if has_ended:
                return late.output, late.stderr
            has_ended, stdin_bytes = process.poll() is not None, None


def lines_of(process: PythonProcess) -> Iterator[bytes]:
    """The lines that a process prints, as they come, until it has ended. What it may have left running is not waited for."""
    assert process.stdout is not None
    pipe, read, has_ended = process.stdout.fileno(), b"", False
    poll = select.poll()
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    while True:
        if not poll.poll(_LOOK_S * 1000):
            if has_ended:
                return
            has_ended = process.poll() is not None
            continue
        part = os.read(pipe, 1 << 16)
        if not part:
            yield from [read] if read else []
            return
        *lines, read = (read + part).split(b"\n")
        yield from lines


def last_line(text: bytes) -> str:
    """Return the last line that is not blank; "" if there is none."""
    lines = [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def end_all(processes: Iterable[PythonProcess], patience_s: float = 0.0) -> None:
    """End processes and wait for them. patience_s: the time they get to end after an interrupt; 0 kills at once."""
    running = [process for process in processes if process.poll() is None]
    deadline_s = time.monotonic() + patience_s
    if patience_s > 0:
        for process in running:
            process.send_signal(signal.SIGINT)
    for process in running:
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            kill_with_descendants(process)
            process.wait()


def begin_as_python() -> None:
    """Let this process end with the one that started it; the first call in a process of start_python."""
    end_with_parent(os.getppid())


def take_arguments() -> list[str]:
    """The words after the name of this program of ours. sys.argv has none of them from now on.

    A simulation that looks for an option of its own there, as it is imported or in a step, would find those of this program.
    """
    _taken[:] = sys.argv[1:]
    del sys.argv[1:]
    return list(_taken)


def command_words() -> list[str]:
    """The words after the name of this program, also after they were taken."""
    return list(_taken) or sys.argv[1:]


def answer_alone_on_stdout() -> BinaryIO:
    """Return stdout for the answer of this process; what a simulation prints from now on goes to stderr."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answer
