"""The differences of a desync as a table, one line for each element, for programs and spreadsheets."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from replayer.desync.lanes import ulp_distances
from sim.kernel.state import Snapshot

LINES_MAX = 10_000  # Of a state that differs everywhere the states themselves tell more than a table.
HEADING = ("field", "index", "recorded", "replayed", "ulps")


def write_differences(path: Path, recorded: Snapshot, replayed: Snapshot) -> None:
    """Write a CSV file with the elements whose bytes differ, at most LINES_MAX of them. Raises OSError.

    Fields that one side alone has, or in another shape, are not in it.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADING)
        for number, line in enumerate(_lines(recorded, replayed)):
            if number == LINES_MAX:
                break
            writer.writerow(line)


def _lines(recorded: Snapshot, replayed: Snapshot) -> Iterator[tuple[str, ...]]:
    for name in recorded:
        if name not in replayed.layout.slots:
            continue
        ours, theirs = recorded[name], replayed[name]
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype or not ours.size:
            continue
        flat = [np.ascontiguousarray(array).reshape(-1) for array in (ours, theirs)]
        words = [array.view(np.uint8).reshape(array.size, -1) for array in flat]
        numbers = np.flatnonzero((words[0] != words[1]).any(axis=1))[:LINES_MAX]
        ulps = ulp_distances(flat[0][numbers], flat[1][numbers])
        for place, number in enumerate(numbers.tolist()):
            index = " ".join(str(int(part)) for part in np.unravel_index(number, ours.shape))
            ulp = ulps[place] if ulps is not None else None
            values = (repr(array[number].item()) for array in flat)
            yield (name, index, *values, "" if ulp is None else str(ulp))
