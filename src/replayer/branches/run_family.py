"""The families of runs in a folder: which tape is a branch of which."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import attrs

from recorder.errors import CorruptError, MissingTickError, RecordingError, TornError, UnreadableError
from recorder.location.shards_manifest import FOLDER_SUFFIX
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from recorder.storage.file_names import TAPE_SUFFIX
from replayer.branches.parent_run import PATH_SHOWN, ParentRun, find_parent, parent_of, why_unfit
from replayer.tape.tape import Tape

PATTERN = f"*{TAPE_SUFFIX}"


@attrs.frozen
class FamilyMember:
    """A tape in a folder.

    Attributes:
        path: of the tape, in the folder.
        run_id: hexadecimal.
        first_tick, last_tick: the ticks on the tape.
        parent: the tape that it is a branch of; None if it is not a branch, or if that tape is not in the folder.
        parent_run: its parent as its META names it; None if it is not a branch.
        first_different: the first tick with another state than the parent's; None if there is none, or no parent here.
        compared_to: the last tick whose states were compared; None without a parent here.
        note: why there is no parent, in a few words; empty if there is one, or the tape is not a branch.
    """

    path: Location
    run_id: str
    first_tick: int
    last_tick: int
    parent: Location | None = None
    parent_run: ParentRun | None = None
    first_different: int | None = None
    compared_to: int | None = None
    note: str = ""


@attrs.frozen
class RunFamily:
    """The tapes of a folder.

    Attributes:
        members: by path.
        ignored: the files that cannot be read as tapes, with the reason.
    """

    members: Sequence[FamilyMember]
    ignored: dict[Location, str]

    def roots(self) -> list[FamilyMember]:
        """The tapes without a parent in the folder."""
        return [member for member in self.members if member.parent is None]

    def branches_of(self, member: FamilyMember) -> list[FamilyMember]:
        """The branches of a tape, in the order in which they leave it."""
        branches = [(one.parent_run.tick, _parts(one.path), one) for one in self.members if one.parent_run is not None]
        return [one for _, _, one in sorted(branches, key=lambda entry: entry[:2]) if one.parent == member.path]


def _is_of_a_shard(path: Location, tape: Tape) -> bool:
    """Return True for the tape of a shard, which is no run of its own: that is the tape of the whole."""
    notes, (folder, _) = tape.meta.get("notes"), ("", *_parts(path))[-2:]
    return folder.endswith(FOLDER_SUFFIX) and isinstance(notes, dict) and {"shard", "shards"} <= notes.keys()


def read_family(folder: Location) -> RunFamily:
    """Read the tapes of a folder and of all folders in it, but those of shards; of a web server, those of the folder alone.

    Raises OSError if the folder cannot be read.
    """
    paths = _tapes_in(folder) if isinstance(folder, Path) else _tapes_at(folder)
    members: dict[Location, FamilyMember] = {}
    ignored: dict[Location, str] = {}
    for path in paths:
        try:
            with Tape(path) as tape:
                if _is_of_a_shard(path, tape):
                    continue
                first, last = tape.first_tick, tape.last_tick
                members[path] = FamilyMember(path, tape.run_id, first, last, parent_run=parent_of(tape.meta))
        except UnreadableError as error:
            ignored[path] = error.why
        except (OSError, RecordingError) as error:
            ignored[path] = str(error)
    for path, member in members.items():
        if member.parent_run is not None:
            members[path] = _with_parent(member, member.parent_run, members)
    return RunFamily(_without_circles(members), ignored)


def _tapes_in(folder: Path) -> Sequence[Path]:
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "expected a folder of tapes", str(folder))
    os.scandir(folder).close()  # rglob takes a folder that cannot be read for an empty one.
    return sorted(path for path in folder.rglob(PATTERN) if path.is_file())


def _tapes_at(folder: TapeUrl) -> Sequence[TapeUrl]:
    from recorder.storage.remote.range_reads import WEB_SCHEMES  # noqa: PLC0415 - only for tapes at URLs
    from recorder.storage.remote.url_folder import files_below, list_folder  # noqa: PLC0415 - as above

    if folder.suffix == TAPE_SUFFIX:
        raise NotADirectoryError(errno.ENOTDIR, "expected a folder of tapes", folder.shown)
    names = set() if folder.scheme in WEB_SCHEMES else files_below(folder)
    found = names or set(list_folder(folder))  # It raises where there is no such folder.
    return [folder / name for name in sorted(found) if name.endswith(TAPE_SUFFIX)]


def _parts(path: Location) -> Sequence[str]:
    """The parts of a path, to sort by."""
    return path.parts if isinstance(path, Path) else path.text.split("/")


def _with_parent(member: FamilyMember, parent: ParentRun, members: dict[Location, FamilyMember]) -> FamilyMember:
    """Find the parent of a branch: where META says, else any tape of that run that has the state of the fork."""
    named = find_parent(member.path, parent)
    own = [path for path in members if path.absolute() == (named.absolute() if named is not None else None)]
    others = [path for path, one in members.items() if one.run_id == parent.run_id and path not in own]
    note = f"its parent {parent.path[:PATH_SHOWN]} is not in this folder"
    for path in [one for one in own + others if one != member.path]:
        with Tape(path) as tape:
            why = why_unfit(tape, parent)
            if why is not None:
                note = why if path in own else note
                continue
            with Tape(member.path) as branch:
                different, compared = first_difference(tape, branch, parent.tick)
            return attrs.evolve(member, parent=path, first_different=different, compared_to=compared)
    return attrs.evolve(member, note=note)


def _without_circles(members: dict[Location, FamilyMember]) -> list[FamilyMember]:
    """Cut a circle, which only META that was made up can have: each tape then hangs on a root."""
    for path in list(members):
        seen, above = {path}, members[path].parent
        while above is not None and above not in seen:
            seen.add(above)
            above = members[above].parent
        if above is not None:
            members[above] = attrs.evolve(members[above], parent=None, note="it names itself as its parent")
    return list(members.values())


def first_difference(parent: Tape, branch: Tape, tick: int) -> tuple[int | None, int]:
    """The first tick from tick on with different states, or None, and the last tick that was compared."""
    compared = tick
    for one in range(max(tick, branch.first_tick), min(parent.last_tick, branch.last_tick) + 1):
        try:
            hashes = [tape.recording.recorded_hashes.recorded_hash(one) for tape in (parent, branch)]
        except (MissingTickError, CorruptError, TornError):
            break
        if None in hashes:
            continue  # Chained hashes of two tapes cannot be compared.
        if hashes[0] != hashes[1]:
            return one, one
        compared = one
    return None, compared
