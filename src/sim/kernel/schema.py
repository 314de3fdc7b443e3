"""The description of a state: the names, dtypes and shapes of its fields, and their positions in the arena.

No array is made here (see state.py). Descriptions come from worlds, which are trusted, and from tapes, which are not.
Therefore everything is checked at construction.

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

ALIGNMENT_BYTES = 64  # One cache line; also the alignment of the widest vector units.
FIELDS_MAX = 4096  # A longer field list in a tape is damage, not data.
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
            f"{name!r} is not a field name: expected up to {NAME_CHARS_MAX} letters, digits, '_', '.' and '-', "
            "of which the first is a letter or '_'"
        )
    return name


def _to_dtype(dtype: Any) -> np.dtype[Any]:
    """Return dtype in little-endian order, so that the bytes of a tape mean the same on every machine."""
    made = np.dtype(dtype)
    if made.kind not in _KINDS or made.itemsize > (16 if made.kind == "c" else 8):  # long double has unset bytes.
        raise TypeError(
            f"dtype {made} is not supported: expected booleans, integers or floats of up to 64 bits, or complex numbers"
        )
    little: np.dtype[Any] = made.newbyteorder("<")
    return np.dtype(little.str)  # NumPy's own object, if that is its order: with it ufunc.at is 40 times as fast.


def _to_shape(shape: int | Iterable[Any]) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(sizes) > AXES_MAX or not all(_is_whole(size) and 0 <= size <= ARENA_BYTES_MAX for size in sizes):
        raise ValueError(f"shape: expected up to {AXES_MAX} integers of at least 0, got {sizes!r}")
    return sizes


def _is_whole(value: Any) -> bool:
    """Return True for an int, but not for a bool, which is an int to Python."""
    return isinstance(value, int) and not isinstance(value, bool)


@attrs.frozen
class Field:
    """One array of the state.

    Attributes:
        name: for example ``energy``; inside a table it is prefixed with the table's name (``plants.energy``).
        dtype: a boolean, integer, float or complex NumPy dtype; kept little-endian.
        shape: the complete shape of the array or, inside a table, the shape of one row; () is a single number.
        row_axes: the number of trailing axes that make up one row, the unit of change masks and findings.
            The default of 0 makes each element a row. Inside a table a row is always a table row.
        hot: changes at nearly every tick; hot fields are adjacent at the start of the arena.
        counter: counts and does nothing else: runs that differ in counters only have met again. Not part of a tape.

    Raises:
        ValueError: for an invalid name or shape.
        TypeError: for a dtype that is not a plain number or boolean.
    """

    name: str = attrs.field(converter=_check_name)
    dtype: np.dtype[Any] = attrs.field(converter=_to_dtype)
    shape: tuple[int, ...] = attrs.field(converter=_to_shape, default=())
    row_axes: int = attrs.field(default=0, kw_only=True)
    hot: bool = attrs.field(default=False, kw_only=True)
    counter: bool = attrs.field(default=False, kw_only=True, eq=False)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.row_axes <= len(self.shape):
            raise ValueError(
                f"field {self.name}: row_axes: expected an integer from 0 to {len(self.shape)}, the number of axes, "
                f"got {self.row_axes}"
            )


@attrs.frozen(init=False)
class Table:
    """Rows that come and go: columns that share one row count, which is part of the state.

    A table starts empty and grows past its capacity automatically; growth makes a new layout (see State.add_rows).

    Attributes:
        name: the prefix of each column's name, before a dot.
        columns: one Field each; its shape is the shape of one row.
        capacity: the initial number of rows that fit, at least 1.

    Raises:
        ValueError: for no columns, two columns of one name, or a capacity below 1.
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
        capacity: the initial number of bytes that fit; it doubles when a longer blob is set.
    """

    name: str = attrs.field(converter=_check_name)
    capacity: int = attrs.field(default=256)

    def __attrs_post_init__(self) -> None:
        _check_capacity(self.name, self.capacity)


def _check_capacity(name: str, capacity: int) -> int:
    if not _is_whole(capacity) or not 1 <= capacity <= ARENA_BYTES_MAX:
        raise ValueError(f"{name}: capacity: expected an integer from 1 to {ARENA_BYTES_MAX}, got {capacity!r}")
    return capacity


Entry = Field | Table | Blob


@attrs.frozen(init=False)
class Schema:
    """An ordered set of fields, tables and blobs: the complete content of a state.

    Raises:
        ValueError: for two entries of one name, no entries, or more than FIELDS_MAX fields.
        TypeError: for an entry that is not a Field, Table or Blob.

    Examples:
        >>> schema = Schema(
        ...     Field("height", "i4", (20, 30)),
        ...     Table("boats", Field("cargo", "i8"), Field("place", "i4", (2,)), capacity=4),
        ...     Blob("script"),
        ... )
    """

    entries: tuple[Entry, ...]

    def __init__(self, *entries: Entry) -> None:
        names: set[str] = set()
        for entry in entries:
            if not isinstance(entry, Field | Table | Blob):
                raise TypeError(f"expected a Field, Table or Blob, got {entry!r}")
            columns = [f"{entry.name}.{column.name}" for column in entry.columns] if isinstance(entry, Table) else []
            for name in [entry.name, *columns]:
                if name in names:
                    raise ValueError(f"expected unique field names, got {name} twice")
                names.add(name)
        if not 0 < len(names) <= FIELDS_MAX:
            raise ValueError(f"expected 1 to {FIELDS_MAX} fields in a schema, got {len(names)}")
        self.__attrs_init__(tuple(entries))

    @property
    def extensible(self) -> tuple[Table | Blob, ...]:
        """Tables, then blobs, in the schema's order: the order of the counts in the arena."""
        tables = tuple(entry for entry in self.entries if isinstance(entry, Table))
        return tables + tuple(entry for entry in self.entries if isinstance(entry, Blob))

    def initial_capacities(self) -> dict[str, int]:
        """The number of rows of each table and of bytes of each blob that fit into a new state."""
        return {entry.name: entry.capacity for entry in self.extensible}


@attrs.frozen
class Slot:
    """The location of one field in the arena.

    Attributes:
        name: the full name, for example ``plants.energy``.
        dtype: little-endian.
        shape: of the complete array; the first axis of a column or blob is its capacity.
        rows_shape: the leading axes of shape that count rows; a row's number is its flat index in them.
        row_count: the number of rows that the change masks cover.
        row_bytes: the size of one row in bytes.
        offset: of the first byte in the arena.
        owner: the table or blob whose count is the number of rows in use; None for a field of fixed size.
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
    """A schema with its capacities: the location of every field in the arena.

    Two layouts are equal if and only if their ``hash_seed`` is equal.

    Attributes:
        schema: what is laid out.
        capacities: rows of each table and bytes of each blob.
        slots: by full name, COUNTS_FIELD first if there is one, then hot fields, then the rest.
        size_bytes: of the complete arena, a multiple of ALIGNMENT_BYTES.
        hash_seed: xxh3-64 of the layout in plain form, so that equal bytes under different names hash differently.
    """

    schema: Schema
    capacities: Mapping[str, int]
    slots: Mapping[str, Slot]
    size_bytes: int
    hash_seed: int

    @property
    def count_index(self) -> dict[str, int]:
        """The index of the count of each table or blob in COUNTS_FIELD."""
        return {entry.name: index for index, entry in enumerate(self.schema.extensible)}

    def grown(self, name: str, needed: int) -> Layout:
        """The layout in which the capacity of name is doubled until the needed rows (or bytes) fit."""
        capacity = self.capacities[name]
        while capacity < needed:
            capacity *= 2
        return make_layout(self.schema, {**self.capacities, name: capacity})


def make_layout(schema: Schema, capacities: Mapping[str, int] | None = None) -> Layout:
    """Make the layout of a schema in one arena.

    Raises ValueError if a capacity is missing, unknown or below 1, or if the arena would exceed ARENA_BYTES_MAX.
    """
    chosen = dict(schema.initial_capacities() if capacities is None else capacities)
    extensible = schema.extensible
    if set(chosen) != {entry.name for entry in extensible}:
        expected = sorted(entry.name for entry in extensible)
        raise ValueError(f"expected capacities for {expected}, got capacities for {sorted(map(str, chosen))}")
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
            raise ValueError(f"field {name}: expected at most {BYTELESS_ROWS_MAX} rows of 0 bytes, got {row_count}")
        slots[name] = Slot(name, dtype, shape, shape[:leading_axes], row_count, row_bytes, offset, owner)
        offset += -(-row_count * row_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        if offset > ARENA_BYTES_MAX:
            raise ValueError(f"expected a state of at most {ARENA_BYTES_MAX} bytes; field {name} exceeds that")
    seed = xxhash.xxh3_64_intdigest(layout_key(schema, chosen))
    return Layout(schema, chosen, slots, offset, seed)


def layout_key(schema: Schema, capacities: Mapping[str, int]) -> bytes:
    """The text whose xxh3-64 seeds the state hash: one line for each entry or column, ASCII, line ends included.

    Line forms: ``field NAME DTYPE SHAPE ROW_AXES HOT``, ``table NAME CAPACITY`` followed by its ``column`` lines,
        ``blob NAME CAPACITY``. DTYPE is NumPy's, for example ``<i8``; SHAPE is the sizes joined by ``x``, or ``-`` for
        none.
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
    """The schema as lists, strings and integers: its form in a tape."""
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

    Raises ValueError or TypeError if plain is anything else; it may come from a damaged or hostile tape.
    """
    entries: list[Entry] = []
    if not isinstance(plain, list) or len(plain) > FIELDS_MAX:
        raise ValueError(f"expected a schema as a list of at most {FIELDS_MAX} entries, got {type(plain).__name__}")
    for item in plain:
        match item:
            case ["field", *parts]:
                entries.append(_field_from_plain(parts))
            case ["table", str(name), int(capacity), list(columns)] if len(columns) <= FIELDS_MAX:
                entries.append(Table(name, *map(_field_from_plain, columns), capacity=capacity))
            case ["blob", str(name), int(capacity)]:
                entries.append(Blob(name, capacity))
            case _:
                raise ValueError(f"expected an entry of a schema, got {str(item)[:80]}")
    return Schema(*entries)


def _field_from_plain(parts: Any) -> Field:
    match parts:
        case [str(name), str(dtype), list(shape), int(row_axes), int(hot)] if _DTYPE_TEXT.fullmatch(dtype):
            return Field(name, dtype, tuple(shape), row_axes=row_axes, hot=bool(hot))
    raise ValueError(f"expected a field of a schema, got {str(parts)[:80]}")
