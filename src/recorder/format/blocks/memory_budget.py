"""The memory that reading one part of a tape may take: compared with what headers claim before memory is taken.

A part is one state, the content of one block, or the Python objects that MessagePack makes of one block. A reader holds
a few parts at a time (see docs/security.md), so the budget is that of a part, not of the process.
"""

from __future__ import annotations

import struct

import attrs

from recorder.errors import MemoryBudgetError
from recorder.format.blocks.block import BlockKind

_HEAD_SIZE = struct.Struct("<I")
_WITH_HEAD = (BlockKind.DELTA, BlockKind.CHANGES)  # A head, MessagePack, before bytes that are used as they are.
_ALL_PLAIN = (BlockKind.FRAMES, BlockKind.EVENTS, BlockKind.TELEMETRY, BlockKind.AUX, BlockKind.WRITES)
OBJECTS_PER_BYTE_MAX = 128  # Bytes of objects for a byte of MessagePack, at most: a map of one entry takes three.
_SLOT, _NUMBER, _TEXT, _BYTES, _LIST, _ARRAY = 8, 32, 76, 33, 56, 240
_EMPTY_MAP, _MAP, _ENTRY = 80, 248, 110


@attrs.frozen
class MemoryBudget:
    """A limit for one part; None for no limit."""

    bytes_max: int | None = None

    def ensure(self, need_bytes: int, what: str) -> None:
        """Raise MemoryBudgetError if a part of need_bytes exceeds the budget. what: names the part."""
        if self.bytes_max is not None and need_bytes > self.bytes_max:
            raise MemoryBudgetError(what, need_bytes, self.bytes_max)

    def ensure_objects(self, encoded: bytes, what: str) -> None:
        """Raise MemoryBudgetError if the objects of these MessagePack bytes would exceed the budget.

        They are counted only if so many bytes could make too many objects.
        """
        if self.bytes_max is not None and OBJECTS_PER_BYTE_MAX * len(encoded) > self.bytes_max:
            self.ensure(objects_bytes(encoded, self.bytes_max), what)

    def ensure_content(self, kind: int, payload: bytes, offset: int) -> bytes:
        """Return the payload of a block at this offset. Raises MemoryBudgetError if its objects exceed the budget."""
        if kind in _ALL_PLAIN:
            self.ensure_objects(payload, f"the content of the block at byte {offset}")
        elif kind in _WITH_HEAD and len(payload) >= _HEAD_SIZE.size:
            (head_bytes,) = _HEAD_SIZE.unpack_from(payload)
            self.ensure_objects(
                payload[_HEAD_SIZE.size : _HEAD_SIZE.size + head_bytes], f"the head of the block at byte {offset}"
            )
        return payload


NO_LIMIT = MemoryBudget()


def objects_bytes(encoded: bytes, stop: int) -> int:
    """About the bytes that the objects of MessagePack values take in CPython, rather too many; stops counting above stop.

    Bytes that are not MessagePack count up to where that shows: the decoder reports them.
    """
    total = place = 0
    size = len(encoded)
    while place < size and total <= stop:
        first = encoded[place]
        place += 1
        total += _SLOT
        if first <= 0x7F or first >= 0xE0 or first in (0xC0, 0xC2, 0xC3):
            continue
        if first <= 0x8F:
            total += _map_bytes(first & 0x0F)
        elif first <= 0x9F:
            total += _LIST
        elif first <= 0xBF:
            total += _text_bytes(encoded, place, first & 0x1F)
            place += first & 0x1F
        elif first in _FIXED:
            extra, cost = _FIXED[first]
            place, total = place + extra, total + cost
        elif first in _SIZED:
            width, kind = _SIZED[first]
            count = int.from_bytes(encoded[place : place + width], "big")
            place += width
            if kind == "map":
                total += _map_bytes(count)
            elif kind == "list":
                total += _LIST
            else:
                total += {"text": _text_bytes(encoded, place, count), "bytes": _BYTES + count}.get(
                    kind, _ARRAY + 2 * count
                )
                place += count + (kind == "extension")
        else:
            return total
    return total


def _map_bytes(count: int) -> int:
    return _MAP + _ENTRY * count if count else _EMPTY_MAP


def _text_bytes(encoded: bytes, place: int, count: int) -> int:
    return _TEXT + count * (1 if encoded[place : place + count].isascii() else 4)


# By first byte: bytes that follow, and the cost of the object.
_FIXED = {code: (width, _NUMBER) for code, width in zip(range(0xCA, 0xD4), (4, 8, 1, 2, 4, 8, 1, 2, 4, 8), strict=True)}
_FIXED |= {0xD4 + power: (1 + (1 << power), _ARRAY) for power in range(5)}
# By first byte: bytes of the length that follows, and the kind of object.
_SIZED = {
    **{0xC4 + n: (1 << n, "bytes") for n in range(3)},
    **{0xC7 + n: (1 << n, "extension") for n in range(3)},
    **{0xD9 + n: (1 << n, "text") for n in range(3)},
    0xDC: (2, "list"),
    0xDD: (4, "list"),
    0xDE: (2, "map"),
    0xDF: (4, "map"),
}
