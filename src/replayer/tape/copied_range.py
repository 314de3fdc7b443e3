"""Copy what a tape holds of a range of ticks into a new one: frames, keyframes, events, telemetry, changes."""

from __future__ import annotations

import numpy as np

from recorder.errors import CorruptError, MissingTickError, TornError
from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.events_block import encode_events, encode_tick
from recorder.format.blocks.telemetry_block import TICK, decode_telemetry, encode_columns
from recorder.format.blocks.written.writes_block import decode_writes
from recorder.format.segments.block_location import KeyframeLocation, OptionalBlock, optional_blocks
from recorder.storage.tape_copy import TapeCopy, copy_keyframe
from replayer.tape.stored_events import stored_events
from replayer.tape.tape import Tape
from sim.kernel.exactness import Level
from sim.kernel.plain_data import PlainEncoder
from sim.kernel.state import Snapshot

FRAMES_AT_ONCE = 4_096  # Of a copy: they are held in memory until they are written.


class UnfitTapeError(ValueError):
    """A tape from which no such tape can be made; the message says why, in one line."""


def copy_frames(tape: Tape, copy: TapeCopy, first: int, last: int) -> None:
    """Copy the frames of these ticks unchanged. Raises MissingTickError or CorruptError for one that cannot be read."""
    for start in range(first, last + 1, FRAMES_AT_ONCE):
        copy.frames([tape.frame(tick) for tick in range(start, min(start + FRAMES_AT_ONCE, last + 1))])


def copy_place(tape: Tape, copy: TapeCopy, place: KeyframeLocation, *, has_base: bool) -> None:
    """Copy a keyframe with the digest of its values; one whose base is not in the copy becomes a full one."""
    if place.is_full or has_base:
        copy_keyframe(tape.recording, copy, place)
    else:
        copy.full(place.tick, tape.snapshot(place), digest=tape.recording.value_digest(place))


def copy_extras(tape: Tape, copy: TapeCopy, first: int, last: int) -> None:
    """Copy the events, figures and sections of these ticks, and the blocks of changes that begin in them.

    Raises CorruptError or TornError for a damaged block.
    """
    copy_events(tape, copy, first, last)
    for start, payload in tape.aux.payloads(first, last):
        copy.optional_payload(BlockKind.AUX, payload, start)
    for other in tape.recording.believing_index(lambda: optional_blocks(tape.segments)):
        if other.entry.kind == BlockKind.TELEMETRY:
            copy_telemetry(other, copy, first, last)
        elif other.entry.kind == BlockKind.CHANGES and first < other.entry.first_tick <= last:
            copy.optional(other)
        elif other.entry.kind == BlockKind.WRITES and first < other.entry.first_tick <= last:
            _copy_writes(other, copy, last)


def copy_events(tape: Tape, copy: TapeCopy, first: int, last: int) -> None:
    """Copy the events of these ticks. Blocks that cannot be read are skipped."""
    encoder = PlainEncoder()
    for block in stored_events(tape.recording, first, last):
        encoded = [encode_tick(encoder, tick, list(events)) for tick, events in block.found]
        payload = encode_events(block.first_tick, block.last_tick - block.first_tick + 1, encoded)
        copy.optional_payload(BlockKind.EVENTS, payload, block.first_tick)


def _copy_writes(block: OptionalBlock, copy: TapeCopy, last: int) -> None:
    """Copy a block if all of its steps are in the copy: after the last tick, that may continue with others."""
    if decode_writes(block.payload(), block.entry.offset).last_step <= last:
        copy.optional(block)


def copy_telemetry(block: OptionalBlock, copy: TapeCopy, first: int, last: int) -> None:
    """Copy the figures of these ticks from a block. Raises CorruptError or TornError if it is damaged."""
    columns = decode_telemetry(block.payload(), block.entry.offset)
    kept = (columns[TICK] >= first) & (columns[TICK] <= last)
    if kept.any():
        rows = {name: np.ascontiguousarray(values[kept]) for name, values in columns.items()}
        copy.optional_payload(BlockKind.TELEMETRY, encode_columns(rows), int(rows[TICK][0]))


def ensure_whole(tape: Tape, first: int, last: int) -> None:
    """Raise UnfitTapeError if a tick after first, up to last, is missing or damaged."""
    for tick in range(first + 1, last + 1):
        try:
            tape.frame(tick)
        except (MissingTickError, CorruptError, TornError) as error:
            raise UnfitTapeError(
                f"tick {tick:,} cannot be read ({error}): cut around it, or try replay repair"
            ) from None


def copy_range(
    tape: Tape, copy: TapeCopy, begin: int, end: int, start: Snapshot | None = None, *, keys_end: bool = True
) -> None:
    """Copy all that a tape holds of the ticks from begin to end, as it is.

    start: the first state if that is not a keyframe of the tape. keys_end: False leaves a keyframe of the last tick out.
    Raises as copy_frames and copy_extras do.
    """
    if start is not None:
        copy.full(begin, start)
    next_tick, has_base = begin + 1, False
    for place in tape.keyframes:
        is_wanted = begin <= place.tick < end + keys_end
        if not is_wanted or (start is not None and place.tick == begin):
            continue
        copy_frames(tape, copy, next_tick, place.tick)
        next_tick = max(next_tick, place.tick + 1)
        # A delta refers to the last full keyframe of the old tape; the copy has it once a full one was copied unchanged.
        copy_place(tape, copy, place, has_base=has_base)
        has_base = has_base or place.is_full
    copy_frames(tape, copy, next_tick, end)
    copy_extras(tape, copy, begin, end)


def ensure_can_begin_anywhere(tape: Tape) -> None:
    """Raise UnfitTapeError if a new keyframe would change how the run continues, or could not be proved."""
    if tape.meta.get("level") == Level.CANONICAL.value:
        raise UnfitTapeError(
            "the run loaded its state at each keyframe: a part can only begin at one (without --exact)"
        )
    if tape.recording.recorded_hashes.has_hash_chain:
        raise UnfitTapeError("its ticks have chained hashes: a part can only begin at a keyframe (without --exact)")
