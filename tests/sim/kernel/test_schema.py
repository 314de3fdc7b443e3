"""Names, dtypes, shapes and sizes of fields; their locations; the plain form, also of a hostile tape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import Blob, Field, Schema, Table
from sim.kernel.schema import (
    ARENA_BYTES_MAX,
    FIELDS_MAX,
    layout_key,
    make_layout,
    schema_from_plain,
    schema_to_plain,
)

from sim_strategies import schemas

EXAMPLE = Schema(
    Field("flag", "?"),
    Table("ants", Field("age", "i4", hot=True), Field("place", "u2", (3,)), capacity=5),
    Field("grid", ">f4", (2, 3), row_axes=1),
    Blob("log", capacity=10),
    Field("tick", "i8", hot=True),
)

EXAMPLE_KEY = (
    b"field flag |b1 - 0 0\n"
    b"table ants 5\n"
    b"column age <i4 - 0 1\n"
    b"column place <u2 3 0 0\n"
    b"field grid <f4 2x3 1 0\n"
    b"blob log 10\n"
    b"field tick <i8 - 0 1\n"
)

EXAMPLE_PLAIN = [
    ["field", "flag", "|b1", [], 0, 0],
    ["table", "ants", 5, [["age", "<i4", [], 0, 1], ["place", "<u2", [3], 0, 0]]],
    ["field", "grid", "<f4", [2, 3], 1, 0],
    ["blob", "log", 10],
    ["field", "tick", "<i8", [], 0, 1],
]


def test_the_layout_of_an_example_byte_for_byte() -> None:
    """Counts come first, then hot fields, then the rest, each at the next multiple of 64."""
    slots = make_layout(EXAMPLE).slots
    found = [(s.name, s.offset, s.shape, s.rows_shape, s.row_count, s.row_bytes, s.owner) for s in slots.values()]

    assert found == [
        ("#counts", 0, (2,), (2,), 2, 8, None),
        ("ants.age", 64, (5,), (5,), 5, 4, "ants"),
        ("tick", 128, (), (), 1, 8, None),
        ("flag", 192, (), (), 1, 1, None),
        ("ants.place", 256, (5, 3), (5,), 5, 6, "ants"),
        ("grid", 320, (2, 3), (2,), 2, 12, None),
        ("log", 384, (10,), (10,), 10, 1, "log"),
    ]
    assert make_layout(EXAMPLE).size_bytes == 448
    assert list(slots) == [slot.name for slot in slots.values()]


def test_a_field_of_exactly_one_line_leaves_no_gap() -> None:
    """64 bytes take 64, 65 take 128 and 0 take 0."""
    layout = make_layout(
        Schema(Field("a", "u1", (64,)), Field("b", "u1", (65,)), Field("c", "u1", (0,)), Field("d", "?"))
    )

    assert [slot.offset for slot in layout.slots.values()] == [0, 64, 192, 192]
    assert layout.size_bytes == 256


@settings(deadline=None, max_examples=60)
@given(schemas())
def test_fields_are_aligned_and_never_overlap(schema: Schema) -> None:
    """Offsets are multiples of 64 in ascending order, and each field ends before the next begins."""
    layout = make_layout(schema)
    slots = list(layout.slots.values())

    assert all(slot.offset % 64 == 0 for slot in slots)
    ends = [slot.offset + slot.size_bytes for slot in slots]
    starts = [slot.offset for slot in slots[1:]] + [layout.size_bytes]
    assert all(end <= start < end + 64 for end, start in zip(ends, starts, strict=True))
    assert all(slot.size_bytes == int(np.prod(slot.shape, dtype=int)) * slot.dtype.itemsize for slot in slots)


def test_the_layout_key_is_this_text() -> None:
    """One ASCII line for each entry and column, in the schema's order; its xxh3-64 is the seed of the hash."""
    assert layout_key(EXAMPLE, {"ants": 5, "log": 10}) == EXAMPLE_KEY
    assert make_layout(EXAMPLE).hash_seed == xxhash.xxh3_64_intdigest(EXAMPLE_KEY)


def test_the_layout_key_has_the_present_capacities() -> None:
    """The capacities in the key are the layout's, not the initial ones of the schema."""
    key = make_layout(EXAMPLE, {"ants": 20, "log": 10}).hash_seed

    assert key == xxhash.xxh3_64_intdigest(EXAMPLE_KEY.replace(b"table ants 5", b"table ants 20"))


def test_the_plain_form_is_this() -> None:
    """A tape holds a schema as lists, text and integers."""
    assert schema_to_plain(EXAMPLE) == EXAMPLE_PLAIN
    assert schema_from_plain(EXAMPLE_PLAIN) == EXAMPLE


@settings(deadline=None, max_examples=60)
@given(schemas())
def test_every_schema_survives_the_plain_form(schema: Schema) -> None:
    """From plain and to plain undo each other, and the layout is equal."""
    again = schema_from_plain(schema_to_plain(schema))

    assert again == schema
    assert make_layout(again).hash_seed == make_layout(schema).hash_seed


@pytest.mark.parametrize("name", ["a", "_", "Plants.energy-2_x", "a" * 200])
def test_valid_names(name: str) -> None:
    """Letters, digits and _ . - with a letter or _ first, up to 200 characters."""
    assert Field(name, "i8").name == Table(name, Field("c", "i8")).name == Blob(name).name == name


@pytest.mark.parametrize("name", ["", "a" * 201, "1a", ".a", "-a", "#counts", "a b", "a\n", "é", "a/b", None, 7, b"a"])
def test_invalid_names(name: Any) -> None:
    """Every other name is refused with the rule, for fields, tables and blobs."""
    for make in (lambda: Field(name, "i8"), lambda: Table(name, Field("c", "i8")), lambda: Blob(name)):
        with pytest.raises(ValueError, match="is not a field name: expected up to 200 letters, digits"):
            make()


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [(">i8", "<i8"), ("=u2", "<u2"), (np.int32, "<i4"), ("c16", "<c16"), (bool, "|b1"), ("i1", "|i1")],
)
def test_dtypes_are_kept_little_endian(dtype: Any, kept: str) -> None:
    """For any requested byte order, the bytes of a tape mean the same everywhere."""
    assert Field("x", dtype).dtype.str == kept


@pytest.mark.parametrize("dtype", ["O", "S4", "U1", "V8", "M8[s]", "m8", "i4,i4", "3i4", np.longdouble, np.clongdouble])
def test_dtypes_that_are_not_plain_numbers(dtype: Any) -> None:
    """Objects, texts, times, records and platform-dependent long doubles are refused."""
    with pytest.raises(TypeError, match="is not supported: expected booleans, integers or floats"):
        Field("x", dtype)


@pytest.mark.parametrize("shape", [(-1,), (2.0,), ("3",), (1,) * 9, (None,), ((1 << 40) + 1, 0)])
def test_invalid_shapes(shape: Any) -> None:
    """Sizes are integers from 0 to 2**40, at most 8 of them."""
    with pytest.raises(ValueError, match=r"^shape: expected up to 8 integers of at least 0, got "):
        Field("x", "i8", shape)


def test_shapes_at_the_limit() -> None:
    """Eight axes, an axis of 0 and a bare number are valid."""
    assert Field("x", "i8", (1,) * 8).shape == (1,) * 8
    assert Field("x", "i8", 0).shape == (0,)
    assert Field("x", "i8").shape == ()


@pytest.mark.parametrize(("row_axes", "fine"), [(-1, False), (0, True), (2, True), (3, False)])
def test_row_axes_are_some_of_the_axes(row_axes: int, fine: bool) -> None:  # noqa: FBT001
    """Any number of axes, from none to all, can make up a row."""
    if fine:
        assert Field("x", "i8", (2, 3), row_axes=row_axes).row_axes == row_axes
    else:
        with pytest.raises(ValueError, match=f"field x: row_axes: expected an integer from 0 to 2, .* got {row_axes}$"):
            Field("x", "i8", (2, 3), row_axes=row_axes)


@pytest.mark.parametrize(
    ("capacity", "fine"), [(0, False), (1, True), (1 << 40, True), ((1 << 40) + 1, False), (2.5, False)]
)
def test_capacities_have_bounds(capacity: Any, fine: bool) -> None:  # noqa: FBT001
    """1 to 2**40 rows or bytes; the message names the table or blob."""
    for make in (lambda: Table("t", Field("c", "i8"), capacity=capacity), lambda: Blob("t", capacity)):
        if fine:
            assert make().capacity == capacity
        else:
            with pytest.raises(ValueError, match=r"^t: capacity: expected an integer from 1 to 1099511627776, got "):
                make()


def test_a_schema_has_one_to_4096_fields() -> None:
    """No field, and one too many, are refused; a table counts with its columns."""
    most = [Field(f"f{i}", "?") for i in range(FIELDS_MAX - 2)]
    table = Table("t", Field("c", "?"))

    assert FIELDS_MAX == 4096
    assert len(Schema(*most, table).entries) == 4095
    with pytest.raises(ValueError, match=r"^expected 1 to 4096 fields in a schema, got 4097$"):
        Schema(*most, table, Blob("one-more"))
    with pytest.raises(ValueError, match=r"got 0$"):
        Schema()


@pytest.mark.parametrize(
    ("entries", "name"),
    [
        ((Field("a", "?"), Blob("a")), "a"),
        ((Table("a", Field("b", "?")), Field("a.b", "i8")), r"a\.b"),
        ((Table("a", Field("b", "?"), Field("b", "i8")),), r"a\.b"),
        ((Field("a", "?"), Table("a", Field("b", "?"))), "a"),
    ],
)
def test_no_two_fields_of_one_name(entries: Any, name: str) -> None:
    """The message names a duplicate name, also that of a table's column."""
    with pytest.raises(ValueError, match=f"^expected unique field names, got {name} twice$"):
        Schema(*entries)


def test_entries_are_fields_tables_or_blobs() -> None:
    """Anything else in a schema, and a table without columns, is refused."""
    with pytest.raises(TypeError, match=r"^expected a Field, Table or Blob, got 'x'$"):
        Schema("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="table t: a table needs at least one column"):
        Table("t")


def test_the_arena_has_a_limit() -> None:
    """A layout of 2**40 bytes is accepted; for a larger one the message names the field that exceeds the limit."""
    fits = Schema(Field("a", "u1", (ARENA_BYTES_MAX,)))
    over = Schema(Field("a", "u1", (ARENA_BYTES_MAX,)), Field("b", "u1"))

    assert make_layout(fits).size_bytes == 1 << 40
    with pytest.raises(ValueError, match=r"^expected a state of at most 1099511627776 bytes; field b exceeds that$"):
        make_layout(over)
    with pytest.raises(ValueError, match=r"field huge exceeds that$"):
        make_layout(Schema(Field("huge", "i8", (1 << 40, 1 << 40))))


@pytest.mark.parametrize("capacities", [{}, {"ants": 5}, {"ants": 5, "log": 10, "bees": 1}, {"ants": 5, 7: 10}])
def test_capacities_are_those_of_the_tables_and_blobs(capacities: Any) -> None:
    """A missing or unknown name among the capacities is refused."""
    with pytest.raises(ValueError, match=r"^expected capacities for \['ants', 'log'\], got capacities for \["):
        make_layout(EXAMPLE, capacities)


def test_capacities_double_until_they_fit() -> None:
    """A layout grows by doubling the one capacity that is too small; the others stay."""
    layout = make_layout(EXAMPLE)

    assert layout.grown("ants", 5).capacities == {"ants": 5, "log": 10}
    assert layout.grown("ants", 6).capacities == {"ants": 10, "log": 10}
    assert layout.grown("log", 41).capacities == {"ants": 5, "log": 80}


HOSTILE = [
    None,
    5,
    "field",
    {},
    (),
    [],
    [None],
    ["field"],
    [[]],
    [["field", "x"]],
    [["field", "x", "<i8", [], 0]],
    [["field", "x", "<i8", [], 0, 0, 0]],
    [["field", "x", "<i8", 3, 0, 0]],
    [["field", "x", "<i8", [-1], 0, 0]],
    [["field", "x", "<i8", [[1]], 0, 0]],
    [["field", "x", "<i8", [2.0], 0, 0]],
    [["field", "x", "<i8", [1] * 9, 0, 0]],
    [["field", "x", "<i8", [], 1, 0]],
    [["field", "x", "<i8", [], -1, 0]],
    [["field", "x", "<i8", [], "0", 0]],
    [["field", 5, "<i8", [], 0, 0]],
    [["field", "a b", "<i8", [], 0, 0]],
    [["field", "x", 8, [], 0, 0]],
    *(
        [["field", "x", dtype, [], 0, 0]]
        for dtype in ("O", "|O", "<U1", "", "a", "<,", "0)", "01", "i", "<i3", "<f16", "8")
    ),
    [["table", "t", 0, [["c", "<i8", [], 0, 0]]]],
    [["table", "t", 1, []]],
    [["table", "t", 1, ["c"]]],
    [["table", "t", 1, [["c", "<i8", [], 0, 0]] * 2]],
    [["table", "t", 1, [["c", "<i8", [], 0, 0]] * 4097]],
    [["table", "t", "1", [["c", "<i8", [], 0, 0]]]],
    [["blob", "b"]],
    [["blob", "b", 0]],
    [["blob", "b", -5]],
    [["blob", "b", 1 << 80]],
    [["blob", b"b", 1]],
    [["cloud", "b", 1]],
    [["blob", "b", 1]] * 2,
    [["blob", "b", 1]] * 4097,
]


@pytest.mark.parametrize("plain", HOSTILE, ids=lambda plain: repr(plain)[:40])
def test_hostile_plain_data_is_refused(plain: Any) -> None:
    """Invalid plain data gives ValueError or TypeError and nothing else."""
    with pytest.raises((ValueError, TypeError)):
        schema_from_plain(plain)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.binary(max_size=4)
    | st.text(max_size=6)
    | st.sampled_from(("field", "table", "blob", "<i8", "x")),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(PLAIN, max_size=3)
    | st.tuples(st.text(max_size=5), PLAIN).map(lambda p: [["field", "x", p[0], p[1], 0, 0]])
)
@pytest.mark.seldom(0.15)
def test_no_plain_data_breaks_the_reader(plain: Any) -> None:
    """Random plain data gives a schema with the same plain form, or ValueError or TypeError."""
    try:
        schema = schema_from_plain(plain)
    except (ValueError, TypeError):
        return
    assert schema_from_plain(schema_to_plain(schema)) == schema
