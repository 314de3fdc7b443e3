"""Errors of the system, told with the name of the file concerned; files that are written whole or not at all."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recorder.console import shown_path
from recorder.errors import UnreadableError
from replayer.state_file import write_state
from sim.kernel.state import Snapshot

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


def write_state_whole(path: Path, snapshot: Snapshot) -> None:
    """Write a state as .npz under another name and rename it, so that no half file stays behind. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    with writing(path):
        try:
            write_state(part, snapshot)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
