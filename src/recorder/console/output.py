"""Print lines on stdout and stderr. A full disk or a reader that has left never stops a recording."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def say(line: str) -> None:
    """Print a line on stdout; drop it if it cannot be written."""
    _say(line, sys.stdout)


def say_on_stderr(line: str) -> None:
    """Print a line on stderr; drop it if it cannot be written."""
    _say(line, sys.stderr)


def _say(line: str, stream: TextIO) -> None:
    try:
        print(line, file=stream, flush=True)
    except (OSError, ValueError):  # ValueError: the stream is closed.
        silence(stream)


def silence(stream: TextIO | None) -> None:
    """Discard what a stream still holds, and all further output: the interpreter's last flush would fail again."""
    try:
        descriptor = stream.fileno() if stream is not None else None
    except (OSError, ValueError):
        return  # Not a file of the system, or closed.
    if descriptor is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
