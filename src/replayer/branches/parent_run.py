"""The parent of a branch, as META of the branch names it: written, read, and found again on the disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from replayer.tape.tape import Tape

KEY = "parent"  # Of META.
NOT_IN_NAMES = "?#%/\\"  # A name from a tape must not become a query, or another path, of a URL.
PATH_SHOWN = 200  # Characters in a message: a tape may hold any text.


@attrs.frozen
class ParentRun:
    """The parent of a branch.

    Attributes:
        run_id: of the parent, hexadecimal.
        tick: of the fork: the last tick that both have.
        state_hash: the parent's hash of that tick's state, hexadecimal, 16 digits.
        path: the parent's tape, relative to the folder of the branch.
        link: the parent's chained hash of the tick, hexadecimal; empty where the state's own hash is recorded.
    """

    run_id: str
    tick: int
    state_hash: str
    path: str
    link: str = ""

    def to_meta(self) -> dict[str, Any]:
        """The value of the key ``parent`` of META."""
        facts = {"run": self.run_id, "tick": self.tick, "hash": self.state_hash, "path": self.path}
        return facts | ({"link": self.link} if self.link else {})


def parent_of(meta: Mapping[str, Any]) -> ParentRun | None:
    """The parent that META names; None if it names none, or not in a form that this version knows."""
    match meta.get(KEY):
        case {"run": str(run_id), "tick": int(tick), "hash": str(state_hash), "path": str(path), **rest}:
            link = rest.get("link", "")
            return ParentRun(run_id, tick, state_hash, path, link if isinstance(link, str) else "")
    return None


def describe_parent(tape: Tape, tick: int, state_hash: int, branch: str | os.PathLike[str]) -> ParentRun:
    """Describe a tape as the parent of a branch that leaves it at tick. Raises as Tape.frame does."""
    folder = Path(branch).absolute().parent
    hashes = tape.recording.recorded_hashes
    link = hashes.identity(tick).hex() if hashes.is_chained(tick) else ""
    own = tape.path.absolute()
    path = own.shown if isinstance(own, TapeUrl) else os.path.relpath(own, folder)
    return ParentRun(tape.run_id, tick, f"{state_hash:016x}", path, link)


def find_parent_of(tape: Tape, tick: int) -> Location:
    """The file of the parent of a branch, to read a tick before the fork; it was compared with what the branch says.

    Raises MissingTickError, with the reason in one line, if the tape is not a branch, or if its parent is missing, is
    another run or has another state at the fork.
    """
    parent = parent_of(tape.meta)
    if parent is None:
        raise MissingTickError(tick, f"the tape has ticks {tape.first_tick} to {tape.last_tick}")
    begins = f"{tape.path} begins at tick {tape.first_tick:,}"
    path = find_parent(tape.path, parent)
    if path is None:
        raise MissingTickError(tick, f"{begins}, and the tape of its parent, {parent.path[:PATH_SHOWN]}, is missing")
    try:
        with Tape(path) as found:
            why = why_unfit(found, parent)
            if why is None and found.first_tick >= tape.first_tick:  # It may even be this tape.
                why = f"its parent {path} begins at tick {found.first_tick:,}"
    except (OSError, RecordingError) as error:
        raise MissingTickError(tick, f"{begins}, and its parent cannot be read: {error}") from None
    if why is not None:
        raise MissingTickError(tick, f"{begins}, and {why}")
    return path


def find_parent(branch: Location, parent: ParentRun) -> Location | None:
    """The file of a parent: where META says, or a file of its name in the folder of the branch; None without one.

    Only regular files are looked at, and only by a relative path: the path comes from a tape.
    """
    if isinstance(branch, TapeUrl):
        return _parent_beside(branch, parent)
    folder = branch.absolute().parent
    named = Path() if Path(parent.path).is_absolute() else Path(os.path.normpath(folder / parent.path))
    for path in (named, folder / Path(parent.path).name):
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):  # A name that no file can have.
            continue
    return None


def _parent_beside(branch: TapeUrl, parent: ParentRun) -> TapeUrl | None:
    """The file of the parent's name in the folder of a branch at a URL: no tape leads to another place of the network."""
    name = Path(parent.path).name
    if name in ("", "..") or any(sign in name for sign in NOT_IN_NAMES):
        return None
    from recorder.storage.remote.url_folder import files_beginning_with  # noqa: PLC0415 - only for tapes at URLs

    listed = files_beginning_with(branch.with_name(name))
    return branch.with_name(name) if listed is None or name in listed else None


def why_unfit(tape: Tape, parent: ParentRun) -> str | None:
    """Why a tape cannot be the parent that a branch names, as the end of a sentence; None if it is the one."""
    from recorder.settings import TICKS_MAX  # noqa: PLC0415 - only for branches: it takes 3 ms

    if tape.run_id != parent.run_id:
        return f"{tape.path} is another run than its parent"
    if not 0 <= parent.tick <= TICKS_MAX:
        return f"it names tick {parent.tick} of its parent"
    try:
        recorded = tape.recording.recorded_hashes.recorded_hash(parent.tick)
        if recorded is None:
            is_same = tape.recording.recorded_hashes.identity(parent.tick).hex() == parent.link
        else:
            is_same = f"{recorded:016x}" == parent.state_hash
    except (MissingTickError, CorruptError, TornError) as error:
        return f"its parent {tape.path} cannot be compared at tick {parent.tick:,}: {error}"
    return None if is_same else f"its parent {tape.path} was changed: it has another state at tick {parent.tick:,}"
