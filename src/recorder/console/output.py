"""Print lines on stdout and stderr. A full disk or a reader that has left never stops a recording.

While a command runs with --json, stdout is for its result alone: what a simulation prints goes to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from typing import Any, TextIO

from recorder.json_text import json_text
from recorder.visible_text import print_visible

_RESULTS: ContextVar[TextIO | None] = ContextVar("the stream of results", default=None)


@contextmanager
def results_alone_on_stdout() -> Iterator[None]:
    """Print on stderr, but for print_result."""
    token = _RESULTS.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.reset(token)


def result_stream() -> TextIO:
    """The stream of a command's result: stdout, also while other prints go to stderr."""
    return _RESULTS.get() or sys.stdout


def print_result(line: str) -> None:
    """Print a line of a command's result on stdout, at once."""
    print_visible(line, file=result_stream(), flush=True)


def print_json(facts: Any, default: Callable[[Any], Any] | None = None) -> None:
    """Print a command's result as JSON on stdout. default: see json.dumps."""
    print_result(json_text(facts, indent=1, default=default))


def say(line: str) -> None:
    """Print a line on stdout; drop it if it cannot be written."""
    _say(line, sys.stdout)


def say_on_stderr(line: str) -> None:
    """Print a line on stderr; drop it if it cannot be written."""
    _say(line, sys.stderr)


def _say(line: str, stream: TextIO) -> None:
    try:
        print_visible(line, file=stream, flush=True)
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
