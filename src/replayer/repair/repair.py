"""Make an intact tape of a damaged one: copy intact blocks, rebuild keyframes, list losses.

The original is only read. A damaged keyframe is rebuilt by re-simulating from the one before it, a lost first keyframe
from a fresh simulation. A rebuilt keyframe counts only if its hash is the recorded one. Inputs cannot be rebuilt: ticks
whose frames are lost get a DROP block.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from recorder.session.tape_meta import encode_small
from recorder.storage.tape_copy import TapeCopy, copied_meta
from replayer.playback.make_simulation import Factory
from replayer.repair.planned_keyframes import (
    PlannedKeyframe,
    first_frame_tick,
    last_frame_tick,
    planned_keyframes,
    readable_state,
)
from replayer.repair.rebuild import Rebuilder
from replayer.repair.repair_copy import RepairCopy
from replayer.repair.repair_report import NothingToRepairError, RepairLosses, RepairReport
from replayer.tape.tape import STOPPED_EARLY, Tape
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.state import Snapshot

Progress = Callable[[int, int], None]  # Ticks copied so far, ticks in all.

_KNOWN_KINDS = {"META", "FRAMES", "FULL", "DELTA", "END", "DROP", "INDEX"}


def repair_tape(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    world: Factory | None = None,
    *,
    progress: Progress | None = None,
) -> RepairReport:
    """Write a repaired copy of the tape at path to target.

    world: makes the simulation, for a tape that names no registered world; without a simulation, keyframes are copied
    and none is rebuilt.

    Raises as Tape does on opening; FileExistsError if target exists; NothingToRepairError if no state can be recovered.
    """
    with Tape(path) as tape:
        tape.distrust_index()
        return _repair(tape, Rebuilder(tape, world), Path(target), progress)


def _repair(tape: Tape, rebuilder: Rebuilder, target: Path, progress: Progress | None) -> RepairReport:
    """Copy, rebuild, seal."""
    losses = RepairLosses(optional=_damaged_optional(tape))
    keyframes = planned_keyframes(tape)
    first, start = _find_start(tape, rebuilder, keyframes)
    last = max([keyframe.tick for keyframe in keyframes] + [last_frame_tick(tape)], default=first)
    run_id = bytes.fromhex(tape.run_id) or os.urandom(16)
    status = "corrupt" if tape.check_blocks() else tape.status
    kept = copied_meta(tape.assembled, repaired={"from": tape.path.name, "status": status})
    meta = _stating_chained_hashes(kept) if tape.recording.recorded_hashes.has_hash_chain else kept
    _add_lost_front(losses, tape, rebuilder, keyframes, first)
    with TapeCopy(target, run_id, meta) as tape_copy:
        copy = RepairCopy(tape, tape_copy, rebuilder, losses)
        if start is not None:
            copy.rebuilt_start(first, start)
        next_tick = first + 1
        for keyframe in keyframes:
            if keyframe.tick < first or (keyframe.tick == first and start is not None):
                continue
            next_tick = copy.frames(next_tick, keyframe.tick)
            if keyframe.place is not None:
                copy.optional_blocks((keyframe.place.segment, keyframe.place.entry.offset))
            copy.keyframe(keyframe)
            if progress is not None:
                progress(keyframe.tick - first, last - first)
        copy.frames(next_tick, last)
        copy.optional_blocks(None)
        tape_copy.finish(_outcome_of(tape))
    lost = (losses.keyframes, losses.ticks, losses.optional)
    return RepairReport(target, first, last, copy.copied_keyframes, copy.rebuilt_ticks, *lost)


def _stating_chained_hashes(meta: bytes) -> bytes:
    """META of a tape whose frames have chained hashes, as the file's header says, also if its own is lost."""
    plain = decode_plain(meta)
    return encode_plain({**plain, "settings": {**(plain.get("settings") or {}), "hashes": "changes"}})


def _find_start(tape: Tape, rebuilder: Rebuilder, keyframes: Sequence[PlannedKeyframe]) -> tuple[int, Snapshot | None]:
    """The first tick of the new tape; and its state if that is rebuilt from a fresh simulation, else None."""
    readable = next((k for k in keyframes if k.place is not None and readable_state(tape, k.place) is not None), None)
    first_frame = first_frame_tick(tape)
    if first_frame is not None and (readable is None or first_frame <= readable.tick):
        last = readable.tick if readable is not None else last_frame_tick(tape)
        start = rebuilder.start(first_frame, last)
        if start is not None:
            return first_frame - 1, start
    if readable is None:
        damaged = bool(tape.check_blocks())
        why = "no keyframe can be read and none can be rebuilt" if damaged else STOPPED_EARLY
        raise NothingToRepairError(0, f"{why}: there is nothing to repair", damaged)
    return readable.tick, None


def _damaged_optional(tape: Tape) -> list[tuple[str, str]]:
    """Kind and reason of the damaged blocks of optional kinds."""
    return [(d.kind, d.what) for d in tape.damages if d.kind is not None and d.kind not in _KNOWN_KINDS]


def _add_lost_front(
    losses: RepairLosses, tape: Tape, rebuilder: Rebuilder, keyframes: Sequence[PlannedKeyframe], first: int
) -> None:
    """Add the ticks before the new tape's first one to losses: they have frames, but no state to start from."""
    earlier = [keyframe.tick for keyframe in keyframes if keyframe.tick < first]
    first_frame = first_frame_tick(tape)
    seals = [segment.contents.seal for segment in tape.segments]
    sealed = [seal.first_tick for seal in seals if seal is not None and seal.frame_count]
    begin = min([*earlier, *sealed, first_frame - 1 if first_frame is not None else first])
    settings = tape.meta.get("settings") or {}
    is_ring = any(settings.get(name) is not None for name in ("keep_ticks", "keep_s"))
    if 0 in tape.missing_segments and first and not is_ring:
        losses.ticks.append((0, min(begin, first) - 1, "the first file is missing"))
    if begin < first:
        why = rebuilder.why_none or "a fresh simulation does not give the recorded states"
        losses.keyframes += [(tick, why) for tick in earlier]
        losses.ticks.append((begin, first - 1, "the keyframe that leads to them is lost"))


def _outcome_of(tape: Tape) -> Any:
    """The recording's own outcome if it has one that can be encoded, else "repaired"."""
    if tape.outcome is not None:
        with contextlib.suppress(ValueError):
            encode_small(tape.outcome, "outcome")
            return tape.outcome
    return {"reason": "repaired"}
