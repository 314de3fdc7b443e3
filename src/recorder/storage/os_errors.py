"""Operating-system errors, reported with the name of the file concerned."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from recorder.errors import DeniedTapeError, UnreadableError
from recorder.location.tape_location import Location
from recorder.text import shown_path

_ERRORS = {errno.EACCES: DeniedTapeError, errno.EPERM: DeniedTapeError, errno.EIO: UnreadableError}


@contextmanager
def reading(path: Location) -> Iterator[None]:
    """Convert I/O errors while a tape is read to UnreadableError, those of permission to DeniedTapeError.

    Other errors name path.
    """
    try:
        yield
    except OSError as error:
        kind = _ERRORS.get(error.errno or 0)
        if kind is not None:
            raise kind(shown_path(error.filename or path), error.strerror or str(error)) from None
        raise _named(error, path) from None


@contextmanager
def writing(path: Location) -> Iterator[None]:
    """Make errors of the system name path while it is written."""
    try:
        yield
    except OSError as error:
        raise _named(error, path) from None


def _named(error: OSError, path: Location) -> OSError:
    is_own = error.filename is None or str(error.filename) == f"{path}.part"  # Users need not know the temporary name.
    if is_own and error.errno is not None:
        error.filename = str(path)
    return error
