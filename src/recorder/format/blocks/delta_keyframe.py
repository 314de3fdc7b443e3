"""Encode and decode delta keyframes: the rows that differ from the last full keyframe. full_keyframe.py has the layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError
from recorder.format.blocks.byte_shuffle import Unsigned, folded, unfolded
from recorder.format.blocks.full_keyframe import (
    Changes,
    Encoding,
    Section,
    digest_entry,
    ensure_complete,
    ensure_state_hash,
    read_head,
    take_rows,
    with_head,
)
from recorder.format.blocks.payload import Payload
from sim.kernel.marks import Rows, comparable, word_bytes_of
from sim.kernel.schema import Slot
from sim.kernel.state import Bytes, Snapshot, unset_arena, view_rows

_UNMARKED_HINT = (
    "; its bytes are undamaged, so the simulation probably wrote something without a mark: "
    'record with changes="audit" to find it'
)


# Of rows: the copies of so many are made at a time. Fewer would be more calls for the same bytes.
CHUNK_BYTES = 4 << 20


def delta_payload(tick: int, state_hash: int, changes: Changes, baseline: Snapshot, digest: bytes = b"") -> Payload:
    """The payload of a delta keyframe in parts: those rows of changes that differ from baseline (invariant 1).

    digest: of the values of the simulation's objects. Consumes the changes: their memory holds the rows until the
    payload has been read.
    """
    sections: list[list[Any]] = []
    bodies: list[tuple[bytes, Bytes]] = []
    for name, slot in baseline.layout.slots.items():
        if name not in changes.rows or not slot.size_bytes:
            continue
        index, rows = _mix(changes.values[name], slot, changes.rows[name], baseline.arena)
        if len(rows):
            encoding = Encoding.STEP_ROWS if _step_bytes(slot) else Encoding.XOR_ROWS
            sections.append([name, int(encoding), len(rows), len(index), rows.size])
            bodies.append((index, rows))
    start = with_head({"tick": tick, "state_hash": state_hash, "sections": sections, **digest_entry(digest)})

    def parts() -> Iterator[Bytes]:
        yield np.frombuffer(start, np.uint8)
        for index, rows in bodies:
            yield np.frombuffer(index, np.uint8)
            columns = max(1, CHUNK_BYTES // len(rows))
            for begin in range(0, rows.shape[1], columns):
                yield np.ascontiguousarray(rows[:, begin : begin + columns].T).reshape(-1)

    return Payload(len(start) + sum(len(index) + rows.size for index, rows in bodies), parts)


def _mix(rows: Bytes, slot: Slot, numbers: Rows | None, baseline: Bytes) -> tuple[bytes, Bytes]:
    """Mix rows with those of the baseline, in their own memory, and keep those that differ, at its front.

    Returns their encoded numbers, and the kept rows.
    """
    kept, number_bytes = 0, _step_bytes(slot)
    # Numbers take eight bytes for each row, which may be as much as the rows. Flags for all rows take one.
    flags = np.zeros(slot.row_count, np.bool_) if numbers is None or 4 * len(numbers) >= slot.row_count // 8 else None
    few: list[Rows] = []
    chunk = max(1, CHUNK_BYTES // slot.row_bytes)
    for begin in range(0, len(rows), chunk):
        mixed = rows[begin : begin + chunk]
        chosen = numbers[begin : begin + chunk] if numbers is not None else slice(begin, begin + chunk)
        before = _rows_of(baseline, slot, chosen)
        if number_bytes:
            np.subtract(
                _numbers(mixed, number_bytes), _numbers(before, number_bytes), out=_numbers(mixed, number_bytes)
            )
        else:
            np.bitwise_xor(mixed, before, out=mixed)
        differs = np.flatnonzero(_is_any(mixed, slot))
        if not len(differs):
            continue
        if len(differs) < len(mixed):
            mixed = mixed[differs]
        target = rows[kept : kept + len(differs)]
        if number_bytes:
            _numbers(target, number_bytes)[:] = folded(_numbers(mixed, number_bytes))
        elif target.ctypes.data != mixed.ctypes.data:
            target[:] = mixed
        kept += len(differs)
        differing = differs + begin if numbers is None else numbers[begin : begin + chunk][differs]
        if flags is None:
            few.append(differing)
        else:
            flags[differing] = True
    if not kept:
        return b"", rows[:0]
    return _encode_rows(slot, kept, flags, few), rows[:kept]


def _step_bytes(slot: Slot) -> int:
    """Size of the numbers of an integer field, which is stored as differences; 0 for other fields.

    Counters and positions change by little.
    """
    return slot.dtype.itemsize if slot.dtype.kind in "iu" and slot.dtype.itemsize > 1 else 0


def _numbers(rows: Bytes, number_bytes: int) -> Unsigned:
    """View rows of bytes as rows of numbers."""
    return rows.view(f"<u{number_bytes}")


def _rows_of(arena: Bytes, slot: Slot, chosen: Rows | slice) -> Bytes:
    """Rows as from take_rows, without a copy if they are a range."""
    return view_rows(arena, slot)[chosen] if isinstance(chosen, slice) else take_rows(arena, slot, chosen)


def _is_any(mixed: Bytes, slot: Slot) -> npt.NDArray[np.bool_]:
    """True for each row with a byte that is not zero; compared as words."""
    words = mixed.view(f"<u{word_bytes_of(slot)}")
    return np.asarray(words[:, 0] != 0 if words.shape[1] == 1 else words.any(axis=1))


def _encode_rows(slot: Slot, count: int, flags: npt.NDArray[np.bool_] | None, few: list[Rows]) -> bytes:
    """Encode the numbers of rows, given by flags for all rows or, if flags is None, in parts."""
    bitmap_bytes = -(-slot.row_count // 8)
    if count * 4 < bitmap_bytes:
        numbers = np.concatenate(few) if flags is None else np.flatnonzero(flags)
        if numbers[-1] < 1 << 32:
            return np.diff(numbers, prepend=0).astype("<u4").tobytes()
    if flags is None:
        flags = np.zeros(slot.row_count, np.bool_)
        flags[np.concatenate(few)] = True
    return np.packbits(flags, bitorder="little").tobytes()


def decode_delta(payload: bytes, baseline: Snapshot, offset: int) -> tuple[int, Snapshot]:
    """Decode a delta keyframe on top of its baseline: the tick and the state. offset: of its first block, for messages.

    Raises CorruptError if the payload is not a delta of this baseline, or if the state does not have the recorded hash.
    """
    head, sections = read_head(payload, offset)
    ensure_complete(payload, sections, offset)
    arena = unset_arena(baseline.layout.size_bytes)
    np.copyto(arena, baseline.arena)
    for section in sections:
        slot = baseline.layout.slots.get(section.field)
        steps = section.encoding == Encoding.STEP_ROWS
        if slot is None or not (section.encoding == Encoding.XOR_ROWS or (steps and _step_bytes(slot))):
            raise CorruptError(offset, f"a delta of field {section.field}, which its full keyframe does not have")
        if section.value_bytes != section.row_count * slot.row_bytes or not 0 < section.row_count <= slot.row_count:
            raise CorruptError(offset, f"a delta of field {section.field} whose size does not match its rows")
        numbers = _decode_rows(slot, payload, section, offset)
        shuffled = np.frombuffer(payload, np.uint8, section.value_bytes, section.offset + section.index_bytes)
        mixed = np.ascontiguousarray(shuffled.reshape(slot.row_bytes, section.row_count).T)
        if steps:
            own_numbers = _numbers(view_rows(arena, slot), slot.dtype.itemsize)
            own_numbers[numbers] += unfolded(_numbers(mixed, slot.dtype.itemsize))
            continue
        words = comparable(arena, slot)
        words[numbers] ^= mixed.reshape(-1).view(words.dtype).reshape(section.row_count, *words.shape[1:])
    return ensure_state_hash(head, Snapshot(baseline.layout, arena), offset, hint=_UNMARKED_HINT)


def _decode_rows(slot: Slot, payload: bytes, section: Section, offset: int) -> Rows:
    if section.index_bytes == -(-slot.row_count // 8):
        bits = np.frombuffer(payload, np.uint8, section.index_bytes, section.offset)
        numbers = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    elif section.index_bytes == 4 * section.row_count:
        steps = np.frombuffer(payload, "<u4", section.row_count, section.offset)
        numbers = np.cumsum(steps, dtype=np.int64)
        if not steps[1:].all():
            raise CorruptError(offset, f"row numbers of field {section.field} that do not ascend")
    else:
        raise CorruptError(offset, f"row numbers of field {section.field} in an unknown form")
    if len(numbers) != section.row_count or numbers[-1] >= slot.row_count:
        raise CorruptError(offset, f"row numbers of field {section.field} that it does not have")
    return numbers
