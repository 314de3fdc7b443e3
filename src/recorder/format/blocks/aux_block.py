"""AUX blocks: sections that others keep beside the state (a camera, a campaign, a script), by name, tick by tick.

No hash covers them, and the recording can be replayed without them. A reader that does not know this kind of block
skips it. The payload is MessagePack values back to back. The first is [first_tick, tick_count, whole], the range that
the block covers. Then follows [tick, sections, gone] for each tick that changed a section: sections are the new values
by name, gone the names of those that are no more. A value is its plain data, encoded (binary); or, if that is shorter,
[front, middle, back]: the numbers of bytes that the value before has in common with it at both ends, and what stands
between. With whole, the first tick has all sections, none of them in the short form, also if there are none.

A block that is not whole continues the block before it, which has to cover the tick before its first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from recorder.errors import CorruptError
from recorder.format.limits import AUX_BYTES_MAX, BLOCK_TICKS_MAX
from sim.kernel.plain_data import DECODE_ERRORS, PlainEncoder, decode_plain, encode_plain, make_unpacker

NAME_BYTES_MAX = 256
SECTIONS_MAX = 4096
_SHORT_MIN = 64  # A value of fewer bytes is written as it is.

Encoded = Mapping[str, bytes]  # The sections of one tick: their plain data, encoded.


@attrs.frozen
class AuxChange:
    """What one tick changed.

    Attributes:
        tick: the tick.
        sections: new values by name, encoded.
        gone: the names of sections that are no more.
    """

    tick: int
    sections: Encoded
    gone: Sequence[str]

    @property
    def size_bytes(self) -> int:
        """About the size in a block."""
        return sum(len(value) for value in self.sections.values()) + 32 * (len(self.gone) + 1)


@attrs.frozen
class AuxOfTicks:
    """The content of one block.

    Attributes:
        first_tick, last_tick: the range of ticks.
        is_whole: True if the first tick has all sections.
        changes: as they are stored, ascending; see apply.
    """

    first_tick: int
    last_tick: int
    is_whole: bool
    changes: Sequence[tuple[int, Mapping[str, Any], Sequence[str]]]


def encode_sections(encoder: PlainEncoder, sections: Any) -> dict[str, bytes]:
    """Encode the sections of one tick. Raises TypeError or ValueError that names the bad one."""
    if not isinstance(sections, Mapping):
        raise TypeError(f"expected a mapping of sections by name, got {type(sections).__name__}")
    if len(sections) > SECTIONS_MAX:
        raise ValueError(f"expected at most {SECTIONS_MAX} sections, got {len(sections)}")
    encoded: dict[str, bytes] = {}
    for name, value in sections.items():
        if not isinstance(name, str) or not name or len(name.encode()) > NAME_BYTES_MAX:
            raise ValueError(f"a section named {name!r}: expected a short text")
        try:
            encoded[name], is_decodable = encoder.encode(value)
            if not is_decodable:
                decode_plain(encoded[name])
        except (TypeError, ValueError, OverflowError) as error:
            raise type(error)(f"section {name}: {error}") from None
    total = sum(map(len, encoded.values()))
    if total > AUX_BYTES_MAX:
        raise ValueError(f"the sections take {total} bytes, expected at most {AUX_BYTES_MAX}")
    return encoded


def difference(tick: int, before: Encoded, now: Encoded) -> AuxChange:
    """The change from the sections of one tick to those of another."""
    changed = {name: value for name, value in now.items() if before.get(name) != value}
    return AuxChange(tick, changed, [name for name in before if name not in now])


def encode_aux(
    first_tick: int, tick_count: int, changes: Sequence[AuxChange], before: Encoded, *, whole: bool
) -> bytes:
    """The payload of a block. before: the sections before the first change; with whole, they are not used.

    changes: ascending; with whole, the first one is of first_tick and has all sections.
    """
    parts = [encode_plain([first_tick, tick_count, whole])]
    present: dict[str, bytes] = {} if whole else dict(before)
    for change in changes:
        shown = {name: _short(present.get(name), value) for name, value in change.sections.items()}
        is_empty = not shown and not change.gone
        if not is_empty or (whole and change.tick == first_tick):
            parts.append(encode_plain([change.tick, shown, list(change.gone)]))
        present |= change.sections
        for name in change.gone:
            present.pop(name, None)
    return b"".join(parts)


def _short(before: bytes | None, now: bytes) -> bytes | list[Any]:
    if before is None or min(len(before), len(now)) < _SHORT_MIN:
        return now
    size = min(len(before), len(now))
    ours, theirs = np.frombuffer(now, np.uint8), np.frombuffer(before, np.uint8)
    differs = np.flatnonzero(ours[:size] != theirs[:size])
    front = int(differs[0]) if len(differs) else size
    room = size - front
    from_end = np.flatnonzero(ours[len(ours) - room :][::-1] != theirs[len(theirs) - room :][::-1])
    back = int(from_end[0]) if len(from_end) else room
    return [front, now[front : len(now) - back], back] if front + back > _SHORT_MIN else now


def decode_aux(payload: bytes, first_tick: int, offset: int) -> AuxOfTicks:
    """Decode an AUX block. first_tick: from its header. offset: of the block, for messages.

    Raises CorruptError if it is not an AUX block, or has a different first tick.
    """
    try:
        values = _values(payload)
        match next(values, None):
            case [int(first), int(count), bool(whole)] if first == first_tick and 0 < count <= BLOCK_TICKS_MAX:
                changes = list(_changes(values, first, first + count))
                if whole and (not changes or changes[0][0] != first):
                    raise ValueError("it has no sections of its first tick")
                return AuxOfTicks(first, first + count - 1, whole, changes)
        raise ValueError(f"it does not begin with a range of ticks from {first_tick} on")
    except DECODE_ERRORS as error:
        raise CorruptError(offset, f"an AUX block that cannot be decoded: {error}") from None


def _values(payload: bytes) -> Iterator[Any]:
    unpacker = make_unpacker(payload)
    while (start := unpacker.tell()) < len(payload):
        unpacker.skip()
        yield decode_plain(payload[start : unpacker.tell()])


def _changes(values: Iterator[Any], next_tick: int, end_tick: int) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    for value in values:
        match value:
            case [int(tick), dict(sections), list(gone)] if next_tick <= tick < end_tick:
                if not all(isinstance(name, str) for name in (*sections, *gone)):
                    raise ValueError(f"tick {tick} has a section without a name")
                yield tick, sections, gone
                next_tick = tick + 1
            case _:
                raise ValueError(f"expected sections of a tick from {next_tick} to {end_tick - 1}")


def apply(present: Mapping[str, bytes], sections: Mapping[str, Any], gone: Sequence[str]) -> dict[str, bytes]:
    """The sections after a stored change. Raises ValueError for one that does not fit to those before."""
    after = {name: value for name, value in present.items() if name not in gone}
    for name, stored in sections.items():
        match stored:
            case bytes():
                after[name] = stored
            case [int(front), bytes(middle), int(back)] if name in present:
                before = present[name]
                if not (front >= 0 and back >= 0 and front + back <= len(before)):
                    raise ValueError(f"section {name}: parts that the value before does not have")
                size = front + len(middle) + back
                if size > AUX_BYTES_MAX:
                    raise ValueError(f"section {name} takes {size} bytes")
                after[name] = before[:front] + middle + before[len(before) - back :]
            case _:
                raise ValueError(f"section {name}: expected bytes, or parts of the value before")
    if sum(map(len, after.values())) > AUX_BYTES_MAX or len(after) > SECTIONS_MAX:
        raise ValueError(
            f"the sections of a tick take more than {AUX_BYTES_MAX} bytes, or are more than {SECTIONS_MAX}"
        )
    return after
