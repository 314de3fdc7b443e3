"""A small curve of a run: one figure of its telemetry, at about as many ticks as the curve has pixels.

Only some blocks of a long tape are read, so that a list of long runs is drawn as fast as one of short runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recorder.errors import CorruptError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.telemetry_block import TICK, decode_telemetry, join_telemetry
from recorder.format.segments.block_location import optional_blocks
from replayer.tape.tape import Tape
from replayer.view.states.page_json import page_text

POINTS = 60
FIGURES_MAX = 60  # Names that are told.
NO_SKETCH: dict[str, Any] = {"figure": None, "figures": [], "points": []}


def telemetry_sketch(tape: Tape, figure: str | None) -> dict[str, Any]:
    """The curve as JSON: the name of its figure, names of all figures, and points: tick and value, None if not finite.

    figure: the wanted name. None, and a name that the tape lacks, take the first figure that changes. Raises as reading
    an index does.
    """
    blocks = tape.recording.believing_index(
        lambda: [block for block in optional_blocks(tape.segments) if block.entry.kind == BlockKind.TELEMETRY]
    )
    tables = []
    for at in sorted({int(at) for at in np.linspace(0, len(blocks) - 1, POINTS)} if blocks else ()):
        try:
            tables.append(decode_telemetry(blocks[at].payload(), blocks[at].entry.offset))
        except (CorruptError, TornError):
            continue
    columns = join_telemetry(tables)
    names = [name for name in columns if name != TICK]
    if not names:
        return NO_SKETCH
    moving = (name for name in names if np.ptp(columns[name]) > 0)
    chosen = figure if figure in names else next(moving, names[0])
    ticks, values = columns[TICK], np.asarray(columns[chosen], np.float64)
    picked = np.unique(np.linspace(0, len(ticks) - 1, POINTS).astype(np.int64))
    points = [[int(ticks[at]), float(values[at]) if np.isfinite(values[at]) else None] for at in picked.tolist()]
    return {"figure": page_text(chosen), "figures": [page_text(name) for name in names[:FIGURES_MAX]], "points": points}
