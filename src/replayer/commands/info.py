"""The command ``replay info``: say what a tape holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recorder.storage.os_errors import reading
from replayer.commands.arguments import choose
from replayer.commands.options import Json
from replayer.report.tape_facts import print_tape, tape_facts
from replayer.status import STATUS_CODES
from replayer.tape.tape import Tape


def info(
    tape: Path | None = None, /, *, fast: Annotated[bool, Parameter(negative="")] = False, as_json: Json = False
) -> int:
    """Say what a tape holds and what state it is in.

    Example: replay info recordings/quiet-meadow-1.tape

    Every block is read and its checksum compared; replay verify re-simulates everything, too.

    Exit code: 0 sealed and whole, 3 incomplete (all before the end is good), 4 corrupt, 5 no tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    fast
        Believe the index, or, without one, the blocks' headers; read no contents.
    as_json
        Print one JSON object.
    """
    path = choose(tape)
    with reading(path), Tape(path) as opened:
        facts = tape_facts(opened, check=not fast)
    if as_json:
        print(json.dumps(facts, indent=1))
    else:
        print_tape(facts)
    return STATUS_CODES[facts["status"]]
