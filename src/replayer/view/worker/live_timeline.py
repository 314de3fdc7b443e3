"""A timeline that also has what the simulation gave in the step to its tick: figures and events, before they are on the tape.

The recorder writes telemetry and events in blocks, up to a second after their ticks. The frame of a tick is there at once, and
the step that is run again from it gives them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from recorder.format.blocks.events_block import Event, decode_events, encode_events
from recorder.session.outputs.tick_output import OutputCollector
from replayer.playback.cursor import Arrival, Cancelled, Cursor, Progress
from replayer.timeline.timeline import Timeline
from sim.kernel.simulation import request_events


@attrs.frozen
class StepOutputs:
    """What the simulation gave after a step.

    Attributes:
        figures: of its telemetry(), by name; empty without one.
        events: of its events(); None if it has none, or they are not recorded.
    """

    figures: Mapping[str, int | float]
    events: list[Event] | None


class LiveTimeline(Timeline):
    """A timeline whose simulation is asked for its outputs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Arguments as those of Timeline, and raises as it does."""
        super().__init__(*arguments, **options)
        self._stepped_to: int | None = None  # The tick that the last step of the cursor led to.
        self._collector: OutputCollector | None = None
        self._collects_for: Cursor | None = None

    @property
    def records_events(self) -> bool:
        """True if the events that the simulation itself gives are recorded."""
        return self.tape.meta.get("event_stream") is True and not self.tape.has_function_for("events")

    @property
    def has_outputs(self) -> bool:
        """True if the simulation gives figures or events that are recorded."""
        return self._ready_collector() is not None

    def outputs(self) -> StepOutputs | None:
        """The outputs at the present tick; None if it was loaded, or the simulation raises: then only the tape has them."""
        cursor, collector = self._cursor, self._ready_collector()
        if cursor is None or collector is None or cursor.tick is None or cursor.tick != self._stepped_to:
            return None
        try:
            taken = collector.take(cursor.tick)
        except Exception:  # noqa: BLE001 - the methods are the user's; the recording has told what they raise
            return None
        row = None if self.tape.has_function_for("telemetry") else taken.row
        figures = dict(zip(row.names, row.values, strict=True)) if row is not None else {}
        if taken.events is None:
            return StepOutputs(figures, None)
        decoded = decode_events(encode_events(cursor.tick, 1, [taken.events]), cursor.tick, 0)
        return StepOutputs(figures, [event for _, events in decoded.found for event in events])

    def _ready_collector(self) -> OutputCollector | None:
        """The collector of the cursor's simulation; None if it has no outputs."""
        if self._cursor is not None and self._collects_for is not self._cursor:
            self._collects_for = self._cursor
            self._collector = OutputCollector.of(self._cursor.simulation, self.records_events)
        return self._collector

    def _make_cursor(self) -> Cursor:
        made = super()._make_cursor()
        if self.records_events:
            request_events(made.simulation)  # Before its first step.
        return made

    def _go(
        self, cursor: Cursor, tick: int, progress: Progress | None = None, cancelled: Cancelled | None = None
    ) -> Arrival:
        before, is_own = self._stepped_to, cursor is self._cursor
        if is_own:
            self._stepped_to = None
        arrival = super()._go(cursor, tick, progress, cancelled)
        if is_own:
            self._stepped_to = arrival.tick if arrival.simulated_ticks or arrival.tick == before else None
        return arrival
