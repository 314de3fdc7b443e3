"""Standard streams that ignore a reader that has left, as with ``| head -1``: the command still ends normally."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recorder.console.output import result_stream


class _Outlet(io.TextIOWrapper):
    """A text stream for a pipe or socket. When its reader leaves, further text is discarded without an error.

    The buffer below is not written in Python: an interrupt comes before or after a write, never during one.
    """

    reader_left = False

    def write(self, text: str, /) -> int:
        """Write as a file does; discard the text if the reader has left."""
        try:
            return super().write(text)
        except (BrokenPipeError, ConnectionResetError):
            self._discard_from_now_on()
            return len(text)

    def flush(self) -> None:
        """Flush as a file does; discard the text if the reader has left."""
        try:
            super().flush()
        except (BrokenPipeError, ConnectionResetError):
            self._discard_from_now_on()

    def _discard_from_now_on(self) -> None:
        self.reader_left = True
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self.fileno())  # Covers child processes and libraries that write to the descriptor.
        os.close(null)
        super().flush()


@contextmanager
def patient_streams() -> Iterator[None]:
    """Ignore a reader of stdout or stderr that leaves; ensure_reader reports it."""
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
    """Raise BrokenPipeError if the reader of stdout has left. For commands that never end on their own."""
    stream = result_stream()
    if isinstance(stream, _Outlet) and stream.reader_left:
        raise BrokenPipeError


def _patient(stream: Any) -> Any:
    """Return the stream, through an outlet if it can lose its reader."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return stream  # Not a file of the system, or closed.
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return stream
    return _Outlet(
        io.BufferedWriter(io.FileIO(stream.fileno(), "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
