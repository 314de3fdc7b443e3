"""Encode and decode delta keyframes: the rows that differ from the last full keyframe. full_keyframe.py has the layout."""

from __future__ import annotations

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


def delta_payload(tick: int, state_hash: int, changes: Changes, baseline: Snapshot, digest: bytes = b"") -> Payload:
    """The payload of a delta keyframe: those rows of changes that differ from baseline (invariant 1).

    digest: of the values of the simulation's objects. Consumes the changes: their values are overwritten.
    """
    sections: list[list[Any]] = []
    bodies: list[bytes | memoryview] = []
    for name, slot in baseline.layout.slots.items():
        if name not in changes.rows:
            continue
        numbers = changes.rows[name]
        mixed, number_bytes = changes.values[name], _step_bytes(slot)
        before = _rows_of(baseline.arena, slot, numbers)
        # In the memory of the changes, which are not needed any more.
        if number_bytes:
            np.subtract(
                _numbers(mixed, number_bytes), _numbers(before, number_bytes), out=_numbers(mixed, number_bytes)
            )
        else:
            np.bitwise_xor(mixed, before, out=mixed)
        differs = np.flatnonzero(_is_any(mixed, slot))
        if numbers is None:
            numbers, mixed = differs, mixed[differs]
        elif len(differs) < len(numbers):
            numbers, mixed = numbers[differs], mixed[differs]
        if len(numbers):
            if number_bytes:
                mixed = folded(_numbers(mixed, number_bytes)).view(np.uint8)
            index, values = _encode_rows(slot, numbers), np.ascontiguousarray(mixed.T)
            encoding = Encoding.STEP_ROWS if number_bytes else Encoding.XOR_ROWS
            sections.append([name, int(encoding), len(numbers), len(index), values.nbytes])
            bodies += [index, values.reshape(-1).data]
    head = {"tick": tick, "state_hash": state_hash, "sections": sections, **digest_entry(digest)}
    return Payload.of(with_head(head), *bodies)


def _step_bytes(slot: Slot) -> int:
    """Size of the numbers of an integer field, which is stored as differences; 0 for other fields.

    Counters and positions change by little.
    """
    return slot.dtype.itemsize if slot.dtype.kind in "iu" and slot.dtype.itemsize > 1 else 0


def _numbers(rows: Bytes, number_bytes: int) -> Unsigned:
    """View rows of bytes as rows of numbers."""
    return rows.view(f"<u{number_bytes}")


def _rows_of(arena: Bytes, slot: Slot, numbers: Rows | None) -> Bytes:
    """Rows as from take_rows, without a copy if all rows are requested."""
    if numbers is None:
        return view_rows(arena, slot)
    return take_rows(arena, slot, numbers)


def _is_any(mixed: Bytes, slot: Slot) -> npt.NDArray[np.bool_]:
    """True for each row with a byte that is not zero; compared as words."""
    words = mixed.view(f"<u{word_bytes_of(slot)}")
    return np.asarray(words[:, 0] != 0 if words.shape[1] == 1 else words.any(axis=1))


def _encode_rows(slot: Slot, numbers: Rows) -> bytes:
    bitmap_bytes = -(-slot.row_count // 8)
    if len(numbers) * 4 < bitmap_bytes and numbers[-1] < 1 << 32:
        return np.diff(numbers, prepend=0).astype("<u4").tobytes()
    mask = np.zeros(slot.row_count, np.bool_)
    mask[numbers] = True
    return np.packbits(mask, bitorder="little").tobytes()


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
