"""A second thread for reading large states: it reads and unpacks what the first one will need next.

All that takes long in either, reading, LZ4 and NumPy's copies, lets the other one run.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator

from recorder.format.copier import Copier
from recorder.storage.parallel_copy import copy_side_by_side

AHEAD_BYTES_MIN = 1 << 20  # On the disk; a smaller keyframe is read before a thread has started.
PIECES_AHEAD = 4  # Of 1 MiB: enough for neither thread to wait for the other at every piece.


class ThreadedCopier(Copier):
    """Starts one for each large state, and waits for it."""

    copy = staticmethod(copy_side_by_side)

    def ahead(self, pieces: Iterator[bytes], size_bytes: int) -> Generator[bytes]:
        """See Copier. What making them raises comes in the place of the piece that could not be made."""
        return super().ahead(pieces, size_bytes) if size_bytes < AHEAD_BYTES_MIN else _made_ahead(pieces)


def _made_ahead(pieces: Iterator[bytes]) -> Generator[bytes]:
    made: queue.Queue[bytes | BaseException | None] = queue.Queue(PIECES_AHEAD)
    unwanted = threading.Event()

    def make() -> None:
        last: BaseException | None = None
        try:
            for piece in pieces:
                made.put(piece)
                if unwanted.is_set():
                    return
        except BaseException as error:  # noqa: BLE001 - the thread's one boundary: it is raised in the other one
            last = error
        made.put(last)

    maker = threading.Thread(target=make, name="tape reader", daemon=True)
    try:
        try:
            maker.start()
        except RuntimeError:  # The system has no thread to give, or the program is ending.
            yield from pieces
            return
        while True:
            one = made.get()
            if one is None:
                return
            if isinstance(one, BaseException):
                raise one
            yield one
    finally:
        unwanted.set()
        while maker.is_alive():  # It may wait for room for a piece that nobody will take.
            try:
                made.get(timeout=0.01)
            except queue.Empty:
                continue
