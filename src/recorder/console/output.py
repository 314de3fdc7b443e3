"""Lines on stdout and stderr: a full disk or a reader that went away stops no recording."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def say(line: str) -> None:
    """Print a line on stdout, if anybody takes it: a full disk or a reader that went away stops no recording."""
    _say(line, sys.stdout)


def say_aside(line: str) -> None:
    """Likewise on stderr."""
    _say(line, sys.stderr)


def _say(line: str, stream: TextIO) -> None:
    try:
        print(line, file=stream, flush=True)
    except (OSError, ValueError):  # ValueError: it was closed.
        silence(stream)


def silence(stream: TextIO | None) -> None:
    """Let what a stream still holds, and all that comes, go nowhere: the interpreter's last flush would fail again."""
    try:
        descriptor = stream.fileno() if stream is not None else None
    except (OSError, ValueError):
        return  # No file of the system's, or a closed one.
    if descriptor is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
