"""Keyframes: full and delta keyframes against brute force; every inconsistency is refused."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.errors import CorruptError
from recorder.format.blocks.byte_shuffle import RUN_NUMBERS
from recorder.format.blocks.delta_keyframe import decode_delta, delta_payload
from recorder.format.blocks.full_keyframe import Changes, decode_digest, decode_full, full_payload, gather_changes
from sim import Blob, Field, Schema, State, Table
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.state import Snapshot, view_rows

from keyframe_payloads import encode_delta, encode_full
from oracle.second_reader import read_keyframe


def state_of(row_count: int, dtype: str, row_shape: tuple[int, ...], seed: int) -> State:
    """Random bytes in one field, with a table, a blob and a field without bytes around it."""
    state = State(
        Schema(
            Blob("blob", capacity=3),
            Field("rows", dtype, (row_count, *row_shape), row_axes=len(row_shape)),
            Field("nothing", "f8", (3, 0), row_axes=1),
            Table("table", Field("column", "u2", (2,), hot=True), capacity=2),
        )
    )
    random = np.random.default_rng(seed)
    for slot in state.layout.slots.values():
        rows = view_rows(state.arena, slot)
        rows[...] = random.integers(0, 256, rows.shape, np.uint8)
    return state


def parts_of(payload: Any) -> tuple[dict[str, Any], bytes]:
    """The head and the bodies of a payload."""
    (size,) = struct.unpack_from("<I", payload)
    return decode_plain(bytes(payload[4 : 4 + size])), bytes(payload[4 + size :])


def joined(head: Any, bodies: bytes) -> bytes:
    """Join a head and bodies to a payload."""
    encoded = encode_plain(head)
    return struct.pack("<I", len(encoded)) + encoded + bodies


row_counts = st.integers(0, 70) | st.sampled_from([255, 256, 257, 1000])


@given(
    row_counts,
    st.sampled_from(["u1", "i2", "u4", "i8", "f4", "f8", "c16"]),
    st.sampled_from([(), (1,), (3,), (2, 2)]),
    st.data(),
)
@settings(deadline=None, max_examples=150)
@pytest.mark.seldom(0.15)
def test_keyframes_come_back(row_count: int, dtype: str, row_shape: tuple[int, ...], data: st.DataObject) -> None:
    """A full state and a delta of it come back; the delta names exactly the rows that differ."""
    state = state_of(row_count, dtype, row_shape, seed=row_count)
    baseline = state.snapshot()
    assert_same(decode_full([bytes(encode_full(7, baseline.hash(), baseline))], 0, 1 << 30), 7, baseline)
    some = st.sets(st.integers(0, row_count - 1), max_size=9) if row_count else st.just(set())
    touched = np.array(sorted(data.draw(some | st.just(set(range(row_count))))), np.int64)
    equal = data.draw(st.sets(st.sampled_from(touched.tolist()))) if len(touched) else set()
    rows = view_rows(state.arena, state.layout.slots["rows"])
    truth = [number for number in touched.tolist() if number not in equal]
    rows[truth, -1] ^= data.draw(st.sampled_from([0x80, 0x01, 0xFF]))
    before = view_rows(baseline.arena, state.layout.slots["rows"])[truth]

    marked = {"rows": touched, "table.column": np.arange(2), "nothing": np.arange(3)}
    payload = encode_delta(8, state.hash(), gather_changes(state.arena, state.layout, marked), baseline)

    head, bodies = parts_of(payload)
    named = {field: (count, index) for field, _, count, index, _ in head["sections"]}
    assert list(named) == (["rows"] if truth else [])
    if truth:
        count, index_bytes = named["rows"]
        assert count == len(truth)
        assert index_bytes == min(4 * count, -(-row_count // 8))
        distances = np.diff(np.array(truth), prepend=0).astype("<u4").tobytes()
        bitmap = np.packbits(np.isin(np.arange(row_count), truth), bitorder="little").tobytes()
        assert bodies[:index_bytes] == (distances if 4 * count < len(bitmap) else bitmap)
        values = np.frombuffer(bodies[index_bytes:], np.uint8).reshape(rows.shape[1], count)
        steps = {"i2": 2, "u4": 4, "i8": 8}.get(dtype, 0)
        assert head["sections"][0][1] == (4 if steps else 1)
        expected = [folded_row(*pair, steps) for pair in zip(before, rows[truth], strict=True)]
        assert values.T.tolist() == expected
    assert_same(decode_delta(bytes(payload), baseline, 0), 8, state.snapshot())


def folded_row(before: np.ndarray, after: np.ndarray, number_bytes: int) -> list[int]:
    """The bytes of a row in a delta, computed number by number with Python's integers, or XOR for other types."""
    if not number_bytes:
        return [int(one) ^ int(other) for one, other in zip(before, after, strict=True)]
    found: list[int] = []
    for at in range(0, len(before), number_bytes):
        one, other = (int.from_bytes(bytes(row[at : at + number_bytes]), "little") for row in (before, after))
        step = (other - one) % (1 << 8 * number_bytes)
        step -= (step >> (8 * number_bytes - 1)) << 8 * number_bytes  # Signed.
        found += (2 * step if step >= 0 else -2 * step - 1).to_bytes(number_bytes, "little")
    return found


def assert_same(decoded: tuple[int, Snapshot], tick: int, expected: Snapshot) -> None:
    """Assert that a decoded keyframe equals the expected one in every byte, name and size."""
    assert decoded[0] == tick
    assert decoded[1].arena.tobytes() == expected.arena.tobytes()
    assert decoded[1].layout.hash_seed == expected.layout.hash_seed
    assert not decoded[1].arena.flags.writeable


@pytest.mark.parametrize(
    "rows", [[0], [999], [0, 999], list(range(0, 1000, 33)), list(range(0, 1000, 32)), list(range(1000))]
)
def test_both_forms_of_row_numbers(rows: list[int]) -> None:
    """First row, last row, all rows, and the largest count that is written as distances (31 × 4 < 125 bytes)."""
    state = state_of(1000, "i4", (), seed=1)
    baseline = state.snapshot()
    state["rows"][rows] += 1
    changes = gather_changes(state.arena, state.layout, {"rows": np.array(rows)})
    payload = encode_delta(1, state.hash(), changes, baseline)

    assert parts_of(payload)[0]["sections"][0][3] == (4 * len(rows) if len(rows) <= 31 else 125)
    assert_same(decode_delta(bytes(payload), baseline, 0), 1, state.snapshot())


def test_a_delta_without_changes() -> None:
    """Nothing changed: no section, and the state comes back."""
    state = state_of(5, "i4", (), seed=2)
    payload = encode_delta(3, state.hash(), Changes({}, {}), state.snapshot())

    assert parts_of(payload) == ({"tick": 3, "state_hash": state.hash(), "sections": []}, b"")
    assert_same(decode_delta(bytes(payload), state.snapshot(), 0), 3, state.snapshot())


def edit(head: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Change values in the head."""
    return {**head, **changes}


def edit_section(head: dict[str, Any], field: str, place: int, value: Any) -> dict[str, Any]:
    """Change one number or word of a section in the head."""
    sections = [list(section) for section in head["sections"]]
    next(section for section in sections if section[0] == field)[place] = value
    return edit(head, sections=sections)


Edit = Callable[[dict[str, Any], bytes], tuple[Any, bytes]]

FULL_EDITS: dict[str, Edit] = {
    "a different hash": lambda head, bodies: (edit(head, state_hash=head["state_hash"] ^ 1), bodies),
    "no hash": lambda head, bodies: ({key: head[key] for key in head if key != "state_hash"}, bodies),
    "no tick": lambda head, bodies: (edit(head, tick="1"), bodies),
    "no sections": lambda head, bodies: (edit(head, sections={}), bodies),
    "no schema": lambda head, bodies: ({key: head[key] for key in head if key != "schema"}, bodies),
    "no capacities": lambda head, bodies: ({key: head[key] for key in head if key != "capacities"}, bodies),
    "no head": lambda _, bodies: ([], bodies),
    "capacities that are none": lambda head, bodies: (edit(head, capacities=[1, 2]), bodies),
    "a capacity too few": lambda head, bodies: (edit(head, capacities={"blob": 3}), bodies),
    "a capacity with a key of a different type": lambda head, bodies: (
        edit(head, capacities={"blob": 3, 7: 3}),
        bodies,
    ),
    "a larger capacity": lambda head, bodies: (edit(head, capacities={"blob": 4, "table": 2}), bodies),
    "a huge capacity": lambda head, bodies: (edit(head, capacities={"blob": 1 << 39, "table": 2}), bodies),
    "a negative capacity": lambda head, bodies: (edit(head, capacities={"blob": -1, "table": 2}), bodies),
    "a schema of one name": lambda head, bodies: (edit(head, schema=[["blob", "a", 1]] * 2), bodies),
    "a schema of nothing": lambda head, bodies: (edit(head, schema=[]), bodies),
    "a schema of a strange dtype": lambda head, bodies: (edit(head, schema=[["field", "a", ",", [], 0, 0]]), bodies),
    "a schema of an odd shape": lambda head, bodies: (edit(head, schema=[["field", "a", "<i8", [-1], 0, 0]]), bodies),
    "a schema that is text": lambda head, bodies: (edit(head, schema="field"), bodies),
    "a field less": lambda head, bodies: (edit(head, sections=head["sections"][1:]), bodies),
    "a field more": lambda head, bodies: (edit(head, sections=[*head["sections"], ["x", 0, 0, 0, 0]]), bodies),
    "fields in a different order": lambda head, bodies: (edit(head, sections=head["sections"][::-1]), bodies),
    "a different encoding": lambda head, bodies: (edit_section(head, "rows", 1, 1), bodies),
    "an unknown encoding": lambda head, bodies: (edit_section(head, "rows", 1, 3), bodies),
    "a section too long": lambda head, bodies: (edit_section(head, "rows", 4, 41), bodies + b"\0"),
    "a section with an index": lambda head, bodies: (edit_section(head, "rows", 3, 1), bodies + b"\0"),
    "a negative size": lambda head, bodies: (edit_section(head, "rows", 4, -40), bodies),
    "a size that is not a number": lambda head, bodies: (edit_section(head, "rows", 4, "40"), bodies),
    "a byte more": lambda head, bodies: (head, bodies + b"\0"),
    "a byte less": lambda head, bodies: (head, bodies[:-1]),
    "a different byte": lambda head, bodies: (head, bytes([bodies[0] ^ 1]) + bodies[1:]),
}


@pytest.mark.parametrize("name", FULL_EDITS)
def test_an_inconsistent_full_keyframe_is_corrupt(name: str) -> None:
    """Any inconsistency in a full keyframe is a CorruptError with the offset of the block."""
    snapshot = state_of(10, "i4", (), seed=3).snapshot()
    head, bodies = parts_of(encode_full(1, snapshot.hash(), snapshot))
    assert_same(decode_full([joined(head, bodies)], 72, 1 << 30), 1, snapshot)

    with pytest.raises(CorruptError) as caught:
        decode_full([joined(*FULL_EDITS[name](head, bodies))], 72, 1 << 20)
    assert caught.value.offset == 72


def numbers(*values: int) -> bytes:
    """Encode u32 numbers."""
    return struct.pack(f"<{len(values)}I", *values)


DELTA_EDITS: dict[str, Edit] = {
    "a different hash": lambda head, bodies: (edit(head, state_hash=head["state_hash"] ^ 1), bodies),
    "a different field": lambda head, bodies: (edit_section(head, "rows", 0, "x"), bodies),
    "a field of a different size": lambda head, bodies: (edit_section(head, "rows", 0, "table.column"), bodies),
    "a different encoding": lambda head, bodies: (edit_section(head, "rows", 1, 0), bodies),
    "an unknown encoding": lambda head, bodies: (edit_section(head, "rows", 1, 3), bodies),
    "no rows": lambda head, _: (edit(head, sections=[["rows", 1, 0, 0, 0]]), b""),
    "no rows in a bitmap": lambda head, _: (edit(head, sections=[["rows", 1, 0, 25, 0]]), bytes(25)),
    "a row less": lambda head, bodies: (edit(head, sections=[["rows", 1, 1, 8, 4]]), bodies[:12]),
    "more rows than there are": lambda head, _: (edit(head, sections=[["rows", 1, 201, 804, 804]]), bytes(1608)),
    "values too long": lambda head, bodies: (edit_section(head, "rows", 4, 9), bodies + b"\0"),
    "numbers in no form": lambda head, bodies: (edit_section(head, "rows", 3, 9), b"\0" + bodies),
    "a number beyond": lambda head, bodies: (head, numbers(5, 195) + bodies[8:]),
    "a number far beyond": lambda head, bodies: (head, numbers(2**32 - 1, 2**32 - 1) + bodies[8:]),
    "a number twice": lambda head, bodies: (head, numbers(5, 0) + bodies[8:]),
    "other numbers": lambda head, bodies: (head, numbers(5, 1) + bodies[8:]),
    "a bit too few": lambda head, bodies: (edit_section(head, "rows", 3, 25), b"\1" + bytes(24) + bodies[8:]),
    "a bit too many": lambda head, bodies: (edit_section(head, "rows", 3, 25), b"\7" + bytes(24) + bodies[8:]),
    "a byte more": lambda head, bodies: (head, bodies + b"\0"),
    "a byte less": lambda head, bodies: (head, bodies[:-1]),
}


@pytest.mark.parametrize("name", DELTA_EDITS)
def test_an_inconsistent_delta_is_corrupt(name: str) -> None:
    """Any inconsistency in a delta, or with its baseline, is a CorruptError with the offset of the block."""
    state = state_of(200, "i4", (), seed=4)
    baseline = state.snapshot()
    state["rows"][[5, 199]] ^= 1
    changes = gather_changes(state.arena, state.layout, {"rows": np.array([5, 199])})
    head, bodies = parts_of(encode_delta(1, state.hash(), changes, baseline))
    assert bodies[:8] == numbers(5, 194)
    assert_same(decode_delta(joined(head, bodies), baseline, 72), 1, state.snapshot())

    with pytest.raises(CorruptError) as caught:
        decode_delta(joined(*DELTA_EDITS[name](head, bodies)), baseline, 72)
    assert caught.value.offset == 72


@pytest.mark.parametrize(("bitmap", "is_right"), [(b"\x03\x00", True), (b"\x01\x02", True), (b"\x01\x04", False)])
def test_bits_beyond_the_last_row_are_corrupt(bitmap: bytes, is_right: bool) -> None:  # noqa: FBT001
    """With ten rows, the tenth bit of the bitmap is valid and the eleventh is refused."""
    baseline = state_of(10, "u1", (), seed=5).snapshot()
    arena = baseline.arena.copy()
    view_rows(arena, baseline.layout.slots["rows"])[
        np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little", count=10))
    ] ^= 9
    head = {"tick": 1, "state_hash": Snapshot(baseline.layout, arena).hash(), "sections": [["rows", 1, 2, 2, 2]]}
    if is_right:
        assert_same(decode_delta(joined(head, bitmap + b"\x09\x09"), baseline, 0), 1, Snapshot(baseline.layout, arena))
    else:
        with pytest.raises(CorruptError):
            decode_delta(joined(head, bitmap + b"\x09\x09"), baseline, 0)


@pytest.mark.parametrize(
    "payload", [b"", b"\0\0\0", bytes(4), b"\xff\xff\xff\xff\x80", b"\1\0\0\0\xc1", b"\1\0\0\0\x80"]
)
def test_payloads_without_a_head_are_corrupt(payload: bytes) -> None:
    """A missing, truncated or invalid head is a CorruptError for both kinds."""
    snapshot = state_of(3, "i4", (), seed=6).snapshot()
    with pytest.raises(CorruptError):
        decode_full([payload], 0, 1 << 20)
    with pytest.raises(CorruptError):
        decode_delta(payload, snapshot, 0)


def test_a_delta_of_another_baseline_is_corrupt() -> None:
    """A delta can only be decoded on top of its own baseline."""
    state = state_of(20, "i4", (), seed=7)
    baseline = state.snapshot()
    state["rows"][3] += 1
    payload = bytes(
        encode_delta(1, state.hash(), gather_changes(state.arena, state.layout, {"rows": np.array([3])}), baseline)
    )
    other = attrs.evolve(baseline, arena=baseline.arena ^ np.uint8(1))
    with pytest.raises(CorruptError):
        decode_delta(payload, other, 0)


@pytest.mark.parametrize("chunk_bytes", [1, 24, 4096])
@pytest.mark.parametrize("share", [0.001, 0.3, 1.0])
@pytest.mark.parametrize("lists_rows", [True, False])
def test_a_delta_is_made_chunk_by_chunk(
    *, lists_rows: bool, share: float, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of a chunk, the payload is the same and gives the state back."""
    fields = (
        Field("a", "f8", (999,)),
        Field("b", "i4", (40, 3), row_axes=1),
        Field("c", "i2", (70,)),
        Field("d", "u1", (9,)),
    )
    state = State(Schema(*fields))
    chance = np.random.default_rng(random.randrange(1 << 32))
    state["b"][:] = chance.integers(-9, 9, (40, 3))
    baseline = state.snapshot()
    rows: dict[str, Any] = {}
    for field in fields:
        count = len(state[field.name])
        chosen = np.flatnonzero(chance.random(count) < share)
        state[field.name][chosen] += chance.integers(0, 2, state[field.name][chosen].shape).astype(field.dtype)
        rows[field.name] = chosen if lists_rows else None
    whole = encode_delta(8, state.hash(), gather_changes(state.arena, state.layout, rows), baseline)
    monkeypatch.setattr("recorder.format.blocks.delta_keyframe.CHUNK_BYTES", chunk_bytes)
    payload = encode_delta(8, state.hash(), gather_changes(state.arena, state.layout, rows), baseline)

    assert bytes(payload) == bytes(whole)
    assert decode_delta(bytes(payload), baseline, 0)[1].arena.tobytes() == state.arena.tobytes()


@pytest.mark.parametrize("size", [1, 3, 64, 1000, 1 << 20])
def test_a_payload_in_pieces(size: int) -> None:
    """The blocks may be cut anywhere, in the head or inside a field; a byte too few or too many is corrupt."""
    snapshot = state_of(20, "i4", (3,), seed=8).snapshot()
    payload = bytes(encode_full(7, snapshot.hash(), snapshot))

    def cut(data: bytes) -> list[bytes]:
        return [data[place : place + size] for place in range(0, len(data), size)]

    assert_same(decode_full(iter(cut(payload)), 0, len(payload)), 7, snapshot)
    assert_same(decode_full([b"", *cut(payload), b""], 0, len(payload)), 7, snapshot)
    for wrong in (payload[:-1], payload + b"\0", payload[: len(payload) // 2], payload[:3]):
        with pytest.raises(CorruptError):
            decode_full(cut(wrong), 0, len(payload))
    with pytest.raises(CorruptError):
        decode_full(cut(payload), 0, 0)  # No room for such a state: no memory is allocated for it.


def test_a_digest_of_values_is_in_the_head_and_no_older_reader_minds_it() -> None:
    """Of full keyframes and deltas; without one, the bytes are those of before."""
    state = State(Schema(Field("x", "i4", (9,))))
    baseline = state.snapshot()
    state["x"][3] = 7
    changed = state.snapshot()
    rows = {"x": np.array([3])}
    digest = bytes(range(17))
    full = full_payload(7, baseline.hash(), baseline, digest).joined()
    changes = gather_changes(state.arena, state.layout, rows)
    delta = delta_payload(8, changed.hash(), changes, baseline, digest).joined()

    for payload in (full, delta):
        assert parts_of(payload)[0]["values"] == digest
        assert decode_digest(iter(cut_at(bytes(payload), 5)), 0) == digest
    assert_same(decode_full([bytes(full)], 0, 1 << 30), 7, baseline)
    assert_same(decode_delta(bytes(delta), baseline, 0), 8, changed)
    assert read_keyframe(bytes(full), None).arena == baseline.arena.tobytes()
    assert "values" not in parts_of(encode_full(7, baseline.hash(), baseline))[0]
    assert decode_digest([bytes(encode_full(7, baseline.hash(), baseline))], 0) == b""


@pytest.mark.parametrize("values", [b"1234567", bytes(65), "12345678", 3, [bytes(16)]])
def test_a_digest_of_values_that_is_none_is_damage(values: Any) -> None:
    """Too short, too long, or not bytes: CorruptError. The state itself can be read."""
    snapshot = State(Schema(Field("x", "i4", (9,)))).snapshot()
    head, body = parts_of(encode_full(7, snapshot.hash(), snapshot))
    payload = joined({**head, "values": values}, body)

    with pytest.raises(CorruptError, match="digest of values"):
        decode_digest([payload], 72)
    assert_same(decode_full([payload], 0, 1 << 30), 7, snapshot)


def cut_at(payload: bytes, size: int) -> list[bytes]:
    return [payload[place : place + size] for place in range(0, len(payload), size)]


def test_shuffled_fields() -> None:
    """Fields whose numbers share high bytes are shuffled; noise, bytes and small fields are not."""
    random = np.random.Generator(np.random.PCG64(9))
    counts = {
        "ints": ("i8", 4000),
        "wide": ("c16", 2000),
        "noise": ("f8", 4000),
        "bytes": ("u1", 30_000),
        "few": ("i8", 2047),
    }
    state = State(Schema(*(Field(name, dtype, (count,)) for name, (dtype, count) in counts.items())))
    state["ints"][:], state["few"][:] = random.integers(0, 200, 4000), random.integers(0, 200, 2047)
    state["wide"][:] = random.integers(0, 200, 2000) + 1j * random.integers(0, 200, 2000)
    state["noise"].view("u8")[:] = random.integers(0, 1 << 64, 4000, np.uint64)
    state["bytes"][:] = random.integers(0, 9, 30_000)
    snapshot = state.snapshot()
    payload = bytes(encode_full(7, snapshot.hash(), snapshot))
    (head_bytes,) = struct.unpack_from("<I", payload)
    head = decode_plain(payload[4 : 4 + head_bytes])
    assert {section[0]: section[1] for section in head["sections"]} == {
        "ints": 3,
        "wide": 3,
        "noise": 0,
        "bytes": 0,
        "few": 0,
    }
    body = payload[4 + head_bytes : 4 + head_bytes + 32_000]
    assert body == b"".join(bytes(state["ints"].tobytes()[byte::8]) for byte in range(8))
    for size in (100, 4001, 1 << 20):
        pieces = [payload[place : place + size] for place in range(0, len(payload), size)]
        assert_same(decode_full(pieces, 0, len(payload)), 7, snapshot)
    assert_same(decode_full([payload], 0, len(payload)), 7, snapshot)


@pytest.mark.parametrize("count", [RUN_NUMBERS - 1, RUN_NUMBERS, RUN_NUMBERS + 1, 2 * RUN_NUMBERS + 77])
@pytest.mark.parametrize("dtype", ["i2", "i8"])
def test_shuffled_runs(count: int, dtype: str) -> None:
    """Runs are on the tape as specified; older tapes with all numbers in one run can be read."""
    state = State(Schema(Field("x", dtype, (count,))))
    state["x"][:] = np.arange(count) % 30_011
    snapshot = state.snapshot()
    head, body = parts_of(encode_full(3, snapshot.hash(), snapshot))
    raw, size = state["x"].tobytes(), state["x"].itemsize
    runs = [raw[at : at + RUN_NUMBERS * size] for at in range(0, len(raw), RUN_NUMBERS * size)]
    assert head["sections"] == [["x", 3, count, 0, len(raw)]]
    assert body == b"".join(run[byte::size] for run in runs for byte in range(size))
    assert_same(decode_full([joined(head, body)], 0, len(raw) + 1000), 3, snapshot)
    head["sections"][0][1] = 2
    older = joined(head, b"".join(raw[byte::size] for byte in range(size)))
    assert_same(decode_full([older[:5], older[5:]], 0, len(raw) + 1000), 3, snapshot)
    for payload in (bytes(encode_full(3, snapshot.hash(), snapshot)), older):
        assert read_keyframe(payload, None).arena == state.arena.tobytes()
