"""The command ``replay tree``: the tapes of a folder, each branch under the run that it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorder.console.output import print_json
from recorder.exit_codes import SAME
from recorder.location.tape_location import Location, name_below
from recorder.storage.os_errors import reading
from recorder.text import counted
from recorder.visible_text import print_visible
from replayer.branches.run_family import FamilyMember, RunFamily, read_family
from replayer.commands.options import Json, PlacePath
from replayer.value_text import plain_text, tick_range


def tree(folder: PlacePath, /, *, as_json: Json = False) -> int:
    """Draw the family of the tapes in a folder: each branch under the run that it leaves.

    Examples:
    replay tree recordings
    replay tree s3://bucket/runs

    Folders in it are read, too. A branch is listed under its parent if the parent's tape
    is in the folder, and has the state that the branch began with. The first tick with
    another state comes from the recorded hashes; nothing is simulated.

    Exit code: 0 drawn, 2 not a folder.

    Parameters
    ----------
    folder
        The folder, a path or a URL. Of a web server, folders in it are not read.
    as_json
        Print one JSON object.
    """
    with reading(folder):
        family = read_family(folder)
    if as_json:
        print_json(_facts(folder, family))
    else:
        print_visible("\n".join(map(plain_text, _lines(folder, family))))
    return SAME


def _lines(folder: Location, family: RunFamily) -> Iterator[str]:
    branches = sum(member.parent_run is not None for member in family.members)
    word = "branch" if branches == 1 else "branches"
    yield f"{folder}: {counted(len(family.members), 'tape')}, {branches:,} {word}"
    for root in family.roots():
        note = f" ({root.note})" if root.note else ""
        yield f"{name_below(folder, root.path)}: {tick_range(root.first_tick, root.last_tick)}{note}"
        yield from _branch_lines(folder, family, root, "")
    for path, why in family.ignored.items():
        yield f"not read: {name_below(folder, path)}: {why}"


def _branch_lines(folder: Location, family: RunFamily, member: FamilyMember, indent: str) -> Iterator[str]:
    branches = family.branches_of(member)
    for branch in branches:
        is_last = branch is branches[-1]
        fork = branch.parent_run.tick if branch.parent_run is not None else 0
        different = branch.first_different
        text = (
            f"first different at tick {different:,}"
            if different is not None
            else f"the same to tick {branch.compared_to:,}"
        )
        name = name_below(folder, branch.path)
        yield f"{indent}{'└' if is_last else '├'}─ at {fork:,}  {name}: to tick {branch.last_tick:,}, {text}"
        yield from _branch_lines(folder, family, branch, indent + ("   " if is_last else "│  "))


def _facts(folder: Location, family: RunFamily) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "tapes": [
            {
                "tape": name_below(folder, member.path),
                "run_id": member.run_id,
                "first_tick": member.first_tick,
                "last_tick": member.last_tick,
                "parent": name_below(folder, member.parent) if member.parent is not None else None,
                "parent_run_id": member.parent_run.run_id if member.parent_run is not None else None,
                "fork_tick": member.parent_run.tick if member.parent_run is not None else None,
                "first_different": member.first_different,
                "compared_to": member.compared_to,
                "note": member.note,
            }
            for member in family.members
        ],
        "not_read": {name_below(folder, path): why for path, why in family.ignored.items()},
    }
