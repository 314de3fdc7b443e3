"""Write a file atomically. A reader finds the old file or the new one, never a part of either.

Order of the steps; each depends on the one before it:
    1. create NAME.<random>.part in the folder of the target, and lock it;
    2. let the caller write it;
    3. fsync the file: a rename can reach the disk before the bytes do;
    4. rename it to the target, or link it if an existing file is to be refused;
    5. fsync the folder: otherwise a power cut can undo the rename.

Invariants:
    1. At every moment, also after a kill or a power cut, the target is the old file or the complete new file.
    2. If step 2, 3 or 4 fails with any exception, the target is unchanged and the temporary file is removed.
       SIGKILL can leave a temporary file. It is unlocked then, and the next write to the target removes it.
    3. A new file has the permissions that open() would give it. A replaced file keeps its own. A file that open() could
       not write is not replaced. A symbolic link stays; the file it points to is replaced.
    4. An OSError names the path that the caller passed, not the temporary one.

A pipe or a device cannot be replaced by a rename. It is written directly.

Not for the files of a tape, which are appended to and synced while they grow. tape_files.py has their protocol, the five
methods of IO. tape_copy.py uses only the suffix of the temporary name. Complete folders: atomic_folder.py.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Existing = Literal["replace", "refuse"]  # The treatment of an existing file with the name.

PART_SUFFIX = ".part"
NEW_MODE = 0o666  # As open() requests it; the umask removes bits.
EXISTS = "a file of this name exists already: choose a different name"
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)  # Errors of file systems without hard links.
NO_LOCKS = (errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)  # Errors of file systems without locks.
_RANDOM_BYTES = 8  # Gives simultaneous writers of one file different temporary names.
_PART_ENDING = re.compile(rf"\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}{re.escape(PART_SUFFIX)}")


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, existing: Existing) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to path at the end. If that fails, nothing is left of it.

    Raises FileExistsError if existing="refuse" and something exists at path before or after the write; OSError.
    If only the last step, the fsync of the folder, fails, OSError is raised and path is the new file.
    """
    named = Path(path)
    with _errors_naming(named):
        target, mode = _target_of(named, existing)
        if target is None:
            yield named
            return
        _remove_abandoned(target)
        part = target.with_name(f"{target.name}.{os.urandom(_RANDOM_BYTES).hex()}{PART_SUFFIX}")
        descriptor = None
        try:
            descriptor = _create_locked(part, mode)
            yield part
            sync_file(part)
            _give_target(part, target, existing)
        finally:
            part.unlink(missing_ok=True)
            if descriptor is not None:
                os.close(descriptor)  # Last: this releases the lock.
        sync_folder(target.parent)


def write_file(path: str | os.PathLike[str], content: bytes | str, *, existing: Existing) -> None:
    """Write a complete file, text as UTF-8. Raises as atomic_file does."""
    with atomic_file(path, existing=existing) as part:
        part.write_bytes(content.encode() if isinstance(content, str) else content)


def publish_file(part: Path, path: Path) -> None:
    """Rename a file that the caller wrote under a temporary name in the same folder; replaces path.

    For files that are open too long for atomic_file. Raises OSError; part is then unchanged unless the last step failed.
    """
    with _errors_naming(path):
        sync_file(part)
        _give_target(part, path, "replace")
        sync_folder(path.parent)


def give_name(new: Path, path: Path, refusal: str) -> None:
    """Rename new to path. Raises FileExistsError with the message refusal if path exists."""
    try:
        os.link(new, path)  # A rename would replace an existing file.
    except OSError as error:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, refusal, os.fspath(path)) from None
        if error.errno not in NO_LINKS:
            raise
        new.rename(path)
    else:
        with contextlib.suppress(OSError):  # The file has its name; the old one does no harm and is removed later.
            new.unlink()


def sync_file(path: Path) -> None:
    """Force a file's bytes to the disk, also those written through other descriptors."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make a file's name durable: a power cut can remove a synced file from an unsynced folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, durably; an existing one is accepted. Raises OSError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)  # Otherwise a power cut may remove the folder with all that was synced in it.


def is_called(descriptor: int, path: Path) -> bool:
    """Return True if an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def is_part_of(name: str, target: str) -> bool:
    """Return True if name is a temporary name of a file that will become target."""
    return name.startswith(target) and _PART_ENDING.fullmatch(name[len(target) :]) is not None


def _target_of(path: Path, existing: Existing) -> tuple[Path | None, int | None]:
    """The file to replace, and its permissions if it exists; None for a pipe or device, which is written directly.

    Raises OSError for paths that open() would refuse as well.
    """
    if existing == "refuse":
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, EXISTS, os.fspath(path))
        return path, None
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return _followed(path), None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    return (_followed(path), mode & 0o777) if stat.S_ISREG(mode) else (None, None)


def _followed(path: Path) -> Path:
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _create_locked(part: Path, mode: int | None) -> int:
    """Create the temporary file, locked: an unlocked one counts as left over from a killed process."""
    while True:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(part, flags, NEW_MODE if mode is None else mode)
        try:
            if mode is not None:
                os.fchmod(descriptor, mode | stat.S_IRUSR | stat.S_IWUSR)
            _lock(descriptor)
            if is_called(descriptor, part):  # Otherwise a different writer removed it just before it was locked.
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Wait for the lock, which a writer that cleans up holds for a moment. Raises OSError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:  # Without locks, abandoned files are not removed either.
            raise


def _remove_abandoned(target: Path) -> None:
    """Remove the unlocked temporary files of target, which killed writers have left."""
    with contextlib.suppress(OSError):  # The folder may not be listed. Abandoned files do no harm.
        with os.scandir(target.parent) as entries:
            parts = [target.with_name(entry.name) for entry in entries if is_part_of(entry.name, target.name)]
        for part in parts:
            with contextlib.suppress(OSError):  # It is locked, already removed, or belongs to a different user.
                _remove_unlocked(part)


def _remove_unlocked(part: Path) -> None:
    descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_called(descriptor, part):  # Otherwise this file was removed already, and a new one has the name.
            part.unlink()
    finally:
        os.close(descriptor)


def _give_target(part: Path, target: Path, existing: Existing) -> None:
    try:
        if existing == "refuse":
            give_name(part, target, EXISTS)
        else:
            part.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(target)) from None  # Without the second, temporary name.


@contextmanager
def _errors_naming(path: Path) -> Iterator[None]:
    """Make an OSError without a file name, or with the temporary one, name path."""
    try:
        yield
    except OSError as error:
        targets = {str(path), os.path.realpath(path)}

        def is_own(name: object) -> bool:
            return str(name) in targets or any(is_part_of(str(name), target) for target in targets)

        if error.errno is not None and (error.filename is None or is_own(error.filename)):
            error.filename = str(path)
        if is_own(error.filename2):  # An error of a copy names the source first.
            error.filename2 = str(path)
        raise
