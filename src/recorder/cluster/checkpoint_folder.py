"""A folder of checkpoints of the whole: find them, keep it for one run at a time, and sweep what died half-written.

Invariant: only files with names of this module are ever removed, and no part that a manifest names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import attrs

from recorder.cluster.whole_checkpoint import (
    MANIFEST_SUFFIX,
    WholeCheckpoint,
    WholeCheckpointError,
    read_manifest,
    read_parts,
)
from recorder.exit_codes import UsageError
from recorder.storage.atomic_file import is_called, make_folder

LOCK_NAME = ".lock"
_OWN_NAME = re.compile(r"(checkpoint_\d{12,}_\d+)(?:_worker\d+\.bin|_server\.json)(\.[0-9a-f]{16}\.part)?")


def id_of_checkpoint(tick: int, epoch: int) -> str:
    """The id of a checkpoint, the beginning of the names of its files."""
    return f"checkpoint_{tick:012d}_{epoch}"


def part_name(checkpoint_id: str, worker: int) -> str:
    """The name of the file of a worker's part."""
    return f"{checkpoint_id}_worker{worker}.bin"


@attrs.frozen
class WholeDiscovery:
    """The result of a search.

    Attributes:
        checkpoints: the complete ones, the last written first.
        ignored: the reason why a file is not used, by its path.
    """

    checkpoints: tuple[WholeCheckpoint, ...]
    ignored: Mapping[Path, str]


def discover_whole_checkpoints(
    folder: Path, history: Iterable[WholeCheckpoint] = (), *, inner: bool = True
) -> WholeDiscovery:
    """Find the complete checkpoints of the whole in a folder, in all folders in it, and in history, each once.

    inner: look into the folders in it, too.

    The last written comes first; of those of one moment, that of the later tick. Ignored, with the reason: what is
    damaged or incomplete, and checkpoints without organisms.

    history: those that this process has written. Raises OSError if the folder cannot be read.
    """
    pattern = f"*{MANIFEST_SUFFIX}"
    paths = dict.fromkeys(sorted(folder.rglob(pattern) if inner else folder.glob(pattern)))
    paths |= {checkpoint.path: None for checkpoint in history}
    checkpoints: dict[tuple[str, str], WholeCheckpoint] = {}
    ignored: dict[Path, str] = {}
    for path in paths:
        try:
            checkpoint = read_manifest(path)
            if checkpoint.organism_count == 0:
                ignored[path] = "it has no organisms (organism_count = 0)"
                continue
            read_parts(checkpoint)
        except (OSError, WholeCheckpointError) as error:
            ignored[path] = str(error)
        else:
            checkpoints.setdefault(checkpoint.identity, checkpoint)
    newest = sorted(checkpoints.values(), key=lambda one: (one.timestamp, one.tick), reverse=True)
    return WholeDiscovery(tuple(newest), ignored)


class CheckpointFolder:
    """The folder of one run, locked for it."""

    def __init__(self, path: Path) -> None:
        """Make the folder, if there is none, and lock it. Raises UsageError if another run has it; OSError."""
        self._is_new = not path.exists()
        self._new_parents = [parent for parent in path.parents if not parent.exists()]
        make_folder(path)
        self.path = path
        self._lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise _in_use(path) from None
        if not is_called(self._lock, path / LOCK_NAME):  # That run has just ended, and removed the folder.
            os.close(self._lock)
            raise _in_use(path)

    def close(self) -> None:
        """Unlock the folder; one that this run made and wrote nothing to is removed, with its parents that it made."""
        if self._lock >= 0:
            if self._is_new:
                self._remove_empty()
            os.close(self._lock)
            self._lock = -1

    def _remove_empty(self) -> None:
        with contextlib.suppress(OSError):
            if [path.name for path in self.path.iterdir()] == [LOCK_NAME]:
                (self.path / LOCK_NAME).unlink()
                self.path.rmdir()
                for parent in self._new_parents:
                    parent.rmdir()

    def last_epoch(self) -> int:
        """The largest epoch in the names of files of checkpoints, also of damaged ones; 0 without any. Raises OSError.

        A run that begins after it never writes over one of them.
        """
        names = map(_OWN_NAME.fullmatch, [path.name for path in self.path.iterdir()])
        return max((int(name[1].rpartition("_")[2]) for name in names if name is not None), default=0)

    def sweep(self) -> None:
        """Remove the parts without a manifest and the temporary files that killed processes left. An OSError is no harm."""
        with contextlib.suppress(OSError):
            found = sorted(path.name for path in self.path.iterdir())
            names = [name for name in map(_OWN_NAME.fullmatch, found) if name is not None]
            whole = {name[1] for name in names if name[0].endswith(MANIFEST_SUFFIX)}
            for name in names:
                if name[2] is not None or name[1] not in whole:
                    (self.path / name[0]).unlink(missing_ok=True)


def _in_use(path: Path) -> UsageError:
    return UsageError(f"{path} is in use by another run: choose a different folder for checkpoints")
