"""The torn tail of a tape: what a crash left incomplete is kept in a file of its own, then cut off."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from recorder.storage.tape_files import IO, Files

PIECE_BYTES = 4 << 20  # Of a torn tail, read and written at once.


def cut_torn_tail(files: Files, io: IO, good_end: int) -> str | None:
    """Keep what follows the last intact block in a file of its own, then cut it off. Return that file's name.

    Return None if nothing but zeros follows. Raises OSError.
    """
    size = io.size()
    if size == good_end:
        return None
    torn_file = _keep_in_own_file(files, io, good_end, size)
    io.truncate(good_end)
    io.fdatasync()
    return torn_file


def take_begun_segment_away(files: Files, io: IO, number: int) -> None:
    """Keep the content of a segment that was only begun, then remove it, so that it can be begun again."""
    _keep_in_own_file(files, io, 0, io.size())
    files.remove(number)


def _keep_in_own_file(files: Files, io: IO, start: int, end: int) -> str | None:
    """Copy the bytes from start to end into a file of its own and return its name; None if all are zeros.

    Raises OSError if not all of it can be copied.
    """
    if not any(piece.strip(b"\0") for piece in _pieces(io, start, end)):
        return None
    copied_bytes = 0

    def counted() -> Iterator[bytes]:
        nonlocal copied_bytes
        for piece in _pieces(io, start, end):
            copied_bytes += len(piece)
            yield piece

    name = files.set_aside(counted())
    if copied_bytes != end - start:
        raise OSError(
            errno.EIO, f"{copied_bytes} of {end - start} half-written bytes could be read; nothing is cut off"
        )
    return name


def _pieces(io: IO, start: int, end: int) -> Iterator[bytes]:
    """The bytes from start to end, a few at a time: a tail may be larger than memory, and than one read may be."""
    while start < end and (piece := io.pread(start, min(PIECE_BYTES, end - start))):
        yield piece
        start += len(piece)
