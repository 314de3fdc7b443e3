"""The events that are on a tape, and the ticks whose events are not: block by block, in the order of the ticks."""

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
    """The EVENTS blocks of a tape by their first ticks, of equal ones in file order; their content is not read."""
    return blocks_of(recording, BlockKind.EVENTS)


def stored_events(recording: Recording, first_tick: int = 0, last_tick: int = TICK_MAX) -> Iterator[EventsOfTicks]:
    """What the tape tells of these ticks, ascending, one block after the other; never twice of one tick.

    Blocks that cannot be read are passed over. A block counts up to where the next one begins.
    """
    next_tick = first_tick
    while True:
        blocks = event_blocks(recording)
        starts = [block.entry.first_tick for block in blocks]
        for number in range(max(0, bisect.bisect_right(starts, next_tick) - 1), bisect.bisect_right(starts, last_tick)):
            block, end = blocks[number], min([*starts[number + 1 : number + 2], last_tick + 1])
            try:
                payload = block.payload(EVENTS_PAYLOAD_BYTES_MAX)
                told = decode_events(payload, block.entry.first_tick, block.entry.offset)
            except (CorruptError, TornError):
                if not recording.hopped and recording.distrust_index():
                    break  # The index has led here: begin again with the blocks as their headers show them.
                continue
            clipped = told.clipped(next_tick, end - 1)
            if clipped.first_tick <= clipped.last_tick:
                yield clipped
                next_tick = clipped.last_tick + 1
        else:
            return


def ticks_with_events_due(recording: Recording) -> tuple[int, int]:
    """The first and the last tick of which the tape should tell; an empty range if there is none.

    These are the ticks that it leads to by steps, and tick 0, which has the events of the start.
    """
    try:
        first = recording.first_tick
        return first + (first > 0), recording.last_tick
    except MissingTickError:
        return 0, -1


def missing_event_ticks(recording: Recording) -> Ranges:
    """The ranges of ticks, first and final, whose events are not on the tape."""
    next_tick, last_tick = ticks_with_events_due(recording)
    missing: Ranges = []
    for told in stored_events(recording, next_tick, last_tick):
        if told.first_tick > next_tick:
            missing.append((next_tick, told.first_tick - 1))
        next_tick = told.last_tick + 1
    return [*missing, (next_tick, last_tick)] if next_tick <= last_tick else missing
