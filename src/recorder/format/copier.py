"""What reading a large state can leave to a second thread: here it is done by the one there is.

The format knows no threads; whoever opens files puts recorder.storage.read_ahead in the place of this.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np

from sim.kernel.state import Bytes, unset_arena


def copy_pairs(pairs: Sequence[tuple[Bytes, Bytes]]) -> None:
    """Copy into the first of each pair what is in the second."""
    for target, source in pairs:
        np.copyto(target, source)


class Copier:
    """No second thread."""

    copy = staticmethod(copy_pairs)

    def copy_of(self, arena: Bytes) -> Bytes:
        """The same bytes in memory of their own."""
        copy = unset_arena(len(arena))
        self.copy([(copy, arena)])
        return copy

    def ahead(self, pieces: Iterator[bytes], size_bytes: int) -> Generator[bytes]:  # noqa: ARG002 - see ThreadedCopier
        """The same pieces, which take size_bytes on the disk, and may be made before they are asked for.

        Whoever does not go through all of them closes it: there may be a thread behind it.
        """
        yield from pieces
