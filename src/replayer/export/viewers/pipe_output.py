"""Let a library write to a path, and write what comes out ourselves, so that a full disk or a reader that has gone is seen.

Rerun's file sink does not say when the disk refuses, and then waits for a minute or for ever. So it is given a named pipe.
Another process empties the pipe, since a thread of this one might be kept from running while the library waits for it;
and goes on emptying it after a failure, so that the library never sees one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recorder.processes.interpreter import start_python

PUMP = """
import os
failed = False
while piece := os.read(0, 1 << 20):
    while piece and not failed:
        try:
            piece = piece[os.write(1, piece):]
        except OSError as error:
            os.write(2, b"%d" % error.errno)
            failed = True
"""


@contextmanager
def pumped(output: int, suffix: str) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Inside, a path to write to once, from the beginning to the end, and a function that looks whether all is well.

    output: the descriptor of the file where it goes. suffix: of the path. That function, and leaving the block, raise the
    OSError that writing to output has met.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"stream{suffix}"
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # Else this would wait for the writer.
        os.set_blocking(reader, True)
        writer = os.open(path, os.O_WRONLY)  # As long as this is open, the pipe has not come to its end.
        status, status_end = os.pipe()
        os.set_blocking(status, False)
        program = ["-I", "-S", "-c", PUMP]
        # In a session of its own, so that Ctrl-C is for us alone.
        pump = start_python(program, stdin=reader, stdout=output, stderr=status_end, is_own_session=True)
        os.close(reader)
        os.close(status_end)

        def look() -> None:
            _raise_failure(status)

        try:
            yield path, look
        finally:
            os.close(writer)
            pump.wait()
            try:
                look()
            finally:
                os.close(status)


def _raise_failure(status: int) -> None:
    try:
        found = os.read(status, 16)
    except BlockingIOError:
        return  # Nothing was said.
    if found:
        raise OSError(int(found), os.strerror(int(found)))
