"""EVENTS blocks: what happened in each tick, beside the recording proper, which does without it.

The payload is MessagePack values back to back. The first is [first_tick, tick_count]: the block tells of these ticks, so
that of a tick inside without a value it is known that nothing happened, and of a tick in no block that its events are
not on the tape. Then comes, for each tick with events, [tick, [event, ...]], ascending. An event is a map with texts as
keys, "kind" among them. A reader that does not know the kind of block passes it over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from recorder.errors import CorruptError
from recorder.format.limits import BLOCK_TICKS_MAX, EVENTS_BYTES_MAX
from sim.kernel.plain_data import DECODE_ERRORS, PlainEncoder, decode_plain, encode_plain, make_unpacker

Event = dict[str, Any]

KIND, TICK = "kind", "tick"  # Each event has the one; none has the other, which is the name of a column in tables.


@attrs.frozen
class EventsOfTicks:
    """The events of consecutive ticks.

    Attributes:
        first_tick, last_tick: which.
        found: those ticks that have events, ascending, with all of them.
    """

    first_tick: int
    last_tick: int
    found: Sequence[tuple[int, Sequence[Event]]]

    def clipped(self, first_tick: int, last_tick: int) -> EventsOfTicks:
        """Those of the ticks in this range."""
        first, last = max(first_tick, self.first_tick), min(last_tick, self.last_tick)
        return EventsOfTicks(first, last, [one for one in self.found if first <= one[0] <= last])


def encode_tick(encoder: PlainEncoder, tick: int, events: Any) -> bytes:
    """The events of one tick as a block has them; nothing if there are none.

    Raises TypeError or ValueError, saying what is wrong, for what is no list of events that comes back from the tape.
    """
    if type(events) not in (list, tuple):
        raise TypeError(f"{type(events).__name__} is no list of events")
    if not events:
        return b""
    for event in events:
        if type(event) is not dict:
            raise TypeError(f"{type(event).__name__} is no event: a dict was expected")
        if type(event.get(KIND)) is not str:
            raise TypeError(f"an event without a text as its {KIND!r}: {_short(event)}")
        for key in event:
            if type(key) is not str or key == TICK:
                raise TypeError(f"an event with the key {_short(key)}: texts other than {TICK!r} were expected")
    encoded, sure = encoder.encode([tick, list(events)])
    if not sure:
        decode_plain(encoded)
    if len(encoded) > EVENTS_BYTES_MAX:
        raise ValueError(f"the events take {len(encoded)} bytes, more than {EVENTS_BYTES_MAX}")
    return encoded


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def encode_events(first_tick: int, tick_count: int, encoded_ticks: Iterable[bytes]) -> bytes:
    """The payload that tells of these ticks. encoded_ticks: from encode_tick, ascending."""
    return b"".join([encode_plain([first_tick, tick_count]), *encoded_ticks])


def decode_events(payload: bytes, first_tick: int, offset: int) -> EventsOfTicks:
    """What an EVENTS block says. first_tick: as in its header. offset: where it lies.

    Raises CorruptError if it is none, or one of other ticks.
    """
    try:
        values = _values(payload)
        match next(values, None):
            case [first, count] if _is_tick(first) and first == first_tick and _is_tick(count):
                if 0 < count <= BLOCK_TICKS_MAX:
                    return EventsOfTicks(first, first + count - 1, list(_ticks(values, first, first + count)))
        raise ValueError("it does not say of which ticks it tells")
    except DECODE_ERRORS as error:
        raise CorruptError(offset, f"an EVENTS block that cannot be decoded: {error}") from None


def _values(payload: bytes) -> Iterator[Any]:
    """The values one by one, so that the first one that is wrong ends it. Raises DECODE_ERRORS."""
    unpacker = make_unpacker(payload)
    while (start := unpacker.tell()) < len(payload):
        unpacker.skip()  # Shows its length before anything is made of it.
        if unpacker.tell() - start > EVENTS_BYTES_MAX:
            raise ValueError(f"a value of {unpacker.tell() - start} bytes")
        yield decode_plain(payload[start : unpacker.tell()])


def _ticks(values: Iterator[Any], next_tick: int, end_tick: int) -> Iterator[tuple[int, list[Event]]]:
    """What is told of each tick that has events. Raises ValueError for values that tell of none, or of other ticks."""
    for value in values:
        match value:
            case [tick, [_, *_] as events] if _is_tick(tick) and next_tick <= tick < end_tick:
                if not all(map(_is_event, events)):
                    raise ValueError(f"what tick {tick} has are no events")
                yield tick, events
                next_tick = tick + 1
            case _:
                raise ValueError("a value that tells of no tick that is due")


def _is_tick(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _is_event(value: Any) -> bool:
    return (
        type(value) is dict
        and type(value.get(KIND)) is str
        and TICK not in value
        and all(type(key) is str for key in value)
    )
