"""CHANGES blocks: literal bytes, random changes compared with their plain application, and invalid payloads."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.errors import CorruptError
from recorder.format.blocks.byte_shuffle import shuffled, unshuffled
from recorder.format.blocks.changes_block import ChangeEncoder, decode_changes
from sim import Field, Schema, State
from sim.kernel.changes.tick_changes import MarkedTicks, MarkedWords, ScannedTicks, flat_words
from sim.kernel.plain_data import decode_plain, encode_plain

FIELDS = (
    Field("count", "i8", (5,)),
    Field("small", "i2", (3, 2)),
    Field("unsigned", "u4", (6,)),
    Field("real", "f8", (4,)),
    Field("half", "f4", (4,)),
    Field("flag", "?", (7,)),
    Field("wide", "u8", (3, 4), row_axes=1),
)
DTYPES = {"count": "i8", "small": "i2", "unsigned": "u4", "real": "f8", "half": "f4", "flag": "?", "wide": "u8"}


def words(*numbers: int, dtype: str = "<u8") -> np.ndarray[Any, Any]:
    """Make an array of words."""
    return np.array(numbers, dtype)


def test_the_bytes_of_a_payload() -> None:
    """The payload matches docs and SPEC.md: head, counts, numbers and words in columns of bytes, steps folded."""
    state = State(Schema(Field("a", "i2", (4,)), Field("b", "f8", (4,))))
    state["a"][:] = [10, 20, 30, 40]
    encoder = ChangeEncoder(state.layout, state.arena)
    first = {"a": (words(1, 3, dtype="<u4"), words(25, 39, dtype="<u2"))}
    second = {
        "a": (words(3, dtype="<u4"), words(300, dtype="<u2")),
        "b": (words(2, dtype="<u4"), np.array([1.5]).view("<u8")),
    }
    payload = bytes(encoder.encode(7, [MarkedWords(first), MarkedWords(second)]))
    (head_bytes,) = struct.unpack_from("<I", payload)
    assert decode_plain(payload[4 : 4 + head_bytes]) == {
        "first_tick": 7,
        "tick_count": 2,
        "layout": state.layout.hash_seed,
        "sections": [["a", 1, 2, 3, -1], ["b", 0, 8, 1, -1]],
    }
    counts_a, numbers_a = bytes([2, 1, *6 * [0]]), bytes([1, 2, 0, *9 * [0]])
    steps_a = bytes([10, 1, 522 & 255, 0, 0, 522 >> 8])  # +5, -1, +261 as 10, 1, 522.
    counts_b, numbers_b, values_b = bytes([0, 1, *6 * [0]]), bytes([2, 0, 0, 0]), struct.pack("<d", 1.5)
    assert payload[4 + head_bytes :] == counts_a + numbers_a + steps_a + counts_b + numbers_b + values_b

    block = decode_changes(payload, 7, 0)
    assert (block.first_tick, block.last_tick, block.layout) == (7, 8, state.layout.hash_seed)
    block.apply(flat_words(state.arena, state.layout), 7, 7)
    assert state["a"].tolist() == [10, 25, 30, 39]
    block.apply(flat_words(state.arena, state.layout), 8, 8)
    assert (state["a"].tolist(), state["b"].tolist()) == ([10, 25, 30, 300], [0, 0, 1.5, 0])


def test_sections_with_the_same_words_share_them() -> None:
    """Counts and numbers that two sections share are stored once."""
    state = State(Schema(Field("x", "i4", (100,)), Field("y", "i4", (100,))))
    numbers = np.arange(0, 100, 3, dtype=np.uint32)
    fields = {name: (numbers, np.full(34, 7, "<u4")) for name in ("x", "y")}
    payload = bytes(ChangeEncoder(state.layout, state.arena).encode(1, [MarkedWords(fields)]))
    (head_bytes,) = struct.unpack_from("<I", payload)
    assert decode_plain(payload[4 : 4 + head_bytes])["sections"] == [["x", 1, 4, 34, -1], ["y", 1, 4, 34, 0]]
    assert len(payload) == 4 + head_bytes + 4 + 34 * (4 + 4 + 4)
    decode_changes(payload, 1, 0).apply(flat_words(state.arena, state.layout), 1, 1)
    assert state["y"][99] == 7
    assert state["x"].tobytes() == state["y"].tobytes()


@given(st.sampled_from([1, 2, 4, 8]), st.binary(max_size=64))
def test_shuffling_there_and_back(word_bytes: int, content: bytes) -> None:
    """Unshuffling restores the numbers; the first bytes come first."""
    array = np.frombuffer(content[: len(content) // word_bytes * word_bytes], f"<u{word_bytes}")
    moved = shuffled(array)
    assert moved.tobytes()[: len(array)] == array.tobytes()[::word_bytes]
    assert unshuffled(moved, word_bytes).tobytes() == array.tobytes()


@pytest.mark.parametrize("word_bytes", [1, 2, 4, 8])
@pytest.mark.parametrize("used_bytes", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("count", [4095, 4096, 4097, 70_001])
def test_shuffling_many_numbers_there_and_back(word_bytes: int, used_bytes: int, count: int) -> None:
    """Numbers come back, with and without high bytes that are all zero."""
    random = np.random.Generator(np.random.PCG64(count + used_bytes))
    content = np.zeros((count, word_bytes), np.uint8)
    content[:, :used_bytes] = random.integers(0, 256, content[:, :used_bytes].shape, np.uint8)
    array = content.reshape(-1).view(f"<u{word_bytes}")
    moved = shuffled(array)
    assert moved.tobytes() == b"".join(array.tobytes()[byte::word_bytes] for byte in range(word_bytes))
    back = unshuffled(moved, word_bytes)
    assert (back.dtype, back.tobytes()) == (array.dtype, array.tobytes())


writes = st.lists(
    st.lists(
        st.tuples(st.sampled_from(sorted(DTYPES)), st.integers(0, 10**6), st.integers(-(2**63), 2**64 - 1)), max_size=6
    ),
    min_size=1,
    max_size=8,
)


def write(state: State, name: str, place: int, bits: int, *, marks: bool) -> None:
    """Write any bits into one word of a field, including NaNs; for booleans only 0 and 1."""
    flat = flat_words(state.arena, state.layout)[name]
    row = place % len(flat)
    flat[row] = bits % 2 if DTYPES[name] == "?" else bits % (1 << 8 * flat.itemsize)
    if marks:
        slot = state.layout.slots[name]
        state.mark(name, row * flat.itemsize // slot.row_bytes)


@given(writes, st.booleans(), st.booleans())
@settings(deadline=None, max_examples=150)
def test_any_changes_lead_to_the_live_states(ticks: list[list[Any]], marks: bool, twice: bool) -> None:  # noqa: FBT001
    """Applied changes give the live state at every tick: in one go and tick by tick, in one block and in two."""
    state = State(Schema(*FIELDS))
    source = MarkedTicks(state) if marks else ScannedTicks(state)
    encoder, start = ChangeEncoder(state.layout, state.arena), state.snapshot()
    taken, live = [], []
    for tick in ticks:
        for name, place, bits in tick:
            write(state, name, place, bits, marks=marks)
        changes = source.take(state)
        assert changes is not None
        taken.append(changes)
        live.append(state.arena.tobytes())
    middle = len(taken) // 2 if twice else 0
    blocks = [
        decode_changes(bytes(encoder.encode(first, part)), first, 0)
        for first, part in ((1, taken[:middle]), (1 + middle, taken[middle:]))
        if part
    ]
    one_by_one = start.arena.copy()
    for block in blocks:
        for tick in range(block.first_tick, block.last_tick + 1):
            block.apply(flat_words(one_by_one, state.layout), tick, tick)
            assert one_by_one.tobytes() == live[tick - 1]
    for tick in range(1, len(taken) + 1):
        arena = start.arena.copy()
        for block in blocks:
            if block.first_tick <= tick:
                block.apply(flat_words(arena, state.layout), block.first_tick, min(block.last_tick, tick))
        assert arena.tobytes() == live[tick - 1]


def lying(**changes: Any) -> bytes:
    """A payload of one tick with a changed head or body."""
    head = {"first_tick": 3, "tick_count": 1, "layout": 5, "sections": [["a", 0, 1, 2, -1]]} | changes
    body = head.pop("body", bytes([2, 0, 0, 0]) + bytes([1, 1, *6 * [0]]) + b"xy")
    encoded = encode_plain(head)
    return struct.pack("<I", len(encoded)) + encoded + body


def test_the_payload_that_lies_is_right_as_it_stands() -> None:
    """The unchanged payload is valid, so the changes below are the reason for each refusal."""
    [field] = decode_changes(lying(), 3, 0).fields
    assert (field.numbers.tolist(), field.words.tobytes()) == ([1, 2], b"xy")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xff\xff\xff",
        lying(first_tick=4),
        lying(first_tick=-3),
        lying(tick_count=0),
        lying(tick_count=1 << 40),
        lying(layout="5"),
        lying(sections=[["a", 2, 1, 2, -1]]),
        lying(sections=[["a", 0, 3, 2, -1]]),
        lying(sections=[["a", 0, 1, -2, -1]]),
        lying(sections=[["a", 0, 1, 3, -1]]),
        lying(sections=[["a", 0, 8, 1 << 60, -1]]),
        lying(sections=[["a", 0, 1, 2, 0]]),
        lying(sections=[["a", 0, 1, 2, -1], ["b", 0, 1, 2, 1]]),
        lying(sections=[["a", 0, 1, 2, -1], ["b", 0, 1, 3, 0]]),
        lying(sections=[5]),
        lying(body=b""),
        lying(body=bytes([3, 0, 0, 0]) + bytes([1, 1, *6 * [0]]) + b"xy"),
        lying(body=bytes([2, 0, 0, 0]) + bytes([1, 1, *6 * [0]]) + b"xyz"),
    ],
)
def test_payloads_that_lie_are_refused(payload: bytes) -> None:
    """Invalid payloads are refused before memory is allocated for their figures."""
    with pytest.raises(CorruptError, match="CHANGES"):
        decode_changes(payload, 3, 0)


@pytest.mark.parametrize(
    "schema", [Schema(Field("b", "u1", (9,))), Schema(Field("a", "u1", (2,))), Schema(Field("a", "i4", (9,)))]
)
def test_changes_of_another_state_are_refused(schema: Schema) -> None:
    """A different field, missing words, and words of a different size are refused."""
    state = State(schema)
    with pytest.raises(CorruptError, match="words that field a does not have"):
        decode_changes(lying(), 3, 0).apply(flat_words(state.arena, state.layout), 3, 3)
