"""What a simulation gives out beside its state: the figures and the events of a tick, as it tells them.

Both are taken on the simulation's thread, at once: they may be views of what the next step changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import attrs

from recorder.format.events import encode_tick
from recorder.format.telemetry import Row, make_row
from sim.kernel.plain_data import PlainEncoder
from sim.kernel.simulation import Simulation, ask_for_events, inner_of, tells_unasked


@attrs.define(eq=False)
class TickOutput:
    """What one tick has brought, for the writer.

    Attributes:
        row: of figures; None if the simulation gives none.
        events: as an EVENTS block has them, empty if nothing happened; None if the simulation tells of none.
        frame: of the tick; empty for the tick that a recording starts with.
    """

    row: Row | None
    events: bytes | None
    frame: bytes = b""

    def beside(self, frame: bytes) -> Self:
        """The same with the frame of its tick."""
        self.frame = frame
        return self

    def __len__(self) -> int:
        """How many bytes wait with it."""
        return len(self.frame) + len(self.events or b"")


class Outputs:
    """Asks a simulation for what it gives out."""

    def __init__(self, simulation: Simulation, *, events: bool) -> None:
        self._telemetry: Callable[[], Any] | None = getattr(simulation, "telemetry", None)
        self._events = ask_for_events(simulation) if events else None
        self._name = type(inner_of(simulation)).__name__
        self._encoder = PlainEncoder()

    @classmethod
    def of(cls, simulation: Simulation, event_stream: Any = None) -> Self | None:
        """What asks this simulation; None if it gives nothing out, which is then all that a tick pays for.

        event_stream: as in META, whether it is asked for events; None, or what a tape may say else, leaves it to the
        simulation.
        """
        wanted = event_stream if isinstance(event_stream, bool) else tells_unasked(simulation)
        found = cls(simulation, events=wanted)
        return None if found._telemetry is None and found._events is None else found

    def take(self, tick: int, *, made: bool = True) -> TickOutput:
        """What the tick has brought; made: just now, else what happened in it is no longer known.

        Raises TypeError or ValueError for what cannot be recorded, and whatever the simulation raises.
        """
        row = make_row(tick, self._telemetry()) if self._telemetry is not None else None
        return TickOutput(row, self._encoded(tick) if made and self._events is not None else None)

    def _encoded(self, tick: int) -> bytes:
        assert self._events is not None
        events = self._events()
        try:
            return encode_tick(self._encoder, tick, events)
        except TypeError as error:
            raise TypeError(f"events() of {self._name}, tick {tick}: {error}") from None
        except (ValueError, OverflowError) as error:
            raise ValueError(f"events() of {self._name}, tick {tick}: {error}") from None
