"""What differs between two states, field by field and row by row, whatever room their tables and blobs have.

Rows that are in use are compared, so that a table that outgrew its room on one side only differs in the rows that differ,
and no value is shown of a row that is not there.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.marks import comparable
from sim.kernel.merkle_tree import BLOCK_BYTES
from sim.kernel.schema import COUNTS_FIELD, Slot, Table
from sim.kernel.state import Snapshot, view_rows

SIDES = ("first", "second")  # What two tapes or dumps are called where they are shown.
ROWS_SHOWN = 8  # Of each field that differs; the dump has them all.


@attrs.frozen(eq=False)
class FieldDifference:
    """How one field differs between the recorded and the replayed state of one tick.

    Attributes:
        field: its full name.
        row_count: how many rows differ; those that one side alone has are among them.
        rows: indices of the first of them, each a tuple into the field's row axes.
        recorded, replayed: what those rows hold, (len(rows), ...), or a list of one array a row, with None for a row that
            this side does not have; None where the field cannot be compared row by row.
        note: set where the field cannot be compared row by row.
        blocks: which 64 KiB of the field they lie in, and how many it has; none if it is not larger than that.
        row_names: what the rows are called, of those that have names.
        only_room: whether the field has the same values, and room for another number of rows.
    """

    field: str
    row_count: int
    rows: list[tuple[int, ...]]
    recorded: Any
    replayed: Any
    note: str | None = None
    blocks: tuple[list[int], int] | None = None
    row_names: list[str] | None = None
    only_room: bool = False


def compare_states(
    recorded: Snapshot, replayed: Snapshot, names: tuple[str, str] = ("recorded", "replayed")
) -> list[FieldDifference]:
    """The fields that differ between two states, in the arena's order. names: what to call the two in notes.

    If no value differs, but the room of tables or blobs does, these have a note that says so.
    """
    found = []
    for name in dict.fromkeys([*recorded.layout.slots, *replayed.layout.slots]):
        slots = [state.layout.slots.get(name) for state in (recorded, replayed)]
        if slots[0] is None or slots[1] is None:
            found.append(FieldDifference(name, 0, [], None, None, f"only in the {names[slots[0] is None]} state"))
        elif name == COUNTS_FIELD:
            found += _compare_counts(recorded, replayed)
        elif (note := _unlike(slots[0], slots[1], names)) is not None:
            found.append(FieldDifference(name, 0, [], None, None, note))
        else:
            found += _compare_rows(name, recorded, replayed)
    return found or _compare_room(recorded, replayed, names)


def row_lines(difference: FieldDifference, sides: tuple[str, str] = ("recorded", "replayed")) -> list[str]:
    """A line for each of the rows that are shown, with both values; none if there is nothing to show."""
    if difference.recorded is None or difference.replayed is None:
        return []
    lines = []
    for number, (index, *values) in enumerate(
        zip(difference.rows, difference.recorded, difference.replayed, strict=True)
    ):
        place = f"[{', '.join(map(str, index))}]"
        if difference.row_names is not None:
            place = f"{difference.row_names[number]}:"
        texts = _value_texts(*values)
        lines.append(f"{place} {sides[0]} {texts[0]}, {sides[1]} {texts[1]}")
    return lines


def _value_texts(ours: Any, theirs: Any) -> tuple[str, str]:
    """Two rows as text, with bits where the text is the same and the bytes are not, as of two sorts of NaN."""
    texts = ["no such row" if value is None else str(value.tolist()) for value in (ours, theirs)]
    if texts[0] == texts[1] and ours is not None and theirs is not None:
        flat = [np.ascontiguousarray(value).reshape(-1) for value in (ours, theirs)]
        words = [array.view(np.uint8).reshape(array.size, -1) for array in flat]
        first = int(np.flatnonzero((words[0] != words[1]).any(axis=1))[0])
        where = f"bits of number {first}" if flat[0].size > 1 else "bits"
        texts = [
            f"{text} ({where} {word[first][::-1].tobytes().hex()})" for text, word in zip(texts, words, strict=True)
        ]
    return texts[0], texts[1]


def _unlike(ours: Slot, theirs: Slot, names: tuple[str, str]) -> str | None:
    """Why two fields cannot be compared row by row; None if they can."""
    shapes = [slot.shape if slot.owner is None else slot.shape[1:] for slot in (ours, theirs)]
    if (ours.owner is None) != (theirs.owner is None):
        return f"a part of a table {names[ours.owner is None]}, and not {names[theirs.owner is None]}"
    if shapes[0] != shapes[1] or len(ours.rows_shape) != len(theirs.rows_shape):
        return f"shape {ours.shape} {names[0]}, {theirs.shape} {names[1]}"
    return None if ours.dtype == theirs.dtype else f"{ours.dtype} {names[0]}, {theirs.dtype} {names[1]}"


def _live_rows(state: Snapshot, slot: Slot) -> int:
    return slot.row_count if slot.owner is None else state.count(slot.owner)


def differing_live_rows(recorded: Snapshot, replayed: Snapshot, name: str) -> npt.NDArray[np.int64]:
    """Flat numbers of the rows of a field that differ, or that one side alone has; the field is alike on both."""
    sides = [(state, state.layout.slots[name]) for state in (recorded, replayed)]
    counts = [_live_rows(state, slot) for state, slot in sides]
    common = min(counts)
    behind = np.arange(common, max(counts), dtype=np.int64)
    if not common or not sides[0][1].row_bytes:
        return behind
    words = [comparable(state.arena, slot)[:common] for state, slot in sides]
    differs = words[0] != words[1]
    rows = np.flatnonzero(differs if differs.ndim == 1 else differs.any(axis=1)).astype(np.int64, copy=False)
    return np.concatenate([rows, behind])


def _compare_rows(name: str, recorded: Snapshot, replayed: Snapshot) -> list[FieldDifference]:
    numbers = differing_live_rows(recorded, replayed, name)
    if not len(numbers):
        return []
    slots = [state.layout.slots[name] for state in (recorded, replayed)]
    slot = slots[0] if slots[0].row_count >= slots[1].row_count else slots[1]
    shown = numbers[:ROWS_SHOWN]
    indices = [tuple(int(i) for i in np.unravel_index(number, slot.rows_shape or (1,))) for number in shown]
    sides = [_values(state, name, shown) for state in (recorded, replayed)]
    blocks = None
    if slot.size_bytes > BLOCK_BYTES:
        blocks = np.unique(numbers * slot.row_bytes // BLOCK_BYTES).tolist(), -(-slot.size_bytes // BLOCK_BYTES)
    return [FieldDifference(name, len(numbers), indices, sides[0], sides[1], blocks=blocks)]


def _values(state: Snapshot, name: str, numbers: npt.NDArray[np.int64]) -> Any:
    """What the rows of these numbers hold, see FieldDifference."""
    slot = state.layout.slots[name]
    row_shape = slot.shape[len(slot.rows_shape) :]
    there = numbers[numbers < _live_rows(state, slot)]
    found = np.ascontiguousarray(view_rows(state.arena, slot)[there]).view(slot.dtype).reshape(len(there), *row_shape)
    return found if len(there) == len(numbers) else [*found, *[None] * (len(numbers) - len(there))]


def _compare_counts(recorded: Snapshot, replayed: Snapshot) -> list[FieldDifference]:
    """The numbers of rows and the lengths of blobs, by name: what the two are made of may have another order."""
    names = [name for name in recorded.layout.count_index if name in replayed.layout.count_index]
    counts = [np.array([state.count(name) for name in names], np.int64) for state in (recorded, replayed)]
    numbers = np.flatnonzero(counts[0] != counts[1])
    if not len(numbers):
        return []
    shown = numbers[:ROWS_SHOWN]
    tables = {entry.name for entry in recorded.layout.schema.extensible if isinstance(entry, Table)}
    called = [f"{'rows' if names[i] in tables else 'bytes'} of {names[i]}" for i in shown]
    rows: list[tuple[int, ...]] = [(recorded.layout.count_index[names[i]],) for i in shown]
    return [FieldDifference(COUNTS_FIELD, len(numbers), rows, counts[0][shown], counts[1][shown], row_names=called)]


def _compare_room(recorded: Snapshot, replayed: Snapshot, names: tuple[str, str]) -> list[FieldDifference]:
    """Tables and blobs that have room for more rows on one side, which is a part of a state's hash."""
    ours, theirs = recorded.layout.capacities, replayed.layout.capacities
    return [
        FieldDifference(
            name, 0, [], None, None,
            f"no value differs, only the room: for {ours[name]:,} {names[0]}, for {theirs[name]:,} {names[1]}",
            only_room=True,
        )
        for name in ours
        if name in theirs and ours[name] != theirs[name]
    ]  # fmt: skip
