"""Code of the user's program, run in a copy of this process that can change nothing outside of itself."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Events of Python's audit hooks. Code that is run as a test is kept from what these announce.
_REFUSED = (
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown"),
    *(
        "os.utime",
        "os.kill",
        "os.killpg",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.fork",
        "os.forkpty",
    ),
    *("subprocess.Popen", "pty.spawn", "socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo"),
    *("shutil.rmtree", "shutil.move", "shutil.copyfile", "shutil.copytree", "sqlite3.connect", "webbrowser.open"),
    *("signal.pthread_kill", "ctypes.dlopen", "_thread.start_new_thread", "builtins.input"),
)
SECONDS_MAX = 3.0  # Of code that may be the main loop of a program, which has no end.
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


class RefusedError(Exception):
    """Code that is run as a test would have changed something outside of its process."""


def refuse_effects() -> None:
    """From now on, let this process write no file, begin no process or thread, and ask no other computer.

    A hook cannot be taken away: only a copy that ends soon may call this.
    """
    refused = frozenset(_REFUSED)
    sys.dont_write_bytecode = True  # An import would write it, and fail.

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in refused or (event == "open" and _writes(arguments)):
            raise RefusedError(event)

    sys.addaudithook(hook)


@contextmanager
def ended_by_a_clock() -> Iterator[None]:
    """End this process if the code that runs in the context takes too long, whatever it does."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _writes(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    if isinstance(flags, int) and flags & _WRITING:
        return True
    return isinstance(mode, str) and any(sign in mode for sign in "wax+")
