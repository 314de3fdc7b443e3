"""The states of a second reader: keyframes from their payloads, written from SPEC.md alone as second_reader.py is."""

# ruff: noqa: PT018, PYI024
from __future__ import annotations

import math
import struct
from collections import namedtuple
from typing import Any

import msgpack
import numpy as np
from xxhash import xxh3_64_intdigest

Keyframe = namedtuple("Keyframe", "tick is_full state_hash arena layout seed")


def unpack(data: bytes) -> list[Any]:
    """All values of plain data that stand back to back."""
    unpacker = msgpack.Unpacker(ext_hook=extension, strict_map_key=False, max_buffer_size=1 << 30)
    unpacker.feed(data)
    values = list(unpacker)
    assert unpacker.tell() == len(data), "plain data that is cut off"
    return values


def extension(code: int, data: bytes) -> Any:
    """An array or a NumPy number."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    dtype, shape = unpacker.unpack()
    array = np.frombuffer(data[unpacker.tell() :], dtype).reshape(shape)
    return {1: array, 2: array[()]}[code]


def split_head(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """The head of a payload that begins with one, and what comes behind it."""
    end = 4 + struct.unpack_from("<I", payload)[0]
    (head,) = unpack(payload[4:end])
    return head, payload[end:]


def lay_out(schema: list[Any], capacities: dict[str, int]) -> tuple[dict[str, Any], int, int]:
    """Of each field dtype, shape, rows, bytes a row and offset; the arena's size; the seed of the state hash."""
    counted = [entry for entry in schema if entry[0] != "field"]
    fields, lines = [("#counts", "<i8", (len(counted),), 1, 2)] if counted else [], []
    for word, name, *rest in schema:
        lines += [f"{word} {name} {capacities[name]}"] if word != "field" else []
        if word == "blob":
            fields.append((name, "|u1", (capacities[name],), 1, 0))
            continue
        for own, dtype, shape, row_axes, hot in [(name, *rest)] if word == "field" else rest[1]:
            kind, sizes = "field" if word == "field" else "column", "x".join(map(str, shape)) or "-"
            lines.append(f"{kind} {own} {dtype} {sizes} {row_axes} {hot}")
            if word == "field":
                fields.append((own, dtype, tuple(shape), len(shape) - row_axes, hot))
            else:
                fields.append((f"{name}.{own}", dtype, (capacities[name], *shape), 1, hot))
    layout, offset = {}, 0
    for name, dtype, shape, axes, _ in sorted(fields, key=lambda field: -field[4]):  # Stable: counts, hot, cold.
        rows, row_bytes = math.prod(shape[:axes]), math.prod(shape[axes:]) * np.dtype(dtype).itemsize
        layout[name] = (dtype, shape, rows, row_bytes, offset)
        offset += -(-rows * row_bytes // 64) * 64
    return layout, offset, xxh3_64_intdigest("".join(f"{line}\n" for line in lines).encode("ascii"))


def read_keyframe(payload: bytes, full: Any) -> Any:
    """A full keyframe, or a delta upon full."""
    head, bodies = split_head(payload)
    if full is None:
        layout, arena_bytes, seed = lay_out(head["schema"], head["capacities"])
        arena = np.zeros(arena_bytes, np.uint8)
        assert [section[0] for section in head["sections"]] == list(layout), "sections of a full keyframe"
    else:
        layout, seed, arena = full.layout, full.seed, np.frombuffer(full.arena, np.uint8).copy()
        names = [section[0] for section in head["sections"]]
        assert names == [name for name in layout if name in names], "sections of a delta"
    place = 0
    for name, encoding, row_count, index_bytes, value_bytes in head["sections"]:
        _, _, rows, row_bytes, offset = layout[name]
        assert encoding == (full is not None) and value_bytes == row_count * row_bytes, "section"
        field = arena[offset : offset + rows * row_bytes].reshape(rows, row_bytes)
        index = np.frombuffer(bodies[place : place + index_bytes], np.uint8)
        values = np.frombuffer(bodies[place + index_bytes :][:value_bytes], np.uint8)
        place += index_bytes + value_bytes
        if encoding == 0:
            assert (row_count, index_bytes) == (rows, 0), "a field of a full keyframe"
            field[:] = values.reshape(rows, row_bytes)
        else:
            numbers = row_numbers(index, row_count, rows)
            mixed = values.reshape(row_bytes, row_count).T
            assert mixed.any(axis=1).all(), "a row of a delta that does not differ"
            field[numbers] ^= mixed
    assert place == len(bodies), "length of a keyframe"
    assert xxh3_64_intdigest(arena.data, seed) == head["state_hash"], "state hash"
    return Keyframe(head["tick"], full is None, head["state_hash"], arena.tobytes(), layout, seed)


def row_numbers(index: np.ndarray, row_count: int, rows: int) -> np.ndarray:
    """The rows of a delta's section: as distances where that is shorter than a bitmap."""
    bitmap_bytes = -(-rows // 8)
    if 4 * row_count < bitmap_bytes:
        numbers = index.view("<u4").cumsum()
    else:
        assert len(index) == bitmap_bytes, "bitmap"
        numbers = np.flatnonzero(np.unpackbits(index, bitorder="little"))
    assert len(numbers) == row_count > 0 and (np.diff(numbers) > 0).all() and numbers[-1] < rows, "row numbers"
    return numbers


def field_of(keyframe: Any, name: str) -> np.ndarray:
    """One field of a keyframe at full capacity."""
    dtype, shape, rows, row_bytes, offset = keyframe.layout[name]
    return np.frombuffer(keyframe.arena, np.uint8)[offset : offset + rows * row_bytes].view(dtype).reshape(shape)


def field_hashes(keyframe: Any) -> bytes:
    """What the frame of a keyframe's tick says about its fields."""
    arena, places = keyframe.arena, keyframe.layout.values()
    hashes = [xxh3_64_intdigest(arena[offset : offset + rows * size]) for _, _, rows, size, offset in places]
    return bytes(one >> 8 & 0xFF for one in hashes) + bytes(one & 0xFF for one in hashes)
