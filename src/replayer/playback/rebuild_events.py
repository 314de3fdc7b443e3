"""Rebuild the events that are not on a tape, by re-simulating their ticks.

Rebuilt events are exact: a tick counts only if its state has the recorded hash, and its events pass through the same
encoding as those on the tape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorder.errors import DesyncError, MissingTickError, SimulationFailedError
from recorder.exception_text import raised_text
from recorder.format.blocks.events_block import Event, EventsOfTicks, decode_events, encode_events, encode_tick
from recorder.format.segments.block_location import TICK_MAX
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, UnfitSimulationError, make_simulation
from replayer.tape.stored_events import stored_events, ticks_with_events_due
from replayer.tape.tape import Tape
from sim.kernel.plain_data import PlainEncoder
from sim.kernel.simulation import Simulation, events_of, request_events, subject_of


def rebuild_events(
    tape: Tape,
    world: Factory | None = None,
    first: int | None = None,
    last: int | None = None,
    *,
    stored: bool = True,
) -> Iterator[tuple[int, Event]]:
    """Yield all events of the ticks first to last (by default of the complete tape) with their ticks, in order.

    Events on the tape are read, the others are rebuilt from the nearest keyframes; memory does not grow with the tape.
    world: makes the simulation, for a tape that names no registered world. stored: False rebuilds all events, to
    compare them, or because the simulation emits more of them than when it was recorded.

    Raises, when it reaches the tick, MissingTickError for a tick whose frame is lost or whose start cannot be rebuilt;
    DesyncError if re-simulating does not give the recorded states, SimulationFailedError if the simulation raises,
    CorruptError for damaged frames; UnfitSimulationError, UnknownWorldError or ConfigError if there is no suitable
    simulation.
    """
    due_first, due_last = ticks_with_events_due(tape.recording)
    next_tick = due_first if first is None else max(first, due_first)
    last_tick = due_last if last is None else min(last, due_last)
    rebuilder = _EventRebuilder(tape, world)
    on_tape = stored_events(tape.recording, first or 0, TICK_MAX if last is None else last)
    if tape.has_function_for("events"):
        yield from _events_of_function(on_tape, next_tick, last_tick)
        return
    for block in on_tape if stored else ():
        yield from rebuilder.events(next_tick, min(block.first_tick - 1, last_tick))
        yield from _flatten(block.found)
        next_tick = max(next_tick, block.last_tick + 1)
    yield from rebuilder.events(next_tick, last_tick)


def _events_of_function(blocks: Iterator[EventsOfTicks], next_tick: int, last_tick: int) -> Iterator[tuple[int, Event]]:
    """The events on a tape, all of them. Raises UnfitSimulationError at the end if some are missing."""
    missing: list[int] = []
    for block in blocks:
        missing += range(next_tick, min(block.first_tick, next_tick + 1))
        yield from _flatten(block.found)
        next_tick = block.last_tick + 1
    missing += range(next_tick, min(last_tick + 1, next_tick + 1))
    if missing:
        raise UnfitSimulationError(
            f"the events of tick {missing[0]:,} are not on the tape, and a function made them (events=) that is not on it"
        )


def _flatten(events_by_tick: Any) -> Iterator[tuple[int, Event]]:
    return ((tick, event) for tick, events in events_by_tick for event in events)


class _EventRebuilder:
    """Rebuilds events; the simulation is made when the first range of ticks is requested."""

    def __init__(self, tape: Tape, world: Factory | None) -> None:
        self._tape = tape
        self._world = world
        self._cursor: Cursor | None = None
        self._encoder = PlainEncoder()

    def events(self, first_tick: int, last_tick: int) -> Iterator[tuple[int, Event]]:
        """The events of these ticks; none for an empty range."""
        if first_tick > last_tick:
            return
        if first_tick == 0:
            yield from self._events_of(self._at_start(), 0)
            first_tick = 1
        if first_tick > last_tick:
            return
        cursor = self._placed(first_tick - 1)
        for tick in range(first_tick, last_tick + 1):
            self._advance(cursor)
            yield from self._events_of(cursor.simulation, tick)

    def _make(self) -> Simulation:
        simulation = make_simulation(self._tape, self._world)
        if request_events(simulation) is None:
            raise UnfitSimulationError(
                f"{type(subject_of(simulation)).__name__} has no events() to rebuild events with"
            )
        return simulation

    def _at_start(self) -> Simulation:
        """A fresh simulation: creating it emits the events of tick 0."""
        simulation = self._make()
        if simulation.state.hash() != self._tape.state_hash(0):
            raise MissingTickError(0, "its events cannot be rebuilt: a fresh simulation starts in a different state")
        return simulation

    def _placed(self, tick: int) -> Cursor:
        """The cursor, moved to tick from its current tick or from a keyframe that is nearer."""
        if self._cursor is None:
            self._cursor = Cursor(self._tape, self._make())
        cursor, nearest = self._cursor, next(self._tape.keyframes_at_or_before(tick), None)
        if cursor.tick is None or cursor.tick > tick or (nearest is not None and nearest.tick > cursor.tick):
            cursor.place_before(tick)
        while cursor.tick != tick:
            self._advance(cursor)
        return cursor

    def _advance(self, cursor: Cursor) -> None:
        cursor.advance()
        assert cursor.tick is not None
        if (hashes := cursor.difference()) is not None:
            raise DesyncError(cursor.tick, *hashes)

    def _events_of(self, simulation: Simulation, tick: int) -> Iterator[tuple[int, Event]]:
        """The events that the simulation emits at its current tick, encoded and decoded as on a tape."""
        emit = events_of(simulation)
        assert emit is not None
        try:
            encoded = encode_tick(self._encoder, tick, emit())
        except Exception as error:
            raise SimulationFailedError(tick, raised_text("events()", error)) from error
        return _flatten(decode_events(encode_events(tick, 1, [encoded]), tick, 0).found)
