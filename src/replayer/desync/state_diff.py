"""Compare two states field by field and row by row, independent of the capacities of their tables and blobs.

Only rows in use are compared. If a table outgrew its capacity in one state only, its equal rows still count as equal,
and values of unused rows are never shown.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.marks import comparable
from sim.kernel.merkle_tree import BLOCK_BYTES
from sim.kernel.schema import COUNTS_FIELD, Blob, Slot, Table
from sim.kernel.simulation import SAVED_BYTES_FIELD, SCENARIO_PREFIX
from sim.kernel.state import Snapshot, view_rows

SIZES = "sizes of tables and blobs"  # The name of COUNTS_FIELD for people.

STATE_LABELS = ("first", "second")  # Labels of the states of two tapes or dumps in printed differences.
ROWS_SHOWN = 8  # Of each field that differs; the dump has all of them.


@attrs.frozen(eq=False)
class FieldDifference:
    """The difference of one field between the recorded and the replayed state of one tick.

    Attributes:
        field: full name of the field.
        row_count: number of rows that differ, with those that only one state has.
        rows: indices of the first of them, each a tuple into the field's row axes.
        recorded, replayed: values of these rows, (len(rows), ...), or a list of one array per row, with None for a row
            that this state does not have; None if the field cannot be compared row by row.
        note: set if the field cannot be compared row by row.
        blocks: numbers of the 64 KiB blocks with these rows, and the number of blocks; None if the field has one block.
        row_names: names of the rows, if they have names.
        only_room: True if all values are equal and only the capacity for rows differs.
        title: the name for people, if it is not that of the field.
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
    title: str | None = None

    @property
    def shown_name(self) -> str:
        """The name for people."""
        return self.title or field_title(self.field)


def compare_states(
    recorded: Snapshot, replayed: Snapshot, names: tuple[str, str] = ("recorded", "replayed")
) -> list[FieldDifference]:
    """List the fields that differ between two states, in the arena's order. names: labels of the two in notes.

    If no value differs, tables and blobs with different capacities are listed, with a note.
    """
    differences = []
    for name in dict.fromkeys([*recorded.layout.slots, *replayed.layout.slots]):
        slots = [state.layout.slots.get(name) for state in (recorded, replayed)]
        if slots[0] is None or slots[1] is None:
            differences.append(FieldDifference(name, 0, [], None, None, f"only in the {names[slots[0] is None]} state"))
        elif name == COUNTS_FIELD:
            differences += _compare_counts(recorded, replayed)
        elif (note := _mismatch_note(slots[0], slots[1], names)) is not None:
            differences.append(FieldDifference(name, 0, [], None, None, note))
        else:
            differences += _compare_rows(name, recorded, replayed)
    return differences or _compare_capacities(recorded, replayed, names)


def field_title(field: str) -> str:
    """The name of a field for people: the field of sizes is one that the library adds."""
    return SIZES if field == COUNTS_FIELD else field


def row_lines(difference: FieldDifference, labels: tuple[str, str] = ("recorded", "replayed")) -> list[str]:
    """One line with both values for each row shown; empty if the field cannot be compared row by row."""
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
        lines.append(f"{place} {labels[0]} {texts[0]}, {labels[1]} {texts[1]}")
    return lines


def _value_texts(recorded: Any, replayed: Any) -> tuple[str, str]:
    """Two rows as text; with bits if the texts are equal and the bytes differ, as for two kinds of NaN."""
    texts = ["no such row" if value is None else str(value.tolist()) for value in (recorded, replayed)]
    if texts[0] == texts[1] and recorded is not None and replayed is not None:
        flat = [np.ascontiguousarray(value).reshape(-1) for value in (recorded, replayed)]
        words = [array.view(np.uint8).reshape(array.size, -1) for array in flat]
        first = int(np.flatnonzero((words[0] != words[1]).any(axis=1))[0])
        where = f"bits of number {first}" if flat[0].size > 1 else "bits"
        texts = [
            f"{text} ({where} {word[first][::-1].tobytes().hex()})" for text, word in zip(texts, words, strict=True)
        ]
    return texts[0], texts[1]


def _mismatch_note(recorded: Slot, replayed: Slot, names: tuple[str, str]) -> str | None:
    """The reason why two fields cannot be compared row by row; None if they can."""
    shapes = [slot.shape if slot.owner is None else slot.shape[1:] for slot in (recorded, replayed)]
    if (recorded.owner is None) != (replayed.owner is None):
        in_table, not_in_table = names[recorded.owner is None], names[replayed.owner is None]
        return f"belongs to a table in the {in_table} state, not in the {not_in_table} state"
    if shapes[0] != shapes[1] or len(recorded.rows_shape) != len(replayed.rows_shape):
        return f"shape {recorded.shape} {names[0]}, {replayed.shape} {names[1]}"
    return None if recorded.dtype == replayed.dtype else f"{recorded.dtype} {names[0]}, {replayed.dtype} {names[1]}"


def _live_rows(state: Snapshot, slot: Slot) -> int:
    return slot.row_count if slot.owner is None else state.count(slot.owner)


def differing_live_rows(recorded: Snapshot, replayed: Snapshot, name: str) -> npt.NDArray[np.int64]:
    """Flat indices of the rows that differ, or that only one state has; shapes and dtypes of the field must agree."""
    slots = [(state, state.layout.slots[name]) for state in (recorded, replayed)]
    counts = [_live_rows(state, slot) for state, slot in slots]
    common = min(counts)
    unpaired = np.arange(common, max(counts), dtype=np.int64)
    if not common or not slots[0][1].row_bytes:
        return unpaired
    words = [comparable(state.arena, slot)[:common] for state, slot in slots]
    differs = words[0] != words[1]
    rows = np.flatnonzero(differs if differs.ndim == 1 else differs.any(axis=1)).astype(np.int64, copy=False)
    return np.concatenate([rows, unpaired])


def _compare_rows(name: str, recorded: Snapshot, replayed: Snapshot) -> list[FieldDifference]:
    numbers = differing_live_rows(recorded, replayed, name)
    if not len(numbers):
        return []
    slots = [state.layout.slots[name] for state in (recorded, replayed)]
    slot = slots[0] if slots[0].row_count >= slots[1].row_count else slots[1]
    shown = numbers[:ROWS_SHOWN]
    indices = [tuple(int(i) for i in np.unravel_index(number, slot.rows_shape or (1,))) for number in shown]
    values = [_values(state, name, shown) for state in (recorded, replayed)]
    blocks = None
    if slot.size_bytes > BLOCK_BYTES:
        blocks = np.unique(numbers * slot.row_bytes // BLOCK_BYTES).tolist(), -(-slot.size_bytes // BLOCK_BYTES)
    is_all = name == SAVED_BYTES_FIELD and _is_plain_bytes(recorded) and _is_plain_bytes(replayed)
    title = f"{name} (the bytes of the state)" if is_all else None
    return [FieldDifference(name, len(numbers), indices, values[0], values[1], blocks=blocks, title=title)]


def _values(state: Snapshot, name: str, numbers: npt.NDArray[np.int64]) -> Any:
    """The values of the rows with these flat indices, in the form that FieldDifference documents."""
    slot = state.layout.slots[name]
    row_shape = slot.shape[len(slot.rows_shape) :]
    live = numbers[numbers < _live_rows(state, slot)]
    values = np.ascontiguousarray(view_rows(state.arena, slot)[live]).view(slot.dtype).reshape(len(live), *row_shape)
    return values if len(live) == len(numbers) else [*values, *[None] * (len(numbers) - len(live))]


def _compare_counts(recorded: Snapshot, replayed: Snapshot) -> list[FieldDifference]:
    """Compare numbers of rows and lengths of blobs by name: the order of the entries may differ."""
    names = [name for name in recorded.layout.count_index if name in replayed.layout.count_index]
    counts = [np.array([state.count(name) for name in names], np.int64) for state in (recorded, replayed)]
    numbers = np.flatnonzero(counts[0] != counts[1])
    if not len(numbers):
        return []
    shown = numbers[:ROWS_SHOWN]
    tables = {entry.name for entry in recorded.layout.schema.extensible if isinstance(entry, Table)}
    row_names = [f"{'rows' if names[i] in tables else 'bytes'} of {names[i]}" for i in shown]
    title = None
    if _is_plain_bytes(recorded) and _is_plain_bytes(replayed):  # The user gave these bytes no name.
        title, row_names = "size of the state", ["in bytes"]
    rows: list[tuple[int, ...]] = [(recorded.layout.count_index[names[i]],) for i in shown]
    values = counts[0][shown], counts[1][shown]
    return [FieldDifference(COUNTS_FIELD, len(numbers), rows, *values, row_names=row_names, title=title)]


def _is_plain_bytes(state: Snapshot) -> bool:
    """Return True for a state that is what save() returned, as bytes."""
    entries = [one for one in state.layout.schema.entries if not one.name.startswith(SCENARIO_PREFIX)]
    return [type(one) for one in entries] == [Blob] and entries[0].name == SAVED_BYTES_FIELD


def _compare_capacities(recorded: Snapshot, replayed: Snapshot, names: tuple[str, str]) -> list[FieldDifference]:
    """List tables and blobs whose capacities differ; capacities are part of a state's hash."""
    first, second = recorded.layout.capacities, replayed.layout.capacities
    return [
        FieldDifference(
            name, 0, [], None, None,
            f"no value differs, only the capacity: {first[name]:,} {names[0]}, {second[name]:,} {names[1]}",
            only_room=True,
        )
        for name in first
        if name in second and first[name] != second[name]
    ]  # fmt: skip
