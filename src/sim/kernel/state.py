"""The state: one contiguous, aligned arena that holds everything the next step reads, with a NumPy view for each field.

A snapshot is one memcpy, the state hash is one call, and a scan for changes is one pass over memory.

Invariants:
    1. Bytes of the arena that no live row, blob or field owns are zero, so that equal states have equal arenas.
    2. Growing a table or blob makes a new arena and a new Layout; the old views become read-only.
    3. A Snapshot never changes.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.hashing import field_memory, hash_arena, hash_bytes, hash_field, hash_fields
from sim.kernel.marks import MANY_ROWS, ROW_NUMBERS, ChangeMarks, MarkListener, QuickMarks, comparable, row_numbers
from sim.kernel.schema import ALIGNMENT_BYTES, COUNTS_FIELD, Blob, Field, Layout, Schema, Slot, make_layout
from sim.near_names import did_you_mean

MARKED_AT_ONCE = 1 << 20  # Rows of a slice.

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


def make_arena(size_bytes: int) -> Bytes:
    """Allocate zeroed memory of size_bytes that starts at a multiple of ALIGNMENT_BYTES."""
    return _aligned(np.zeros(size_bytes + ALIGNMENT_BYTES, np.uint8), size_bytes)


def unset_arena(size_bytes: int) -> Bytes:
    """Allocate an arena with arbitrary content, for a caller that writes all of it."""
    return _aligned(np.empty(size_bytes + ALIGNMENT_BYTES, np.uint8), size_bytes)


def _aligned(memory: Bytes, size_bytes: int) -> Bytes:
    start = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[start : start + size_bytes]


def view_field(arena: Bytes, slot: Slot) -> Array:
    """The field at slot as a view of the arena's memory, at its full capacity."""
    return arena[slot.offset : slot.offset + slot.size_bytes].view(slot.dtype).reshape(slot.shape)


def view_rows(arena: Bytes, slot: Slot) -> Bytes:
    """The field at slot as a (row_count, row_bytes) uint8 view of the arena's memory."""
    return arena[slot.offset : slot.offset + slot.size_bytes].reshape(slot.row_count, slot.row_bytes)


@attrs.frozen(eq=False, repr=False)
class Snapshot:
    """The complete state at one tick, in memory; it never changes.

    ``snapshot["plants.energy"]`` is the field as a read-only array: of its shape, or (rows, *shape of one row) for a
    column of a table, in its dtype; a blob is (bytes,) uint8. KeyError lists the existing fields.

    Attributes:
        layout: the locations of the fields.
        arena: (layout.size_bytes,) uint8, read-only.
    """

    layout: Layout
    arena: Bytes

    def __attrs_post_init__(self) -> None:
        if self.arena.shape != (self.layout.size_bytes,):
            raise ValueError(f"arena: expected shape ({self.layout.size_bytes},), got {self.arena.shape}")
        self.arena.flags.writeable = False

    def __getitem__(self, name: str) -> Array:
        """The field called name, live rows only, read-only; KeyError lists the existing fields."""
        slot = _find_slot(self.layout, name)
        view = view_field(self.arena, slot)
        return view if slot.owner is None else view[: self.count(slot.owner)]

    def __iter__(self) -> Iterator[str]:
        """The names of the fields, in the arena's order."""
        return (name for name in self.layout.slots if name != COUNTS_FIELD)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} fields, {self.layout.size_bytes} bytes, hash {self.hash():016x}>"

    def count(self, name: str) -> int:
        """The number of rows of the table, or of bytes of the blob, called name. Raises KeyError."""
        return int(view_field(self.arena, self.layout.slots[COUNTS_FIELD])[self.layout.count_index[name]])

    def blob(self, name: str) -> bytes:
        """The bytes of the blob called name. Raises KeyError, with the existing names."""
        return self[name].tobytes()

    def hash(self) -> int:
        """The state hash, xxh3-64: 0 to 2**64 - 1 (see hashing.py)."""
        return hash_arena(self.layout, self.arena)

    def field_hashes(self) -> bytes:
        """The lowest 16 bits of each field's hash: all high bytes, then all low ones, see hash_fields."""
        return hash_fields(field_memory(self.layout, self.arena))


class State:
    """The state of a running simulation: an arena that a world reads and writes through views.

    ``state["plants.energy"]`` is a view of the live rows: (rows, *shape of one row), in the field's dtype; of a field
    outside of tables, the whole array. Take a new view in each phase, since the growth of a table
    replaces it. Writes through a view are plain NumPy. A world that records by marks calls ``mark`` for the rows that
    it wrote, or writes with ``set``, which marks only the rows that changed.

    Examples:
        >>> state = State(Schema(Field("tick", "i8"), Table("boats", Field("cargo", "i8"), capacity=4)))
        >>> new = state.add_rows("boats", 2)
        >>> state["boats.cargo"][new] = 7, 9
        >>> state["boats.cargo"].tolist(), state.count("boats")
        ([7, 9], 2)
    """

    def __init__(self, schema: Schema, capacities: Mapping[str, int] | None = None) -> None:
        """Make a state in which every number is 0 and every table empty.

        capacities: rows of each table and bytes of each blob that fit; the schema's own capacities by default.
        Raises ValueError as make_layout does.
        """
        self._marks: list[MarkListener] = []
        self._adopt(make_layout(schema, capacities))

    def _adopt(self, layout: Layout) -> None:
        self.layout = layout
        self.arena = make_arena(layout.size_bytes)
        self._bytes = self.arena.data
        self._field_memory = field_memory(layout, self.arena)
        self._views = {name: view_field(self.arena, slot) for name, slot in layout.slots.items()}
        self._count_index = layout.count_index
        self._counts: Array = self._views.get(COUNTS_FIELD, np.zeros(0, np.int64))
        self._owned = {name: self._count_index[slot.owner] for name, slot in layout.slots.items() if slot.owner}
        self._columns: dict[str, list[str]] = {owner: [] for owner in layout.count_index}
        for name, slot in layout.slots.items():
            if slot.owner:
                self._columns[slot.owner].append(name)
        self._live: dict[str, Array] = {}  # The last view of each column or blob.
        self._views_in_use: dict[str, list[weakref.ref[Array]]] = {name: [] for name in self._owned}
        for marks in self._marks:
            marks.replace_layout(layout)
        self._note_masks()

    # --- reading

    def __getitem__(self, name: str) -> Array:
        """The field called name as a writable view: the live rows of a column or blob, else the whole array.

        Raises KeyError, with the existing names, for an unknown name.
        """
        try:
            view = self._views[name]
        except KeyError:
            _find_slot(self.layout, name)
            raise
        index = self._owned.get(name)
        if index is None:
            return view
        live, count = self._live.get(name), self._counts[index]
        if live is None or len(live) != count:
            live = self._live[name] = view[:count]
            in_use = [reference for reference in self._views_in_use[name] if reference() is not None]
            self._views_in_use[name] = [*in_use, weakref.ref(live)]
        return live

    def __iter__(self) -> Iterator[str]:
        """The names of the fields, in the arena's order."""
        return (name for name in self.layout.slots if name != COUNTS_FIELD)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<State of {len(self)} fields, {self.layout.size_bytes} bytes>"

    def count(self, name: str) -> int:
        """The number of rows in use of the table, or of bytes in use of the blob, called name. Raises KeyError."""
        return int(self._counts[self._count_index[name]])

    def blob(self, name: str) -> bytes:
        """The bytes of the blob called name. Raises KeyError, with the existing names."""
        return self[name].tobytes()

    def hash(self) -> int:
        """The state hash, xxh3-64 over the complete arena: 0 to 2**64 - 1 (see hashing.py)."""
        return hash_bytes(self._bytes, self.layout.hash_seed)

    def field_hashes(self) -> bytes:
        """The lowest 16 bits of each field's hash, in the arena's order, unused capacity included; see hash_fields."""
        return hash_fields(self._field_memory)

    def field_hash(self, name: str) -> int:
        """The xxh3-64 of one field's bytes, unused capacity included: 0 to 2**64 - 1. Raises KeyError."""
        return hash_field(self.arena, _find_slot(self.layout, name))

    # --- writing

    def set(self, name: str, rows: Any, values: Any) -> None:
        """Write values to rows (flat row numbers, a mask or a slice) and mark those that changed.

        values: anything that broadcasts to (rows given, *shape of one row).
        Writing an equal value marks nothing. Bytes are compared, so that -0.0 differs from 0.0 and a NaN equals
        itself. Raises KeyError, IndexError or ValueError as NumPy does; the state is then unchanged.
        """
        slot = _find_slot(self.layout, name)
        field = self[name]
        row_count = slot.row_count if slot.owner is None else len(field)
        view = field.reshape(row_count, *slot.shape[len(slot.rows_shape) :])
        values = np.asarray(values, dtype=slot.dtype)  # A failed conversion raises here, before the first write.
        if not self._marks:
            view[rows] = values
            return
        numbers = row_numbers(rows, row_count)
        words = comparable(self.arena, slot)
        before = words[numbers]
        view[rows] = values
        differs = words[numbers] != before
        changed = numbers[differs if differs.ndim == 1 else differs.any(axis=1)]
        for marks in self._marks:  # Not with self.mark, which would look the field up and number the rows again.
            marks.mark(name, changed)

    def mark(self, name: str, rows: Any = None) -> None:
        """Mark rows of a field as written: flat row numbers, a mask or a slice; all rows by default.

        Negative numbers count from the last live row. Raises KeyError, with the existing names, for an unknown field,
        and IndexError for a row that does not exist.
        """
        if type(rows) is np.ndarray and rows.dtype is ROW_NUMBERS:
            ready = self._ready_masks.get(name)
            if ready is not None and (len(rows) < MANY_ROWS or name not in self._one_flag):
                # As below, without the calls: they take longer than the store.
                for mask, marked in ready:
                    mask[rows] = True
                    marked.add(name)
                return
        slot = self.layout.slots.get(name) or _find_slot(self.layout, name)
        if self._marks and rows is not None:
            count = int(self._counts[self._owned[name]]) if slot.owner else slot.row_count
            if type(rows) is np.ndarray and self._quick_marks.mark(name, rows, count):
                return
            if type(rows) is slice and len(chosen := range(*rows.indices(count))) > MARKED_AT_ONCE:
                for begin in range(0, len(chosen), MARKED_AT_ONCE):  # Numbers of all may take more than the rows.
                    part = chosen[begin : begin + MARKED_AT_ONCE]
                    self.mark(name, np.arange(part.start, part.stop, part.step))
                return
            rows = row_numbers(rows, count)
        for marks in self._marks:
            marks.mark(name, rows)

    def add_rows(self, table: str, row_count: int) -> slice:
        """Append row_count rows of zeros and return their slice; grows the table when it is full.

        After growth every earlier view is read-only and stale: take new views.
        Raises ValueError if row_count is negative, KeyError for an unknown table.
        """
        if row_count < 0:
            raise ValueError(f"row_count: expected at least 0 rows to add, got {row_count}")
        start = self.count(table)
        self._set_count(table, start + row_count)
        return slice(start, start + row_count)

    def truncate_rows(self, table: str, row_count: int) -> None:
        """Keep the first row_count rows and clear the rest, in memory too.

        Raises ValueError if there are fewer rows than that, KeyError for an unknown table.
        """
        now = self.count(table)
        if not 0 <= row_count <= now:
            raise ValueError(f"table {table}: expected 0 to {now} rows to keep, got {row_count}")
        for name in self._columns[table]:
            self._views[name][row_count:now] = 0
            if self._marks:
                self.mark(name, slice(row_count, now))
        self._set_count(table, row_count)

    def set_blob(self, name: str, value: bytes) -> None:
        """Replace the bytes of the blob called name; its capacity doubles when value is longer."""
        now = self.count(name)
        self.mark(name, slice(0, now))  # While these bytes are in use.
        if len(value) < now:
            self._views[name][len(value) : now] = 0
        self._set_count(name, len(value))
        self._views[name][: len(value)] = np.frombuffer(value, np.uint8)
        self.mark(name, slice(now, len(value)))

    def make_writeable(self, names: Collection[str] | None = None) -> None:
        """Make only these fields writeable through views of this state, old and new; None means all. To find writers.

        COUNTS_FIELD stands for the row counts. An earlier slice of a view keeps its permission.
        """
        self.arena.flags.writeable = names is None
        for name, view in self._views.items():
            for used in (view, *(reference() for reference in self._views_in_use.get(name, ()))):
                if used is not None:
                    used.flags.writeable = names is None or name in names

    def _set_count(self, name: str, count: int) -> None:
        if count > self.layout.capacities[name]:
            self._relayout(self.layout.grown(name, count))
        self._counts[self._count_index[name]] = count
        if self._marks:
            self.mark(COUNTS_FIELD)

    def _relayout(self, layout: Layout) -> None:
        """Move to a layout with at least these fields and capacities, and keep all values."""
        old_views, views_in_use = self._views, self._views_in_use
        old_counts = {name: self.count(name) for name in self._count_index}
        self._adopt(layout)
        for name, count in old_counts.items():
            self._counts[self._count_index[name]] = count  # A new table's count lies before those of all blobs.
        for name, old in old_views.items():
            if name != COUNTS_FIELD:
                self._views[name][tuple(slice(size) for size in old.shape)] = old
            for stale in (old, *(reference() for reference in views_in_use.get(name, ()))):
                if stale is not None:
                    stale.flags.writeable = False  # Invariant 2: a write through it fails instead of vanishing.

    def extend(self, *entries: Field | Blob) -> None:
        """Add fields and blobs after the present ones, which keep their values.

        Every earlier view is read-only and stale, as after growth. Raises ValueError for a name that is in use.
        """
        schema = Schema(*self.layout.schema.entries, *entries)
        self._relayout(make_layout(schema, {**schema.initial_capacities(), **self.layout.capacities}))

    def replace_schema(self, schema: Schema) -> None:
        """Replace the fields by those of a different schema, all zero; blobs and tables keep their capacities.

        Does nothing if the schema is equal.
        """
        if schema != self.layout.schema:
            present = self.layout.capacities
            initial = schema.initial_capacities()
            self._adopt(make_layout(schema, {name: present.get(name, size) for name, size in initial.items()}))

    # --- complete states

    def snapshot(self) -> Snapshot:
        """A copy of the complete state: one memcpy."""
        copy = unset_arena(self.layout.size_bytes)
        np.copyto(copy, self.arena)
        return Snapshot(self.layout, copy)

    def restore(self, snapshot: Snapshot) -> None:
        """Enter the state that snapshot holds, its layout included; every row counts as changed."""
        if snapshot.layout.hash_seed != self.layout.hash_seed:
            self._adopt(snapshot.layout)
        np.copyto(self.arena, snapshot.arena)
        for marks in self._marks:
            marks.mark_everything()

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        """Refuse: arrays that a simulation took from this state would not be views of the copy. Raises TypeError."""
        raise TypeError(
            "a simulation with a State cannot be copied by copy.deepcopy: arrays that it took from the state would no "
            "longer be part of it. Take state.snapshot() and restore it in a second simulation; of a recorded run, fork()"
        )

    # --- tracking changes

    def attach_marks(self, *, lists_narrow: bool = True) -> ChangeMarks:
        """Make change masks for one consumer; from now on they receive every mark. lists_narrow: see ChangeMarks."""
        marks = ChangeMarks(self.layout, lists_narrow=lists_narrow)
        self.attach(marks)
        return marks

    def attach(self, marks: MarkListener) -> None:
        """Add a listener that receives every mark."""
        self._marks.append(marks)
        self._note_masks()

    def detach(self, marks: MarkListener) -> None:
        """Remove a listener that attach or attach_marks added."""
        self._marks.remove(marks)
        self._note_masks()

    def _note_masks(self) -> None:
        """Note which marks are quick to set."""
        self._quick_marks = QuickMarks(self._marks, self.layout)
        self._ready_masks, self._one_flag = self._quick_marks.ready_masks, self._quick_marks.one_flag


def _find_slot(layout: Layout, name: str) -> Slot:
    slot = layout.slots.get(name)
    if slot is None:
        names = [field for field in layout.slots if field != COUNTS_FIELD]
        raise KeyError(f"no field {name!r}; the fields are {', '.join(names)}{did_you_mean(name, names)}")
    return slot
