"""The page beside a recording, for ``record run --live``: ``replay view --live`` as a process of its own.

The recorder does not import the replayer. The page reads the files of the tape, and the recording never waits for it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from recorder.console.output import say, say_on_stderr
from recorder.console.stop_signals import heed_signals_again
from recorder.exit_codes import HUNG_UP, TERMINATED, UsageError
from recorder.processes.interpreter import PythonProcess, end_all, module_program, start_python, with_module_path
from sim.extras import missing_package

PACKAGES = ("starlette", "uvicorn", "websockets")  # Of the extra "view".
PROGRAM = "replayer.commands.view_process"
START_S = 60.0  # The longest wait for the page's address.
END_S = 5.0  # After an interrupt, the page gets this long to end.


def ensure_page_packages() -> None:
    """Raise UsageError, with the command that installs it, if a package of the page is missing."""
    for package in PACKAGES:
        if importlib.util.find_spec(package) is None:
            raise UsageError(missing_package("record run --live", package, "view"))


class LivePage:
    """The page of a tape; None stands for a page that could not be started."""

    def __init__(self, process: PythonProcess | None) -> None:
        self._process = process

    def stay(self, code: int) -> None:
        """After the recording, wait until Ctrl-C ends the page. code: the exit code; a signal ends the page as well."""
        if self._process is None or self._process.poll() is not None or code in (TERMINATED, HUNG_UP):
            return
        say("the page stays open; Ctrl-C ends it")
        heed_signals_again()
        with contextlib.suppress(KeyboardInterrupt):
            self._process.wait()


@contextlib.contextmanager
def page_beside(tape: Path, sim: str | None, *, wanted: bool) -> Iterator[LivePage]:
    """Start the page of a tape that is being recorded, and print its address; it ends with the block.

    wanted: False starts none. A page that cannot be started is a warning: the recording does not need it.
    """
    process = _start(tape, sim) if wanted else None
    try:
        yield LivePage(process)
    finally:
        if process is not None:
            end_all([process], END_S)
            process.stdout.close()  # type: ignore[union-attr] # It is a pipe.


def _start(tape: Path, sim: str | None) -> PythonProcess | None:
    arguments = ["view", "--live", str(tape), *(["--sim", sim] if sim is not None else [])]
    try:
        process = start_python(
            module_program(PROGRAM, arguments),
            environment=with_module_path(),
            stdin=subprocess.DEVNULL,
            stderr=sys.stderr.fileno(),
            is_own_session=True,  # Ctrl-C ends the recording first.
        )
    except OSError as error:
        say_on_stderr(f"warning: the page could not be started: {error}")
        return None
    assert process.stdout is not None
    url = b""
    with contextlib.suppress(KeyboardInterrupt):  # The next one ends the recording.
        if select.select([process.stdout], [], [], START_S)[0]:
            url = process.stdout.readline()
    if url:
        say(f"page: {url.decode().strip()}")
        return process
    say_on_stderr("warning: the page could not be started; the run is recorded without it")
    end_all([process])
    process.stdout.close()
    return None
