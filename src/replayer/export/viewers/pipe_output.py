"""Copy the output of a library to a file descriptor through a named pipe, to detect a full disk or a closed reader.

Rerun's file sink does not report write errors, and then waits for a minute or forever. It therefore writes to a named
pipe, which a separate process empties: a thread of this process might not run while the library waits. After a failure
that process continues to empty the pipe: the library never sees the error.
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
    """Provide a path to write to once, from beginning to end, and a function that raises if writing has failed.

    output: descriptor of the target. suffix: suffix of the path. The function and the end of the block raise the
    OSError of writing to output.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"stream{suffix}"
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # A blocking open would wait for the writer.
        os.set_blocking(reader, True)
        writer = os.open(path, os.O_WRONLY)  # While this is open, the reader does not see the end of the pipe.
        status, status_end = os.pipe()
        os.set_blocking(status, False)
        program = ["-I", "-S", "-c", PUMP]
        # In a separate session: Ctrl-C then interrupts this process only.
        pump = start_python(program, stdin=reader, stdout=output, stderr=status_end, is_own_session=True)
        os.close(reader)
        os.close(status_end)

        def check() -> None:
            _raise_failure(status)

        try:
            yield path, check
        finally:
            os.close(writer)
            pump.wait()
            try:
                check()
            finally:
                os.close(status)


def _raise_failure(status: int) -> None:
    try:
        error_number = os.read(status, 16)
    except BlockingIOError:
        return  # No failure was reported.
    if error_number:
        raise OSError(int(error_number), os.strerror(int(error_number)))
