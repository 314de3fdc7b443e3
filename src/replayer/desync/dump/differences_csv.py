"""The differences of a desync as a table, one line for each element, for programs and spreadsheets."""

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

LINES_MAX = 10_000  # Of a state that differs everywhere the states themselves tell more than a table.
HEADING = ("field", "index", "recorded", "replayed", "ulps")


@attrs.frozen
class TableOfDifferences:
    """What a table of differences holds.

    Attributes:
        lines: how many elements are in it.
        elements: how many differ.
        left_out: fields that differ and are not in it, since they cannot be compared element by element.
    """

    lines: int
    elements: int
    left_out: list[str]

    def what(self) -> str:
        """In words."""
        which = "each element that differs at the next keyframe"
        if self.lines < self.elements:
            which = f"the first {self.lines:,} of {self.elements:,} elements that differ at the next keyframe"
        return which + (f", but for {', '.join(self.left_out)}, which cannot be compared" if self.left_out else "")


def write_differences(path: Path, recorded: Snapshot, replayed: Snapshot) -> TableOfDifferences:
    """Write a CSV file with the elements whose bytes differ, at most LINES_MAX of them. Raises OSError.

    The value of an element that one side does not have is empty. Of fields that one side alone has, or in another
    shape, nothing is in it.
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
                places, sides = _elements(difference.field, recorded, replayed)
                elements += len(places)
                for text in _lines(difference.field, places[: max(0, LINES_MAX - lines)], sides):
                    writer.writerow(text)
                    lines += 1
    return TableOfDifferences(lines, elements, left_out)


def _count_lines(recorded: Snapshot, replayed: Snapshot) -> Iterator[tuple[str, ...]]:
    """The numbers of rows and the lengths of blobs; the index is the name."""
    for name in recorded.layout.count_index:
        if name in replayed.layout.count_index and recorded.count(name) != replayed.count(name):
            yield COUNTS_FIELD, name, str(recorded.count(name)), str(replayed.count(name)), ""


def _elements(
    name: str, recorded: Snapshot, replayed: Snapshot
) -> tuple[npt.NDArray[np.int64], tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Flat numbers of the elements that differ, or that one side alone has, and the field on both sides."""
    sides = recorded[name], replayed[name]
    slot = recorded.layout.slots[name]
    width = math.prod(slot.shape[len(slot.rows_shape) :])
    rows = differing_live_rows(recorded, replayed, name)
    numbers = (rows[:, None] * width + np.arange(width)).reshape(-1)
    common = min(side.size for side in sides)
    both = numbers[numbers < common]
    flat = [np.ascontiguousarray(side).reshape(-1)[both] for side in sides]
    words = [array.view(np.uint8).reshape(len(both), array.itemsize) for array in flat]
    differs = (words[0] != words[1]).any(axis=1)
    return np.concatenate([both[differs], numbers[numbers >= common]]), sides


def _lines(
    name: str, numbers: npt.NDArray[np.int64], sides: tuple[npt.NDArray[Any], npt.NDArray[Any]]
) -> Iterator[tuple[str, ...]]:
    flat = [np.ascontiguousarray(side).reshape(-1) for side in sides]
    both = numbers[numbers < min(side.size for side in sides)]  # They come first.
    ulps = ulp_distances(flat[0][both], flat[1][both]) if len(both) else None
    shape = max(side.shape for side in sides)
    for place, number in enumerate(numbers.tolist()):
        index = " ".join(str(int(part)) for part in np.unravel_index(number, shape))
        ulp = ulps[place] if ulps is not None and place < len(both) else None
        values = (repr(array[number].item()) if number < array.size else "" for array in flat)
        yield (name, index, *values, "" if ulp is None else str(ulp))
