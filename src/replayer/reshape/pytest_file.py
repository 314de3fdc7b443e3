"""A pytest file that replays a tape: a recorded incident as a regression test."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from recorder.storage.atomic_file import write_file
from replayer.tape.copied_range import UnfitTapeError

_TEXT = '''"""Replay {tape}, which was {made} {origin}: each tick gives the recorded state."""

from pathlib import Path

import replayer
{imports}
TAPE = Path(__file__).parent / {path}


def test_{name}_replays() -> None:
    """Every recorded tick, from its keyframe on."""
    report = replayer.verify_tape(TAPE{factory})

    assert report.ok, f"the first tick that differs: {{report.first_bad}}"
'''


def write_test(path: Path, tape: Path, sim: str | None, origin: str, made: str = "cut out of") -> None:
    """Write the test of a tape. sim: module:factory of the simulation, None for a registered world.

    origin: the old tape. made: how the new one was made of it.

    Raises UnfitTapeError for a name that pytest would not collect, FileExistsError, OSError.
    """
    ensure_test_name(path)
    module, _, factory = (sim or "").partition(":")
    text = _TEXT.format(
        tape=tape.name,
        origin=origin,
        made=made,
        imports=f"import {module}\n" if module else "",
        path=json.dumps(os.path.relpath(tape, path.parent), ensure_ascii=False),
        name=re.sub(r"\W", "_", tape.stem),
        factory=f", {module}.{factory}" if module else "",
    )
    write_file(path, text, existing="refuse")


def ensure_test_name(path: Path) -> None:
    """Raise UnfitTapeError for a name that pytest would not collect."""
    if not re.fullmatch(r"test_\w+\.py|\w+_test\.py", path.name):
        raise UnfitTapeError(f"{path.name}: pytest collects files named test_*.py")
