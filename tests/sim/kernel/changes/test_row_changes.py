"""Marks, scans and the audit, against a comparison of bytes row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import Blob, Field, Schema, Snapshot, State, Table, UnmarkedWriteError
from sim.kernel.changes.row_changes import AuditedChanges, MarkedChanges, ScannedChanges, ScannedWhileSmall
from sim.kernel.marks import MANY_ROWS

from sim_strategies import Write, apply_write, schemas, writes

IN_PLACE = ("set", "view", "truncate")


def rows_that_differ(state: State, baseline: Snapshot) -> dict[str, list[int]]:
    """The brute-force oracle: compare the bytes of each row in turn."""
    found: dict[str, list[int]] = {}
    for name, slot in state.layout.slots.items():
        starts = [slot.offset + row * slot.row_bytes for row in range(slot.row_count)]
        differing = [
            row
            for row, start in enumerate(starts)
            if state.arena[start : start + slot.row_bytes].tobytes()
            != baseline.arena[start : start + slot.row_bytes].tobytes()
        ]
        if differing:
            found[name] = differing
    return found


def all_rows(state: State) -> dict[str, list[int]]:
    """Every row of every field, as after a change of layout."""
    return {name: list(range(slot.row_count)) for name, slot in state.layout.slots.items() if slot.row_count}


def as_lists(rows: Any) -> dict[str, list[int]]:
    """Changed rows as plain lists."""
    return {name: numbers.tolist() for name, numbers in rows.items()}


def prepared(schema: Schema, changes: list[Write]) -> State:
    """A state after some writes."""
    state = State(schema)
    for change in changes:
        apply_write(state, change)
    return state


@settings(deadline=None, max_examples=150)
@given(schemas(), st.lists(writes(), max_size=5), st.lists(writes(), max_size=6))
def test_scan_marks_and_audit_against_brute_force(schema: Schema, before: list[Write], after: list[Write]) -> None:
    """A scan finds exactly the rows whose bytes differ, marks hold at least those, and the audit is silent."""
    state = prepared(schema, before)
    marked, scanned, audited = MarkedChanges(state), ScannedChanges(state), AuditedChanges(state)
    baseline = state.snapshot()
    for source in (marked, scanned, audited):
        source.reset(baseline)
    assert [as_lists(source.changed_rows()) for source in (marked, scanned, audited)] == [{}, {}, {}]
    for change in after:
        apply_write(state, change)

    same_layout = state.layout.hash_seed == baseline.layout.hash_seed
    truth = rows_that_differ(state, baseline) if same_layout else all_rows(state)
    found, told = as_lists(scanned.changed_rows()), as_lists(marked.changed_rows())
    assert found == truth
    assert list(found) == [name for name in state.layout.slots if name in found]
    assert all(set(rows) <= set(told.get(name, [])) for name, rows in truth.items())
    assert all(rows == sorted(set(rows)) for rows in told.values())
    assert as_lists(audited.changed_rows()) == told


@settings(deadline=None, max_examples=150)
@given(schemas(), st.lists(writes(), max_size=5), writes(("set",)))
def test_set_marks_exactly_what_changed(schema: Schema, before: list[Write], write: Write) -> None:
    """State.set marks the rows whose bytes it changed and no other; repeating it marks nothing."""
    state = prepared(schema, before)
    marks, baseline = state.attach_marks(), state.snapshot()
    marks.clear()
    apply_write(state, write)
    assert as_lists(marks.rows()) == rows_that_differ(state, baseline)

    marks.clear()
    apply_write(state, write)
    assert marks.rows() == {}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (0.0, -0.0, True),
        (-0.0, -0.0, False),
        (np.nan, np.nan, False),
        (np.nan, -np.nan, True),
        (1.0, 1.0, False),
        (1.0, np.nextafter(1, 2), True),
    ],
)
def test_set_compares_bytes_and_not_values(old: float, new: float, changed: bool) -> None:  # noqa: FBT001
    """-0.0 differs from 0.0 and a NaN equals itself."""
    state = State(Schema(Field("x", "f8", (3,))))
    state.set("x", 1, old)
    marks = state.attach_marks()
    marks.clear()
    state.set("x", 1, new)

    assert as_lists(marks.rows()) == ({"x": [1]} if changed else {})


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        (0, [0]),
        (-1, [2]),
        ([2, 0], [0, 2]),
        ([-1, -3], [0, 2]),
        (np.array([1, 1]), [1]),
        (slice(1, None), [1, 2]),
        (slice(None, None, -2), [0, 2]),
        ([False, True, True], [1, 2]),
        (np.array([True, False, False]), [0]),
        ([], []),
    ],
)
@pytest.mark.parametrize("name", ["grid", "ants.age"])
def test_each_way_to_name_rows(name: str, rows: Any, numbers: list[int]) -> None:
    """Numbers, negative ones too, slices and masks reach the same rows that NumPy would, in a half-full table too."""
    state = State(Schema(Field("grid", "i4", (3,)), Table("ants", Field("age", "i4"), capacity=8)))
    state.add_rows("ants", 3)
    marks = state.attach_marks()
    marks.clear()
    expected = np.zeros(3, np.int32)
    expected[rows] = 5
    state.set(name, rows, 5)

    assert state[name].tolist() == expected.tolist()
    assert as_lists(marks.rows()) == ({name: numbers} if numbers else {})


def test_rows_of_several_axes_are_flat_numbers() -> None:
    """With row_axes 1 the leading axes are counted through; a row is written and marked as a unit."""
    state = State(Schema(Field("grid", "i4", (2, 3, 4), row_axes=1)))
    marks = state.attach_marks()
    marks.clear()
    state.set("grid", [4], [1, 2, 3, 4])

    assert state["grid"][1, 1].tolist() == [1, 2, 3, 4]
    assert as_lists(marks.rows()) == {"grid": [4]}


@pytest.mark.parametrize(
    ("rows", "values", "error"),
    [
        (3, 1, IndexError),
        (-4, 1, IndexError),
        ([0, 5], 1, IndexError),
        ([True, False], 1, IndexError),
        ([0, 1], [1, 2, 3], ValueError),
        ([0, 1], [1, None], TypeError),
        (slice(0, 2), np.array([1, None], dtype=object), TypeError),
        ([0, 1], ["1", "x"], ValueError),
        pytest.param(
            0,
            1 << 40,
            OverflowError,
            marks=pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 lets the number wrap, with a warning"),
        ),
    ],
)
@pytest.mark.parametrize("tracked", [False, True])
def test_a_write_that_fails_changes_nothing(rows: Any, values: Any, error: type, tracked: bool) -> None:  # noqa: FBT001
    """An invalid index or value is refused before the first byte is written or marked."""
    state = State(Schema(Table("ants", Field("age", "i4"), capacity=8)))
    state.add_rows("ants", 3)
    marks = state.attach_marks()
    marks.clear()
    if not tracked:
        state.detach(marks)
    before = state.arena.tobytes()

    with pytest.raises(error):
        state.set("ants.age", rows, values)
    assert (state.arena.tobytes(), marks.rows()) == (before, {})


def test_rows_without_bytes_can_be_set() -> None:
    """A field whose rows are empty takes a write and has nothing to mark."""
    state = State(Schema(Field("none", "i8", (3, 0), row_axes=1)))
    marks = state.attach_marks()
    marks.clear()
    state.set("none", 1, 5)

    assert marks.rows() == {}


def test_consumers_do_not_affect_each_other() -> None:
    """Clearing one consumer's marks keeps those of the other, and a closed consumer receives no more marks."""
    state = State(Schema(Field("x", "i8", (4,))))
    one, two = MarkedChanges(state), MarkedChanges(state)
    for source in (one, two):
        source.reset(state.snapshot())
    state.set("x", 1, 5)
    one.reset(state.snapshot())
    state.set("x", 2, 5)

    assert as_lists(one.changed_rows()) == {"x": [2]}
    assert as_lists(two.changed_rows()) == {"x": [1, 2]}
    two.close()
    state.set("x", 3, 5)
    assert as_lists(one.changed_rows()) == {"x": [2, 3]}
    assert as_lists(two.changed_rows()) == {"x": [1, 2]}


def test_marks_follow_their_consumers_and_the_layout() -> None:
    """Arrays of row numbers reach each consumer there is, also after one came, the state grew, and one left."""
    state = State(Schema(Field("x", "i8", (4,)), Table("t", Field("a", "u1"), capacity=1)))
    one = state.attach_marks()
    one.clear()
    state.mark("x", np.array([1]))
    two = state.attach_marks()
    two.clear()
    state.mark("x", np.array([2]))
    assert as_lists(one.rows()) == {"x": [1, 2]}
    assert as_lists(two.rows()) == {"x": [2]}
    state.add_rows("t", 3)  # A new layout: everything counts as marked.
    for marks in (one, two):
        marks.clear()
    state.mark("x", np.array([-1]))
    state.mark("t.a", np.array([-1]))
    assert as_lists(one.rows()) == as_lists(two.rows()) == {"x": [3], "t.a": [2]}
    state.detach(two)
    state.mark("x", np.array([0]))
    assert as_lists(one.rows()) == {"x": [0, 3], "t.a": [2]}
    assert as_lists(two.rows()) == {"x": [3], "t.a": [2]}
    state.detach(one)
    state.mark("x", np.array([2]))
    with pytest.raises(KeyError, match="no field 'y'"):
        state.mark("y", np.array([2]))
    assert as_lists(one.rows()) == {"x": [0, 3], "t.a": [2]}


def test_a_small_state_is_scanned_and_a_grown_one_is_marked() -> None:
    """The change comes with the full keyframe after the growth; until then everything has changed.

    Once marked, only fields with wide rows have their rows listed.
    """
    state = State(Schema(Field("x", "i8", (4,)), Table("t", Field("a", "i8"), capacity=4), Field("w", "i8", (4, 2))))
    source = ScannedWhileSmall(state, state.layout.size_bytes)
    assert source.needs_baseline
    source.reset(state.snapshot())
    state["x"][1] = 5  # Without a mark.
    assert as_lists(source.changed_rows()) == {"x": [1]}
    state.add_rows("t", 9)
    assert as_lists(source.changed_rows())["x"] == [0, 1, 2, 3]
    source.reset(state.snapshot())
    assert not source.needs_baseline
    assert source.changed_rows() == {} == source.changed_fields()
    state["x"][2] = 5
    assert source.changed_rows() == {}
    state.set("x", 3, 5)
    assert as_lists(source.changed_rows()) == {"x": [0, 1, 2, 3]}
    assert source.changed_fields() == {"x": None}
    source.close()
    state.set("w", 0, 5)
    assert as_lists(source.changed_rows()) == {"x": [0, 1, 2, 3]}


@settings(deadline=None)
@given(data=st.data())
def test_a_consumer_of_fields_alone_gets_those_of_all_marks(data: st.DataObject) -> None:
    """Whatever rows are marked, in whatever form, of few and of many rows: the fields and their rows are the same."""
    table = Table("t", Field("b", "u1"), Field("pair", "i8", (2,)), capacity=4000)
    state = State(Schema(Field("grid", "i8", (3 * MANY_ROWS,)), table))
    state.add_rows("t", 3500)
    full, short = state.attach_marks(), state.attach_marks(lists_narrow=False)
    assert full.fields() == short.fields() == dict.fromkeys(state.layout.slots)
    for marks in (full, short):
        marks.clear()
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(["grid", "t.b", "t.pair"]))
        count = len(state[name])
        many = data.draw(st.integers(1, 2 * MANY_ROWS))
        numbers = np.random.default_rng(data.draw(st.integers(0, 99))).integers(1 - count, count, many)
        mask = np.isin(np.arange(count), numbers)
        state.mark(name, data.draw(st.sampled_from([numbers, mask, abs(numbers), slice(3, 20), None, numbers[:2]])))
        for outside in (abs(numbers) + 8000, -abs(numbers) - 8000):
            with pytest.raises(IndexError):
                state.mark(name, outside)
    fields = [
        {name: rows if rows is None else rows.tolist() for name, rows in marks.fields().items()}
        for marks in (full, short)
    ]

    assert fields[0] == fields[1]
    for name, rows in full.rows().items():
        assert set(rows.tolist()) <= set(short.rows()[name].tolist())


def test_before_the_first_baseline_everything_has_changed() -> None:
    """A source that was never reset names every row."""
    state = State(Schema(Field("x", "i8", (2,)), Table("t", Field("a", "u1"), capacity=3), Blob("b", 2)))

    for kind in (MarkedChanges, ScannedChanges, AuditedChanges):
        assert as_lists(kind(state).changed_rows()) == {"#counts": [0, 1], "x": [0, 1], "t.a": [0, 1, 2], "b": [0, 1]}


def test_the_audit_names_field_and_rows_of_an_unmarked_write() -> None:
    """A write through a view without a mark is reported with its field and rows, at most five of them in the text."""
    state = State(Schema(Field("x", "i8", (9,)), Field("y", "i8", (9,))))
    audit = AuditedChanges(state)
    audit.reset(state.snapshot())
    state.set("x", [0, 1], 5)
    state["y"][1:8] = 5
    state.mark("y", 4)

    with pytest.raises(UnmarkedWriteError) as caught:
        audit.changed_rows()
    assert (caught.value.field, caught.value.rows.tolist()) == ("y", [1, 2, 3, 5, 6, 7])
    assert str(caught.value) == "field y: 6 rows were written without a mark (rows 1, 2, 3, 5, 6, …)"
    audit.reset(state.snapshot())
    assert audit.changed_rows() == {}


def test_the_audit_lets_unchanged_and_undone_writes_pass() -> None:
    """Only bytes that differ need a mark; marked rows are returned even where nothing differs."""
    state = State(Schema(Field("x", "i8", (9,))))
    audit = AuditedChanges(state)
    audit.reset(state.snapshot())
    state["x"][3] = 0
    state["x"][4] = 1
    state["x"][4] = 0
    state.mark("x", 7)

    assert as_lists(audit.changed_rows()) == {"x": [7]}


@pytest.mark.parametrize("grown", [False, True])
def test_restore_marks_everything(grown: bool) -> None:  # noqa: FBT001
    """After a restore every row counts as changed, with or without a different layout."""
    state = State(Schema(Field("x", "i8", (2,)), Table("t", Field("a", "u1"), capacity=2)))
    saved = state.snapshot()
    if grown:
        state.add_rows("t", 3)
    source = MarkedChanges(state)
    source.reset(state.snapshot())
    state.restore(saved)

    assert as_lists(source.changed_rows()) == {"#counts": [0], "x": [0, 1], "t.a": [0, 1]}


@pytest.mark.parametrize(
    ("rows", "numbers"),
    [
        (None, [0, 1, 2, 3]),
        (2, [2]),
        ([0, 3], [0, 3]),
        (slice(1, 3), [1, 2]),
        (np.array([[True, False], [False, True]]), [0, 3]),
    ],
)
def test_each_way_to_mark(rows: Any, numbers: list[int]) -> None:
    """All rows, numbers, slices and masks in the field's own shape."""
    state = State(Schema(Field("grid", "i4", (2, 2))))
    marks = state.attach_marks()
    marks.clear()
    state.mark("grid", rows)

    assert as_lists(marks.rows()) == {"grid": numbers}


def test_blobs_and_counts_are_tracked() -> None:
    """A blob marks the bytes that it used or uses, and the counts; a truncated table marks the rows that it lost."""
    state = State(Schema(Table("t", Field("a", "u1"), capacity=4), Blob("b", 8)))
    state.add_rows("t", 3)
    state.set_blob("b", b"12345")
    source = MarkedChanges(state)
    source.reset(state.snapshot())
    state.set_blob("b", b"12")
    state.truncate_rows("t", 1)

    assert as_lists(source.changed_rows()) == {"#counts": [0, 1], "t.a": [1, 2], "b": [0, 1, 2, 3, 4]}
