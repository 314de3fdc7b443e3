"""The changes of a tick in flags and once each: the states, the bytes and the hashes are those of the plain form."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from recorder.format.blocks.changes_block import ChangeEncoder, decode_changes
from recorder.format.blocks.hash_chain import HashChain
from recorder.format.blocks.large.change_planes import many_changes_payload
from sim import Field, Schema, State
from sim.kernel.changes.many_changes import ManyChanges
from sim.kernel.changes.rows_of_ticks import RowsOfTicks
from sim.kernel.changes.tick_changes import MarkedTicks, ScannedTicks, flat_words

NEVER = 1 << 40
FIELDS = (
    Field("count", "i8", (300,)),
    Field("same", "i8", (300,)),
    Field("small", "i2", (50, 3), row_axes=1),
    Field("unsigned", "u4", (61,)),
    Field("real", "f8", (40, 2), row_axes=1),
    Field("half", "f4", (41,)),
    Field("flag", "u1", (77,)),
    Field("nothing", "f8", (0,)),
)
MARKS = ("ascending", "any order", "twice", "several", "whole", "slice")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these fields have several chunks."""
    monkeypatch.setattr("sim.kernel.changes.many_changes.CHUNK_WORDS", 64)
    monkeypatch.setattr("recorder.format.blocks.large.change_planes.CHUNK_WORDS", 24)


def write(state: State, chance: np.random.Generator, how: str) -> None:
    """Write random rows of random fields, and mark them."""
    share = float(chance.choice([0.02, 0.5, 1]))
    for name in chance.permutation([field.name for field in FIELDS if field.name != "nothing"]).tolist():
        if chance.random() < 0.3:
            continue
        rows = np.flatnonzero(chance.random(len(state[name])) < share)
        if name == "same" and chance.random() < 0.5:
            rows = np.flatnonzero(state["count"] % 2)
        if not len(rows):
            continue
        state[name][rows] = chance.integers(0, 100, state[name][rows].shape)
        if how == "whole":
            state.mark(name)
        elif how == "slice":
            state.mark(name, slice(int(rows[0]), int(rows[-1]) + 1))
        elif how == "several":
            for part in np.array_split(chance.permutation(rows), 3):
                if len(part):
                    state.mark(name, part)
        else:
            doubled = np.concatenate([rows, rows[:5]])
            state.mark(name, {"ascending": rows, "any order": chance.permutation(rows), "twice": doubled}[how])


def sources(state: State, marks: bool) -> tuple[Any, Any]:  # noqa: FBT001
    """A source of many changes, and one that never gives them."""
    kind = MarkedTicks if marks else ScannedTicks
    return kind(state, 1), kind(state, NEVER)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("how", [*MARKS, "scan"])
def test_many_changes_are_those_of_the_plain_form(how: str, seed: int) -> None:
    """Blocks are equal byte for byte, chained hashes and changed rows too, and the blocks lead to the live states."""
    chance = np.random.default_rng(seed)
    marks = how != "scan"
    state = State(Schema(*FIELDS))
    many_source, plain_source = sources(state, marks)
    start = state.arena if marks else None
    many_encoder, plain_encoder = ChangeEncoder(state.layout, start), ChangeEncoder(state.layout, start)
    rows, plain_rows = RowsOfTicks(state), RowsOfTicks(state)
    chain, replayed = HashChain(state.layout), state.arena.copy()
    found_many = 0
    for tick in range(1, 9):
        write(state, chance, "ascending" if how == "scan" else how)
        many, plain = many_source.take(state), plain_source.take(state)
        if not isinstance(many, ManyChanges):
            assert many.size_bytes == 0
            continue
        found_many += 1
        if marks:
            assert chain.extend_by(b"x" * 8, many) == chain.extend(b"x" * 8, plain.by_field(state.layout))
        else:
            rows.add(many)
            plain_rows.add(plain)
            assert {name: numbers.tolist() for name, numbers in rows.changed_rows().items()} == {
                name: numbers.tolist() for name, numbers in plain_rows.changed_rows().items()
            }
        payload = many_changes_payload(many_encoder, tick, many)
        content = bytes(payload.joined())
        assert content == bytes(plain_encoder.encode(tick, [plain]))
        assert content == bytes(payload.joined()), "the parts can be made a second time"
        decode_changes(content, tick, 0).apply(flat_words(replayed, state.layout), tick, tick)
        assert replayed.tobytes() == state.arena.tobytes()
    assert found_many > 4


@pytest.mark.parametrize("marks", [False, True])
def test_room_is_made_before_the_words_are_taken(marks: bool) -> None:  # noqa: FBT001
    """The source tells the size of the words, and takes none if no room can be made."""
    state = State(Schema(Field("x", "i8", (100,)), Field("y", "u2", (100,))))
    source = sources(state, marks)[0]
    sizes: list[int] = []
    source.make_room = sizes.append
    state["x"][10:20] = 5
    state["y"][:3] = 1
    if marks:
        state.mark("x", np.arange(10, 20))
        state.mark("y", np.arange(3))
    taken = source.take(state)
    assert sizes == [10 * 8 + 3 * 2]
    assert {name: words.count for name, words in taken.fields.items()} == {"x": 10, "y": 3}
    assert taken.memory_bytes == 86 + 2 * 13

    def refuse(_: int) -> None:
        raise MemoryError

    source.make_room = refuse
    state["x"][0] = random.randrange(1, 99)
    state.mark("x", 0)
    with pytest.raises(MemoryError):
        source.take(state)


@pytest.mark.parametrize("rows", [[0, 100], [100, 0]])
def test_a_mark_of_a_row_that_does_not_exist_is_refused(rows: list[int]) -> None:
    """In ascending order and in any other one."""
    state = State(Schema(Field("x", "i8", (100,))))
    source = MarkedTicks(state, 1)
    state.mark("x", np.array(rows))
    with pytest.raises(IndexError, match="100"):
        source.take(state)


def test_a_long_slice_is_marked_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are those of the slice, in its order, also of a part of a table and backwards."""
    monkeypatch.setattr("sim.kernel.state.MARKED_AT_ONCE", 7)
    state = State(Schema(Field("x", "i8", (100,))))
    source = MarkedTicks(state)
    for rows in (slice(None), slice(3, 90, 4), slice(None, None, -3), slice(0, 7), slice(5, 5)):
        state.mark("x", rows)
        [(numbers, _)] = source.take(state).by_field(state.layout).values()  # type: ignore[union-attr]
        assert numbers.tolist() == list(range(100)[rows])
