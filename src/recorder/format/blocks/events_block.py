"""EVENTS blocks: the events of each tick. The recording can be replayed without them.

The payload is MessagePack values back to back. The first is [first_tick, tick_count], the range that the block covers: a
tick in this range without a value had no events, and the events of a tick in no range are not on the tape. Then follows
[tick, [event, ...]] for each tick with events, ascending. An event is a map with texts as keys, "kind" among them. A
reader that does not know this kind of block skips it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from recorder.errors import CorruptError
from recorder.format.limits import BLOCK_TICKS_MAX, EVENTS_BYTES_MAX
from sim.kernel.plain_data import DECODE_ERRORS, PlainEncoder, decode_plain, encode_plain, make_unpacker

Event = dict[str, Any]

KIND, TICK = "kind", "tick"  # Each event has a kind. No event has a key "tick", which is a column of its tables.


@attrs.frozen
class EventsOfTicks:
    """The events of consecutive ticks.

    Attributes:
        first_tick, last_tick: the range of ticks.
        found: the ticks with events, ascending, each with its events.
    """

    first_tick: int
    last_tick: int
    found: Sequence[tuple[int, Sequence[Event]]]

    def clipped(self, first_tick: int, last_tick: int) -> EventsOfTicks:
        """The events of the ticks in this range."""
        first, last = max(first_tick, self.first_tick), min(last_tick, self.last_tick)
        return EventsOfTicks(first, last, [(tick, events) for tick, events in self.found if first <= tick <= last])


def encode_tick(encoder: PlainEncoder, tick: int, events: Any) -> bytes:
    """Encode the events of one tick for a block; no bytes if there are none.

    Raises TypeError or ValueError for anything but a list of events that can be read back unchanged.
    """
    if type(events) not in (list, tuple):
        raise TypeError(f"expected a list of events, got {type(events).__name__}")
    if not events:
        return b""
    for event in events:
        if type(event) is not dict:
            raise TypeError(f"expected a dict for each event, got {type(event).__name__}")
        if type(event.get(KIND)) is not str:
            raise TypeError(f"an event needs a text as its {KIND!r}, got {_short(event)}")
        for key in event:
            if type(key) is not str or key == TICK:
                raise TypeError(f"an event with the key {_short(key)}: expected texts other than {TICK!r}")
    encoded, is_decodable = encoder.encode([tick, list(events)])
    if not is_decodable:
        decode_plain(encoded)
    if len(encoded) > EVENTS_BYTES_MAX:
        raise ValueError(f"the events take {len(encoded)} bytes, expected at most {EVENTS_BYTES_MAX}")
    return encoded


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def encode_events(first_tick: int, tick_count: int, encoded_ticks: Iterable[bytes]) -> bytes:
    """The payload for a range of ticks. encoded_ticks: from encode_tick, ascending."""
    return b"".join([encode_plain([first_tick, tick_count]), *encoded_ticks])


def decode_events(payload: bytes, first_tick: int, offset: int) -> EventsOfTicks:
    """Decode an EVENTS block. first_tick: from its header. offset: of the block, for messages.

    Raises CorruptError if it is not an EVENTS block, or has a different first tick.
    """
    try:
        values = _values(payload)
        match next(values, None):
            case [first, count] if _is_tick(first) and first == first_tick and _is_tick(count):
                if 0 < count <= BLOCK_TICKS_MAX:
                    return EventsOfTicks(first, first + count - 1, list(_ticks(values, first, first + count)))
        raise ValueError(f"it does not begin with a range of ticks from {first_tick} on")
    except DECODE_ERRORS as error:
        raise CorruptError(offset, f"an EVENTS block that cannot be decoded: {error}") from None


def _values(payload: bytes) -> Iterator[Any]:
    """Decode the values one by one. Raises DECODE_ERRORS at the first damaged one."""
    unpacker = make_unpacker(payload)
    while (start := unpacker.tell()) < len(payload):
        unpacker.skip()  # Shows the length before the value is decoded.
        if unpacker.tell() - start > EVENTS_BYTES_MAX:
            raise ValueError(f"a value of {unpacker.tell() - start} bytes")
        yield decode_plain(payload[start : unpacker.tell()])


def _ticks(values: Iterator[Any], next_tick: int, end_tick: int) -> Iterator[tuple[int, list[Event]]]:
    """Yield each tick that has events, with its events. Raises ValueError for anything else and for ticks out of order."""
    for value in values:
        match value:
            case [tick, [_, *_] as events] if _is_tick(tick) and next_tick <= tick < end_tick:
                if not all(map(_is_event, events)):
                    raise ValueError(f"tick {tick} has values that are not events")
                yield tick, events
                next_tick = tick + 1
            case _:
                raise ValueError(f"expected events of a tick from {next_tick} to {end_tick - 1}")


def _is_tick(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _is_event(value: Any) -> bool:
    return (
        type(value) is dict
        and type(value.get(KIND)) is str
        and TICK not in value
        and all(type(key) is str for key in value)
    )
