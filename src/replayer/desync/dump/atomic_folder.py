"""The folder of a dump: written under another name first, then there whole or not at all; nothing of anybody's is lost.

Invariants:
    1. What is called as the dump would be stays as it is: the dump gets the next free name, -2, -3 and so on. Only if
       all files of the new dump are there already, byte for byte, is that folder the dump, and nothing is written.
    2. Until it is whole the dump is in a folder that ends in .part, with a locked file that says so. Such a folder is
       taken for an abandoned one only if it has that file, unlocked; then only files that a dump has are removed.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from recorder.storage.file_names import numbered

MARKER = "unfinished"
MARKER_TEXT = "A dump is being written into this folder; if nobody does any more, it is removed by the next one.\n"
DUMP_FILES = {
    *("report.md", "finding.json", "inputs.json", "before.npz", "replayed.npz", "keyframe_recorded.npz"),
    *("keyframe_replayed.npz", "differences.csv", "reproduction.tape", "state.tape", "tree.json"),
}  # All that a dump may have; tapes have another name while they are written.


def keep_folder(target: Path, write: Callable[[Path], None]) -> Path:
    """Have write fill a folder, and give it target's name, or the next one that is free; returns where it is.

    Raises OSError if the folder cannot be written, and what write raises; nothing is left of it then.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part, marker = _begin(target)
    renamed = False
    try:
        write(part)
        same = next((path for path in _taken(target) if _holds(path, part)), None)
        if same is not None:
            return same
        reserved = _reserve(target)
        (part / MARKER).unlink()
        part.rename(reserved)  # Over the empty folder of our own that keeps the name.
        renamed = True
        return reserved
    finally:
        if not renamed:
            _remove_ours(part)
        os.close(marker)


def _taken(target: Path) -> Iterator[Path]:
    for path in numbered(target):
        if not os.path.lexists(path):
            return
        yield path


def _reserve(target: Path) -> Path:
    """Make an empty folder of the first name that is free."""
    for path in numbered(target):
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError("there is always a next name")


def _begin(target: Path) -> tuple[Path, int]:
    """An empty folder to write into, and its marker, open and locked."""
    for path in numbered(target):
        part = path.with_name(f"{path.name}.part")
        try:
            part.mkdir()
        except FileExistsError:
            if not _clear_abandoned(part):
                continue
            try:
                part.mkdir()
            except FileExistsError:  # Somebody else's file is in it, too, or somebody was faster.
                continue
        marker = os.open(part / MARKER, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        fcntl.flock(marker, fcntl.LOCK_EX)
        os.write(marker, MARKER_TEXT.encode())
        return part, marker
    raise AssertionError("there is always a next name")


def _clear_abandoned(part: Path) -> bool:
    """Clear a folder into which a process that is gone was writing a dump; False if it is none."""
    if part.is_symlink():
        return False
    try:
        marker = os.open(part / MARKER, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        abandoned = (
            os.read(marker, len(MARKER_TEXT) + 1) == MARKER_TEXT.encode()
            and os.fstat(marker).st_ino == (part / MARKER).stat().st_ino  # Still that of this folder.
        )
        if abandoned:
            _remove_ours(part)
    except OSError:
        return False
    else:
        return abandoned
    finally:
        os.close(marker)


def _remove_ours(part: Path) -> None:
    """Remove what a dump consists of; the folder, too, unless something else is in it. Raises OSError."""
    for name in DUMP_FILES:
        (part / name).unlink(missing_ok=True)
        (part / f"{name}.part").unlink(missing_ok=True)
    (part / MARKER).unlink(missing_ok=True)
    try:
        part.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def _holds(folder: Path, part: Path) -> bool:
    """Whether all files of part are in folder, byte for byte."""
    names = [path.name for path in part.iterdir() if path.name != MARKER]
    if not folder.is_dir():
        return False
    try:
        _, others, unread = filecmp.cmpfiles(folder, part, names, shallow=False)
    except OSError:
        return False
    return not others and not unread
