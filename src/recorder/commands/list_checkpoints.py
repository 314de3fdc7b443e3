"""The command ``record checkpoints``: list the checkpoints of runs, the last written first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recorder.console.output import print_json
from recorder.exit_codes import UsageError
from recorder.scenarios.checkpoints import FOLDER, Checkpoint, discover_all_checkpoints
from recorder.storage.os_errors import reading
from recorder.text import bytes_text, counted
from recorder.visible_text import print_visible

_COLUMNS = ("time", "tick", "run", "size", "checkpoint")
_RIGHT = {"tick", "size"}
_TIMELESS = "?"  # A checkpoint of an earlier version.


def checkpoints(
    folder: Path = Path(FOLDER),
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="Print one JSON object.")] = False,
) -> None:
    """List the checkpoints of runs, the last written first.

    Examples:
    record checkpoints
    record checkpoints artifacts/ambush
    record run ambush.toml --from artifacts/ambush/checkpoint_30.tape

    Each state of a run is listed once. Files that are empty, damaged or incomplete
    are named with the reason, and are no checkpoints.

    Parameters
    ----------
    folder
        Searched with all folders in it; by default artifacts/.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: runs with a checkpoint_interval write checkpoints to {FOLDER}/")
    with reading(folder):
        found = discover_all_checkpoints(folder)
    if as_json:
        ignored = {str(path): why for path, why in found.ignored.items()}
        print_json({"checkpoints": list(map(_facts, found.checkpoints)), "ignored": ignored})
        return
    lines = [counted(len(found.checkpoints), "checkpoint")]
    lines += _table([_COLUMNS, *map(_row, found.checkpoints)]) if found.checkpoints else []
    lines += [f"ignored {path}: {why}" for path, why in found.ignored.items()]
    if found.checkpoints:
        lines.append(f"next: record run SCENARIO --from {found.checkpoints[0].path}")
    print_visible("\n".join(lines))


def _facts(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "time": checkpoint.created or None,
        "tick": checkpoint.tick,
        "run": checkpoint.run,
        "bytes": checkpoint.size_bytes,
        "path": str(checkpoint.path),
        "state_hash": checkpoint.state_hash,
        "scenario_hash": checkpoint.scenario_hash,
    }


def _row(checkpoint: Checkpoint) -> tuple[str, ...]:
    time, size = checkpoint.created or _TIMELESS, bytes_text(checkpoint.size_bytes)
    return time, f"{checkpoint.tick:,}", checkpoint.run, size, str(checkpoint.path)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return [
        "  ".join(
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
