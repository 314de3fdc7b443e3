"""Write the differences of a desync as a CSV table, one line per element, for programs and spreadsheets."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from replayer.desync.state_diff import compare_states, differing_live_rows
from replayer.desync.ulps import ulp_distances
from sim.kernel.schema import COUNTS_FIELD
from sim.kernel.state import Snapshot

LINES_MAX = 10_000  # If more elements differ, the states themselves are easier to read than a table.
HEADING = ("field", "index", "recorded", "replayed", "ulps")


@attrs.frozen
class TableOfDifferences:
    """Extent of a table of differences.

    Attributes:
        lines: number of elements in the table.
        elements: number of elements that differ.
        left_out: fields that differ and cannot be compared element by element; they are not in the table.
    """

    lines: int
    elements: int
    left_out: list[str]

    def text(self) -> str:
        """The extent as a phrase."""
        extent = "each element that differs at the next keyframe"
        if self.lines < self.elements:
            extent = f"the first {self.lines:,} of {self.elements:,} elements that differ at the next keyframe"
        return extent + (f", except {', '.join(self.left_out)}, which cannot be compared" if self.left_out else "")


def write_differences(path: Path, recorded: Snapshot, replayed: Snapshot) -> TableOfDifferences:
    """Write a CSV file with the elements whose bytes differ, at most LINES_MAX of them. Raises OSError.

    An element that only one state has gets an empty value for the other. A field that only one state has, or that has
    different shapes, is left out.
    """
    lines = elements = 0
    left_out = []
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADING)
        for difference in compare_states(recorded, replayed):
            if difference.note is not None:
                left_out.append(difference.field)
            elif difference.field == COUNTS_FIELD:
                for text in _count_lines(recorded, replayed):
                    writer.writerow(text)
                    lines, elements = lines + 1, elements + 1
            else:
                numbers, arrays = _elements(difference.field, recorded, replayed)
                elements += len(numbers)
                for text in _lines(difference.field, numbers[: max(0, LINES_MAX - lines)], arrays):
                    writer.writerow(text)
                    lines += 1
    return TableOfDifferences(lines, elements, left_out)


def _count_lines(recorded: Snapshot, replayed: Snapshot) -> Iterator[tuple[str, ...]]:
    """Lines for the numbers of rows and the lengths of blobs; the index is the name."""
    for name in recorded.layout.count_index:
        if name in replayed.layout.count_index and recorded.count(name) != replayed.count(name):
            yield COUNTS_FIELD, name, str(recorded.count(name)), str(replayed.count(name)), ""


def _elements(
    name: str, recorded: Snapshot, replayed: Snapshot
) -> tuple[npt.NDArray[np.int64], tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Flat indices of the elements that differ, or that only one state has; and the field in both states."""
    arrays = recorded[name], replayed[name]
    slot = recorded.layout.slots[name]
    width = math.prod(slot.shape[len(slot.rows_shape) :])
    rows = differing_live_rows(recorded, replayed, name)
    numbers = (rows[:, None] * width + np.arange(width)).reshape(-1)
    common = min(array.size for array in arrays)
    both = numbers[numbers < common]
    flat = [np.ascontiguousarray(array).reshape(-1)[both] for array in arrays]
    words = [array.view(np.uint8).reshape(len(both), array.itemsize) for array in flat]
    differs = (words[0] != words[1]).any(axis=1)
    return np.concatenate([both[differs], numbers[numbers >= common]]), arrays


def _lines(
    name: str, numbers: npt.NDArray[np.int64], arrays: tuple[npt.NDArray[Any], npt.NDArray[Any]]
) -> Iterator[tuple[str, ...]]:
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    both = numbers[numbers < min(array.size for array in arrays)]  # They come first.
    ulps = ulp_distances(flat[0][both], flat[1][both]) if len(both) else None
    shape = max(array.shape for array in arrays)
    for position, number in enumerate(numbers.tolist()):
        index = " ".join(str(int(axis_index)) for axis_index in np.unravel_index(number, shape))
        ulp = ulps[position] if ulps is not None and position < len(both) else None
        values = (repr(array[number].item()) if number < array.size else "" for array in flat)
        yield (name, index, *values, "" if ulp is None else str(ulp))
