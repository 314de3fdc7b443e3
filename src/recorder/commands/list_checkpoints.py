"""The command ``record checkpoints``: list the checkpoints of runs, the last written first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recorder.cluster.checkpoint_folder import discover_whole_checkpoints
from recorder.cluster.whole_checkpoint import WholeCheckpoint
from recorder.console.argument_types import LocalPath
from recorder.console.output import print_json
from recorder.exit_codes import UsageError
from recorder.scenarios.checkpoints import FOLDER, Checkpoint, discover_all_checkpoints
from recorder.scenarios.shards.shard_checkpoints import ShardCheckpoint, discover_shard_checkpoints
from recorder.storage.os_errors import reading
from recorder.text import bytes_text, counted
from recorder.visible_text import print_visible

AnyCheckpoint = Checkpoint | WholeCheckpoint | ShardCheckpoint
_COLUMNS = ("time", "tick", "run", "size", "checkpoint")
_RIGHT = {"tick", "size"}
_TIMELESS = "?"  # A checkpoint of an earlier version.


def checkpoints(
    folder: LocalPath = Path(FOLDER),
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object.")] = False,
) -> None:
    """List the checkpoints of runs, the last written first.

    Try:
    record checkpoints
    record checkpoints artifacts/ambush
    record checkpoints whole
    record run ambush.toml --from artifacts/ambush/checkpoint_30.tape

    Each state of a run is listed once. Files that are empty, damaged or incomplete
    are named with the reason, and are no checkpoints. Those of record run --workers
    and --shards are listed by their manifests, if all of their parts are there and intact.

    Parameters
    ----------
    folder
        Searched with all folders in it; by default artifacts/.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: runs with a checkpoint_interval write checkpoints to {FOLDER}/")
    with reading(folder):
        found, whole = discover_all_checkpoints(folder), discover_whole_checkpoints(folder)
        shards = discover_shard_checkpoints(folder)
    checkpoints: list[AnyCheckpoint] = [*found.checkpoints, *whole.checkpoints, *shards.checkpoints]
    checkpoints.sort(key=_moment, reverse=True)
    ignored = {**found.ignored, **whole.ignored, **shards.ignored}
    if as_json:
        named = {str(path): why for path, why in ignored.items()}
        print_json({"checkpoints": list(map(_facts, checkpoints)), "ignored": named})
        return
    lines = [counted(len(checkpoints), "checkpoint")]
    lines += _table([_COLUMNS, *map(_row, checkpoints)]) if checkpoints else []
    lines += [f"ignored {path}: {why}" for path, why in ignored.items()]
    if checkpoints:
        lines.append(f"next: {_next(checkpoints[0])}")
    print_visible("\n".join(lines))


def _moment(checkpoint: AnyCheckpoint) -> tuple[float, int]:
    """The time of a checkpoint in seconds, then its tick. Tapes know the second only: of one second they come later."""
    if not isinstance(checkpoint, Checkpoint):
        return checkpoint.timestamp, checkpoint.tick
    try:
        return datetime.fromisoformat(checkpoint.created).timestamp(), checkpoint.tick
    except ValueError:  # One of an earlier version has no time.
        return 0.0, checkpoint.tick


def _created(checkpoint: WholeCheckpoint | ShardCheckpoint) -> str:
    return datetime.fromtimestamp(checkpoint.timestamp, UTC).isoformat(timespec="seconds")


def _next(checkpoint: AnyCheckpoint) -> str:
    if isinstance(checkpoint, ShardCheckpoint):
        folder = checkpoint.path.parent.parent
        return f"record run SCENARIO --shards {checkpoint.shard_count} --checkpoints {folder}"
    if isinstance(checkpoint, WholeCheckpoint):
        return f"record run SCENARIO --workers {checkpoint.worker_count} --checkpoints {checkpoint.path.parent}"
    return f"record run SCENARIO --from {checkpoint.path}"


def _facts(checkpoint: AnyCheckpoint) -> dict[str, Any]:
    if isinstance(checkpoint, Checkpoint):
        created, run = checkpoint.created or None, checkpoint.run
        own: dict[str, Any] = {"scenario_hash": checkpoint.scenario_hash}
    else:
        created, run = _created(checkpoint), checkpoint.simulation_id
        own = {"checkpoint_id": checkpoint.checkpoint_id, "simulation_id": checkpoint.simulation_id}
        if isinstance(checkpoint, ShardCheckpoint):
            own["shard_count"] = checkpoint.shard_count
        else:
            own |= {"worker_count": checkpoint.worker_count, "organism_count": checkpoint.organism_count}
    return {
        "time": created,
        "tick": checkpoint.tick,
        "run": run,
        "bytes": checkpoint.size_bytes,
        "path": str(checkpoint.path),
        "state_hash": checkpoint.state_hash,
        **own,
    }


def _row(checkpoint: AnyCheckpoint) -> tuple[str, ...]:
    if isinstance(checkpoint, Checkpoint):
        created, run = checkpoint.created or _TIMELESS, checkpoint.run
    else:
        if isinstance(checkpoint, ShardCheckpoint):
            parts = counted(checkpoint.shard_count, "shard")
        else:
            parts = counted(checkpoint.worker_count, "worker")
        created, run = _created(checkpoint), f"{checkpoint.simulation_id}, {parts}"
    return created, f"{checkpoint.tick:,}", run, bytes_text(checkpoint.size_bytes), str(checkpoint.path)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return [
        "  ".join(
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
