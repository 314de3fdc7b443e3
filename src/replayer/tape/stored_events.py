"""Read the events on a tape block by block, in tick order, and list the ticks whose events are missing."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.events_block import EventsOfTicks, decode_events
from recorder.format.limits import EVENTS_PAYLOAD_BYTES_MAX
from recorder.format.recording.change_replay import blocks_of
from recorder.format.recording.recording import Recording
from recorder.format.segments.block_location import TICK_MAX, OptionalBlock

Ranges = list[tuple[int, int]]


def event_blocks(recording: Recording) -> list[OptionalBlock]:
    """The EVENTS blocks of a tape, sorted by first tick, then by file order; their content is not read."""
    return blocks_of(recording, BlockKind.EVENTS)


def stored_events(recording: Recording, first_tick: int = 0, last_tick: int = TICK_MAX) -> Iterator[EventsOfTicks]:
    """Yield the events of these ticks, one block after the other, ascending; no tick comes twice.

    Blocks that cannot be read are skipped. A block counts up to the tick where the next one begins.
    """
    next_tick = first_tick
    while True:
        blocks = event_blocks(recording)
        starts = [block.entry.first_tick for block in blocks]
        for number in range(max(0, bisect.bisect_right(starts, next_tick) - 1), bisect.bisect_right(starts, last_tick)):
            block, end = blocks[number], min([*starts[number + 1 : number + 2], last_tick + 1])
            try:
                payload = block.payload(EVENTS_PAYLOAD_BYTES_MAX)
                decoded = decode_events(payload, block.entry.first_tick, block.entry.offset)
            except (CorruptError, TornError):
                if not recording.hopped and recording.distrust_index():
                    break  # The index gave this location: begin again with the blocks that headers show.
                continue
            clipped = decoded.clipped(next_tick, end - 1)
            if clipped.first_tick <= clipped.last_tick:
                yield clipped
                next_tick = clipped.last_tick + 1
        else:
            return


def ticks_with_events_due(recording: Recording) -> tuple[int, int]:
    """The first and the last tick whose events are on the tape or can be rebuilt; an empty range if there is none.

    These are the ticks reached by a step, and tick 0, which has the events of the start. A ring has the events of its
    first tick as well, but they cannot be rebuilt: the step to it has gone.
    """
    try:
        first = recording.first_tick
        return first + (first > 0), recording.last_tick
    except MissingTickError:
        return 0, -1


def missing_event_ticks(recording: Recording, *, is_ring: bool = False) -> Ranges:
    """Ranges of ticks, first and last, whose events are not on the tape."""
    next_tick, last_tick = ticks_with_events_due(recording)
    if is_ring and last_tick >= 0:
        next_tick = recording.first_tick
    missing: Ranges = []
    for block in stored_events(recording, next_tick, last_tick):
        if block.first_tick > next_tick:
            missing.append((next_tick, block.first_tick - 1))
        next_tick = block.last_tick + 1
    return [*missing, (next_tick, last_tick)] if next_tick <= last_tick else missing
