"""Tapes inside a dump, and the comparison of two dumps by their trees of hashes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeGuard

import attrs

from recorder.errors import CorruptError
from recorder.format.blocks.block import BlockKind
from recorder.location.tape_location import Location
from recorder.session.lockstep import RUN_NAME, TREE_NAME, write_tree
from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.desync.finding import Finding
from replayer.desync.state_diff import STATE_LABELS, FieldDifference, compare_states
from replayer.tape.tape import Tape
from sim.kernel.merkle_tree import MerkleTree, find_differing_leaves
from sim.kernel.state import Snapshot

REPRODUCTION = "reproduction.tape"
STATE = "state.tape"


def write_tapes(folder: Path, tape: Tape, finding: Finding) -> None:
    """Write two tapes: the state before the divergent tick with the following inputs, and the replayed state.

    The hash tree of the replayed state is written, too. Raises OSError.
    """
    run_id, meta = tape.assembled.run_id, copied_meta(tape.assembled, cut={"from": tape.path.name})
    if finding.before is not None:
        with TapeCopy(folder / REPRODUCTION, run_id, meta) as copy:
            copy.full(finding.tick - 1, finding.before)
            copy.frames([frame for frame in finding.frames if frame.tick >= finding.tick])
            _copy_sections(tape, copy, finding.tick - 1, finding.frames[-1].tick)
            copy.finish({"reason": "cut out", "ticks": finding.frames[-1].tick})
    with TapeCopy(folder / STATE, run_id, meta) as copy:
        copy.full(finding.tick, finding.replayed)
        _copy_sections(tape, copy, finding.tick, finding.tick)
        copy.finish({"reason": "cut out", "ticks": finding.tick})
    write_tree(folder, finding.tick, finding.replayed)


def _copy_sections(tape: Tape, copy: TapeCopy, first: int, last: int) -> None:
    """Copy the sections that others kept beside the state at these ticks."""
    for start, payload in tape.aux.payloads(first, last):
        copy.optional_payload(BlockKind.AUX, payload, start)


@attrs.frozen(eq=False)
class DumpDifference:
    """The differences between the states of two dumps.

    Attributes:
        ticks: ticks of the two states.
        blocks: field and number of each 64 KiB block that differs; None if the states' layouts differ.
        block_count: number of blocks of one state.
        exchanges: number of exchanges of hashes to find the blocks.
        differences: the differences of each field.
        states: both states.
    """

    ticks: tuple[int, int]
    blocks: list[tuple[str, int]] | None
    block_count: int
    exchanges: int
    differences: list[FieldDifference]
    states: tuple[Snapshot, Snapshot]


def is_dump(path: Location) -> TypeGuard[Path]:
    """Return True if path is a folder with the dump of a desync."""
    return isinstance(path, Path) and path.is_dir() and (path / TREE_NAME).is_file()


def diff_dumps(folder_a: Path, folder_b: Path) -> DumpDifference:
    """Compare two dumps. Raises OSError, ValueError for a damaged tree, RecordingError for a damaged state."""
    (tick_a, tree_a), (tick_b, tree_b) = _read_tree(folder_a), _read_tree(folder_b)
    states = _state(folder_a, tick_a), _state(folder_b, tick_b)
    blocks, exchanges = None, 1
    if tree_a.leaves == tree_b.leaves:
        leaf_numbers, exchanges = find_differing_leaves(tree_a, tree_b.ask)
        blocks = [tree_a.leaves[number] for number in leaf_numbers]
    differences = compare_states(*states, STATE_LABELS)
    return DumpDifference((tick_a, tick_b), blocks, len(tree_a.leaves), exchanges, differences, states)


def _read_tree(folder: Path) -> tuple[int, MerkleTree]:
    plain: Any = json.loads((folder / TREE_NAME).read_text(encoding="utf-8"))
    match plain:
        case {"tick": int(tick)}:
            return tick, MerkleTree.from_plain(plain)
    raise ValueError(f"{folder / TREE_NAME}: expected a tree of hashes")


def _state(folder: Path, tick: int) -> Snapshot:
    path = folder / STATE
    with Tape(path if path.exists() else folder / RUN_NAME) as tape:  # A live run's last keyframe is the state.
        place = tape.keyframe_at(tick)
        if place is None:
            raise CorruptError(0, f"the dump has no state of tick {tick}")
        return tape.snapshot(place)
