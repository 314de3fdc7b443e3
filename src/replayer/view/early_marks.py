"""Telemetry and events of the last ticks of a recording, until the tape has them: its blocks come up to a second later."""

from __future__ import annotations

from collections.abc import Mapping


class EarlyMarks:
    """What the re-simulation gave of ticks whose blocks are not written yet.

    Attributes:
        figures: by name the values by tick, ascending.
        events: by kind the ticks, ascending; a tick comes once for each event.
    """

    def __init__(self) -> None:
        self.figures: dict[str, dict[int, float]] = {}
        self.events: dict[str, list[int]] = {}
        self._rows_until, self._events_until = -1, -1

    def add(self, rows: Mapping[int, Mapping[str, int | float]], events: Mapping[int, Mapping[str, int]]) -> None:
        """Take what is later than all that is known."""
        for tick, row in sorted(rows.items()):
            for name, value in row.items() if tick > self._rows_until else ():
                self.figures.setdefault(name, {})[tick] = float(value)
            self._rows_until = max(self._rows_until, tick)
        for tick, counts in sorted(events.items()):
            for kind, count in counts.items() if tick > self._events_until else ():
                self.events.setdefault(kind, []).extend([tick] * count)
            self._events_until = max(self._events_until, tick)

    def forget(self, rows_until: int, events_until: int) -> None:
        """Forget telemetry and events up to these ticks: the tape has them. -1: none."""
        self._rows_until, self._events_until = (
            max(self._rows_until, rows_until),
            max(self._events_until, events_until),
        )
        if rows_until >= 0:
            kept = {
                name: {at: value for at, value in found.items() if at > rows_until}
                for name, found in self.figures.items()
            }
            self.figures = {name: found for name, found in kept.items() if found}
        if events_until >= 0:
            left = {kind: [at for at in ticks if at > events_until] for kind, ticks in self.events.items()}
            self.events = {kind: ticks for kind, ticks in left.items() if ticks}
