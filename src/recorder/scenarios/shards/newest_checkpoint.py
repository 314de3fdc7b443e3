"""The checkpoint of a world in shards at which a run begins: the newest one that can be used, of the same simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import RecordingError
from recorder.exit_codes import UsageError
from recorder.scenarios.shards.checked_manifest import ShardTapesError
from recorder.scenarios.shards.shard_checkpoints import ShardCheckpoint, discover_shard_checkpoints, state_of, sweep
from sim.kernel.plain_data import encode_plain
from sim.kernel.registry import Origin
from sim.kernel.state import Snapshot

_FREE = {"ticks", "name"}  # Keys of a configuration that no rule reads.
_SHOWN_MAX = 40


@attrs.frozen(eq=False)
class ResumedShards:
    """A checkpoint, and its state."""

    checkpoint: ShardCheckpoint
    snapshot: Snapshot


def newest_checkpoint(
    folder: Path, origin: Origin, notes: Mapping[str, Any], notify: Callable[[str], None]
) -> ResumedShards | None:
    """Return the newest checkpoint of a folder that can be used; None if there is none.

    origin, notes: of the run that begins, see notes_of. notify: takes why a checkpoint is ignored. What a killed run left
    half-written is removed; the folder is locked. Raises UsageError for checkpoints of another simulation; OSError.
    """
    found = discover_shard_checkpoints(folder, inner=False)
    for path, why in found.ignored.items():
        notify(f"ignored {why}" if str(path.parent) in why else f"ignored {path}: {why}")
    for checkpoint in found.checkpoints:
        _ensure_same(checkpoint, origin, notes)
    sweep(folder)
    for checkpoint in found.checkpoints:
        try:
            return ResumedShards(checkpoint, state_of(checkpoint).snapshot())
        except (OSError, RecordingError, ShardTapesError) as error:
            notify(f"ignored {error}")
    return None


def _ensure_same(checkpoint: ShardCheckpoint, origin: Origin, notes: Mapping[str, Any]) -> None:
    """Raise UsageError unless a checkpoint is of the simulation, with the inputs, of the run that begins."""
    match checkpoint.meta:
        case {"world": {"name": str(name), "version": int(version), "config": dict(config)}, "notes": dict(theirs)}:
            pass
        case _:
            raise UsageError(f"{checkpoint.path} does not name its world; choose a different folder")
    if (name, version) != (origin.world, origin.version):
        raise UsageError(
            f"{checkpoint.path} is of another world or version: expected {origin.world} version {origin.version}, got "
            f"{name} version {version}; choose a different folder"
        )
    difference = _difference(config, origin.config) or _difference(
        {f"--{key}": theirs.get(key) for key in ("players", "inputs")},
        {f"--{key}": notes.get(key) for key in ("players", "inputs")},
    )
    if difference is not None:
        raise UsageError(
            f"{checkpoint.path} is of a different simulation ({checkpoint.simulation_id}): {difference}; choose a different "
            "folder"
        )


def _difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """The first key in which two mappings of plain data differ, in a sentence; None if they are equal."""
    for key in sorted({*theirs, *ours} - _FREE):
        there, here = theirs.get(key), ours.get(key)
        if encode_plain(there) != encode_plain(here):
            shown = [repr(value) for value in (there, here)]
            if max(map(len, shown)) > _SHOWN_MAX:
                return f"{key} differs"
            return f"{key} is {shown[0]} there and {shown[1]} here"
    return None
