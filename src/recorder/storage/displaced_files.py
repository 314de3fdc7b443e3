"""Write a file again under a free name, if it was removed, moved or replaced while it is being written.

An open file keeps its content when its name goes. So everything that was recorded is still there, until it is closed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from recorder.storage.atomic_file import give_name, sync_folder
from recorder.storage.file_names import following_segments, new_path, numbered, segment_path

COPY_BYTES = 1 << 20  # Of one read; the whole may be larger than the memory.
RESCUED = ".rescued"  # Before the suffix of a tape whose own name is taken.
NAME_TAKEN = "this name was taken a moment ago"


def leads_to(path: Path, file: os.stat_result) -> bool:
    """Whether the file at path is this one; a symbolic link to it counts, and so does a path that cannot be seen."""
    try:
        return os.path.samestat(path.stat(), file)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # Its folder may not be entered, or the disk does not answer: nothing shows that the file is gone.
        return True


def free_base(path: Path, displaced: Mapping[int, int]) -> Path:
    """The path of a tape whose displaced segments can have their names: path itself, or one with ".rescued" in it."""
    if not any(os.path.lexists(segment_path(path, number)) for number in displaced):
        return path
    rescued = path.with_name(f"{path.stem}{RESCUED}{path.suffix}")
    return next(
        base for base in numbered(rescued, path.suffix) if not os.path.lexists(base) and not following_segments(base)
    )


def write_again(descriptor: int, path: Path, open_new: Callable[[Path], int]) -> None:
    """Copy an open file to path, durably; the descriptor refers to the copy from then on. Raises OSError.

    open_new: creates an empty file, locked where the first one was, and returns its descriptor.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = new_path(path)
    new.unlink(missing_ok=True)
    copy = open_new(new)
    try:
        offset = 0
        while piece := os.pread(descriptor, COPY_BYTES, offset):
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(copy, rest) :]
            offset += len(piece)
        os.fsync(copy)
        give_name(new, path, NAME_TAKEN)
        sync_folder(path.parent)
        os.dup2(copy, descriptor, inheritable=False)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    finally:
        os.close(copy)


def new_name(descriptor: int) -> Path | None:
    """Where an open file is now, if it was moved and the system tells; None otherwise."""
    try:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 - of a removed file it is no path
    except OSError:
        return None
    return path if leads_to(path, os.fstat(descriptor)) else None


def what_happened(path: Path, descriptor: int) -> str:
    """In words, what became of a file that is open and no longer has its name."""
    if os.path.lexists(path):
        return "was replaced by another file"
    return "was moved, or has another name now," if os.fstat(descriptor).st_nlink else "was removed"
