"""A second reader of tapes, written from SPEC.md alone: it shares no code with the program that writes them.

It reads complete, undamaged tapes; a wrong checksum or state hash raises AssertionError. All else: second_checks.py.
"""

# ruff: noqa: PT018, PYI024
from __future__ import annotations

import io
import re
import struct
from collections import namedtuple
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import lz4.block
import msgpack
import numpy as np
from google_crc32c import value as crc32c
from xxhash import xxh3_64_intdigest

META, FRAMES, FULL, DELTA, END, DROP, INDEX, EVENTS, AUX = 1, 2, 3, 4, 5, 6, 0x81, 0x82, 0x83
REBUILT, SESSION_START, CONTINUES, CONTINUATION = 1, 2, 4, 8
HEADER = "marker seq offset durable first_tick tick_count stored raw crc kind codec flags baseline"
Block = namedtuple("Block", f"{HEADER} header payload")
Keyframe = namedtuple("Keyframe", "tick is_full state_hash arena layout seed")


class Reader:
    """Everything in one segment; seal is the content of END, None if the segment does not end with one."""

    def __init__(self, data: bytes, number: int | None = None) -> None:
        magic, major, self.minor, place, incompatible, _ = struct.unpack_from("<8sHHIII", data)
        assert (magic, major, incompatible & ~3) == (b"\x89TAP\r\n\x1a\n", 0, 0), "file header"
        assert struct.unpack_from("<I", data, 60) == (crc32c(data[:60]),), "file header checksum"
        self.data, self.number = data, number
        self.run_id, self.marker, self.segment, self.first_seq = struct.unpack_from("<16s8sIQ", data, 24)
        self.blocks: list[Any] = []
        self.trailers: list[tuple[int, int]] = []  # The offset of each block, and the number of blocks before it.
        while (tag := data[place : place + 4]) in {b"\xf5BLK", b"\xf5END"}:
            if tag == b"\xf5BLK":
                place = self._read_block(place)
            else:
                assert struct.unpack_from("<I", data, place + 4) == (crc32c(data[place + 8 : place + 24]),), "trailer"
                self.trailers.append((place, len(self.blocks)))
                place += 24
        self.end, (self.meta,) = place, unpack(self.blocks[0].payload)
        is_sealed = bool(self.trailers) and self.trailers[-1][1] == len(self.blocks)
        self.seal = unpack(self.blocks[-1].payload)[0] if is_sealed else None

    def _read_block(self, offset: int) -> int:
        header = self.data[offset : offset + 72]
        assert len(header) == 72 and header[4:8] == struct.pack("<I", crc32c(header[8:])), "block header checksum"
        block = Block(*struct.unpack("<8sQQQQIIIIBBHI", header[8:]), header, b"")
        assert (block.marker, block.offset) == (self.marker, offset) and block.raw <= 16793664, "block"
        end = offset + 72 + -(-block.stored // 8) * 8
        assert end <= len(self.data) and crc32c(self.data[offset + 72 : end]) == block.crc, "payload checksum"
        payload = self.data[offset + 72 : offset + 72 + block.stored]
        if block.codec == 1:
            payload = lz4.block.decompress(payload, uncompressed_size=block.raw)
        elif block.codec:
            payload = read_packed(payload, is_streams=block.codec == 3)
            assert len(payload) == block.raw, "raw"
        self.blocks.append(block._replace(payload=payload))
        return end

    def frames(self) -> Iterator[tuple[int, int, Any]]:
        """Tick, state hash and inputs of every frame, in order."""
        framed = (block.payload for block in self.blocks if block.kind == FRAMES)
        yield from ((tick, state_hash, inputs) for data in framed for tick, state_hash, inputs, *_ in unpack(data))

    def keyframes(self) -> Iterator[Any]:
        """Every state, in order."""
        full, payload = None, b""
        for block in self.blocks:
            if block.kind in {FULL, DELTA}:
                payload = (payload if block.flags & CONTINUATION else b"") + block.payload
                if not block.flags & CONTINUES:
                    keyframe = read_keyframe(payload, full if block.kind == DELTA else None)
                    full = keyframe if block.kind == FULL else full
                    yield keyframe


class Tape(Reader):
    """Everything in the files of one tape; a segment is read up to the offset at which the next one takes over."""

    def __init__(self, path: Path) -> None:
        names = [re.fullmatch(re.escape(path.name) + r"\.([1-9]\d*)", other.name) for other in path.parent.iterdir()]
        self.numbers = sorted([0, *(int(name[1]) for name in names if name)])
        self.segments: list[Reader] = []
        after: dict[int, int] = {}
        for number in reversed(self.numbers):
            data = (path.with_name(f"{path.name}.{number}") if number else path).read_bytes()
            assert after.get(number, 0) <= len(data), "after"
            if data := data[: after.get(number)]:
                self.segments.insert(0, Reader(data, number))
            if number and self.segments:  # None yet if the last segment was created, and nothing written to it.
                after[number - 1] = self.segments[0].meta["segment"]["after"]
        self.meta, self.run_id, self.seal = self.segments[0].meta, self.segments[0].run_id, self.segments[-1].seal
        self.blocks = [block for segment in self.segments for block in segment.blocks]
        journal = path.with_name(f"{path.name}.journal")
        self.journal = read_journal(journal.read_bytes(), self.run_id) if journal.exists() else {}

    def frames(self) -> Iterator[tuple[int, int, Any]]:
        """The frames in blocks, then those of the journal that follow the last tick without a gap."""
        yield from super().frames()
        for tick in count(max([ticks_of(block)[-1] for block in self.blocks if ticks_of(block)], default=0) + 1):
            if tick not in self.journal:
                break
            yield self.journal[tick]


def read_values(data: Any) -> Iterator[bytes]:
    """Values whose heads, numbers and texts are streams."""
    head_count, *counts, _ = struct.unpack("<6I", data.read(24))
    heads = data.read(head_count)
    planes = {
        width: [data.read(number) for _ in range(width)] for width, number in zip((1, 2, 4, 8), counts, strict=True)
    }
    numbers = {width: iter(list(zip(*streams, strict=True))) for width, streams in planes.items()}
    for head in heads:
        width = {0xC4: 1, 0xD9: 1, 0xCA: 4, 0xCB: 8, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}.get(head, 0)
        width = 1 << (head - 0xCC) % 4 if 0xCC <= head <= 0xD3 else width
        number = bytes(next(numbers[width])) if width else b""
        yield bytes([head]) + number
        yield data.read(head - 0xA0 if 0xA0 <= head < 0xC0 else number[0] if head in {0xC4, 0xD9} else 0)


def read_packed(stored: bytes, *, is_streams: bool) -> bytes:
    """The payload of a block with codec 2 or 3."""
    import zstandard

    unpack = zstandard.ZstdDecompressor().decompress
    if not is_streams:
        return bytes(unpack(stored, allow_extra_data=False))
    sizes, packed = struct.unpack_from(f"<{stored[0]}I", stored, 1), io.BytesIO(stored[1 + 4 * stored[0] :])
    content = b"".join(unpack(packed.read(size), allow_extra_data=False) for size in sizes)
    assert not packed.read(), "rest"
    elements, is_chained, *sizes, form, count, tick = struct.unpack_from("<BBHHHIQ", content)
    assert form in {0, 1}, "form"
    data = io.BytesIO(content[20:])
    hashes = [data.read(8) for _ in range(count)]
    planes = [data.read(count) for _ in range(4)]
    lengths = [sum(plane[i] << 8 * k for k, plane in enumerate(planes)) for i in range(count)]
    values = io.BytesIO(data.read(sum(lengths)) if not form else b"".join(read_values(data)))
    inputs = [values.read(length) for length in lengths]
    tables = []
    for size in sizes:
        columns, rows = [data.read(count) for _ in range(size)], []
        for i in range(count):
            row = [column[i] for column in columns]
            rows.append([a ^ b for a, b in zip(row, rows[-1], strict=True)] if rows else row)
        tables.append([bytes(row) for row in rows])
    assert not data.read(), "rest"
    payload = b""
    for i in range(count):
        more = [msgpack.packb(table[i]) for table in tables][: elements - 3]
        proof = msgpack.packb(hashes[i]) if is_chained else b"\xcf" + hashes[i]
        head = bytes([0x90 + elements, 0xCF]) + struct.pack(">Q", tick + i)
        payload += head + proof + inputs[i] + b"".join(more)
    return payload


def ticks_of(block: Any) -> range:
    """The ticks of a block of frames, or the one of a keyframe."""
    return range(block.first_tick, block.first_tick + {FRAMES: block.tick_count, FULL: 1, DELTA: 1}.get(block.kind, 0))


def read_journal(data: bytes, run_id: bytes) -> dict[int, tuple[int, int, Any]]:
    """The frames of a journal by their ticks; none if it belongs to a different run."""
    magic, major, _, _, area_bytes, owner = struct.unpack_from("<8sHHIQ16s", data)
    assert (magic, major, len(data)) == (b"\x89TAJ\r\n\x1a\n", 0, 64 + 2 * area_bytes), "journal header"
    assert struct.unpack_from("<I", data, 60) == (crc32c(data[:60]),), "journal header checksum"
    frames = {}
    for generation, crc, start in sorted((*struct.unpack_from("<QI", data, p), p) for p in (64, 64 + area_bytes)):
        salt, place, end = owner + struct.pack("<Q", generation), start + 16, start + area_bytes
        while generation and crc == crc32c(salt) and owner == run_id and place + 8 <= end:
            size, frame_crc = struct.unpack_from("<II", data, place)
            frame = data[place + 8 : place + 8 + size]
            if not size or place + 8 + size > end or frame_crc != crc32c(salt + frame):
                break
            frames |= {tick: (tick, state_hash, inputs) for tick, state_hash, inputs, *_ in unpack(frame)}
            place += 8 + size
    return frames


def unpack(data: bytes) -> list[Any]:
    """All values of plain data, back to back."""
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
    """The head of a payload that begins with one, and the bytes after it."""
    end = 4 + struct.unpack_from("<I", payload)[0]
    return unpack(payload[4:end])[0], payload[end:]


def lay_out(schema: list[Any], capacities: dict[str, int]) -> tuple[dict[str, Any], int, int]:
    """For each field dtype, shape, rows, bytes per row and offset; the arena's size; the seed of the state hash."""
    counted = sum(entry[0] != "field" for entry in schema)
    fields, lines = [("#counts", "<i8", (counted,), 1, 2)] if counted else [], []
    for word, name, *rest in schema:
        lines += [f"{word} {name} {capacities[name]}"] if word != "field" else []
        fields += [(name, "|u1", (capacities[name],), 1, 0)] if word == "blob" else []
        rows, path = ((), "") if word == "field" else ((capacities[name],), f"{name}.")
        for own, dtype, shape, row_axes, hot in {"field": [(name, *rest)], "table": rest[-1], "blob": []}[word]:
            sizes = "x".join(map(str, shape)) or "-"
            lines.append(f"{'column' if rows else 'field'} {own} {dtype} {sizes} {row_axes} {hot}")
            fields.append((path + own, dtype, (*rows, *shape), 1 if rows else len(shape) - row_axes, hot))
    layout, offset = {}, 0
    for name, dtype, shape, axes, _ in sorted(fields, key=lambda field: -field[4]):  # Stable: counts, hot, cold.
        rows, row_bytes = int(np.prod(shape[:axes])), int(np.prod(shape[axes:])) * np.dtype(dtype).itemsize
        layout[name] = (dtype, tuple(shape), rows, row_bytes, offset)
        offset += -(-rows * row_bytes // 64) * 64
    return layout, offset, xxh3_64_intdigest("".join(f"{line}\n" for line in lines).encode("ascii"))


def read_keyframe(payload: bytes, full: Any) -> Any:
    """A full keyframe, or a delta of full."""
    head, bodies = split_head(payload)
    layout, size, seed = lay_out(head["schema"], head["capacities"]) if full is None else (full.layout, 0, full.seed)
    arena = np.zeros(size, np.uint8) if full is None else np.frombuffer(full.arena, np.uint8).copy()
    place = 0
    for name, encoding, row_count, index_bytes, value_bytes in head["sections"]:
        _, _, rows, row_bytes, offset = layout[name]
        field = arena[offset : offset + rows * row_bytes].reshape(rows, row_bytes)
        index = np.frombuffer(bodies[place : place + index_bytes], np.uint8)
        place += index_bytes + value_bytes
        values = np.frombuffer(bodies[place - value_bytes : place], np.uint8)
        item = np.dtype(layout[name][0]).itemsize if encoding > 1 else 1
        if full is None:  # 2 is SHUFFLED, 3 is RUNS.
            runs = np.split(values, range(item << 16, len(values), item << 16)) if encoding == 3 else [values]
            field[:] = np.concatenate([run.reshape(item, -1).T.reshape(-1) for run in runs]).reshape(rows, row_bytes)
            continue
        is_short = 4 * row_count < -(-rows // 8)  # Rows as distances if that is shorter than a bitmap.
        at = index.view("<u4").cumsum() if is_short else np.flatnonzero(np.unpackbits(index, bitorder="little"))
        change = np.ascontiguousarray(values.reshape(row_bytes, row_count).T).view(f"<u{item}")
        now = field.view(change.dtype)  # 4 is STEP_ROWS, 1 is XOR_ROWS.
        now[at] = now[at] + ((change >> 1) ^ -(change & 1)) if encoding == 4 else now[at] ^ change
    assert xxh3_64_intdigest(arena.data, seed) == head["state_hash"], "state hash"
    return Keyframe(head["tick"], full is None, head["state_hash"], arena.tobytes(), layout, seed)
