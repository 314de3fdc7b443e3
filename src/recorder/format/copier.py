"""Copy arenas and read pieces on the calling thread: the default for work that a second thread may take over.

The format uses no threads. Code that opens files passes the threaded version, recorder.storage.read_ahead, instead.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np

from sim.kernel.state import Bytes, unset_arena


def copy_pairs(pairs: Sequence[tuple[Bytes, Bytes]]) -> None:
    """Copy the second array of each pair into the first."""
    for target, source in pairs:
        np.copyto(target, source)


class Copier:
    """A copier without a second thread."""

    copy = staticmethod(copy_pairs)

    def copy_of(self, arena: Bytes) -> Bytes:
        """Return a copy of an arena in new memory."""
        copy = unset_arena(len(arena))
        self.copy([(copy, arena)])
        return copy

    def ahead(self, pieces: Iterator[bytes], size_bytes: int) -> Generator[bytes]:  # noqa: ARG002 - see ThreadedCopier
        """Yield the pieces unchanged. Subclasses may read them before they are requested.

        size_bytes: of all pieces on the disk. A caller that does not iterate to the end must close the generator, since
        it may own a thread.
        """
        yield from pieces
