"""The torn tail of a tape: what a crash left incomplete is copied to a separate file, then cut off."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from recorder.storage.file_interfaces import IO, Files

PIECE_BYTES = 4 << 20  # Of a torn tail, copied at a time.


def cut_torn_tail(files: Files, io: IO, good_end: int) -> str | None:
    """Copy what follows the last intact block to a separate file, then cut it off. Return that file's name.

    Return None if nothing but zeros follows. Raises OSError.
    """
    size = io.size()
    if size == good_end:
        return None
    torn_file = _copy_to_separate_file(files, io, good_end, size)
    io.truncate(good_end)
    io.fdatasync()
    return torn_file


def take_begun_segment_away(files: Files, io: IO, number: int) -> None:
    """Copy the content of a segment that was only begun to a separate file, then remove it. It can then begin again."""
    _copy_to_separate_file(files, io, 0, io.size())
    files.remove(number)


def _copy_to_separate_file(files: Files, io: IO, start: int, end: int) -> str | None:
    """Copy the bytes from start to end into a separate file and return its name; None if all are zeros.

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
    """Yield the bytes from start to end in pieces: a tail may exceed the memory, and the limit of one read."""
    while start < end and (piece := io.pread(start, min(PIECE_BYTES, end - start))):
        yield piece
        start += len(piece)
