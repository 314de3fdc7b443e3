"""A second reader of tapes, written from SPEC.md alone: it shares no code with the program that writes them.

Strict where SPEC.md is: anything that is not as described raises AssertionError, or what a library raises.
"""

# ruff: noqa: PT018, PYI024
from __future__ import annotations

import hashlib
import math
import struct
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import google_crc32c
import lz4.block
import msgpack
import numpy as np
import xxhash

META, FRAMES, FULL, DELTA, END, INDEX = 1, 2, 3, 4, 5, 0x81
CONTINUES, CONTINUATION = 4, 8
HEADER = "marker seq offset durable first_tick tick_count stored raw crc kind codec flags baseline"

Block = namedtuple("Block", f"{HEADER} header payload")
Keyframe = namedtuple("Keyframe", "tick is_full state_hash arena layout seed")


class Reader:
    """Everything on one undamaged tape, sealed or not."""

    def __init__(self, data: bytes) -> None:
        magic, major, self.minor, place, incompatible, _ = struct.unpack_from("<8sHHIII", data)
        assert (magic, major, incompatible, place % 8) == (b"\x89TAP\r\n\x1a\n", 0, 0, 0), "file header"
        assert struct.unpack_from("<I", data, 60) == (google_crc32c.value(data[:60]),), "file header checksum"
        self.run_id, self.marker = data[24:40], data[40:48]
        self.blocks: list[Any] = []
        while data[place : place + 4] == b"\xf5BLK":
            place = self._read_block(data, place)
        self.seal = None
        if data[place : place + 4] == b"\xf5END":
            crc, marker, end_offset = struct.unpack_from("<I8sQ", data, place + 4)
            assert crc == google_crc32c.value(data[place + 8 : place + 24]), "trailer checksum"
            assert (marker, end_offset) == (self.marker, self.blocks[-1].offset), "trailer"
            self.seal = self._check_seal()
            place += 24
        assert not data[place:].strip(b"\0"), f"bytes at {place} that are no block"
        self.meta = plain(self.blocks[0].payload)

    def _read_block(self, data: bytes, offset: int) -> int:
        header = data[offset : offset + 72]
        assert struct.unpack_from("<I", header, 4) == (google_crc32c.value(header[8:]),), "block header checksum"
        block = Block(*struct.unpack("<8sQQQQIIIIBBHI", header[8:]), header, b"")
        assert (block.marker, block.offset, block.seq) == (self.marker, offset, len(self.blocks)), "place"
        assert block.stored <= block.raw <= 16793664 and block.tick_count <= 16384, "limits"
        end = offset + 72 + -(-block.stored // 8) * 8
        padded = data[offset + 72 : end]
        assert len(padded) == end - offset - 72 and google_crc32c.value(padded) == block.crc, "payload checksum"
        assert not any(padded[block.stored :]) and block.codec in {0, 1} and block.durable <= offset, "padding, codec"
        payload = padded[: block.stored]
        payload = lz4.block.decompress(payload, uncompressed_size=block.raw) if block.codec else payload
        assert len(payload) == block.raw, "raw length"
        self.blocks.append(block._replace(payload=payload))
        return end

    def _check_seal(self) -> dict[str, Any]:
        *before, end = self.blocks
        seal = plain(end.payload)
        digest = hashlib.blake2b(b"".join(block.header for block in before), digest_size=32).digest()
        assert (end.kind, seal["meta"], seal["digest"]) == (END, before[0].payload, digest), "digest or META in END"
        ticks = [tick for block in before if block.kind in {FRAMES, FULL, DELTA} for tick in ticks_of(block)]
        counts = [len(before), sum(block.tick_count for block in before), min(ticks), max(ticks)]
        assert [seal[name] for name in ("block_count", "frame_count", "first_tick", "last_tick")] == counts, "counts"
        listed, offset, by_offset = [], seal["index_offset"], {block.offset: block for block in before}
        while offset:
            assert by_offset[offset].kind == INDEX, "chain of INDEX blocks"
            entries, offset = read_index(by_offset[offset].payload)
            listed[:0] = entries
        kept = [block for block in before if block.kind != INDEX and not block.flags & CONTINUATION]
        truth = [(b.offset, b.first_tick, b.tick_count, b.seq, b.baseline, b.kind, b.flags) for b in kept]
        assert listed == truth, "INDEX"
        return seal

    def frames(self) -> Iterator[tuple[int, int, Any]]:
        """Tick, state hash and inputs of every frame, in order."""
        for block in self.blocks:
            if block.kind == FRAMES:
                unpacker = msgpack.Unpacker(ext_hook=extension, strict_map_key=False, max_buffer_size=1 << 30)
                unpacker.feed(block.payload)
                frames = list(unpacker)
                assert [frame[0] for frame in frames] == list(ticks_of(block)), "ticks of frames"
                yield from ((tick, state_hash, inputs) for tick, state_hash, inputs, *_ in frames)

    def keyframes(self) -> Iterator[Any]:
        """Every state on the tape, in order."""
        fulls: dict[int, Any] = {}
        for number, block in enumerate(self.blocks):
            if block.kind in {FULL, DELTA} and not block.flags & CONTINUATION:
                parts = [block]
                while parts[-1].flags & CONTINUES:
                    parts.append(self.blocks[number + len(parts)])
                    assert parts[-1].kind == block.kind and parts[-1].flags & CONTINUATION, "continuation"
                payload = b"".join(part.payload for part in parts)
                keyframe = read_keyframe(payload, fulls[block.seq - block.baseline] if block.kind == DELTA else None)
                assert keyframe.tick == block.first_tick, "tick of a keyframe"
                if block.kind == FULL:
                    fulls[block.seq] = keyframe
                yield keyframe


def ticks_of(block: Any) -> range:
    """The ticks of a block of frames, or the one of a keyframe."""
    return range(block.first_tick, block.first_tick + (block.tick_count if block.kind == FRAMES else 1))


def plain(data: bytes) -> Any:
    """The value of plain data."""
    return msgpack.unpackb(data, ext_hook=extension, strict_map_key=False)


def extension(code: int, data: bytes) -> Any:
    """An array or a NumPy number."""
    assert code in {1, 2}, "extension type"
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    dtype, shape = unpacker.unpack()
    array = np.frombuffer(data[unpacker.tell() :], dtype).reshape(shape)
    return array if code == 1 else array[()]


def read_index(payload: bytes) -> tuple[list[tuple[int, ...]], int]:
    """The entries, and where the INDEX before lies."""
    (size,) = struct.unpack_from("<I", payload)
    head, place, columns = plain(payload[4 : 4 + size]), 4 + size, []
    for dtype in ("<u8", "<u8", "<u4", "<u8", "<u4", "u1", "<u2"):
        columns.append(np.frombuffer(payload, dtype, head["count"], place))
        place += columns[-1].nbytes
    assert place == len(payload), "length of an INDEX"
    return list(zip(*(column.tolist() for column in columns), strict=True)), head["previous"]


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
    return layout, offset, xxhash.xxh3_64_intdigest("".join(f"{line}\n" for line in lines).encode("ascii"))


def read_keyframe(payload: bytes, baseline: Any) -> Any:
    """A full keyframe, or a delta upon baseline."""
    (size,) = struct.unpack_from("<I", payload)
    head, place = plain(payload[4 : 4 + size]), 4 + size
    if baseline is None:
        layout, arena_bytes, seed = lay_out(head["schema"], head["capacities"])
        arena = np.zeros(arena_bytes, np.uint8)
        assert [section[0] for section in head["sections"]] == list(layout), "sections of a full keyframe"
    else:
        layout, seed, arena = baseline.layout, baseline.seed, np.frombuffer(baseline.arena, np.uint8).copy()
    for name, encoding, row_count, index_bytes, value_bytes in head["sections"]:
        _, _, rows, row_bytes, offset = layout[name]
        assert encoding == (baseline is not None) and value_bytes == row_count * row_bytes, "section"
        field = arena[offset : offset + rows * row_bytes].reshape(rows, row_bytes)
        index = np.frombuffer(payload[place : place + index_bytes], np.uint8)
        values = np.frombuffer(payload[place + index_bytes :][:value_bytes], np.uint8)
        place += index_bytes + value_bytes
        if encoding == 0:
            assert (row_count, index_bytes) == (rows, 0), "a field of a full keyframe"
            field[:] = values.reshape(rows, row_bytes)
        else:
            is_bitmap = index_bytes == -(-rows // 8)
            numbers = (
                np.flatnonzero(np.unpackbits(index, bitorder="little")) if is_bitmap else index.view("<u4").cumsum()
            )
            field[numbers] ^= values.reshape(row_bytes, row_count).T
    assert place == len(payload) and xxhash.xxh3_64_intdigest(arena.data, seed) == head["state_hash"], "state hash"
    return Keyframe(head["tick"], baseline is None, head["state_hash"], arena.tobytes(), layout, seed)


def field_of(keyframe: Any, name: str) -> np.ndarray:
    """One field of a keyframe at full capacity."""
    dtype, shape, rows, row_bytes, offset = keyframe.layout[name]
    return np.frombuffer(keyframe.arena, np.uint8)[offset : offset + rows * row_bytes].view(dtype).reshape(shape)
