"""A second thread for reading large states: it reads and decompresses ahead of the first one.

The slow operations of both threads, reading, LZ4 and NumPy's copies, release the interpreter lock.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator

from recorder.format.copier import Copier
from recorder.storage.parallel_copy import copy_side_by_side

AHEAD_BYTES_MIN = 1 << 20  # On the disk; a smaller keyframe is read faster than a thread starts.
PIECES_AHEAD = 4  # Of 1 MiB each: enough that neither thread waits for the other at every piece.


class ThreadedCopier(Copier):
    """A copier that uses a second thread for each large state, and waits for its end."""

    copy = staticmethod(copy_side_by_side)

    def ahead(self, pieces: Iterator[bytes], size_bytes: int) -> Generator[bytes]:
        """See Copier. An exception of pieces is raised in the place of the piece that could not be read."""
        return super().ahead(pieces, size_bytes) if size_bytes < AHEAD_BYTES_MIN else _read_ahead(pieces)


def _read_ahead(pieces: Iterator[bytes]) -> Generator[bytes]:
    results: queue.Queue[bytes | BaseException | None] = queue.Queue(PIECES_AHEAD)
    cancelled = threading.Event()

    def read() -> None:
        last: BaseException | None = None
        try:
            for piece in pieces:
                results.put(piece)
                if cancelled.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - the thread's one boundary: it is raised in the other one
            last = error
        results.put(last)

    thread = threading.Thread(target=read, name="tape reader", daemon=True)
    try:
        try:
            thread.start()
        except RuntimeError:  # The system refuses to start a thread, or the program is ending.
            yield from pieces
            return
        while True:
            result = results.get()
            if result is None:
                return
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        cancelled.set()
        while thread.is_alive():  # It may wait for room in the queue.
            try:
                results.get(timeout=0.01)
            except queue.Empty:
                continue
