"""Write a folder whole: the one home for it. It has its name with all files in it, on the disk, or it does not exist.

Order of the steps: write under another name; fsync every file and folder in it; rename; fsync the parent.

Invariants:
    1. Nothing is replaced. What has the name already stays as it is: write_folder takes the next free name, -2, -3 and
       so on, publish_folder raises FileExistsError. If a folder of one of these names already holds all files of the
       new one, byte for byte, write_folder returns that one and keeps nothing.
    2. Until it is whole the folder of write_folder is called NAME.part and holds a locked file that says so. Such a
       folder is taken for an abandoned one only if it has that file, unlocked. Then, and when the write fails with
       whatever exception, only files of known names are removed: nothing that a user has put there is lost.
    3. An OSError names the path that the folder would have had.

Single files: atomic_file.py.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from recorder.storage.atomic_file import PART_SUFFIX, is_part_of, sync_file, sync_folder
from recorder.storage.file_names import numbered

MARKER = "unfinished"
MARKER_TEXT = "A dump is being written into this folder; if nobody does any more, it is removed by the next one.\n"
EXISTS = "there is something of this name already: choose another name"
TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)  # What a rename says if something else has the name by then.


def write_folder(target: Path, write: Callable[[Path], None], *, files: Collection[str]) -> Path:
    """Let write fill a folder, then give it target's name or the next free one; returns the path that it has.

    files: the names of all files that write may make, none of them in a folder below.

    Raises OSError if the folder cannot be written, and what write raises; nothing is left of it then.
    """
    with _errors_naming(target, target.with_name(f"{target.name}{PART_SUFFIX}")):
        target.parent.mkdir(parents=True, exist_ok=True)
        part, marker = _begin(target, files)
    published = False
    try:
        with _errors_naming(target, part):
            write(part)
            same = next((path for path in _taken(target) if _holds(path, part)), None)
            if same is not None:
                return same
            (part / MARKER).unlink()
            _sync_below(part)
            found = _rename_to_free(part, target)
            published = True
            sync_folder(found.parent)
            return found
    finally:
        if not published:
            _remove_ours(part, files)
        os.close(marker)


def publish_folder(folder: Path, target: Path) -> None:
    """Give a folder that was filled under a name of the caller's, in the same parent, its own name.

    Raises FileExistsError if there is something at target, OSError; until the last step folder is as it was then.
    """
    with _errors_naming(target, folder):
        _sync_below(folder)
        if os.path.lexists(target) or not _renamed(folder, target):
            raise FileExistsError(errno.EEXIST, EXISTS, os.fspath(target))
        sync_folder(target.parent)


def _sync_below(folder: Path) -> None:
    """Force all files below a folder, and the folders themselves, to the disk."""
    for place, _, names in os.walk(folder, topdown=False, onerror=_raise):
        for name in names:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                sync_file(path)
        sync_folder(Path(place))


def _raise(error: OSError) -> None:
    raise error


def _taken(target: Path) -> Iterator[Path]:
    for path in numbered(target):
        if not os.path.lexists(path):
            return
        yield path


def _rename_to_free(part: Path, target: Path) -> Path:
    return next(path for path in numbered(target) if not os.path.lexists(path) and _renamed(part, path))


def _renamed(folder: Path, path: Path) -> bool:
    """Rename a folder; False if something got the name in the meantime, which stays: only an empty folder would not."""
    try:
        folder.rename(path)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    return True


def _begin(target: Path, files: Collection[str]) -> tuple[Path, int]:
    """An empty folder to write into, and its marker, open and locked."""
    for path in numbered(target):
        part = path.with_name(f"{path.name}{PART_SUFFIX}")
        try:
            part.mkdir()
        except FileExistsError:
            if not _clear_abandoned(part, files):
                continue
            try:
                part.mkdir()
            except FileExistsError:  # Another program's file is in it, too, or another process was faster.
                continue
        return part, _make_marker(part)
    raise AssertionError("there is always a next name")


def _make_marker(part: Path) -> int:
    marker = None
    try:
        marker = os.open(part / MARKER, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        fcntl.flock(marker, fcntl.LOCK_EX)
        os.write(marker, MARKER_TEXT.encode())
    except BaseException:
        if marker is not None:
            os.close(marker)
        _remove_ours(part, ())
        raise
    return marker


def _clear_abandoned(part: Path, files: Collection[str]) -> bool:
    """Clear a folder that a process, which is gone, was writing; False if it is none."""
    if part.is_symlink():
        return False
    try:
        marker = os.open(part / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        abandoned = (
            os.read(marker, len(MARKER_TEXT) + 1) == MARKER_TEXT.encode()
            and os.fstat(marker).st_ino == (part / MARKER).stat().st_ino  # Still that of this folder.
        )
        if abandoned:
            _remove_ours(part, files)
    except OSError:
        return False
    else:
        return abandoned
    finally:
        os.close(marker)


def _remove_ours(part: Path, files: Collection[str]) -> None:
    """Remove files of known names, also half written ones; the folder, too, unless something else is in it."""
    for path in [*part.iterdir()]:
        known = path.name in files or path.name.removesuffix(PART_SUFFIX) in files
        if known or path.name == MARKER or any(is_part_of(path.name, name) for name in files):
            path.unlink(missing_ok=True)
    try:
        part.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def _holds(folder: Path, part: Path) -> bool:
    """Return True if all files of part are in folder, byte for byte."""
    names = [path.name for path in part.iterdir() if path.name != MARKER]
    if not folder.is_dir():
        return False
    try:
        _, others, unread = filecmp.cmpfiles(folder, part, names, shallow=False)
    except OSError:
        return False
    return not others and not unread


@contextmanager
def _errors_naming(target: Path, part: Path) -> Iterator[None]:
    """Let an OSError that has no name, or one inside the temporary folder, name the path that it would have had."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(target)
        elif isinstance(error.filename, str | os.PathLike) and Path(error.filename).is_relative_to(part):
            error.filename = str(target / Path(error.filename).relative_to(part))
        raise
