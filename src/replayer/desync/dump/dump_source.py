"""Find the tape and the tick that the dump of a desync is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import RecordingError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from replayer.desync.dump.dump_tapes import REPRODUCTION
from replayer.tape.tape import Tape

FINDING = "finding.json"


@attrs.frozen
class DumpSource:
    """The source of a dump.

    Attributes:
        tape: the tape that was verified; the reproduction in the dump if that tape is not found.
        tick: the first divergent tick.
        missing: the path that the dump states, if no tape of the same run is there; else None.
    """

    tape: Location
    tick: int
    missing: str | None


def dump_source(folder: Location) -> DumpSource | None:
    """The source of a dump that replay verify wrote; None if the path is not the folder of one.

    The tape is searched where the dump states it, and next to the dump. Raises ValueError if the dump does not have what
    it should, OSError.
    """
    if isinstance(folder, TapeUrl) or not (folder / FINDING).is_file():
        return None
    facts: Any = json.loads((folder / FINDING).read_text(encoding="utf-8"))
    match facts:
        case {"tape": str(stated), "run_id": str(run_id), "tick": int(tick)}:
            pass
        case _:
            raise ValueError(f"{folder / FINDING}: expected the finding of replay verify")
    for path in (Path(stated), folder.parent / Path(stated).name):
        if path.exists() and _is_of_run(path, run_id):
            return DumpSource(path, tick, None)
    if not (folder / REPRODUCTION).is_file():
        raise ValueError(f"{folder}: its tape, {stated}, is not there, and it has no {REPRODUCTION}")
    return DumpSource(folder / REPRODUCTION, tick, stated)


def _is_of_run(path: Path, run_id: str) -> bool:
    try:
        with Tape(path) as tape:
            return tape.run_id == run_id
    except (RecordingError, OSError):
        return False
