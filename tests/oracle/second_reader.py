"""A second reader of tapes, written from SPEC.md alone: it shares no code with the program that writes them.

Strict where SPEC.md is: anything that is not as described raises AssertionError, or what a library raises. What it
does with payloads is in second_state.py.
"""

# ruff: noqa: PT018, PYI024
from __future__ import annotations

import re
import struct
from collections import Counter, namedtuple
from collections.abc import Iterator
from hashlib import blake2b
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import lz4.block
from google_crc32c import value as crc32c

from oracle.second_state import read_keyframe, split_head, unpack

META, FRAMES, FULL, DELTA, END, DROP, INDEX = 1, 2, 3, 4, 5, 6, 0x81
REBUILT, SESSION_START, CONTINUES, CONTINUATION = 1, 2, 4, 8
HEADER = "marker seq offset durable first_tick tick_count stored raw crc kind codec flags baseline"
COLUMNS = {"offset": "Q", "first_tick": "Q", "tick_count": "I", "seq": "Q", "baseline": "I", "kind": "B", "flags": "H"}
Block = namedtuple("Block", f"{HEADER} header payload")


class Reader:
    """Everything in one undamaged segment; seal is what END says, None if the segment does not end with one."""

    def __init__(self, data: bytes, number: int | None = None) -> None:
        magic, major, self.minor, place, incompatible, _ = struct.unpack_from("<8sHHIII", data)
        assert (magic, major, incompatible, place % 8) == (b"\x89TAP\r\n\x1a\n", 0, 0, 0), "file header"
        assert struct.unpack_from("<I", data, 60) == (crc32c(data[:60]),), "file header checksum"
        self.run_id, self.marker, self.segment, self.first_seq = struct.unpack_from("<16s8sIQ", data, 24)
        assert number in {None, self.segment} and (self.minor >= 2 or not any(data[48:60])), "segment"
        named = data[24:40] + data[48:52] if self.minor >= 2 else data[24:40]
        assert blake2b(named, digest_size=8).digest() == self.marker, "marker"
        self.blocks: list[Any] = []
        self.seal: Any = None
        while (tag := data[place : place + 4]) in {b"\xf5BLK", b"\xf5END"}:
            place = self._read_block(data, place) if tag == b"\xf5BLK" else self._read_trailer(data, place)
        assert not data[place:].strip(b"\0"), f"bytes at {place} that are no block"
        assert (self.blocks[0].kind, self.blocks[0].flags) == (META, 0 if self.segment else SESSION_START), "META"
        (self.meta,) = unpack(self.blocks[0].payload)

    def _read_block(self, data: bytes, offset: int) -> int:
        header = data[offset : offset + 72]
        assert header[4:8] == struct.pack("<I", crc32c(header[8:])) and len(header) == 72, "block header checksum"
        block = Block(*struct.unpack("<8sQQQQIIIIBBHI", header[8:]), header, b"")
        place = (self.marker, offset, self.first_seq + len(self.blocks))
        assert (block.marker, block.offset, block.seq) == place and block.durable <= offset, "place"
        assert block.stored <= block.raw <= 16793664 and block.tick_count <= 16384, "limits"
        end = offset + 72 + -(-block.stored // 8) * 8
        padded = data[offset + 72 : end]
        assert len(padded) == end - offset - 72 and crc32c(padded) == block.crc, "payload checksum"
        assert not any(padded[block.stored :]) and block.codec in {0, 1}, "padding, codec"
        payload = padded[: block.stored]
        payload = lz4.block.decompress(payload, uncompressed_size=block.raw) if block.codec else payload
        assert len(payload) == block.raw, "raw length"
        self.blocks.append(block._replace(payload=payload))
        self.seal = None  # What ended an earlier session means nothing.
        return end

    def _read_trailer(self, data: bytes, place: int) -> int:
        *before, end = self.blocks
        body = struct.pack("<8sQ", self.marker, end.offset)
        assert data[place : place + 24] == b"\xf5END" + struct.pack("<I", crc32c(body)) + body, "trailer"
        kept = [block for block in before if block.kind != INDEX and not block.flags & CONTINUATION]
        kinds, parts, previous = Counter(block.kind for block in kept), [], 0
        for index in (block for block in before if block.kind == INDEX):
            head, columns = split_head(index.payload)
            own, kept = kept[: head["count"]], kept[head["count"] :]
            truth = [[getattr(block, name) for block in own] for name in COLUMNS]
            packed = [struct.pack(f"<{len(own)}{code}", *of) for of, code in zip(truth, COLUMNS.values(), strict=True)]
            assert (head["previous"], columns) == (previous, b"".join(packed)), "INDEX"
            parts.append([index.offset, *span(own), own[0].seq if own else 0])
            previous = index.offset
        digest = blake2b(b"".join(block.header for block in before), digest_size=32).digest()
        known = {"meta": before[0].payload, "digest": digest, "block_count": len(before), "index_offset": previous}
        known |= {"frame_count": sum(block.tick_count for block in before), "first_tick": span(before)[0]}
        if any(ticks_of(block) for block in before):
            known["last_tick"] = span(before)[1]
        (self.seal,) = unpack(end.payload)
        if self.minor >= 2:
            known |= {"run_id": self.run_id, "segment": self.segment, "counts": kinds, "parts": parts}
            assert self.seal["final"] in {True, False} and len(self.seal["previous_digest"]) in {0, 32}, "END"
        assert known == {key: self.seal[key] for key in known} and end.kind == END and not kept, "END"
        return place + 24

    def frames(self) -> Iterator[tuple[int, int, Any]]:
        """Tick, state hash and inputs of every frame, in order."""
        for block in self.blocks:
            if block.kind == FRAMES:
                frames = unpack(block.payload)
                assert [frame[0] for frame in frames] == list(ticks_of(block)), "ticks of frames"
                yield from ((tick, state_hash, inputs) for tick, state_hash, inputs, *_ in frames)

    def keyframes(self) -> Iterator[Any]:
        """Every state, in order."""
        full, full_seq = None, -1
        for number, block in enumerate(self.blocks):
            if block.kind in {FULL, DELTA} and not block.flags & CONTINUATION:
                parts = [block]
                while parts[-1].flags & CONTINUES:
                    parts.append(self.blocks[number + len(parts)])
                    same = [(part.kind, part.seq - n, part.first_tick, part.baseline) for n, part in enumerate(parts)]
                    assert len(set(same)) == 1 and parts[-1].flags & CONTINUATION, "continuation"
                assert block.kind == FULL or block.seq - block.baseline == full_seq, "baseline"
                payload = b"".join(part.payload for part in parts)
                keyframe = read_keyframe(payload, full if block.kind == DELTA else None)
                assert keyframe.tick == block.first_tick, "tick of a keyframe"
                full, full_seq = (keyframe, block.seq) if block.kind == FULL else (full, full_seq)
                yield keyframe


class Tape(Reader):
    """Everything in the files of one undamaged tape; a segment counts up to where the next one takes over."""

    def __init__(self, path: Path) -> None:
        names = [re.fullmatch(re.escape(path.name) + r"\.([1-9]\d*)", other.name) for other in path.parent.iterdir()]
        numbers = sorted([0, *(int(name[1]) for name in names if name)])
        self.segments: list[Reader] = []
        after: dict[int, int] = {}
        for number in reversed(numbers):
            data = (path.with_name(f"{path.name}.{number}") if number else path).read_bytes()
            assert after.get(number, 0) <= len(data), "after"
            if data := data[: after.get(number)]:
                self.segments.insert(0, Reader(data, number))
            if number and self.segments:  # None yet if the last one was made, and nothing written into it.
                link = self.segments[0].meta["segment"]
                after[number - 1] = link["after"]
                assert link["number"] == number, "number of a segment"
        self.meta, self.run_id, self.seal = self.segments[0].meta, self.segments[0].run_id, self.segments[-1].seal
        is_ring = any(self.meta.get("settings", {}).get(name) for name in ("keep_ticks", "keep_s"))
        kept = numbers[is_ring:] or [0]
        assert kept == list(range(kept[0], kept[-1] + 1)), "a segment is missing"
        for one, two in pairwise(self.segments):
            assert one.run_id == two.run_id and one.blocks[-1].seq < two.first_seq, "run, seq"
            assert not one.seal or not one.seal["final"], "a segment behind the final one"
            if two.seal and one.segment + 1 == two.segment:
                assert two.seal["previous_digest"] == (one.seal["digest"] if one.seal else b""), "previous digest"
        self.blocks = [block for segment in self.segments for block in segment.blocks]
        check_order(self.blocks)
        journal = path.with_name(f"{path.name}.journal")
        self.journal = read_journal(journal.read_bytes(), self.run_id) if journal.exists() else {}

    def frames(self) -> Iterator[tuple[int, int, Any]]:
        """Those in blocks, then those of the journal that follow the last tick without a gap."""
        yield from super().frames()
        for tick in count(span(self.blocks)[1] + 1):
            if tick not in self.journal:
                break
            yield self.journal[tick]


def read_journal(data: bytes, run_id: bytes) -> dict[int, tuple[int, int, Any]]:
    """The frames of a journal by their ticks; none if it is another run's."""
    magic, major, _, zeros, area_bytes, owner = struct.unpack_from("<8sHHIQ16s", data)
    assert (magic, major, zeros, data[40:60]) == (b"\x89TAJ\r\n\x1a\n", 0, 0, bytes(20)), "journal header"
    assert struct.unpack_from("<I", data, 60) == (crc32c(data[:60]),) and len(data) == 64 + 2 * area_bytes, "journal"
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


def ticks_of(block: Any) -> range:
    """The ticks of a block of frames, or the one of a keyframe."""
    size = {FRAMES: block.tick_count, FULL: 1, DELTA: 1}.get(block.kind, 0)
    return range(block.first_tick, block.first_tick + size)


def span(blocks: list[Any]) -> tuple[int, int]:
    """The lowest and the highest tick of frames and keyframes; 0 without any."""
    ticks = [tick for block in blocks for tick in ticks_of(block)] or [0]
    return min(ticks), max(ticks)


def check_order(blocks: list[Any]) -> None:
    """A frame is of the tick behind the last one, a keyframe of the last one; DROP is passed over, or filled later."""
    last: set[int] | None = None
    for block in blocks:
        if block.kind in {FRAMES, FULL, DELTA, DROP}:
            before = block.first_tick - (block.kind in {FRAMES, DROP})
            assert last is None or before in last, "order of ticks"
            last = {before, unpack(block.payload)[0]["last_tick"]} if block.kind == DROP else {ticks_of(block)[-1]}
