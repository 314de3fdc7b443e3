"""Standard streams that go on where nobody reads them any more, as behind ``| head -1``: the command ends as it would."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Outlet(io.TextIOWrapper):
    """Text for a pipe or socket. If its reader goes away, all that comes goes nowhere, without an error.

    What lies below is not in Python, so that an interrupt comes before or after a write, and not in its middle.
    """

    reader_left = False

    def write(self, text: str, /) -> int:
        """Write as a file does, or not at all."""
        try:
            return super().write(text)
        except (BrokenPipeError, ConnectionResetError):
            self._go_on_unread()
            return len(text)

    def flush(self) -> None:
        """Likewise."""
        try:
            super().flush()
        except (BrokenPipeError, ConnectionResetError):
            self._go_on_unread()

    def _go_on_unread(self) -> None:
        self.reader_left = True
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())  # Child processes and libraries that write by themselves, too.
        os.close(null)
        super().flush()


@contextmanager
def patient_streams() -> Iterator[None]:
    """Inside, a reader of stdout or stderr that goes away raises nothing; ensure_reader tells it."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_patient(stream) for stream in before)
    try:
        yield
    finally:
        for stream, old in zip((sys.stdout, sys.stderr), before, strict=True):
            if stream is not old and stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before


def ensure_reader() -> None:
    """For what goes on for ever: raise BrokenPipeError if nobody reads stdout any more."""
    if isinstance(sys.stdout, _Outlet) and sys.stdout.reader_left:
        raise BrokenPipeError


def _patient(stream: Any) -> Any:
    """The stream, through an outlet if it is one that can lose its reader."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return stream  # No file of the system's, or a closed one.
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return stream
    return _Outlet(
        io.BufferedWriter(io.FileIO(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
