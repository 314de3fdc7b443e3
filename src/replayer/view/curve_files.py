"""Values of curves as a CSV file, in which no name is a formula for a spreadsheet."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from replayer.csv_cells import CsvRows
from replayer.view.mark_index import Ticks

Curve = tuple[
    str, str, tuple[Ticks, npt.NDArray[np.float64]]
]  # What stands before the name, the name, ticks and values.


def curves_as_csv(curves: Sequence[Curve], first: int, last: int) -> str:
    """A line for each tick from first to last at which any of the curves has a value; an empty cell where it has none."""
    inside = []
    for _, _, (ticks, values) in curves:
        part = slice(int(np.searchsorted(ticks, first)), int(np.searchsorted(ticks, last, "right")))
        inside.append(dict(zip(ticks[part].tolist(), values[part].tolist(), strict=True)))
    file = io.StringIO()
    rows = CsvRows(file)
    rows.write(["tick", *(f"{side}{name}" for side, name, _ in curves)])
    for tick in sorted(set().union(*inside)):
        rows.write([tick, *(repr(known[tick]) if tick in known else "" for known in inside)])
    return file.getvalue()
