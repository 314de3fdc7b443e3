"""Frames, telemetry, events and changes of ticks that wait for a full block; used by the writer's thread only."""

from __future__ import annotations

import bisect
import itertools
import time

from recorder.format.blocks.block import BlockKind
from recorder.format.blocks.changes_block import ChangeEncoder
from recorder.format.blocks.events_block import encode_events
from recorder.format.blocks.large.change_planes import many_changes_payload
from recorder.format.blocks.telemetry_block import Row, encode_telemetry
from recorder.format.limits import AUX_RAW_BYTES, CHANGES_RAW_BYTES, EVENTS_RAW_BYTES, FRAMES_RAW_BYTES
from recorder.format.segments.large_group import Group, LargeGroup
from recorder.format.segments.segment_encoder import Piece, changes_pieces, events_piece, frames_piece, telemetry_piece
from recorder.writer.jobs import TickOutput
from recorder.writer.waiting_aux import WaitingAux
from sim.kernel.changes.many_changes import ManyChanges
from sim.kernel.changes.tick_changes import TickChanges
from sim.kernel.state import Snapshot

TELEMETRY_FIGURES = 1 << 17  # A TELEMETRY block is cut here: a megabyte.


class WaitingTicks:
    """The ticks that will form the next blocks.

    Attributes:
        first_tick: of the waiting frames, or of the next frame if none waits.
        since_s: arrival time of the first waiting frame, by the monotonic clock.
        aux: the sections of the waiting ticks.
    """

    def __init__(self, first_tick: int) -> None:
        self.first_tick = first_tick
        self.since_s = 0.0
        self.aux = WaitingAux()
        self._frames: list[bytes] = []
        self._frames_bytes = 0
        self._rows: list[Row] = []
        self._has_events = False
        self._events: list[bytes] = []  # Only of ticks with events.
        self._events_bytes = 0
        self._last_events: bytes | None = None  # Of the last tick that was taken; None if they are not recorded.
        self._changes: list[TickChanges] = []
        self._changes_bytes = 0
        self._change_encoder: ChangeEncoder | None = None
        self._lost_changes = True  # The state that the next changes apply to is unknown.

    def __len__(self) -> int:
        """The number of waiting frames."""
        return len(self._frames)

    def has_room_for(self, output: TickOutput) -> bool:
        """Return True if the output of a tick still fits into the next blocks."""
        if self._frames and self._has_events is (output.events is None):
            return False  # A block states which ticks had no events: those whose events are unknown are in none.
        if self._frames and (self.aux.is_known is (output.aux is None) or self.aux.size_bytes >= AUX_RAW_BYTES):
            return False
        if self._events and self._events_bytes + len(output.events or b"") > EVENTS_RAW_BYTES:
            return False
        if self._changes_bytes >= CHANGES_RAW_BYTES or (self._frames and isinstance(output.changes, ManyChanges)):
            return False
        return self._frames_bytes + len(output.frame) <= FRAMES_RAW_BYTES

    def take(self, output: TickOutput) -> None:
        """Take the output of the next tick, and its frame. Many changes are taken out of it: nothing else keeps them."""
        self._take_output(output)
        self._add_frames([output.frame], len(output.frame))
        if isinstance(output.changes, ManyChanges):
            output.changes = None

    @property
    def is_full(self) -> bool:
        """True if no other tick may be taken: the changes of the last one are many, and a block of their own."""
        return bool(self._changes) and isinstance(self._changes[-1], ManyChanges)

    def take_frames(self, frames: list[bytes]) -> list[bytes]:
        """Take frames of the next ticks, which have no other output, while there is room; return the rest.

        A frame larger than a block gets a block alone.
        """
        self.aux.is_known = False  # They may be known of the tick before the first one.
        room = FRAMES_RAW_BYTES - self._frames_bytes
        ends = list(itertools.accumulate(map(len, frames)))
        count = len(ends) if ends[-1] <= room else bisect.bisect_right(ends, room)
        if not count and not self._frames:
            count = 1
        if count:
            self._add_frames(frames[:count], ends[count - 1])
        return frames[count:]

    def _add_frames(self, frames: list[bytes], size: int) -> None:
        if not self._frames:
            self.since_s = time.monotonic()
        self._frames += frames
        self._frames_bytes += size

    def take_start(self, output: TickOutput) -> list[Group]:
        """Take the output of the tick before the first frame; return the blocks that should be written at once.

        These are its events: no step makes them again, so they should not wait.
        """
        if output.row is not None:
            self._rows.append(output.row)
        tick = self.first_tick - 1
        self.aux.take(tick, output.aux)
        groups: list[Group] = [*self.aux.cut(tick, 1)]
        if output.events is not None:
            groups.insert(0, [events_piece(tick, encode_events(tick, 1, [output.events]))])
        return groups

    def _take_output(self, output: TickOutput) -> None:
        if output.row is not None:
            self._rows.append(output.row)
        self._has_events, self._last_events = output.events is not None, output.events
        if output.events:
            self._events.append(output.events)
            self._events_bytes += len(output.events)
        self.aux.take(self.first_tick + len(self._frames), output.aux)
        if output.changes is None:
            self._lost_changes = True
        elif not self._lost_changes:
            self._changes.append(output.changes)
            self._changes_bytes += output.changes.size_bytes

    def after_full(self, *, with_events: bool) -> list[Group]:
        """The blocks after the full keyframe of the last tick that was cut: all sections and, if asked for, its events.

        A ring writes the events again there: the file that has them is removed before that one.
        """
        tick = self.first_tick - 1
        groups: list[Group] = [*self.aux.whole(tick)]
        if with_events and self._last_events is not None:
            groups.insert(0, [events_piece(tick, encode_events(tick, 1, [self._last_events]))])
        return groups

    def begin_changes(self, snapshot: Snapshot, *, keeps_words: bool) -> None:
        """Start the change log from this state, which is that of the last tick that was taken.

        keeps_words: the changes do not hold the values before them.
        """
        encoder = self._change_encoder
        if encoder is not None and encoder.layout.hash_seed == snapshot.layout.hash_seed:
            encoder.restart(snapshot.arena)
        else:
            self._change_encoder = ChangeEncoder(snapshot.layout, snapshot.arena if keeps_words else None)
        self._lost_changes = False

    def release(self) -> None:
        """Release the memory for changes: no other ones will be encoded."""
        self._change_encoder = None

    def cut(self) -> list[Group]:
        """Encode everything that waits as groups of blocks, and clear it."""
        count, first = len(self._frames), self.first_tick
        groups: list[Group] = [[frames_piece(first, count, b"".join(self._frames))]]
        begin = 0
        for end in range(1, len(self._rows) + 1):
            is_large = (end - begin) * len(self._rows[begin].names) >= TELEMETRY_FIGURES
            if is_large or end == len(self._rows) or self._rows[end].names != self._rows[begin].names:
                groups.append([_telemetry(self._rows[begin:end])])
                begin = end
        if self._has_events:
            groups.append([events_piece(first, encode_events(first, count, self._events))])
        groups += self.aux.cut(first, count)
        if self._changes and self._change_encoder is not None:
            groups.append(self._cut_changes(first, self._change_encoder))
        self.first_tick += count
        self._frames.clear()
        self._rows.clear()
        self._events.clear()
        self._changes.clear()
        self._frames_bytes = self._events_bytes = self._changes_bytes = 0
        return groups

    def _cut_changes(self, first: int, encoder: ChangeEncoder) -> Group:
        many = self._changes[-1]
        if isinstance(many, ManyChanges):
            return LargeGroup(BlockKind.CHANGES, many_changes_payload(encoder, first, many), first)
        return changes_pieces(first, encoder.encode(first, self._changes))


def _telemetry(rows: list[Row]) -> Piece:
    ticks = [row.tick for row in rows]
    payload = encode_telemetry(ticks, rows[0].names, [row.values for row in rows])
    return telemetry_piece(ticks[0], payload)
