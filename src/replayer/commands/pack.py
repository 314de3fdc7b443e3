"""The command ``replay pack``: a tape for storage, smaller, with the same content."""

from __future__ import annotations

from typing import Annotated

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.exit_codes import SAME, UsageError
from recorder.format.segments.packed_piece import LEVEL_USUAL, LEVELS
from recorder.format.zstandard_frames import MissingCodecError
from recorder.storage.os_errors import reading, writing
from recorder.visible_text import print_visible
from replayer.commands.arguments import note_losses, ready_tape
from replayer.commands.new_tape import NewTape, fitting, new_tape
from replayer.commands.options import Json, TapePath
from replayer.reshape.pack import pack_tape
from replayer.value_text import tick_range
from sim.extras import missing_package


def pack(
    tape: TapePath,
    /,
    *,
    output: NewTape,
    level: Annotated[int, Parameter(validator=Number(gte=LEVELS[0], lte=LEVELS[1]))] = LEVEL_USUAL,
    as_json: Json = False,
) -> int:
    """Write a tape for storage: smaller, with the same ticks, hashes and states.

    Examples:
    replay pack run.tape -o run.packed.tape
    replay pack run.tape -o run.packed.tape --level 3
    replay cut run.packed.tape --ticks 0..-1 -o run.tape

    Nothing is simulated, and the old tape is not changed. The new one is read again
    before it counts as made, and every frame, keyframe and other block is compared
    with the old one. All commands read a packed tape, a little slower. It needs the
    package zstandard, here and wherever it is read. replay cut unpacks it.

    Exit code: 0 written, 2 not a complete tape, no package, or the name exists.

    Parameters
    ----------
    tape
        The tape.
    output
        The new tape, which must not exist yet.
    level
        How thoroughly to search for repetitions: from 1, quick, to 19, small.
    as_json
        Print one JSON object.
    """
    with ready_tape(tape) as opened:
        note_losses(opened)
        total = 2 * (opened.last_tick - opened.first_tick)
    try:
        with (
            reading(tape),
            fitting(),
            writing(output),
            new_tape(output) as target,
            progress_bar("packing", total, quiet=as_json) as show,
        ):
            report = pack_tape(tape, target, level=level, progress=lambda done, _: show(done))
    except MissingCodecError:
        raise UsageError(missing_package("replay pack", "zstandard", "zstd")) from None
    if as_json:
        print_json(attrs.asdict(report) | {"path": str(output)})
        return SAME
    sizes = f"{report.bytes_before / 1e3:,.1f} → {report.size_bytes / 1e3:,.1f} kB"
    print_visible(f"{output}: {tick_range(report.first_tick, report.last_tick)} of {tape}, {sizes}, compared with it")
    return SAME
