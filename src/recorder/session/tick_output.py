"""What a simulation gives out beside its state: the figures and the events of a tick, as it tells them.

Both are taken on the simulation's thread, at once: they may be views of what the next step changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from recorder.format.blocks.events_block import encode_tick
from recorder.format.blocks.telemetry_block import make_row
from recorder.writer.jobs import TickOutput
from sim.kernel.changes.tick_changes import TickSource
from sim.kernel.hooks import HasTelemetry, hook
from sim.kernel.plain_data import PlainEncoder
from sim.kernel.simulation import Simulation, emits_unrequested_events, inner_of, request_events
from sim.kernel.state import State


class OutputCollector:
    """Asks a simulation for what it gives out."""

    def __init__(self, simulation: Simulation, *, events: bool, changes: TickSource | None) -> None:
        self._simulation = simulation
        self._changes = changes
        self.logs_changes = changes is not None
        self.wants_full = False  # Whether what changes is not known until there is another full keyframe.
        figures = hook(simulation, HasTelemetry)
        self._telemetry: Callable[[], Any] | None = figures.telemetry if figures is not None else None
        self._events = request_events(simulation) if events else None
        self._name = type(inner_of(simulation)).__name__
        self._encoder = PlainEncoder()

    @classmethod
    def of(
        cls, simulation: Simulation, event_stream: Any = None, make_changes: Callable[[State], TickSource] | None = None
    ) -> Self | None:
        """What asks this simulation; None if it gives nothing out, which is then all that a tick pays for.

        event_stream: as in META, whether it is asked for events; None, or what a tape may say else, leaves it to the
        simulation. make_changes: what tells of the changes of each tick, where they are recorded.
        """
        wanted = event_stream if isinstance(event_stream, bool) else emits_unrequested_events(simulation)
        changes = make_changes(simulation.state) if make_changes is not None else None
        found = cls(simulation, events=wanted, changes=changes)
        return None if found._telemetry is None and found._events is None and changes is None else found

    def take(self, tick: int, *, made: bool = True) -> TickOutput:
        """What the tick has brought; made: just now, else what happened in it is no longer known.

        Raises TypeError or ValueError for what cannot be recorded, and whatever the simulation raises.
        """
        row = make_row(tick, self._telemetry()) if self._telemetry is not None else None
        events = self._encoded(tick) if made and self._events is not None else None
        if self._changes is None:
            return TickOutput(row, events)
        changes = self._changes.take(self._simulation.state)
        self.wants_full = changes is None
        return TickOutput(row, events, changes)

    def begin_anew(self) -> None:
        """There is a full keyframe of the state as it is: changes are told from here on."""
        if self._changes is not None:
            self._changes.reset(self._simulation.state)
            self.wants_full = False

    def close(self) -> None:
        """Ask no more."""
        if self._changes is not None:
            self._changes.close()

    def _encoded(self, tick: int) -> bytes:
        assert self._events is not None
        events = self._events()
        try:
            return encode_tick(self._encoder, tick, events)
        except TypeError as error:
            raise TypeError(f"events() of {self._name}, tick {tick}: {error}") from None
        except (ValueError, OverflowError) as error:
            raise ValueError(f"events() of {self._name}, tick {tick}: {error}") from None
