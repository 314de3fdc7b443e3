"""Make the events of ticks again that are not on the tape, by re-simulating these ticks.

Exact: events are what a step tells of itself, a rebuilt tick counts only if its state has the recorded hash, and what
comes out goes through the same encoding as on the tape.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorder.errors import DesyncError, MissingTickError, SimulationFailedError
from recorder.exception_text import raised_text
from recorder.format.blocks.events_block import Event, decode_events, encode_events, encode_tick
from recorder.format.segments.block_location import TICK_MAX
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, UnfitSimulationError, make_simulation
from replayer.tape.stored_events import stored_events, ticks_with_events_due
from replayer.tape.tape import Tape
from sim.kernel.plain_data import PlainEncoder
from sim.kernel.simulation import Simulation, events_of, inner_of, request_events


def rebuild_events(
    tape: Tape,
    world: Factory | None = None,
    first: int | None = None,
    last: int | None = None,
    *,
    stored: bool = True,
) -> Iterator[tuple[int, Event]]:
    """All events of the ticks first to last (by default of the whole tape), with their ticks, in order.

    What is on the tape is read, the rest is made again from the nearest keyframes; memory does not grow with the tape.
    world: makes the simulation, for a tape that names no registered world. stored: False makes all of it again, to
    compare, or because the simulation has learnt to tell more since.

    Raises, when it gets there, MissingTickError for a tick whose frame is lost, or whose start cannot be had again;
    DesyncError if re-simulating does not give the recorded states, SimulationFailedError if the simulation raises,
    CorruptError for damaged frames; UnfitSimulationError, UnknownWorldError or ConfigError without a simulation that
    can do it.
    """
    due_first, due_last = ticks_with_events_due(tape.recording)
    next_tick = due_first if first is None else max(first, due_first)
    last_tick = due_last if last is None else min(last, due_last)
    again = _Again(tape, world)
    on_tape = stored_events(tape.recording, first or 0, TICK_MAX if last is None else last)
    for told in on_tape if stored else ():
        yield from again.events(next_tick, min(told.first_tick - 1, last_tick))
        yield from _each(told.found)
        next_tick = max(next_tick, told.last_tick + 1)
    yield from again.events(next_tick, last_tick)


def _each(found: Any) -> Iterator[tuple[int, Event]]:
    return ((tick, event) for tick, events in found for event in events)


class _Again:
    """Makes events again; the simulation is only made when there is something to do."""

    def __init__(self, tape: Tape, world: Factory | None) -> None:
        self._tape = tape
        self._world = world
        self._cursor: Cursor | None = None
        self._encoder = PlainEncoder()

    def events(self, first_tick: int, last_tick: int) -> Iterator[tuple[int, Event]]:
        """Those of these ticks; none for an empty range."""
        if first_tick > last_tick:
            return
        if first_tick == 0:
            yield from self._told(self._at_start(), 0)
            first_tick = 1
        if first_tick > last_tick:
            return
        cursor = self._placed(first_tick - 1)
        for tick in range(first_tick, last_tick + 1):
            self._advance(cursor)
            yield from self._told(cursor.simulation, tick)

    def _made(self) -> Simulation:
        simulation = make_simulation(self._tape, self._world)
        if request_events(simulation) is None:
            raise UnfitSimulationError(f"{type(inner_of(simulation)).__name__} has no events() to make them again with")
        return simulation

    def _at_start(self) -> Simulation:
        """A simulation that was just made: the events of tick 0 are those of its making."""
        simulation = self._made()
        if simulation.state.hash() != self._tape.state_hash(0):
            raise MissingTickError(0, "its events cannot be made again: a fresh simulation starts in another state")
        return simulation

    def _placed(self, tick: int) -> Cursor:
        """A cursor at tick: where it stands already, if no keyframe is nearer."""
        if self._cursor is None:
            self._cursor = Cursor(self._tape, self._made())
        cursor, nearest = self._cursor, next(self._tape.keyframes_at_or_before(tick), None)
        if cursor.tick is None or cursor.tick > tick or (nearest is not None and nearest.tick > cursor.tick):
            cursor.place_before(tick)
        while cursor.tick != tick:
            self._advance(cursor)
        return cursor

    def _advance(self, cursor: Cursor) -> None:
        cursor.advance()
        assert cursor.tick is not None
        if (found := cursor.difference()) is not None:
            raise DesyncError(cursor.tick, *found)

    def _told(self, simulation: Simulation, tick: int) -> Iterator[tuple[int, Event]]:
        """What the simulation tells of the tick at which it stands, as it comes from a tape."""
        tell = events_of(simulation)
        assert tell is not None
        try:
            encoded = encode_tick(self._encoder, tick, tell())
        except Exception as error:
            raise SimulationFailedError(tick, raised_text("events()", error)) from error
        return _each(decode_events(encode_events(tick, 1, [encoded]), tick, 0).found)
