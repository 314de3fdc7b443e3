"""The command ``replay repair``: write an intact copy of a damaged tape."""

from __future__ import annotations

import attrs

from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import CORRUPT, INCOMPLETE, SAME, UsageError
from recorder.storage.os_errors import reading, writing
from replayer.commands.arguments import factory_of, folder_beside
from replayer.commands.new_tape import NewTape, new_tape
from replayer.commands.options import Json, Sim, TapePath
from replayer.repair.repair import repair_tape
from replayer.repair.repair_report import NothingToRepairError
from replayer.report.repair_text import print_repair, repair_facts
from replayer.tape.tape import Tape


def repair(
    tape: TapePath,
    /,
    *,
    output: NewTape | None = None,
    as_json: Json = False,
    sim: Sim = None,
) -> int:
    """Write an intact copy of a damaged tape.

    Example: replay repair broken.tape -o repaired.tape

    Everything that is intact is copied. Damaged keyframes are re-simulated and
    checked by their hashes. Ticks whose inputs are lost cannot be rebuilt; the new
    tape lists them. The original is not changed.

    Exit code: 0 nothing is lost, 3 some ticks are lost or there was no state yet,
    4 no state can be read, 5 not a tape.

    Parameters
    ----------
    tape
        The damaged tape.
    output
        The new tape, which must not exist yet. By default NAME-repaired.tape next to TAPE.
    as_json
        Print one JSON object.
    sim
        module:factory of the simulation, for a tape that names no registered world.
    """
    if output is None and not tape.name:
        raise UsageError(f"{tape}: Is a directory: name one tape in it")
    beside = folder_beside(tape) / tape.name
    new = output if output is not None else beside.with_name(f"{beside.stem}-repaired{beside.suffix}")
    with reading(tape), Tape(tape):
        pass  # Errors of the original are reported before anything is written.
    try:
        with writing(new), new_tape(new) as target, progress_bar("repairing", 100, quiet=as_json) as show:
            report = repair_tape(
                tape, target, factory_of(sim), progress=lambda done, total: show(100 * done // max(1, total))
            )
    except NothingToRepairError as error:
        raise UsageError(f"{tape}: {error}", CORRUPT if error.damaged else INCOMPLETE) from None
    report = attrs.evolve(report, path=new)
    if as_json:
        print_json(repair_facts(report))
    else:
        print_repair(tape, report, sim)
    return SAME if report.complete else INCOMPLETE
