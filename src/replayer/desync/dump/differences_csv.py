"""Write the differences of a desync as a CSV table, one line per element, for programs and spreadsheets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from replayer.csv_cells import CsvRows
from replayer.desync.object_diff import KEPT_MAX, ObjectDiff, compare_objects
from replayer.desync.state_diff import compare_states, differing_live_rows
from replayer.desync.ulps import ulp_distances
from replayer.value_text import plain_text
from sim.kernel.schema import COUNTS_FIELD
from sim.kernel.state import Snapshot

LINES_MAX = KEPT_MAX  # If more elements differ, the states themselves are easier to read than a table.
HEADING = ("field", "index", "recorded", "replayed", "ulps")


@attrs.frozen
class TableOfDifferences:
    """Extent of a table of differences.

    Attributes:
        lines: number of elements in the table.
        elements: number of elements that differ.
        left_out: fields that differ and cannot be compared element by element; they are not in the table.
        has_more: True if more values of captured objects differ than were counted.
    """

    lines: int
    elements: int
    left_out: list[str]
    has_more: bool = False

    def facts(self) -> dict[str, Any]:
        """The extent as JSON."""
        facts = attrs.asdict(self)
        return facts if self.has_more else {name: fact for name, fact in facts.items() if name != "has_more"}

    def text(self) -> str:
        """The extent as a phrase."""
        extent = "each element that differs at the next keyframe"
        if self.has_more:
            extent = f"the first {self.lines:,} elements that differ at the next keyframe"
        elif self.lines < self.elements:
            extent = f"the first {self.lines:,} of {self.elements:,} elements that differ at the next keyframe"
        return extent + (f", except {', '.join(self.left_out)}, which cannot be compared" if self.left_out else "")


def write_differences(path: Path, recorded: Snapshot, replayed: Snapshot) -> TableOfDifferences:
    """Write a CSV file with the elements whose bytes differ, at most LINES_MAX of them. Raises OSError.

    Captured objects are compared by the paths of their values, which stand for the name of the field. An element that only one state has gets an empty value for the other. A field that only one state has, or that has
    different shapes, is left out.
    """
    lines = elements = 0
    left_out: list[str] = []
    has_more = False
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = CsvRows(file, line_end="\n")
        rows.write(HEADING)
        objects = compare_objects((recorded, replayed), limit=LINES_MAX, elements=LINES_MAX)
        if objects is not None:
            lines = _write_objects(rows, objects)
            elements, has_more = lines, objects.has_more
        for difference in compare_states(recorded, replayed):
            if objects is not None and objects.holds(difference.field):
                continue
            if difference.note is not None:
                left_out.append(difference.field)
            elif difference.field == COUNTS_FIELD:
                for text in _count_lines(recorded, replayed):
                    rows.write(text)
                    lines, elements = lines + 1, elements + 1
            else:
                numbers, arrays = _elements(difference.field, recorded, replayed)
                elements += len(numbers)
                for text in _lines(difference.field, numbers[: max(0, LINES_MAX - lines)], arrays):
                    rows.write(text)
                    lines += 1
    return TableOfDifferences(lines, elements, left_out, has_more)


def _write_objects(rows: CsvRows, objects: ObjectDiff) -> int:
    """Write the differences of captured objects; returns their number."""
    for difference in objects.differences:
        ulps = None
        if difference.numbers is not None:
            ulps = ulp_distances(*(np.array([number], np.float64) for number in difference.numbers))
        distance = "" if ulps is None or ulps[0] is None else str(ulps[0])
        rows.write((plain_text(difference.subject), "", difference.first, difference.second, distance))
    return len(objects.differences)


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
