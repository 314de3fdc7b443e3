"""Other Python processes: for other environment variables, another hash seed or another interpreter than this one's.

A process has one thing to do and says the result on its stdout. What its last line on stderr says is why it died.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

import attrs

from recorder.processes.parent_death import end_with_parent

PythonProcess = subprocess.Popen[bytes]


@attrs.frozen
class Finished:
    """The end of a process.

    Attributes:
        exit_code: its own, or minus the signal that killed it.
        output: what it wrote to stdout.
        last_words: the last line that it wrote to stderr; "" if there is none.
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
) -> PythonProcess:
    """Start an interpreter: program is what follows it on the command line, see module_program.

    environment: variables to set, or to unset (None), among those of this process. stdin, stdout, stderr: descriptors, or
    as for subprocess. is_own_session: Ctrl-C of the terminal does not reach it. Raises OSError.
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
    )


def module_program(module: str, arguments: Iterable[str] = ()) -> list[str]:
    """The command line of a module that is run.

    -P: Python would put the present folder in front of all others, where a user's file may have the name of a module.
    """
    return ["-P", "-m", module, *arguments]


def finish(process: PythonProcess, given: bytes | None = None) -> Finished:
    """Give it that on stdin, and wait until it has ended. If this is interrupted, it is killed."""
    with process:
        try:
            output, complaints = process.communicate(given)
        except BaseException:
            end_all([process])
            raise
    return Finished(process.returncode, output or b"", last_line(complaints or b""))


def last_line(complaints: bytes) -> str:
    """The last line that says something; "" if there is none."""
    lines = [line for line in complaints.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def end_all(processes: Iterable[PythonProcess], patience_s: float = 0.0) -> None:
    """End processes and wait for them. patience_s: how long those that are interrupted may take to end by themselves."""
    running = [process for process in processes if process.poll() is None]
    deadline_s = time.monotonic() + patience_s
    if patience_s > 0:
        for process in running:
            process.send_signal(signal.SIGINT)
    for process in running:
        try:
            process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def begin_as_python() -> None:
    """The first thing that a process of start_python does: from here on it ends with the process that started it."""
    end_with_parent(os.getppid())
