"""What each tick changed: nothing that changed is left out, nothing is told across two layouts."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sim import Blob, Field, Schema, State, Table
from sim.kernel.changes.row_changes import UnmarkedWriteError
from sim.kernel.changes.tick_changes import (
    TICK_SOURCES,
    AuditedTicks,
    MarkedTicks,
    ScannedTicks,
    ensure_words_can_be_numbered,
)

from small_worlds import Herd


def told(source: MarkedTicks | ScannedTicks, state: State) -> dict[str, dict[int, int]]:
    """The words of the last tick, by field and number."""
    changes = source.take(state)
    assert changes is not None
    found = changes.by_field(state.layout)
    return {
        name: dict(zip(numbers.tolist(), values.tolist(), strict=True)) for name, (numbers, values) in found.items()
    }


def make_state() -> State:
    """A few fields of different rows."""
    return State(Schema(Field("a", "i4", (6,)), Field("pair", "u2", (3, 2), row_axes=1), Field("none", "i8", (0,))))


def test_marks_are_words_of_their_rows() -> None:
    """Rows of two words have both; what is marked twice, or again with an equal value, does no harm."""
    state = make_state()
    source = MarkedTicks(state)
    rows = [1, 4]
    state["a"][rows] = [7, 8]
    state.mark("a", rows)
    state["pair"][2] = (5, 6)
    state.mark("pair", 2)
    state.mark("a", [4])
    state.mark("none")
    assert told(source, state) == {"a": {1: 7, 4: 8}, "pair": {4: 5, 5: 6}}
    assert told(source, state) == {}
    state["a"][:] = 9
    state.mark("a")
    assert told(source, state) == {"a": dict.fromkeys(range(6), 9)}
    state.restore(state.snapshot())
    assert set(told(source, state)) == {"a", "pair"}
    source.close()
    state.mark("a")
    assert told(source, state) == {}


def test_rows_that_a_step_uses_again() -> None:
    """The array may be another one by the end of the step."""
    state = make_state()
    source = MarkedTicks(state)
    rows = np.array([1, 2])
    state["a"][rows] = 5
    state.mark("a", rows)
    rows[:] = 0
    assert told(source, state) == {"a": {1: 5, 2: 5}}


def test_a_scan_finds_words_and_no_padding() -> None:
    """Of small words those that share eight bytes with a changed one come along."""
    state = make_state()
    source = ScannedTicks(state)
    state["a"][5] = 3
    state["pair"][1] = (0, 9)
    assert told(source, state) == {"a": {4: 0, 5: 3}, "pair": {0: 0, 1: 0, 2: 0, 3: 9}}
    assert told(source, state) == {}


@pytest.mark.parametrize("kind", TICK_SOURCES)
def test_another_layout_or_state_is_told(kind: str) -> None:
    """None, until the source begins anew; then changes come upon the new one."""
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
    """A word of a row of two, and nothing for what was marked."""
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
    """Growth apart, which is told."""
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
    """Before anything is made of it."""
    state = make_state()
    ensure_words_can_be_numbered(state.layout)

    slot = SimpleNamespace(name="big", size_bytes=8 << 33, row_bytes=8, dtype=state["a"].dtype)
    with pytest.raises(ValueError, match="field big has more than 4,294,967,296 words"):
        ensure_words_can_be_numbered(SimpleNamespace(slots={"big": slot}))  # type: ignore[arg-type]
