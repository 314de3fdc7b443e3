"""Changes of each tick: no change is left out, and nothing is reported across two layouts."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from sim import Blob, Field, Schema, State, Table
from sim.kernel.changes.row_changes import UnmarkedWriteError, differing_rows
from sim.kernel.changes.rows_of_ticks import RowsOfTicks
from sim.kernel.changes.tick_changes import (
    TICK_SOURCES,
    AuditedTicks,
    MarkedTicks,
    ScannedTicks,
    ensure_words_can_be_numbered,
    flat_words,
)

from small_worlds import Herd


def words_of_last_tick(source: MarkedTicks | ScannedTicks, state: State) -> dict[str, dict[int, int]]:
    """The words of the last tick, by field and number."""
    changes = source.take(state)
    assert changes is not None
    words_by_field = changes.by_field(state.layout)
    return {
        name: dict(zip(numbers.tolist(), values.tolist(), strict=True))
        for name, (numbers, values) in words_by_field.items()
    }


def make_state() -> State:
    """A few fields of different rows."""
    return State(Schema(Field("a", "i4", (6,)), Field("pair", "u2", (3, 2), row_axes=1), Field("none", "i8", (0,))))


def test_marks_are_words_of_their_rows() -> None:
    """Rows of two words have both; marking twice, or with an equal value, is harmless."""
    state = make_state()
    source = MarkedTicks(state)
    rows = [1, 4]
    state["a"][rows] = [7, 8]
    state.mark("a", rows)
    state["pair"][2] = (5, 6)
    state.mark("pair", 2)
    state.mark("a", [4])
    state.mark("none")
    assert words_of_last_tick(source, state) == {"a": {1: 7, 4: 8}, "pair": {4: 5, 5: 6}}
    assert words_of_last_tick(source, state) == {}
    state["a"][:] = 9
    state.mark("a")
    assert words_of_last_tick(source, state) == {"a": dict.fromkeys(range(6), 9)}
    state.restore(state.snapshot())
    assert set(words_of_last_tick(source, state)) == {"a", "pair"}
    source.close()
    state.mark("a")
    assert words_of_last_tick(source, state) == {}


def test_row_numbers_that_a_step_overwrites() -> None:
    """Marks keep a copy of the row numbers: the step may change the array before it ends."""
    state = make_state()
    source = MarkedTicks(state)
    rows = np.array([1, 2])
    state["a"][rows] = 5
    state.mark("a", rows)
    rows[:] = 0
    assert words_of_last_tick(source, state) == {"a": {1: 5, 2: 5}}


def test_a_scan_finds_words_and_no_padding() -> None:
    """Small words that share eight bytes with a changed word are included."""
    state = make_state()
    source = ScannedTicks(state)
    state["a"][5] = 3
    state["pair"][1] = (0, 9)
    assert words_of_last_tick(source, state) == {"a": {4: 0, 5: 3}, "pair": {0: 0, 1: 0, 2: 0, 3: 9}}
    assert words_of_last_tick(source, state) == {}


@pytest.mark.parametrize("chunk_words", [1, 3, 1 << 19])
def test_a_scan_knows_the_values_before(chunk_words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each word that it lists, whatever the size of a chunk; so do the rows gathered from many ticks."""
    monkeypatch.setattr("sim.kernel.changes.tick_changes.CHUNK_WORDS", chunk_words)
    fields = (
        Field("a", "i4", (7,)),
        Field("pair", "u2", (5, 3), row_axes=1),
        Field("flags", "u1", (13,)),
        Field("x", "f8", (4,)),
    )
    state = State(Schema(*fields))
    chance = np.random.default_rng(random.randrange(1 << 32))
    source, gathered = ScannedTicks(state), RowsOfTicks(state)
    start = state.snapshot()
    for _ in range(20):
        before = flat_words(state.arena.copy(), state.layout)
        for field in fields:
            chosen = chance.random(state[field.name].shape) < chance.choice([0, 0.1, 1])
            state[field.name][chosen] = chance.integers(0, 3, int(chosen.sum()))
        changes = source.take(state)
        assert changes is not None
        gathered.add(changes)
        now = flat_words(state.arena, state.layout)
        listed = changes.steps_by_field(state.layout)
        for name, words in now.items():
            numbers, values, earlier = listed.get(name, ([], [], []))
            assert set(np.flatnonzero(words != before[name])) <= set(numbers)
            assert np.array_equal(values, words[numbers] if len(numbers) else [])
            assert np.array_equal(earlier, before[name][numbers] if len(numbers) else [])
        differing, rows = differing_rows(state.layout, state.arena, start.arena), gathered.changed_rows()
        copied = gathered.changed_fields()
        for name, changed in differing.items():
            assert set(changed) <= set(rows[name])
            assert copied[name] is None or np.array_equal(copied[name], rows[name])
        for name, numbers in rows.items():
            assert (np.diff(numbers) > 0).all()
            assert numbers[-1] < state.layout.slots[name].row_count
        if chance.random() < 0.2:
            gathered.reset(None)
            start = state.snapshot()
            assert gathered.changed_rows() == {} == gathered.changed_fields()


@pytest.mark.parametrize("kind", TICK_SOURCES)
def test_a_different_layout_or_state_is_reported(kind: str) -> None:
    """The source returns None until it is reset; then it reports the changes of the new state."""
    state = State(Schema(Table("ants", Field("age", "i8"), capacity=2), Blob("text", capacity=4)))
    source = TICK_SOURCES[kind](state)
    state.add_rows("ants", 2)
    assert source.take(state) is not None
    state.add_rows("ants", 1)
    assert source.take(state) is None
    assert source.take(state) is None
    source.reset(state)
    state.set("ants.age", 2, 5)
    taken = source.take(state)
    assert taken is not None
    assert taken.by_field(state.layout)["ants.age"][1].tolist() == [5]
    other = State(state.layout.schema, state.layout.capacities)
    assert source.take(other) is None
    source.reset(other)
    other.set("ants.age", slice(0), ())
    assert source.take(other) is not None
    source.close()


def test_the_audit_names_the_row_that_was_not_marked() -> None:
    """An unmarked word in a row of two is reported, and marked rows are not."""
    state = make_state()
    source = AuditedTicks(state)
    state.set("a", [0, 1], [1, 2])
    state.set("pair", 1, (3, 4))
    assert source.take(state) is not None
    state.set("a", 3, 1)
    state["pair"][2, 1] = 8
    with pytest.raises(UnmarkedWriteError) as caught:
        source.take(state)
    assert (caught.value.field, caught.value.rows.tolist()) == ("pair", [2])


def test_all_writes_of_a_herd_are_among_its_marks() -> None:
    """Every write except growth is marked; growth is reported as a new layout."""
    herd = Herd(seed=3)
    source = AuditedTicks(herd.state)
    layouts = 0
    for _ in range(120):
        herd.step(None)
        if source.take(herd.state) is None:
            layouts += 1
            source.reset(herd.state)
    assert 0 < layouts < 20


def test_a_field_with_too_many_words_is_refused() -> None:
    """The number of words is checked before any array is made."""
    state = make_state()
    ensure_words_can_be_numbered(state.layout)

    slot = SimpleNamespace(name="big", size_bytes=8 << 33, row_bytes=8, dtype=state["a"].dtype)
    with pytest.raises(ValueError, match=r"^field big: expected at most 4,294,967,296 words, .* got 17,179,869,184$"):
        ensure_words_can_be_numbered(SimpleNamespace(slots={"big": slot}))  # type: ignore[arg-type]
