"""The marks of a tape in the server: counted into bins for the time bar, and found one after the other.

A run of any length is a few kilobytes for the page: it asks for as many bins as it has pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from recorder.format.blocks.telemetry_block import TICK, join_telemetry
from replayer.view.early_marks import EarlyMarks

BINS_MAX = 4000
EPISODES_MAX = 2000  # Told of one stretch.
TROUBLES_MAX = 200
TICK_MAX = 2**63 - 1
_NO_TICKS = np.zeros(0, np.int64)

Ticks = npt.NDArray[np.int64]


class MarkIndex:
    """The parts that tape_marks reads, as far as they are known."""

    def __init__(self) -> None:
        self._parts: dict[str, Any] = {}
        self._early = EarlyMarks()

    def add(self, part: dict[str, Any]) -> None:
        """Take a part."""
        self._parts |= part
        self._early.forget(TICK_MAX if "telemetry" in part else -1, TICK_MAX if "event_ticks" in part else -1)

    def foresee(self, rows: Mapping[int, Mapping[str, int | float]], events: Mapping[int, Mapping[str, int]]) -> None:
        """Take telemetry and numbers of events, by tick, that the tape does not have yet: what it has takes their place."""
        self._early.add(rows, events)

    def extend(self, added: Mapping[str, Any]) -> None:
        """Take what was added to a tape that is being recorded: marks after those that are known, and all keyframes."""
        parts = self._parts
        for name, marks in added.items():
            match name:
                case "input_ticks":
                    parts[name] = np.concatenate([self._ticks(name), marks])
                case "event_ticks":
                    known = dict(parts.get(name, {}))
                    for kind, ticks in marks.items():
                        known[kind] = np.concatenate([known.get(kind, _NO_TICKS), ticks])
                    parts[name] = known
                case "violations":
                    parts[name] = [*parts.get(name, []), *marks][:TROUBLES_MAX]
                case "telemetry":
                    parts[name] = join_telemetry([parts[name], marks] if name in parts else [marks])
                    self._early.forget(int(marks[TICK][-1]), -1)
                case "events_until":
                    self._early.forget(-1, marks)
                case _:
                    parts[name] = marks

    @property
    def checked(self) -> dict[str, Any]:
        """Status and damage, once all blocks have been read."""
        return dict(self._parts.get("checked", {}))

    @property
    def findings(self) -> list[tuple[int, str]]:
        """Tick and text of what was found before the page was opened."""
        return [*self._parts.get("dumps", []), *self._parts.get("violations", [])]

    @property
    def telemetry_names(self) -> list[str]:
        """The columns of the telemetry, without "tick"."""
        return list(
            dict.fromkeys([*(name for name in self._parts.get("telemetry", {}) if name != TICK), *self._early.figures])
        )

    def interval_of(self, tick: int) -> int:
        """The number of the keyframe interval that a tick is in."""
        return int(np.searchsorted(self._ticks("keyframe_ticks"), tick, "right"))

    def tracks(self, first: int, last: int, bins: int) -> dict[str, Any]:
        """The numbers of marks of ticks first to last, in so many bins of a whole number of ticks each."""
        width = max(1, math.ceil((last - first + 1) / max(1, min(bins, BINS_MAX))))
        edges = np.arange(first, last + width + 1, width)

        def counts(ticks: Ticks) -> list[int]:
            inside = ticks[np.searchsorted(ticks, first) : np.searchsorted(ticks, last, "right")]
            return [int(count) for count in np.histogram(inside, edges)[0]]

        events = self._event_ticks()
        episodes = [one for one in self._parts.get("episodes", []) if one[1] >= first and one[0] <= last]
        return {
            "first": first,
            "last": last,
            "width": width,
            "keyframes": counts(self._ticks("keyframe_ticks")),
            "inputs": counts(self._ticks("input_ticks")),
            "input_count": len(self._ticks("input_ticks")),
            "events": {kind: counts(ticks) for kind, ticks in events.items()},
            "event_counts": {kind: len(ticks) for kind, ticks in events.items()},
            "episodes": episodes[:EPISODES_MAX],
            "episode_count": len(self._parts.get("episodes", [])),
            "differences": counts(self._difference_ticks()),
            "difference": self._difference_facts(),
            "telemetry": self.telemetry_names,
            "complete": "checked" in self._parts or "marks_error" in self._parts,
            "error": self._parts.get("marks_error"),
        }

    def jump(self, kind: str, name: str | None, tick: int, *, back: bool) -> int | None:
        """The next mark of a kind after a tick, or the one before it; None if there is none.

        kind: "keyframe", "input", "event" (name: of which kind; None for any), "episode" or "difference".
        """
        ticks = self._ticks_of(kind, name)
        at = int(np.searchsorted(ticks, tick, "left") - 1 if back else np.searchsorted(ticks, tick, "right"))
        return int(ticks[at]) if 0 <= at < len(ticks) else None

    def telemetry(self, name: str) -> tuple[Ticks, npt.NDArray[np.float64]] | None:
        """Ticks and values of a column; None if there is no such column."""
        columns, early = self._parts.get("telemetry", {}), self._early.figures.get(name, {})
        if name == TICK or (name not in columns and not early):
            return None
        known = (columns[TICK], columns[name]) if name in columns else (_NO_TICKS, np.zeros(0))
        ticks = np.concatenate([known[0], np.fromiter(early, np.int64)])
        return ticks, np.concatenate([np.asarray(known[1], np.float64), np.array([*early.values()], np.float64)])

    def _event_ticks(self) -> dict[str, Ticks]:
        """The ticks of events by kind, those that are not on the tape yet behind the others."""
        found: dict[str, Ticks] = dict(self._parts.get("event_ticks", {}))
        for kind, ticks in self._early.events.items():
            found[kind] = np.concatenate([found.get(kind, _NO_TICKS), np.array(ticks, np.int64)])
        return found

    def _ticks_of(self, kind: str, name: str | None) -> Ticks:
        events = self._event_ticks() if kind == "event" else {}
        match kind:
            case "keyframe":
                return self._ticks("keyframe_ticks")
            case "input":
                return self._ticks("input_ticks")
            case "event" if name is not None:
                return events.get(name, _NO_TICKS)
            case "event":
                return np.sort(np.concatenate([_NO_TICKS, *events.values()]))
            case "episode":
                return np.array([one[0] for one in self._parts.get("episodes", [])], np.int64)
            case "difference":
                return self._difference_ticks()
        return _NO_TICKS

    def _ticks(self, part: str) -> Ticks:
        found: Ticks = self._parts.get(part, _NO_TICKS)
        return found

    def _difference_ticks(self) -> Ticks:
        found: Ticks = self._parts.get("difference", {}).get("ticks", _NO_TICKS)
        return found

    def _difference_facts(self) -> dict[str, Any] | None:
        known = self._parts.get("difference")
        if known is None or "ticks" not in known:
            return None if known is None else dict(known)
        return {**{key: value for key, value in known.items() if key != "ticks"}, "count": len(known["ticks"])}


def curve_points(ticks: Ticks, values: npt.NDArray[np.float64], first: int, last: int, bins: int) -> list[list[Any]]:
    """Points of a curve between two ticks: tick and value. At most two a bin, its least and its greatest.

    Where a tick in between has no value, the next point is None: no line is drawn over what is not known.
    """
    start = max(0, int(np.searchsorted(ticks, first)) - 1)
    end = int(np.searchsorted(ticks, last, "right")) + 1
    ticks, values = ticks[start:end], values[start:end]
    position = np.arange(len(ticks))
    bins = max(1, min(bins, BINS_MAX))
    if len(ticks) > 2 * bins:
        edges = np.linspace(0, len(ticks), bins + 1).astype(np.int64)
        picked: set[int] = set()
        for begin, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            part = values[begin:stop]
            picked |= {begin + int(part.argmin()), begin + int(part.argmax())}
        position = np.array(sorted(picked))
    points: list[list[Any]] = []
    missing_before = np.concatenate([[0], np.cumsum(np.diff(ticks) - 1)]) if len(ticks) else np.zeros(0)
    for number, at in enumerate(position.tolist()):
        if number and missing_before[at] > missing_before[position[number - 1]]:
            points.append([int(ticks[position[number - 1]]) + 1, None])
        value = float(values[at])
        points.append([int(ticks[at]), value if math.isfinite(value) else None])
    return points
