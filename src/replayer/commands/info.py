"""The command ``replay info``: print what a tape holds and what state it is in."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from recorder.console.output import print_json
from recorder.storage.os_errors import reading
from replayer.commands.arguments import choose
from replayer.commands.options import Json, TapePath
from replayer.report.tape_facts import print_tape, tape_facts
from replayer.status import STATUS_CODES
from replayer.tape.tape import Tape


def info(
    tape: TapePath | None = None, /, *, fast: Annotated[bool, Parameter(negative="")] = False, as_json: Json = False
) -> int:
    """Show what a tape holds and what state it is in.

    Examples:
    replay info recordings/quiet-meadow-1.tape
    replay info s3://bucket/run.tape

    Every block is read and its checksum compared. To re-simulate every tick, too,
    use replay verify.

    Exit code: 0 intact, 3 incomplete (everything that is there is good),
    4 corrupt, 5 not a tape.

    Parameters
    ----------
    tape
        The tape; by default the newest in recordings/.
    fast
        Trust the index, or the block headers if there is no index. Contents are not read.
    as_json
        Print one JSON object.
    """
    path = choose(tape)
    with reading(path), Tape(path) as opened:
        facts = tape_facts(opened, check=not fast)
    if as_json:
        print_json(facts)
    else:
        print_tape(facts)
    return STATUS_CODES[facts["status"]]
