"""Options that several subcommands of replay have, and what the state of a tape means for their exit code."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recorder.exit_codes import CORRUPT, DIFFERS, INCOMPLETE, SAME
from replayer.tape.tape import Tape

STATUS_CODES = {"intact": SAME, "incomplete": INCOMPLETE, "corrupt": CORRUPT}


def worst_code(codes: Iterable[int]) -> int:
    """The exit code of several findings: a difference before damage, damage before what is only not complete."""
    found = set(codes)
    return next((code for code in (DIFFERS, CORRUPT, INCOMPLETE) if code in found), SAME)


def tape_code(tape: Tape) -> int:
    """What the state of a tape alone gives; every block is read."""
    return CORRUPT if tape.missing_segments or tape.check_blocks() else STATUS_CODES[tape.status]


Json = Annotated[bool, Parameter(name="--json", negative="")]
Sim = Annotated[str | None, Parameter(name="--sim")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"])]
DumpFolder = Annotated[Path | None, Parameter(name="--dump-folder")]
