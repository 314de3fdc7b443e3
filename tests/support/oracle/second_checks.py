"""Checks that a tape follows SPEC.md in everything that second_reader.py does not need for reading.

Strict: anything that is not as described raises AssertionError. It shares no code with the program that writes tapes.
"""

# ruff: noqa: PT018
from __future__ import annotations

import struct
from collections import Counter
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from google_crc32c import value as crc32c
from xxhash import xxh3_64_intdigest

from oracle.second_reader import (
    AUX,
    CONTINUATION,
    CONTINUES,
    DELTA,
    DROP,
    END,
    EVENTS,
    FRAMES,
    FULL,
    INDEX,
    META,
    SESSION_START,
    Reader,
    Tape,
    lay_out,
    split_head,
    ticks_of,
    unpack,
)

COLUMNS = {"offset": "Q", "first_tick": "Q", "tick_count": "I", "seq": "Q", "baseline": "I", "kind": "B", "flags": "H"}


class CheckedTape(Tape):
    """A tape that follows SPEC.md in everything that can be checked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        for segment in self.segments:
            _check_segment(segment)
        _check_links(self)
        _check_order(self.blocks)
        _check_keyframes(self.blocks)
        events_of(self.blocks)
        aux_of(self.blocks)


class CheckedReader(Reader):
    """One segment that follows SPEC.md in everything that can be checked without the others."""

    def __init__(self, data: bytes, number: int | None = None) -> None:
        super().__init__(data, number)
        _check_segment(self)


def _check_segment(segment: Reader) -> None:
    data = segment.data
    assert struct.unpack_from("<I", data, 12)[0] % 8 == 0, "file header"
    assert segment.number in {None, segment.segment} and (segment.minor >= 2 or not any(data[48:60])), "segment"
    named = data[24:40] + data[48:52] if segment.minor >= 2 else data[24:40]
    assert blake2b(named, digest_size=8).digest() == segment.marker, "marker"
    assert not data[segment.end :].strip(b"\0"), f"bytes at {segment.end} that are no block"
    first = segment.blocks[0]
    assert (first.kind, first.flags) == (META, 0 if segment.segment else SESSION_START), "META"
    for number, block in enumerate(segment.blocks):
        assert block.seq == segment.first_seq + number and block.durable <= block.offset, "seq, durable"
        assert block.stored <= block.raw == len(block.payload) and block.tick_count <= 16384, "lengths"
        assert block.codec in {0, 1}, "codec"
        padding = data[block.offset + 72 + block.stored :][: -block.stored % 8]
        assert len(padding) == -block.stored % 8 and not any(padding), "padding"
        if block.kind == FRAMES:
            assert [frame[0] for frame in unpack(block.payload)] == list(ticks_of(block)), "ticks of frames"
    for place, block_count in segment.trailers:
        _check_seal(segment, place, segment.blocks[:block_count])


def _check_seal(segment: Reader, place: int, blocks: list[Any]) -> None:
    *before, end = blocks
    body = struct.pack("<8sQ", segment.marker, end.offset)
    assert segment.data[place : place + 24] == b"\xf5END" + struct.pack("<I", crc32c(body)) + body, "trailer"
    kept = [block for block in before if block.kind != INDEX and not block.flags & CONTINUATION]
    kinds, parts, previous = Counter(block.kind for block in kept), [], 0
    for index in (block for block in before if block.kind == INDEX):
        head, columns = split_head(index.payload)
        own, kept = kept[: head["count"]], kept[head["count"] :]
        truth = [[getattr(block, name) for block in own] for name in COLUMNS]
        packed = [struct.pack(f"<{len(own)}{code}", *of) for of, code in zip(truth, COLUMNS.values(), strict=True)]
        assert (head["previous"], columns) == (previous, b"".join(packed)), "INDEX"
        parts.append([index.offset, *_span(own), own[0].seq if own else 0])
        previous = index.offset
    digest = blake2b(b"".join(block.header for block in before), digest_size=32).digest()
    known = {"meta": before[0].payload, "digest": digest, "block_count": len(before), "index_offset": previous}
    known |= {"frame_count": sum(block.tick_count for block in before), "first_tick": _span(before)[0]}
    if any(ticks_of(block) for block in before):
        known["last_tick"] = _span(before)[1]
    (seal,) = unpack(end.payload)
    if segment.minor >= 2:
        known |= {"run_id": segment.run_id, "segment": segment.segment, "counts": kinds, "parts": parts}
        assert seal["final"] in {True, False} and len(seal["previous_digest"]) in {0, 32}, "END"
    assert known == {key: seal[key] for key in known} and end.kind == END and not kept, "END"


def _span(blocks: list[Any]) -> tuple[int, int]:
    """The lowest and the highest tick of frames and keyframes; 0 without any."""
    ticks = [tick for block in blocks for tick in ticks_of(block)] or [0]
    return min(ticks), max(ticks)


def _check_links(tape: Tape) -> None:
    is_ring = any(tape.meta.get("settings", {}).get(name) for name in ("keep_ticks", "keep_s"))
    kept = tape.numbers[is_ring:] or [0]
    assert kept == list(range(kept[0], kept[-1] + 1)), "a segment is missing"
    for one, two in pairwise(tape.segments):
        assert two.meta["segment"]["number"] == two.segment, "number of a segment"
        assert one.run_id == two.run_id and one.blocks[-1].seq < two.first_seq, "run, seq"
        assert not one.seal or not one.seal["final"], "a segment after the final one"
        if two.seal and one.segment + 1 == two.segment:
            assert two.seal["previous_digest"] == (one.seal["digest"] if one.seal else b""), "previous digest"


def _check_order(blocks: list[Any]) -> None:
    """A frame has the tick after the last one, a keyframe that of the last one; DROP is skipped, or filled later."""
    last: set[int] | None = None
    for block in blocks:
        if block.kind in {FRAMES, FULL, DELTA, DROP}:
            before = block.first_tick - (block.kind in {FRAMES, DROP})
            assert last is None or before in last, "order of ticks"
            last = {before, unpack(block.payload)[0]["last_tick"]} if block.kind == DROP else {ticks_of(block)[-1]}


def _check_keyframes(blocks: list[Any]) -> None:
    full_seq, layout = -1, {}
    for number, block in enumerate(blocks):
        if block.kind not in {FULL, DELTA} or block.flags & CONTINUATION:
            continue
        parts = [block]
        while parts[-1].flags & CONTINUES:
            parts.append(blocks[number + len(parts)])
            same = [(part.kind, part.seq - n, part.first_tick, part.baseline) for n, part in enumerate(parts)]
            assert len(set(same)) == 1 and parts[-1].flags & CONTINUATION, "continuation"
        head, bodies = split_head(b"".join(part.payload for part in parts))
        assert head["tick"] == block.first_tick, "tick of a keyframe"
        assert "values" not in head or 8 <= len(head["values"]) <= 64, "digest of values"
        if block.kind == FULL:
            full_seq, layout = block.seq, lay_out(head["schema"], head["capacities"])[0]
        assert block.kind == FULL or block.seq - block.baseline == full_seq, "baseline"
        _check_sections(head["sections"], bodies, layout, is_delta=block.kind == DELTA)


def events_of(blocks: list[Any]) -> dict[int, list[Any]]:
    """The events of each covered tick, an empty list if there were none."""
    told: dict[int, list[Any]] = {}
    payload = b""
    for block in (one for one in blocks if one.kind == EVENTS):
        payload = (payload if block.flags & CONTINUATION else b"") + block.payload
        if block.flags & CONTINUES:
            continue
        (first, count), *found = unpack(payload)
        assert first == block.first_tick and 1 <= count <= 16384 and len(payload) <= 4_456_512, "ticks of EVENTS"
        ticks = [tick for tick, _ in found]
        assert ticks == sorted(set(ticks) & {*range(first, first + count)}), "ticks of events"
        assert not told or first > max(told), "order of EVENTS"
        told |= {tick: [] for tick in range(first, first + count)} | dict(found)
        for event in (one for _, events in found for one in events or [{}]):
            assert type(event["kind"]) is str and "tick" not in event and {type(key) for key in event} == {str}, "event"
    return told


def aux_of(blocks: list[Any]) -> dict[int, dict[str, bytes]]:
    """The sections of each tick whose sections are known, each as encoded plain data."""
    known: dict[int, dict[str, bytes]] = {}
    present: dict[str, bytes] = {}
    payload, last = b"", -2
    for block in (one for one in blocks if one.kind == AUX):
        payload = (payload if block.flags & CONTINUATION else b"") + block.payload
        if block.flags & CONTINUES:
            continue
        (first, count, whole), *found = unpack(payload)
        assert first == block.first_tick and 1 <= count <= 16384, "ticks of AUX"
        changes = {tick: (sections, gone) for tick, sections, gone in found}
        assert list(changes) == sorted(set(changes) & {*range(first, first + count)}), "ticks of sections"
        if not whole and first > last + 1:
            continue
        assert not whole or first in changes, "all sections"
        present = {} if whole else present
        for tick in range(first, first + count):
            sections, gone = changes.get(tick, ({}, []))
            present = {name: value for name, value in present.items() if name not in gone}
            for name, value in sections.items():
                if isinstance(value, bytes):
                    present[name] = value
                else:
                    front, middle, back = value
                    before = present[name]
                    assert front >= 0 <= back and front + back <= len(before), "parts of a section"
                    present[name] = before[:front] + middle + before[len(before) - back :]
            assert all(1 <= len(name.encode()) <= 256 for name in present), "names of sections"
            known[tick] = dict(present)
        last = first + count - 1
    return known


def _check_sections(sections: list[Any], bodies: bytes, layout: dict[str, Any], *, is_delta: bool) -> None:
    names = [name for name, *_ in sections]
    assert names == [name for name in layout if name in names or not is_delta], "sections"
    place = 0
    for name, encoding, row_count, index_bytes, value_bytes in sections:
        _, _, rows, row_bytes, _ = layout[name]
        index = np.frombuffer(bodies[place : place + index_bytes], np.uint8)
        values = bodies[place + index_bytes :][:value_bytes]
        place += index_bytes + value_bytes
        assert (
            encoding in ({1, 4} if is_delta else {0, 2, 3}) and len(values) == value_bytes == row_count * row_bytes
        ), "section"
        if is_delta:
            numbers = _row_numbers(index, row_count, rows)
            assert len(numbers) == row_count > 0 and (np.diff(numbers) > 0).all() and numbers[-1] < rows, "row numbers"
            mixed = np.frombuffer(values, np.uint8).reshape(row_bytes, row_count)
            assert mixed.any(axis=0).all(), "a row of a delta that does not differ"
        else:
            assert (row_count, index_bytes) == (rows, 0), "a field of a full keyframe"
    assert place == len(bodies), "length of a keyframe"


def _row_numbers(index: np.ndarray, row_count: int, rows: int) -> np.ndarray:
    """Row numbers as distances if that is shorter than a bitmap."""
    bitmap_bytes = -(-rows // 8)
    if 4 * row_count < bitmap_bytes:
        return index.view("<u4").cumsum()
    assert len(index) == bitmap_bytes, "bitmap"
    return np.flatnonzero(np.unpackbits(index, bitorder="little"))


def field_of(keyframe: Any, name: str) -> np.ndarray:
    """One field of a keyframe at full capacity."""
    dtype, shape, rows, row_bytes, offset = keyframe.layout[name]
    return np.frombuffer(keyframe.arena, np.uint8)[offset : offset + rows * row_bytes].view(dtype).reshape(shape)


def field_hashes(keyframe: Any) -> bytes:
    """The per-field hashes in the frame of a keyframe's tick."""
    arena, places = keyframe.arena, keyframe.layout.values()
    hashes = [xxh3_64_intdigest(arena[offset : offset + rows * size]) for _, _, rows, size, offset in places]
    return bytes(one >> 8 & 0xFF for one in hashes) + bytes(one & 0xFF for one in hashes)
