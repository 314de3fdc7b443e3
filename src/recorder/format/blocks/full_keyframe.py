"""Encode and decode full keyframes, which hold a complete state. delta_keyframe.py shares their layout and head.

Payload: head_bytes u32 little-endian | head, MessagePack | bodies of the sections back to back.

Head, a map:
    tick, state_hash   of the state
    schema             full only: see sim.kernel.schema.schema_to_plain
    capacities         full only: rows of each table and bytes of each blob
    sections           list of [field, encoding, row_count, index_bytes, value_bytes], one per field that is present
    values             digest of the values of the simulation's objects, bytes; absent if it has none

Encodings of a section:
    RAW        all bytes of the field; row_count is the field's, index_bytes is 0
    RUNS       all bytes, byte-shuffled in runs of RUN_NUMBERS numbers: the first bytes of all, the second bytes of all, …
    SHUFFLED   all bytes, shuffled in a single run: written before RUNS existed
    XOR_ROWS   row numbers, then the rows XORed with the baseline's, byte-shuffled: the first bytes of all rows, then
               the second bytes of all rows, and so on. Row numbers are either a bitmap of the field's rows (bit 0 of
               byte 0 is row 0) or, where that is shorter, the distances from one number to the next as u32,
               the first one from 0. index_bytes distinguishes them: a bitmap has ceil(rows of the field / 8) bytes.
    STEP_ROWS  for integers of 2, 4 or 8 bytes: as XOR_ROWS, but with the difference from the baseline's number, folded
               (see byte_shuffle.folded), in place of the XOR

Invariants:
    1. A full keyframe has every field, none as XOR_ROWS or STEP_ROWS. A delta has exactly the rows whose bytes differ from
       its baseline.
    2. A decoded state is returned only if its hash is state_hash.
"""

from __future__ import annotations

import enum
import functools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import attrs
import numpy as np

from recorder.errors import CorruptError
from recorder.format.blocks.byte_shuffle import RUN_NUMBERS, is_worth_shuffling, planes, shuffled_runs
from recorder.format.blocks.memory_budget import NO_LIMIT, MemoryBudget
from recorder.format.blocks.payload import Payload
from recorder.format.copier import copy_pairs
from recorder.format.limits import VALUE_DIGEST_BYTES
from sim.kernel.marks import Rows, comparable
from sim.kernel.plain_data import DECODE_ERRORS, decode_plain, encode_plain
from sim.kernel.schema import Layout, Slot, make_layout, schema_from_plain, schema_to_plain
from sim.kernel.state import Bytes, Snapshot, make_arena, unset_arena, view_rows

_HEAD_SIZE = struct.Struct("<I")


class Encoding(enum.IntEnum):
    """The encoding of a section."""

    RAW = 0
    XOR_ROWS = 1
    SHUFFLED = 2
    RUNS = 3
    STEP_ROWS = 4


@attrs.define(eq=False)
class Changes:
    """The input of a delta keyframe: rows that may differ from the baseline.

    Attributes:
        rows: by field, (n,) int64 flat row numbers, strictly increasing; None for all rows of the field.
        values: by field, (n, row_bytes) uint8, the current content of those rows.
        whole: the arena that contains the values if it was copied in one piece; else None.
    """

    rows: Mapping[str, Rows | None]
    values: Mapping[str, Bytes]
    whole: Bytes | None = None

    def taken(self) -> list[Bytes]:
        """The buffers that gather_changes took."""
        if self.whole is not None:
            return [self.whole]
        return [self.values[name].reshape(-1) for name, numbers in self.rows.items() if numbers is None]

    def release(self) -> None:
        """Forget all of it: the memory is free once nothing else refers to it."""
        self.rows, self.values, self.whole = {}, {}, None


@attrs.frozen
class Section:
    """The entry of one field in the head of a payload; offset: of its body."""

    field: str
    encoding: int
    row_count: int
    index_bytes: int
    value_bytes: int
    offset: int


def gather_changes(
    arena: Bytes,
    layout: Layout,
    rows: Mapping[str, Rows | None],
    take: Callable[[int], Bytes] = unset_arena,
    copy: Callable[[Sequence[tuple[Bytes, Bytes]]], None] = copy_pairs,
) -> Changes:
    """Copy the given rows, or whole fields, out of an arena.

    take: returns memory of a given size, for one field or for all. copy: copies pairs of a target and a source.
    """
    values: dict[str, Bytes] = {}
    if all(name in rows and rows[name] is None for name, slot in layout.slots.items() if slot.size_bytes):
        whole = take(len(arena))  # In one piece: large copies avoid reading the target into the processor's cache.
        copy([(whole, arena)])
        for name in rows:
            values[name] = view_rows(whole, layout.slots[name])
        return Changes(rows, values, whole)
    pairs = []
    for name, numbers in rows.items():
        slot = layout.slots[name]
        if numbers is not None:
            values[name] = take_rows(arena, slot, numbers)
        else:
            field = take(slot.size_bytes)
            pairs.append((field, arena[slot.offset : slot.offset + slot.size_bytes]))
            values[name] = field.reshape(slot.row_count, slot.row_bytes)
    copy(pairs)
    return Changes(rows, values)


def copied_bytes(layout: Layout, rows: Mapping[str, Rows | None]) -> int:
    """The size of the rows, or whole fields, that gather_changes copies."""
    slots = layout.slots
    return sum(
        slots[name].size_bytes if numbers is None else len(numbers) * slots[name].row_bytes
        for name, numbers in rows.items()
    )


def apply_changes(baseline: Snapshot, changes: Changes) -> Snapshot:
    """Apply changes to a baseline and return the resulting state. It uses the baseline's memory, which it consumes."""
    arena = baseline.arena
    arena.flags.writeable = True
    for name, numbers in changes.rows.items():
        words = comparable(arena, baseline.layout.slots[name])
        words[slice(None) if numbers is None else numbers] = (
            changes.values[name].view(words.dtype).reshape(-1, *words.shape[1:])
        )
    return Snapshot(baseline.layout, arena)


def take_rows(arena: Bytes, slot: Slot, numbers: Rows) -> Bytes:
    """Copy some rows, (n, row_bytes) uint8. They are copied as words, many times faster than byte by byte."""
    taken = np.ascontiguousarray(comparable(arena, slot)[numbers])
    return taken.view(np.uint8).reshape(len(numbers), slot.row_bytes)


def full_payload(tick: int, state_hash: int, snapshot: Snapshot, digest: bytes = b"") -> Payload:
    """The payload of a full keyframe in parts, made from the snapshot on request. Only one shuffled run is in memory.

    digest: of the values of the simulation's objects.
    """
    layout = snapshot.layout
    sections: list[list[Any]] = []
    bodies: list[tuple[Bytes, int]] = []  # A field, and the size of its numbers if they are shuffled, or 0.
    for slot in layout.slots.values():
        field, number_bytes = snapshot.arena[slot.offset : slot.offset + slot.size_bytes], slot.dtype.itemsize
        shuffles = is_worth_shuffling(field, number_bytes)
        bodies.append((field, number_bytes if shuffles else 0))
        encoding = Encoding.RUNS if shuffles else Encoding.RAW
        sections.append([slot.name, int(encoding), slot.row_count, 0, slot.size_bytes])
    head = {
        "tick": tick,
        "state_hash": state_hash,
        "schema": schema_to_plain(layout.schema),
        "capacities": dict(layout.capacities),
        "sections": sections,
        **digest_entry(digest),
    }
    start = with_head(head)

    def parts() -> Iterator[Bytes]:
        yield np.frombuffer(start, np.uint8)
        for field, number_bytes in bodies:
            if number_bytes:
                yield from shuffled_runs(field, number_bytes)
            else:
                yield field

    return Payload(len(start) + sum(len(field) for field, _ in bodies), parts)


def digest_entry(digest: bytes) -> dict[str, bytes]:
    """The entry of a head for a digest of values; empty without one."""
    return {"values": digest} if digest else {}


def with_head(head: dict[str, Any]) -> bytes:
    """Encode the head of a payload, with its size."""
    encoded = encode_plain(head)
    return _HEAD_SIZE.pack(len(encoded)) + encoded


def decode_full(
    pieces: Iterable[bytes], offset: int, bytes_max: int, memory: MemoryBudget = NO_LIMIT
) -> tuple[int, Snapshot]:
    """Decode a full keyframe: the tick and the state.

    pieces: of the payload, in order. Their content is copied straight into the state, since allocating fresh memory
    takes longer than everything else. offset: of its first block, for messages. bytes_max: an upper bound for the
    payload; a larger state is refused before memory is allocated. memory: the budget for the state.

    Raises MemoryBudgetError; CorruptError if the payload is not a full keyframe, or if the state does not have the recorded hash.
    """
    remaining = iter(pieces)
    start = _complete_head(remaining, memory, offset)
    head, sections = read_head(start, offset)
    try:
        layout = _layout_of(encode_plain(head["schema"]), encode_plain(head["capacities"]))
        if layout.size_bytes > bytes_max + 64 * len(layout.slots):  # 64: the arena's padding after each field.
            raise ValueError(f"at most {bytes_max} bytes for a state of {layout.size_bytes}")
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptError(offset, f"a full keyframe without a valid schema: {error}") from None
    if [section.field for section in sections] != list(layout.slots):
        raise CorruptError(offset, "a full keyframe without all of its fields")
    for section in sections:
        size_bytes = layout.slots[section.field].size_bytes
        is_full = section.encoding in (Encoding.RAW, Encoding.SHUFFLED, Encoding.RUNS)
        if not is_full or section.value_bytes != size_bytes or section.index_bytes:
            raise CorruptError(
                offset,
                f"field {section.field} of a full keyframe does not have the size or the encoding of its schema",
            )
    memory.ensure(layout.size_bytes, f"the state of tick {head['tick']}")
    arena = make_arena(layout.size_bytes)
    places: list[Bytes] = []
    for section, slot in zip(sections, layout.slots.values(), strict=True):
        field = arena[slot.offset : slot.offset + slot.size_bytes]
        run_numbers = RUN_NUMBERS if section.encoding == Encoding.RUNS else max(1, slot.size_bytes)
        places += [field] if section.encoding == Encoding.RAW else planes(field, slot.dtype.itemsize, run_numbers)
    begin = _HEAD_SIZE.size + _HEAD_SIZE.unpack_from(start)[0]
    if not _fill(places, chain([start[begin:]], remaining)):
        raise CorruptError(offset, "a full keyframe whose fields do not add up to its size")
    return ensure_state_hash(head, Snapshot(layout, arena), offset)


def decode_head(pieces: Iterable[bytes], offset: int) -> dict[str, Any]:
    """The head of a keyframe; only its pieces are read. Raises CorruptError if the payload is not a keyframe."""
    return read_head(_complete_head(iter(pieces), NO_LIMIT, offset), offset)[0]


def decode_digest(pieces: Iterable[bytes], offset: int) -> bytes:
    """The digest of values in a keyframe; empty if it has none. Only the pieces of its head are read.

    Raises CorruptError if the payload is not a keyframe.
    """
    match decode_head(pieces, offset).get("values"):
        case None:
            return b""
        case bytes(digest) if VALUE_DIGEST_BYTES[0] <= len(digest) <= VALUE_DIGEST_BYTES[1]:
            return digest
    raise CorruptError(offset, "a keyframe whose digest of values is not one")


@functools.lru_cache(maxsize=64)  # Keyframes of a tape have a few layouts; making one takes longer than a small state.
def _layout_of(schema: bytes, capacities: bytes) -> Layout:
    """The layout of an encoded schema and its capacities. Raises as schema_from_plain and make_layout do."""
    return make_layout(schema_from_plain(decode_plain(schema)), decode_plain(capacities))


def _complete_head(pieces: Iterator[bytes], memory: MemoryBudget, offset: int) -> bytes:
    """Join the first pieces until they contain the head, or all if they do not. Raises MemoryBudgetError."""
    start = next(pieces, b"")
    what = f"the head of the keyframe at byte {offset}"
    if len(start) >= _HEAD_SIZE.size:
        memory.ensure(_HEAD_SIZE.unpack_from(start)[0], what)
    while len(start) < _HEAD_SIZE.size or len(start) < _HEAD_SIZE.size + _HEAD_SIZE.unpack_from(start)[0]:
        more = next(pieces, None)
        if more is None:
            break
        start += more
    if len(start) >= _HEAD_SIZE.size:
        memory.ensure_objects(start[_HEAD_SIZE.size : _HEAD_SIZE.size + _HEAD_SIZE.unpack_from(start)[0]], what)
    return start


def _fill(places: Sequence[Bytes], pieces: Iterable[bytes]) -> bool:
    """Write pieces into places, one after the other. Return True if both have the same number of bytes."""
    number = place = 0
    for piece in pieces:
        left, used = np.frombuffer(piece, np.uint8), 0
        while used < len(left):
            while number < len(places) and place == len(places[number]):
                number, place = number + 1, 0
            if number == len(places):
                return False
            size = min(len(left) - used, len(places[number]) - place)
            part = left[used : used + size]
            if places[number].strides[0] == 1 or part.any():  # Many shuffled bytes are 0, and so is fresh memory.
                places[number][place : place + size] = part
            used, place = used + size, place + size
    return all(not len(rest) for rest in places[number + 1 :]) and (not places or place == len(places[number]))


def read_head(payload: bytes, offset: int) -> tuple[dict[str, Any], list[Section]]:
    """Decode the head of a payload, with the offsets of its sections. Raises CorruptError."""
    try:
        (head_bytes,) = _HEAD_SIZE.unpack_from(payload)
        head = decode_plain(payload[_HEAD_SIZE.size : _HEAD_SIZE.size + head_bytes])
        match head:
            case {"tick": int(), "state_hash": int(), "sections": list(plain)}:
                pass
            case _:
                raise ValueError("tick, state_hash or sections are missing")
        place, sections = _HEAD_SIZE.size + head_bytes, []
        for item in plain:
            match item:
                case [str(field), int(encoding), int(rows), int(index), int(values)] if min(rows, index, values) >= 0:
                    sections.append(Section(field, encoding, rows, index, values, place))
                    place += index + values
                case _:
                    raise ValueError("an entry that is not a section")
    except (struct.error, *DECODE_ERRORS) as error:
        raise CorruptError(offset, f"a keyframe whose head cannot be decoded: {error}") from None
    return head, sections


def ensure_complete(payload: bytes, sections: Sequence[Section], offset: int) -> None:
    """Raise CorruptError if the sections do not add up to the size of the payload."""
    (head_bytes,) = _HEAD_SIZE.unpack_from(payload)
    section_bytes = (
        _HEAD_SIZE.size + head_bytes + sum(section.index_bytes + section.value_bytes for section in sections)
    )
    if section_bytes != len(payload):
        raise CorruptError(offset, f"a keyframe of {len(payload)} bytes whose sections take {section_bytes}")


def ensure_state_hash(head: dict[str, Any], snapshot: Snapshot, offset: int, hint: str = "") -> tuple[int, Snapshot]:
    """Return the tick and the state. Raises CorruptError, with the hint, if the state does not have the hash in head."""
    if snapshot.hash() != head["state_hash"]:
        raise CorruptError(
            offset,
            f"the keyframe of tick {head['tick']} gives hash {snapshot.hash():016x}, recorded {head['state_hash']:016x}"
            + hint,
        )
    return head["tick"], snapshot
