"""Write a folder atomically: it appears under its name with all files in it, on the disk, or not at all.

Order of the steps: write under a temporary name; fsync every file and folder in it; rename; fsync the parent.

Invariants:
    1. Nothing is replaced. If the name is taken, write_folder uses the next free one, -2, -3 and so on, and
       publish_folder raises FileExistsError. If a folder of one of these names already holds all files of the
       new one, byte for byte, write_folder returns that one and keeps nothing.
    2. Until it is complete, the folder of write_folder is called NAME.part and contains a locked marker file. Such a
       folder counts as abandoned only if the marker exists and is unlocked. In an abandoned folder, and after a failed
       write, only files of known names are removed: files that a user has put there are kept.
    3. An OSError names the path that the folder would have had.
    4. exchange_folders swaps two names in one step of the file system: at any instant each of them has one folder, complete.

Single files: atomic_file.py.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import filecmp
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from recorder.storage.atomic_file import PART_SUFFIX, is_part_of, make_folder, sync_file, sync_folder
from recorder.storage.file_names import numbered

MARKER = "unfinished"
MARKER_TEXT = "A dump is being written into this folder. If its process was killed, the next dump removes the folder.\n"
EXISTS = "this name is taken: choose a different name"
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # Of linux/fcntl.h and linux/fs.h.
NO_LINKS = (errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP)  # Errors of a file system without hard links.
TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)  # Errors of a rename if the name was taken in the meantime.


def write_folder(target: Path, write: Callable[[Path], None], *, files: Collection[str]) -> Path:
    """Call write to fill a folder, then rename it to target or the next free name; return its path.

    files: the names of all files that write may make; none of them in a subfolder.

    Raises OSError if the folder cannot be written, and exceptions of write; nothing is left of the folder then.
    """
    with _errors_naming(target, target.with_name(f"{target.name}{PART_SUFFIX}")):
        make_folder(target.parent)
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
            path = _rename_to_free(part, target)
            published = True
            sync_folder(path.parent)
            return path
    finally:
        if not published:
            _remove_own_files(part, files)
        os.close(marker)


def publish_folder(folder: Path, target: Path) -> None:
    """Rename a folder that the caller filled under a temporary name in the same parent.

    Raises FileExistsError if target exists, OSError; folder is then unchanged unless the last step failed.
    """
    with _errors_naming(target, folder):
        _sync_below(folder)
        if os.path.lexists(target) or not _renamed(folder, target):
            raise FileExistsError(errno.EEXIST, EXISTS, os.fspath(target))
        sync_folder(target.parent)


def exchange_folders(folder: Path, target: Path) -> None:
    """Swap the names of two folders of one file system: in one step, after all files of the first one are on the disk.

    Raises OSError if the system or the file system cannot do it; both are then unchanged unless the last step failed.
    """
    with _errors_naming(target, folder):
        _sync_below(folder)
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if rename is None:
            raise OSError(errno.ENOTSUP, "this system cannot exchange two folders in one step", os.fspath(target))
        names = os.fsencode(folder), os.fsencode(target)
        if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_RENAME_EXCHANGE)):
            code = ctypes.get_errno()
            raise OSError(code, f"two folders cannot be exchanged here: {os.strerror(code)}", os.fspath(target))
        sync_folder(target.parent)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file that is never written again a second name, or copy it where that is not possible. Raises OSError."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copy2(source, target, follow_symlinks=False)


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
    """Rename a folder; return False if the name was taken in the meantime. Only an empty folder is replaced."""
    try:
        folder.rename(path)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    return True


def _begin(target: Path, files: Collection[str]) -> tuple[Path, int]:
    """Make an empty folder to write into, with its marker, open and locked."""
    for path in numbered(target):
        part = path.with_name(f"{path.name}{PART_SUFFIX}")
        try:
            part.mkdir()
        except FileExistsError:
            if not _clear_abandoned(part, files):
                continue
            try:
                part.mkdir()
            except FileExistsError:  # It also has files of other programs, or a different process was faster.
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
        _remove_own_files(part, ())
        raise
    return marker


def _clear_abandoned(part: Path, files: Collection[str]) -> bool:
    """Clear a folder that an ended process was writing; return False if the folder is not abandoned."""
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
            _remove_own_files(part, files)
    except OSError:
        return False
    else:
        return abandoned
    finally:
        os.close(marker)


def _remove_own_files(part: Path, files: Collection[str]) -> None:
    """Remove files of known names, also incomplete ones, and the folder unless it contains anything else."""
    for path in [*part.iterdir()]:
        is_known = path.name in files or path.name.removesuffix(PART_SUFFIX) in files
        if is_known or path.name == MARKER or any(is_part_of(path.name, name) for name in files):
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
    """Make an OSError without a file name, or with one in the temporary folder, name the final path."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(target)
        elif isinstance(error.filename, str | os.PathLike) and Path(error.filename).is_relative_to(part):
            error.filename = str(target / Path(error.filename).relative_to(part))
        raise
