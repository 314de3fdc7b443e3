"""The parts of a dump that are tapes themselves, and the comparison of two dumps by their trees of hashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import CorruptError
from recorder.session.lockstep import RUN_NAME, TREE_NAME, write_tree
from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.desync.finding import Finding
from replayer.desync.state_diff import SIDES, FieldDifference, compare_states
from replayer.tape.tape import Tape
from sim.kernel.merkle_tree import MerkleTree, find_differing_leaves
from sim.kernel.state import Snapshot

REPRODUCTION = "reproduction.tape"
STATE = "state.tape"


def write_tapes(folder: Path, tape: Tape, finding: Finding) -> None:
    """Write the state before the bad tick with what led on from there, and the replayed state with its tree.

    Raises OSError.
    """
    run_id, meta = tape.assembled.run_id, copied_meta(tape.assembled, cut={"from": tape.path.name})
    if finding.before is not None:
        with TapeCopy(folder / REPRODUCTION, run_id, meta) as copy:
            copy.full(finding.tick - 1, finding.before)
            copy.frames([frame for frame in finding.frames if frame.tick >= finding.tick])
            copy.finish({"reason": "cut out", "ticks": finding.frames[-1].tick})
    with TapeCopy(folder / STATE, run_id, meta) as copy:
        copy.full(finding.tick, finding.replayed)
        copy.finish({"reason": "cut out", "ticks": finding.tick})
    write_tree(folder, finding.tick, finding.replayed)


@attrs.frozen(eq=False)
class DumpDifference:
    """How the states of two dumps differ.

    Attributes:
        ticks: of the two states.
        blocks: field and number of each 64 KiB block that differs; None if the states' layouts do.
        block_count: of one state.
        exchanges: of hashes that it took to find the blocks.
        differences: by field.
    """

    ticks: tuple[int, int]
    blocks: list[tuple[str, int]] | None
    block_count: int
    exchanges: int
    differences: list[FieldDifference]


def is_dump(path: Path) -> bool:
    """Whether it is a folder as a desync leaves it."""
    return path.is_dir() and (path / TREE_NAME).is_file()


def diff_dumps(one: Path, other: Path) -> DumpDifference:
    """Compare two dumps. Raises OSError, ValueError for a damaged tree, RecordingError for a damaged state."""
    (left_tick, left), (right_tick, right) = _read_tree(one), _read_tree(other)
    states = _state(one, left_tick), _state(other, right_tick)
    blocks, exchanges = None, 1
    if left.leaves == right.leaves:
        found, exchanges = find_differing_leaves(left, right.ask)
        blocks = [left.leaves[number] for number in found]
    return DumpDifference((left_tick, right_tick), blocks, len(left.leaves), exchanges, compare_states(*states, SIDES))


def _read_tree(folder: Path) -> tuple[int, MerkleTree]:
    plain: Any = json.loads((folder / TREE_NAME).read_text(encoding="utf-8"))
    match plain:
        case {"tick": int(tick)}:
            return tick, MerkleTree.from_plain(plain)
    raise ValueError(f"{folder / TREE_NAME}: no tree of hashes")


def _state(folder: Path, tick: int) -> Snapshot:
    path = folder / STATE
    with Tape(path if path.exists() else folder / RUN_NAME) as tape:  # A live run's last keyframe is the state.
        place = tape.keyframe_at(tick)
        if place is None:
            raise CorruptError(0, f"the dump has no state of tick {tick}")
        return tape.snapshot(place)
