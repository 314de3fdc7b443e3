"""Operating-system errors, reported with the name of the file concerned."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recorder.errors import UnreadableError
from recorder.text import shown_path

_UNREADABLE = {errno.EACCES, errno.EPERM, errno.EIO}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Inside, a tape is read: if the system refuses, that is UnreadableError; FileNotFoundError stays what it is."""
    try:
        yield
    except OSError as error:
        if error.errno in _UNREADABLE:
            raise UnreadableError(shown_path(error.filename or path), error.strerror or str(error)) from None
        raise _named(error, path) from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Inside, path is written: errors of the system name it."""
    try:
        yield
    except OSError as error:
        raise _named(error, path) from None


def _named(error: OSError, path: Path) -> OSError:
    own = (
        error.filename is None or str(error.filename) == f"{path}.part"
    )  # Under which name it is made is our business.
    if own and error.errno is not None:
        error.filename = str(path)
    return error
