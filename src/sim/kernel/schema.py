"""Describe the fields of a state: their names, dtypes and shapes, and where each lies in the arena.

A description only: no array is made here (see state.py). Descriptions come from worlds, which we trust, and from
tapes, which we do not, so that everything is checked where it is built.

Invariants:
    1. Field offsets are multiples of ALIGNMENT_BYTES, ascend in layout order and never overlap.
    2. The same schema and capacities give the same layout, byte for byte, on every platform.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np
import xxhash

ALIGNMENT_BYTES = 64  # One cache line; also what the widest vector units want.
FIELDS_MAX = 4096  # A tape's field list longer than this is damage, not data.
AXES_MAX = 8
NAME_CHARS_MAX = 200
ARENA_BYTES_MAX = 1 << 40  # Far above any machine's memory; keeps offsets inside int64 after any sum.
BYTELESS_ROWS_MAX = 1 << 20  # Rows cost a flag in change masks, even where they take no bytes in the arena.
COUNTS_FIELD = "#counts"  # The arena's own first field: one row count per table, then one length per blob.

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_DTYPE_TEXT = re.compile(r"[<|][biufc](1|2|4|8|16)")  # NumPy itself would parse far more, with SyntaxErrors.
_KINDS = "biufc"  # bool, signed, unsigned, float, complex: the dtypes whose bytes are the value.


def _check_name(name: Any) -> str:
    if not isinstance(name, str) or len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no field name: letters, digits, '_', '.' and '-' are allowed, a letter or '_' comes first"
        )
    return name


def _to_dtype(dtype: Any) -> np.dtype[Any]:
    """Return dtype in little-endian order, so that a tape's bytes mean the same on every machine."""
    made = np.dtype(dtype)
    if made.kind not in _KINDS or made.itemsize > (16 if made.kind == "c" else 8):  # long double has unset bytes.
        raise TypeError(f"dtype {made} cannot be a field: booleans, integers, floats and complex numbers can")
    little: np.dtype[Any] = made.newbyteorder("<")
    return np.dtype(little.str)  # NumPy's own object, if that is its order: with it ufunc.at is 40 times as fast.


def _to_shape(shape: int | Iterable[Any]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(sizes) > AXES_MAX or not all(_is_whole(size) and 0 <= size <= ARENA_BYTES_MAX for size in sizes):
        raise ValueError(f"{sizes!r} is no shape: up to {AXES_MAX} integers of at least 0")
    return sizes


def _is_whole(value: Any) -> bool:
    """Whether value is an int and not a bool, which Python counts as one."""
    return isinstance(value, int) and not isinstance(value, bool)


@attrs.frozen
class Field:
    """One array of the state.

    Attributes:
        name: for example ``energy``; inside a table the table's name is put before it (``plants.energy``).
        dtype: a boolean, integer, float or complex NumPy dtype; kept little-endian.
        shape: the array's whole shape or, inside a table, the shape of one row; () is a single number.
        row_axes: how many trailing axes make up one row, the unit that change masks and findings speak of.
            The default of 0 makes each element a row. Inside a table a row is always a table row.
        hot: changes at nearly every tick; hot fields lie first in the arena, side by side.

    Raises:
        ValueError: a name or shape that cannot be.
        TypeError: a dtype that is not a plain number or boolean.
    """

    name: str = attrs.field(converter=_check_name)
    dtype: np.dtype[Any] = attrs.field(converter=_to_dtype)
    shape: tuple[int, ...] = attrs.field(converter=_to_shape, default=())
    row_axes: int = attrs.field(default=0, kw_only=True)
    hot: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.row_axes <= len(self.shape):
            raise ValueError(f"field {self.name}: row_axes {self.row_axes} of a shape with {len(self.shape)} axes")


@attrs.frozen(init=False)
class Table:
    """Rows that come and go: columns that share one row count, which is part of the state.

    A table starts empty and grows past its capacity by itself; growing makes a new layout (see State.add_rows).

    Attributes:
        name: the table's name, put before each column's name with a dot.
        columns: one Field each; its shape is the shape of one row.
        capacity: rows to make room for at first, at least 1.

    Raises:
        ValueError: no columns, two of one name, or a capacity below 1.
    """

    name: str
    columns: tuple[Field, ...]
    capacity: int

    def __init__(self, name: str, *columns: Field, capacity: int = 64) -> None:
        if not columns:
            raise ValueError(f"table {name}: a table needs at least one column")
        self.__attrs_init__(_check_name(name), columns, _check_capacity(name, capacity))


@attrs.frozen
class Blob:
    """Opaque bytes of any length, for example a script's state or an emulator's savestate.

    Attributes:
        name: the field's name.
        capacity: bytes to make room for at first; it doubles when a longer blob is set.
    """

    name: str = attrs.field(converter=_check_name)
    capacity: int = attrs.field(default=256)

    def __attrs_post_init__(self) -> None:
        _check_capacity(self.name, self.capacity)


def _check_capacity(name: str, capacity: int) -> int:
    if not _is_whole(capacity) or not 1 <= capacity <= ARENA_BYTES_MAX:
        raise ValueError(f"{name}: capacity {capacity!r}: a whole number from 1 to {ARENA_BYTES_MAX} was expected")
    return capacity


Entry = Field | Table | Blob


@attrs.frozen(init=False)
class Schema:
    """An ordered set of fields, tables and blobs: everything that a state holds.

    Raises:
        ValueError: two entries of one name, no entries, or more than FIELDS_MAX fields.
        TypeError: an entry that is no Field, Table or Blob.
    """

    entries: tuple[Entry, ...]

    def __init__(self, *entries: Entry) -> None:
        names: set[str] = set()
        for entry in entries:
            if not isinstance(entry, Field | Table | Blob):
                raise TypeError(f"{entry!r} is no Field, Table or Blob")
            mine = [f"{entry.name}.{column.name}" for column in entry.columns] if isinstance(entry, Table) else []
            for name in [entry.name, *mine]:
                if name in names:
                    raise ValueError(f"two fields are called {name}")
                names.add(name)
        if not 0 < len(names) <= FIELDS_MAX:
            raise ValueError(f"a schema has 1 to {FIELDS_MAX} fields, not {len(names)}")
        self.__attrs_init__(tuple(entries))

    @property
    def extensible(self) -> tuple[Table | Blob, ...]:
        """Tables, then blobs, in the schema's order: the order of the counts in the arena."""
        tables = tuple(entry for entry in self.entries if isinstance(entry, Table))
        return tables + tuple(entry for entry in self.entries if isinstance(entry, Blob))

    def initial_capacities(self) -> dict[str, int]:
        """Rows of each table and bytes of each blob that a new state has room for."""
        return {entry.name: entry.capacity for entry in self.extensible}


@attrs.frozen
class Slot:
    """Where one field lies in the arena.

    Attributes:
        name: the full name, for example ``plants.energy``.
        dtype: little-endian.
        shape: the whole array's; the first axis of a column or blob is its capacity.
        rows_shape: the leading axes of shape that count rows; a row's number is its flat index in them.
        row_count: how many rows the change masks see.
        row_bytes: the size of one row in bytes.
        offset: of the first byte in the arena.
        owner: the table or blob whose count says how many rows are in use; None for a field of fixed size.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows_shape: tuple[int, ...]
    row_count: int
    row_bytes: int
    offset: int
    owner: str | None

    @property
    def size_bytes(self) -> int:
        """Bytes in use, without the padding up to the next field."""
        return self.row_count * self.row_bytes


@attrs.frozen(eq=False)
class Layout:
    """A schema with its capacities, laid out: every byte of the arena has its place.

    Two layouts are the same exactly when their ``hash_seed`` is.

    Attributes:
        schema: what is laid out.
        capacities: rows of each table and bytes of each blob.
        slots: by full name, COUNTS_FIELD first where there is one, then hot fields, then the rest.
        size_bytes: of the whole arena, a multiple of ALIGNMENT_BYTES.
        hash_seed: xxh3-64 of the layout in plain form, so that equal bytes under different names hash differently.
    """

    schema: Schema
    capacities: Mapping[str, int]
    slots: Mapping[str, Slot]
    size_bytes: int
    hash_seed: int

    @property
    def count_index(self) -> dict[str, int]:
        """Position of each table's or blob's count in COUNTS_FIELD."""
        return {entry.name: index for index, entry in enumerate(self.schema.extensible)}

    def grown(self, name: str, needed: int) -> Layout:
        """The layout with room for needed rows (or bytes) in name: its capacity doubles until they fit."""
        capacity = self.capacities[name]
        while capacity < needed:
            capacity *= 2
        return make_layout(self.schema, {**self.capacities, name: capacity})


def make_layout(schema: Schema, capacities: Mapping[str, int] | None = None) -> Layout:
    """Lay a schema out in one arena.

    Raises ValueError if a capacity is missing, unknown or below 1, or if the arena would pass ARENA_BYTES_MAX.
    """
    chosen = dict(schema.initial_capacities() if capacities is None else capacities)
    extensible = schema.extensible
    if set(chosen) != {entry.name for entry in extensible}:
        raise ValueError(f"capacities for {sorted(map(str, chosen))}, but the tables and blobs are others")
    for name, capacity in chosen.items():
        _check_capacity(name, capacity)
    hot: list[tuple[str, np.dtype[Any], tuple[int, ...], int, str | None]] = []
    cold: list[tuple[str, np.dtype[Any], tuple[int, ...], int, str | None]] = []
    for entry in schema.entries:
        if isinstance(entry, Table):
            for column in entry.columns:
                shape = (chosen[entry.name], *column.shape)
                full_name = f"{entry.name}.{column.name}"
                (hot if column.hot else cold).append((full_name, column.dtype, shape, 1, entry.name))
        elif isinstance(entry, Blob):
            cold.append((entry.name, np.dtype("u1"), (chosen[entry.name],), 1, entry.name))
        else:
            leading_axes = len(entry.shape) - entry.row_axes
            (hot if entry.hot else cold).append((entry.name, entry.dtype, entry.shape, leading_axes, None))
    counts = [(COUNTS_FIELD, np.dtype("<i8"), (len(extensible),), 1, None)] if extensible else []
    offset, slots = 0, {}
    for name, dtype, shape, leading_axes, owner in counts + hot + cold:
        row_count = math.prod(shape[:leading_axes])
        row_bytes = math.prod(shape[leading_axes:]) * dtype.itemsize
        if not row_bytes and row_count > BYTELESS_ROWS_MAX:
            raise ValueError(f"field {name} has {row_count} rows without a byte")
        slots[name] = Slot(name, dtype, shape, shape[:leading_axes], row_count, row_bytes, offset, owner)
        offset += -(-row_count * row_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        if offset > ARENA_BYTES_MAX:
            raise ValueError(f"the state would take more than {ARENA_BYTES_MAX} bytes at field {name}")
    seed = xxhash.xxh3_64_intdigest(layout_key(schema, chosen))
    return Layout(schema, chosen, slots, offset, seed)


def layout_key(schema: Schema, capacities: Mapping[str, int]) -> bytes:
    """The text whose xxh3-64 seeds the state hash: one line an entry or column, ASCII, ends of line included.

    Line forms: ``field NAME DTYPE SHAPE ROW_AXES HOT``, ``table NAME CAPACITY`` followed by its ``column`` lines,
    ``blob NAME CAPACITY``. DTYPE is NumPy's, for example ``<i8``; SHAPE is sizes with ``x`` between, ``-`` if none.
    """
    lines: list[str] = []
    for entry in schema.entries:
        if isinstance(entry, Field):
            lines.append(_field_line("field", entry))
        elif isinstance(entry, Table):
            lines.append(f"table {entry.name} {capacities[entry.name]}")
            lines.extend(_field_line("column", column) for column in entry.columns)
        else:
            lines.append(f"blob {entry.name} {capacities[entry.name]}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _field_line(word: str, field: Field) -> str:
    shape = "x".join(map(str, field.shape)) or "-"
    return f"{word} {field.name} {field.dtype.str} {shape} {field.row_axes} {int(field.hot)}"


def schema_to_plain(schema: Schema) -> list[list[Any]]:
    """The schema as lists, strings and integers, as it is written to a tape."""
    plain: list[list[Any]] = []
    for entry in schema.entries:
        if isinstance(entry, Field):
            plain.append(["field", *_field_to_plain(entry)])
        elif isinstance(entry, Table):
            plain.append(["table", entry.name, entry.capacity, [_field_to_plain(column) for column in entry.columns]])
        else:
            plain.append(["blob", entry.name, entry.capacity])
    return plain


def _field_to_plain(field: Field) -> list[Any]:
    return [field.name, field.dtype.str, list(field.shape), field.row_axes, int(field.hot)]


def schema_from_plain(plain: Any) -> Schema:
    """The schema that schema_to_plain wrote.

    Raises ValueError or TypeError if plain is anything else; the text may come from a damaged or hostile tape.
    """
    entries: list[Entry] = []
    if not isinstance(plain, list) or len(plain) > FIELDS_MAX:
        raise ValueError("a schema is a list of entries")
    for item in plain:
        match item:
            case ["field", *parts]:
                entries.append(_field_from_plain(parts))
            case ["table", str(name), int(capacity), list(columns)] if len(columns) <= FIELDS_MAX:
                entries.append(Table(name, *map(_field_from_plain, columns), capacity=capacity))
            case ["blob", str(name), int(capacity)]:
                entries.append(Blob(name, capacity))
            case _:
                raise ValueError(f"{str(item)[:80]} is no entry of a schema")
    return Schema(*entries)


def _field_from_plain(parts: Any) -> Field:
    match parts:
        case [str(name), str(dtype), list(shape), int(row_axes), int(hot)] if _DTYPE_TEXT.fullmatch(dtype):
            return Field(name, dtype, tuple(shape), row_axes=row_axes, hot=bool(hot))
    raise ValueError(f"{str(parts)[:80]} is no field of a schema")
