"""The arena: views, growth, snapshots, restoring, hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import Blob, Field, Schema, Snapshot, State, Table
from sim.kernel.changes.row_changes import MarkedChanges
from sim.kernel.hashing import HASH_NAME

from sim_strategies import Write, apply_write, schemas, writes

SCHEMA = Schema(
    Field("grid", "f4", (2, 3), row_axes=1),
    Table("ants", Field("age", "i4"), Field("place", "u2", (2,)), capacity=2),
    Blob("log", capacity=4),
)


def a_state() -> State:
    """Two ants, a log of three bytes and a grid of ones."""
    state = State(SCHEMA)
    state.add_rows("ants", 2)
    state["ants.age"][:] = (7, 8)
    state["ants.place"][:] = ((1, 2), (3, 4))
    state.set_blob("log", b"abc")
    state["grid"][:] = 1
    return state


def test_a_new_state_is_zero_and_empty() -> None:
    """Numbers are 0, tables and blobs have no rows, and the arena is all zero bytes."""
    state = State(SCHEMA)

    assert list(state) == ["grid", "ants.age", "ants.place", "log"]
    assert (len(state), state.count("ants"), state.count("log"), state.blob("log")) == (4, 0, 0, b"")
    assert state["grid"].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert state["ants.place"].shape == (0, 2)
    assert not state.arena.any()


def test_every_arena_starts_at_a_cache_line() -> None:
    """The arenas of states and snapshots are 64-byte aligned and contiguous."""
    states = [State(SCHEMA) for _ in range(8)]
    arenas = [state.arena for state in states] + [state.snapshot().arena for state in states]

    assert [arena.ctypes.data % 64 for arena in arenas] == [0] * 16
    assert all(arena.flags.c_contiguous for arena in arenas)


def test_views_lie_in_the_arena() -> None:
    """A write through a view is a write to the arena at the field's offset, little-endian."""
    state = a_state()
    state["ants.age"][1] = 0x01020304
    state["grid"][1, 0] = -2.0
    slots = state.layout.slots

    age, grid = slots["ants.age"].offset, slots["grid"].offset
    assert state.arena[age : age + 8].tobytes() == bytes.fromhex("0700000004030201")
    assert state.arena[grid + 12 : grid + 16].tobytes() == bytes.fromhex("000000c0")
    assert all(np.shares_memory(state[name], state.arena) for name in state)
    assert state.arena[:16].tobytes() == bytes.fromhex("02000000000000000300000000000000")


def test_growth_keeps_values_and_clears_the_rest() -> None:
    """A table that grows doubles its capacity; old rows stay, new rows are zero, other fields keep their bytes."""
    state = a_state()
    place = state.add_rows("ants", 3)

    assert place == slice(2, 5)
    assert state.layout.capacities == {"ants": 8, "log": 4}
    assert state["ants.age"].tolist() == [7, 8, 0, 0, 0]
    assert state["ants.place"].tolist() == [[1, 2], [3, 4], [0, 0], [0, 0], [0, 0]]
    assert state.blob("log") == b"abc"
    assert state["grid"].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert state.arena.ctypes.data % 64 == 0


def test_rows_within_the_capacity_move_nothing() -> None:
    """Rows that fit leave the layout and the arena where they are."""
    state = State(SCHEMA)
    arena, layout = state.arena, state.layout
    state.add_rows("ants", 2)

    assert state.arena is arena
    assert state.layout is layout
    state.add_rows("ants", 1)
    assert state.arena is not arena


@pytest.mark.parametrize("rows_between", [0, 1])
def test_views_from_before_growth_are_read_only(rows_between: int) -> None:
    """A write through any view that the state gave before growth fails instead of vanishing."""
    state = State(Schema(Field("grid", "f4", (2,)), Table("ants", Field("age", "i4"), capacity=3), Blob("log", 4)))
    state.add_rows("ants", 1)
    state.set_blob("log", b"x")
    old = [state[name] for name in state]
    state.add_rows("ants", rows_between)
    assert [len(state[name]) for name in state] == [2, 1 + rows_between, 1]
    state.add_rows("ants", 3)

    for view in old:
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5
    for name in state:
        state[name][0] = 5


def test_truncation_clears_memory() -> None:
    """Truncated rows are zero in memory, so that equal states have equal arenas."""
    state = a_state()
    state.truncate_rows("ants", 1)
    state.set_blob("log", b"")
    other = State(SCHEMA)
    other.add_rows("ants", 1)
    other["ants.age"][:], other["ants.place"][:], other["grid"][:] = 7, (1, 2), 1

    assert state.arena.tobytes() == other.arena.tobytes()
    assert state.hash() == other.hash()
    state.add_rows("ants", 1)
    assert state["ants.age"].tolist() == [7, 0]


@pytest.mark.parametrize("row_count", [-1, 3])
def test_truncation_to_missing_rows(row_count: int) -> None:
    """A table can be truncated to any number of its rows; a refusal changes nothing."""
    state = a_state()
    before = state.hash()

    with pytest.raises(ValueError, match=f"^table ants: expected 0 to 2 rows to keep, got {row_count}$"):
        state.truncate_rows("ants", row_count)
    assert state.hash() == before


def test_rows_cannot_be_added_below_zero_or_past_the_limit() -> None:
    """A negative or impossible number of rows is refused and changes nothing."""
    state = a_state()
    before = state.hash()

    for row_count in (-1, 1 << 41):
        with pytest.raises(ValueError):  # noqa: PT011 - two messages
            state.add_rows("ants", row_count)
    assert (state.hash(), state.count("ants")) == (before, 2)
    assert state.add_rows("ants", 0) == slice(2, 2)


def test_a_blob_shrinks_grows_and_empties() -> None:
    """Each length is kept exactly; a shorter value is followed by zeros, a longer one doubles the capacity."""
    state = a_state()
    place = state.layout.slots["log"].offset

    state.set_blob("log", b"z")
    assert (state.blob("log"), state.arena[place : place + 4].tobytes()) == (b"z", b"z\0\0\0")
    state.set_blob("log", b"123456789")
    assert (state.blob("log"), state.layout.capacities["log"]) == (b"123456789", 16)
    assert state["ants.age"].tolist() == [7, 8]
    state.set_blob("log", b"")
    place = state.layout.slots["log"].offset
    assert (state.blob("log"), state.arena[place : place + 16].tobytes()) == (b"", bytes(16))


@settings(deadline=None, max_examples=60)
@given(schemas(), st.lists(writes(), max_size=8))
def test_bytes_without_an_owner_are_zero(schema: Schema, changes: list[Write]) -> None:
    """After any writes, clearing all live rows leaves an arena of zeros except for the counts."""
    state = State(schema)
    for change in changes:
        apply_write(state, change)
    for name in state:
        state[name].reshape(-1).view(np.uint8)[:] = 0
    if "#counts" in state.layout.slots:
        state["#counts"][:] = 0

    assert not state.arena.any()


def test_a_snapshot_is_independent_and_immutable() -> None:
    """A snapshot does not see later writes and cannot be written itself."""
    state = a_state()
    snapshot = state.snapshot()
    was = snapshot.hash()
    state["ants.age"][0] = 99
    state.add_rows("ants", 9)

    assert snapshot["ants.age"].tolist() == [7, 8]
    assert (snapshot.count("ants"), snapshot.blob("log"), list(snapshot), len(snapshot)) == (2, b"abc", list(state), 4)
    assert snapshot.hash() == was != state.hash()
    with pytest.raises(ValueError, match="read-only"):
        snapshot["ants.age"][0] = 1
    with pytest.raises(ValueError, match="read-only"):
        snapshot.arena[0] = 1
    with pytest.raises(AttributeError):
        snapshot.arena = state.arena  # type: ignore[misc]


def test_a_snapshot_has_the_size_of_its_layout() -> None:
    """An arena of a different length is refused."""
    state = a_state()
    with pytest.raises(ValueError, match=r"^arena: expected shape \(\d+,\), got \(64,\)$"):
        Snapshot(state.layout, np.zeros(64, np.uint8))


def test_restore_works_across_growth() -> None:
    """A state that grew, or never grew, equals the snapshot in bytes, layout and hash, and is a separate copy."""
    state = a_state()
    small = state.snapshot()
    state.add_rows("ants", 30)
    state.set_blob("log", b"longer than before")
    large = state.snapshot()

    for snapshot in (small, large, large, small):
        state.restore(snapshot)
        assert state.arena.tobytes() == snapshot.arena.tobytes()
        assert (state.hash(), state.layout.capacities) == (snapshot.hash(), snapshot.layout.capacities)
        assert state["ants.age"].tolist() == snapshot["ants.age"].tolist()
        state["ants.age"][0] += 1
        assert state.hash() != snapshot.hash()


def test_restore_includes_the_schema() -> None:
    """A snapshot with different fields also replaces the fields."""
    state = a_state()
    other = State(Schema(Field("x", "i8")))
    other.restore(state.snapshot())

    assert list(other) == list(state)
    assert other.hash() == state.hash()


def test_replacing_the_schema() -> None:
    """New fields start at zero, tables and blobs keep their capacities by name; an equal schema changes nothing."""
    state = a_state()
    state.add_rows("ants", 3)
    before, arena = state.hash(), state.arena
    state.replace_schema(Schema(*SCHEMA.entries))
    assert (state.hash(), state.arena) == (before, arena)

    state.replace_schema(Schema(Field("new", "i8"), *SCHEMA.entries, Blob("note", capacity=3)))
    assert state.layout.capacities == {"ants": 8, "log": 4, "note": 3}
    assert list(state) == ["new", "grid", "ants.age", "ants.place", "log", "note"]
    assert not state.arena.any()


def test_unknown_names_list_the_fields() -> None:
    """An unknown field is refused with the names of the existing fields, without the arena's own."""
    state = a_state()
    asked: list[Any] = [
        lambda: state["ant.age"],
        lambda: state.set("ant.age", 0, 1),
        lambda: state.field_hash("ant.age"),
        lambda: state.snapshot()["ant.age"],
    ]

    for ask in asked:
        with pytest.raises(KeyError) as caught:
            ask()
        assert caught.value.args == (
            "no field 'ant.age'; the fields are grid, ants.age, ants.place, log; did you mean ants.age?",
        )
    with pytest.raises(KeyError):
        state.add_rows("grid", 1)


KEY = b"field grid <f4 2x3 1 0\ntable ants 2\ncolumn age <i4 - 0 0\ncolumn place <u2 2 0 0\nblob log 4\n"


def test_the_hash_is_xxh3_of_the_arena_seeded_with_the_layout() -> None:
    """The state hash can be computed by hand from the bytes and the layout's text."""
    state = a_state()
    line = 64
    by_hand = (
        (2).to_bytes(8, "little")
        + (3).to_bytes(8, "little")
        + bytes(line - 16)
        + np.ones(6, "<f4").tobytes()
        + bytes(line - 24)
        + np.array([7, 8], "<i4").tobytes()
        + bytes(line - 8)
        + np.array([1, 2, 3, 4], "<u2").tobytes()
        + bytes(line - 8)
        + b"abc"
        + bytes(line - 3)
    )

    assert HASH_NAME == "xxh3-64"
    assert state.arena.tobytes() == by_hand
    assert state.hash() == xxhash.xxh3_64_intdigest(by_hand, seed=xxhash.xxh3_64_intdigest(KEY))
    assert state.snapshot().hash() == state.hash()
    assert repr(state.snapshot()) == f"<Snapshot of 4 fields, 320 bytes, hash {state.hash():016x}>"


def test_a_field_hash_is_xxh3_of_its_bytes_at_full_capacity() -> None:
    """Unused rows count as zeros; the seed is 0."""
    state = a_state()

    assert state.field_hash("log") == xxhash.xxh3_64_intdigest(b"abc\0")
    assert state.field_hash("grid") == xxhash.xxh3_64_intdigest(np.ones(6, "<f4").tobytes())


@pytest.mark.parametrize(
    "other",
    [
        Schema(Field("b", "i8", (4,))),
        Schema(Field("a", "u8", (4,))),
        Schema(Field("a", "i8", (2, 2))),
        Schema(Field("a", "i8", (4,), row_axes=1)),
        Schema(Field("a", "i8", (4,), hot=True)),
    ],
)
def test_equal_bytes_under_other_names_hash_differently(other: Schema) -> None:
    """Name, dtype, shape, row axes and position all enter the hash."""
    one, two = State(Schema(Field("a", "i8", (4,)))), State(other)

    assert one.arena.tobytes() == two.arena.tobytes()
    assert one.hash() != two.hash()


def test_equal_bytes_with_other_capacities_hash_differently() -> None:
    """Unused capacity enters the hash, even if it fits in the same cache line."""
    schema = Schema(Table("t", Field("a", "u1"), capacity=4))
    one, two = State(schema), State(schema, {"t": 5})

    assert one.arena.tobytes() == two.arena.tobytes()
    assert one.hash() != two.hash()
    assert State(schema, {"t": 4}).hash() == one.hash()


@pytest.mark.parametrize("rows", [[-1, 2], [0], [], [[1, 3], [4, -2]]])
def test_marks_of_a_field_are_those_of_a_mask(rows: list[Any]) -> None:
    """Arrays of numbers, negative ones too, mark what they select; a row that does not exist is refused."""
    state = State(Schema(Field("x", "i4", (5,))))
    for dtype in (np.int64, np.int32):
        marks, expected = state.attach_marks(), np.zeros(5, bool)
        marks.clear()
        state.mark("x", np.array(rows, dtype))
        expected[np.array(rows, dtype)] = True
        assert marks.rows().get("x", np.array([], int)).tolist() == np.flatnonzero(expected).tolist()
        state.detach(marks)
    state.attach_marks()
    with pytest.raises(IndexError):
        state.mark("x", np.array([5]))
    with pytest.raises(IndexError):
        state.mark("x", np.array([-6]))


def test_negative_marks_count_from_the_last_live_row() -> None:
    """In a half-full table, -1 is the last row in use, not the last row of the capacity."""
    state = State(Schema(Table("t", Field("a", "u1"), capacity=8)))
    state.add_rows("t", 3)
    source = MarkedChanges(state)
    source.reset(state.snapshot())
    state.mark("t.a", -1)

    assert {name: rows.tolist() for name, rows in source.changed_rows().items()} == {"t.a": [2]}
    with pytest.raises(KeyError, match=r"no field 't\.b'; the fields are t\.a"):
        state.mark("t.b", 0)
    with pytest.raises(IndexError):
        state.mark("t.a", 8)


@pytest.mark.parametrize("size", [True, 1.0, -1])
def test_invalid_sizes(size: Any) -> None:
    """A shape has integers, not booleans; the number of rows of 0 bytes is limited."""
    with pytest.raises(ValueError, match=r"^shape: expected up to 8 integers of at least 0, got "):
        Field("a", "i4", (size,))
    with pytest.raises(ValueError, match=r"^field a: expected at most 1048576 rows of 0 bytes, got 274877906944"):
        State(Schema(Field("a", "i4", (1 << 38, 0), row_axes=1)))


# --- adding fields


def test_extending_keeps_the_present_fields() -> None:
    """Values, rows and capacities stay; new fields are zero and empty, and follow the others."""
    state, plain = a_state(), a_state()
    state.extend(Field("clock", "i8", (2,)), Blob("notes", capacity=3), Table("bees", Field("age", "u1"), capacity=1))

    assert list(state) == ["grid", "ants.age", "ants.place", "log", "clock", "notes", "bees.age"]
    assert {name: state[name].tolist() for name in plain} == {name: plain[name].tolist() for name in plain}
    assert (state["clock"].tolist(), state.blob("notes"), state.count("bees")) == ([0, 0], b"", 0)
    assert {name: state.layout.capacities[name] for name in plain.layout.capacities} == plain.layout.capacities
    assert state.arena.ctypes.data % 64 == 0


def test_extending_equals_a_state_made_with_all_fields() -> None:
    """Layout, bytes and hash equal those of a state of the complete schema with the same values."""
    extended, whole = a_state(), State(Schema(*SCHEMA.entries, Field("clock", "i8")))
    extended.extend(Field("clock", "i8"))
    restored = State(SCHEMA)
    restored.restore(a_state().snapshot())
    whole.add_rows("ants", 2)
    for name in ("ants.age", "ants.place", "grid"):
        whole[name][...] = extended[name]
    whole.set_blob("log", b"abc")

    assert (extended.layout.slots, extended.layout.hash_seed) == (whole.layout.slots, whole.layout.hash_seed)
    assert extended.arena.tobytes() == whole.arena.tobytes()
    assert extended.hash() == whole.hash()
    restored.restore(extended.snapshot())
    assert list(restored) == list(extended)


def test_views_from_before_extending_are_read_only() -> None:
    """A write through an old view fails instead of vanishing; a write through a new view works."""
    state = a_state()
    stale = [state["grid"], state["ants.age"], state["log"]]
    state.truncate_rows("ants", 1)
    stale.append(state["ants.age"])
    state.extend(Field("clock", "i8"))

    for view in stale:
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 0
    state["ants.age"][0] = 5
    assert state.snapshot()["ants.age"].tolist() == [5]


def test_tables_and_blobs_grow_after_extending() -> None:
    """Old and new tables and blobs grow without affecting each other."""
    state = a_state()
    state.extend(Blob("notes"), Table("bees", Field("age", "u1"), capacity=1))
    state.add_rows("ants", 40)
    state.add_rows("bees", 5)
    state["bees.age"][:] = 9
    state.set_blob("notes", b"n" * 999)
    state.set_blob("log", b"l" * 99)

    assert (state["ants.age"].tolist(), state["bees.age"].tolist()) == ([7, 8] + [0] * 40, [9] * 5)
    assert (state.blob("notes"), state.blob("log"), state["grid"].tolist()) == (b"n" * 999, b"l" * 99, [[1] * 3] * 2)


def test_marks_continue_after_extending() -> None:
    """A consumer sees everything as changed, and then what is marked, new fields included."""
    state = a_state()
    source = MarkedChanges(state)
    source.reset(state.snapshot())
    state.extend(Field("clock", "i8", (2,)))

    assert {name: rows.tolist() for name, rows in source.changed_rows().items()}.keys() >= {"grid", "clock"}
    source.reset(state.snapshot())
    state.set("clock", 1, 5)
    state.set("ants.age", 0, 9)
    assert {name: rows.tolist() for name, rows in source.changed_rows().items()} == {"ants.age": [0], "clock": [1]}


@pytest.mark.parametrize("entry", [Field("grid", "i1"), Blob("log"), Table("ants", Field("x", "i1")), Blob("ants")])
def test_a_name_that_is_in_use(entry: Any) -> None:
    """The name is refused without any change."""
    state = a_state()
    before, view = state.arena.tobytes(), state["grid"]

    with pytest.raises(ValueError, match=r"(grid|log|ants)"):
        state.extend(Field("clock", "i8"), entry)
    assert state.arena.tobytes() == before
    assert "clock" not in list(state)
    view[...] = 2
    assert state["grid"][0, 0] == 2
