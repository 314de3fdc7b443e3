"""The outputs of a simulation besides its state: telemetry, events and sections of each tick.

All are encoded at once, on the simulation's thread: they may be views of memory that the next step changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Self

import attrs

from recorder.format.blocks.aux_block import Encoded, encode_sections
from recorder.format.blocks.events_block import encode_tick
from recorder.format.blocks.telemetry_block import Row, make_row
from recorder.session.outputs.output_functions import Function, OutputFunctions
from recorder.writer.jobs import TickOutput
from sim.kernel.changes.many_changes import MakeRoom, ManyChanges
from sim.kernel.changes.row_changes import ChangeSource
from sim.kernel.changes.rows_of_ticks import RowsOfTicks
from sim.kernel.changes.tick_changes import ArenaWords, TickSource
from sim.kernel.hooks import HasTelemetry, hook
from sim.kernel.plain_data import PlainEncoder
from sim.kernel.simulation import Simulation, emits_unrequested_events, inner_of, request_events
from sim.kernel.state import State

EVENTS, TELEMETRY, AUX = "events", "telemetry", "aux"  # The names of the options for functions.


@attrs.frozen
class Sections:
    """The sections of one tick.

    Attributes:
        values: encoded, by name; the same object as before if nothing changed. None if they are unknown.
        new_bytes: the size of those that changed.
    """

    values: Encoded | None
    new_bytes: int


class OutputCollector:
    """Collects the outputs of a simulation, from its own members or from functions of the user in their place.

    Attributes:
        functions: those of the user; None without any.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        events: bool,
        changes: TickSource | None,
        functions: OutputFunctions | None = None,
    ) -> None:
        self._simulation = simulation
        self._changes = changes
        self.functions = functions
        self.logs_changes = changes is not None
        self.keeps_words = changes is not None and not changes.knows_earlier  # See KeyframeJob.
        self._rows: RowsOfTicks | None = None
        self.wants_full = False  # True if changes are unknown until the next full keyframe.
        reporting = hook(simulation, HasTelemetry)
        self._telemetry: Callable[[], Any] | None = reporting.telemetry if reporting is not None else None
        self._events = request_events(simulation) if events else None
        if functions is not None:
            self._telemetry = None if TELEMETRY in functions else self._telemetry
            self._events = None if EVENTS in functions else self._events
        self._name = type(inner_of(simulation)).__name__
        self._encoder = PlainEncoder()

    @classmethod
    def of(
        cls,
        simulation: Simulation,
        event_stream: Any = None,
        make_changes: Callable[[State], TickSource] | None = None,
        functions: OutputFunctions | None = None,
    ) -> Self | None:
        """Make the collector of a simulation; return None if it has no outputs, which then cost no time.

        event_stream: as in META, True to record events; any value but a bool leaves that to the simulation.
        make_changes: makes the source of each tick's changes, if they are recorded. functions: those of the user.
        """
        collects_events = event_stream if isinstance(event_stream, bool) else emits_unrequested_events(simulation)
        changes = make_changes(simulation.state) if make_changes is not None else None
        collector = cls(simulation, events=collects_events, changes=changes, functions=functions)
        has_outputs = collector._telemetry is not None or collector._events is not None or changes is not None
        return collector if has_outputs or functions is not None else None

    def take(self, tick: int, *, made: bool = True) -> TickOutput:
        """Take the outputs of a tick. made: the tick was made just now; otherwise its events are no longer known.

        Raises TypeError or ValueError for outputs that cannot be recorded, OutputFunctionError for a function of the
        user that changes the object, and any exception of the simulation.
        """
        made_by_functions = self.functions.call(tick) if self.functions is not None else {}
        row = made_by_functions.get(TELEMETRY)
        if self._telemetry is not None:
            row = make_row(tick, self._telemetry())
        events = made_by_functions.get(EVENTS) if made else None
        if made and self._events is not None:
            events = self._encoded(tick)
        aux = made_by_functions.get(AUX) or Sections(None, 0)
        if self._changes is None:
            return TickOutput(row, events, None, aux.values, aux.new_bytes)
        changes = self._changes.take(self._simulation.state)
        self.wants_full = changes is None
        if self._rows is not None and isinstance(changes, (ArenaWords, ManyChanges)):
            self._rows.add(changes)
        return TickOutput(row, events, changes, aux.values, aux.new_bytes)

    def make_room_by(self, make_room: MakeRoom) -> None:
        """Let make_room be called with the size of many changed words before they are taken."""
        if self._changes is not None:
            self._changes.make_room = make_room

    def rows_since(self, state: State) -> ChangeSource:
        """Make the source of the rows that changed since a keyframe, where each tick is compared with the one before."""
        self._rows = RowsOfTicks(state)
        return self._rows

    def restart(self) -> None:
        """Take changes from the current state on: a full keyframe of it was put."""
        if self._changes is not None:
            self._changes.reset(self._simulation.state)
            self.wants_full = False

    def close(self) -> None:
        """Stop collecting changes."""
        if self._changes is not None:
            self._changes.close()

    def outcome(self, end: Any) -> Any:
        """The end of the tape with what functions of the user raised."""
        return end if self.functions is None else self.functions.outcome(end)

    def _encoded(self, tick: int) -> bytes:
        assert self._events is not None
        events = self._events()
        try:
            return encode_tick(self._encoder, tick, events)
        except TypeError as error:
            raise TypeError(f"events() of {self._name}, tick {tick}: {error}") from None
        except (ValueError, OverflowError) as error:
            raise ValueError(f"events() of {self._name}, tick {tick}: {error}") from None


def functions_of(
    simulation: Simulation,
    given: Mapping[str, Function | None],
    notify: Callable[[str], None],
    path: str | os.PathLike[str],
) -> OutputFunctions | None:
    """The functions of the user for the outputs of a tick; None if there are none. given: by the names of the options.

    notify: shows a notice to the user. path: of the tape.
    """
    encoder = PlainEncoder()

    def make_telemetry(tick: int, figures: Any) -> Row:
        return make_row(tick, figures, "the function")

    def make_events(tick: int, events: Any) -> bytes:
        return encode_tick(encoder, tick, events)

    present: dict[str, bytes] = {}

    def make_aux(_: int, sections: Any) -> Sections:
        nonlocal present
        encoded = encode_sections(encoder, sections)
        new_bytes = sum(len(value) for name, value in encoded.items() if present.get(name) != value)
        if encoded != present:  # Equal values are kept alive once.
            before = present
            present = {name: before[name] if before.get(name) == one else one for name, one in encoded.items()}
        return Sections(present, new_bytes)

    kinds: dict[str, Callable[[int, Any], Any]] = {TELEMETRY: make_telemetry, EVENTS: make_events, AUX: make_aux}
    functions = {name: (function, kinds[name]) for name, function in given.items() if function is not None}
    return OutputFunctions(simulation, functions, notify, path) if functions else None
