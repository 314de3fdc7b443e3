"""Describe one tick for the page: inputs, events, fields, rows of a table, values of objects, one exact cell.

What changed is compared with the tick before, one step away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np

from recorder.errors import RecordingError
from recorder.format.blocks.events_block import Event
from replayer.report.seek_text import short_text
from replayer.tape.fields import shown_slots
from replayer.tape.stored_events import stored_events
from replayer.value_text import describe_field, readable_inputs
from replayer.view.states.object_leaves import bits_differ, object_leaves
from replayer.view.states.page_json import page_json, page_text
from replayer.view.states.shown_rows import table_rows
from replayer.view.worker.view_cursor import IsStale, ViewCursor
from sim.kernel.state import Snapshot

EVENTS_MAX = 300
FIELDS_MAX = 400

Query = Mapping[str, Any]  # The wishes of an inspector: "part", "table", "sort", "layer" with "x" and "y", and so on.


class TickDetails:
    """Describes ticks of one tape."""

    def __init__(self, cursor: ViewCursor) -> None:
        self._cursor = cursor

    def describe(self, tick: int, query: Query, is_stale: IsStale) -> dict[str, Any] | None:
        """The facts of a tick as JSON; None if is_stale() became True on the way. Raises as Timeline.seek does."""
        cursor = self._cursor
        if "layer" in query:
            return self._cell(tick, query, is_stale)
        before = None
        if cursor.problem is None and tick > cursor.first_tick:
            if not cursor.walk(tick - 1, is_stale):
                return None
            before, _ = cursor.state(tick - 1)
        if not cursor.walk(tick, is_stale):
            return None
        snapshot, shown = cursor.state(tick)
        facts: dict[str, Any] = {"tick": tick, "shown": shown, "hash": f"{snapshot.hash():016x}", "cell": None}
        match query.get("part"):
            case "tables":
                facts["table"] = table_rows(snapshot, before, query)
            case "object":
                facts["leaves"], facts["more_leaves"] = object_leaves(snapshot, before)
            case "fields":
                facts["fields"] = _fields(snapshot, before)
            case _:
                facts |= self._of_tick(tick, snapshot)
        return facts

    def _of_tick(self, tick: int, snapshot: Snapshot) -> dict[str, Any]:
        tape, shown = self._cursor.tape_of_step(tick), self._cursor.shown
        facts: dict[str, Any] = {"inputs": None, "inputs_error": None, "summary": {}}
        if tick > self._cursor.first_tick:
            try:
                facts["inputs"] = page_json(readable_inputs(tape.frame(tick).inputs))
            except RecordingError as error:
                facts["inputs_error"] = str(error)
        events, facts["events_from"] = self._events(tick)
        kinds = Counter(page_text(str(event.get("kind", ""))) for event in events)
        facts["events"] = [page_json(event) for event in events[:EVENTS_MAX]]
        facts["event_kinds"] = dict(kinds.most_common())
        if shown.world is not None:
            summary = shown.world.summarize(shown.config, snapshot)
            facts["summary"] = {page_text(str(name)): page_text(str(text)) for name, text in summary.items()}
        if shown.has_picture and shown.picture(tick, snapshot) is None and shown.picture_problem is not None:
            facts["summary"] = {"picture": page_text(shown.picture_problem)}
        for name, value in (tape.aux.get(tick) or {}).items() if tape.aux else ():
            facts["summary"][page_text(f"aux {name}")] = page_text(short_text(value))
        seek = self._cursor.run.last_seek
        facts["recorded_hash"] = self._recorded_hash(tick)
        facts["keyframe_tick"] = self._cursor.keyframe_before(tick)
        facts["milliseconds"] = round(seek.milliseconds, 2) if seek is not None and seek.tick == tick else None
        return facts

    def _events(self, tick: int) -> tuple[list[Event], str]:
        """The events of a tick, and where they are from.

        That is "tape", "none" if no events are recorded, and of a tape that is being recorded, whose block of events comes
        later, "step", or "pending" if they are not known.
        """
        tape = self._cursor.tape_of_step(tick)
        if not tape.has_events:
            return [], "none"
        found = list(stored_events(tape.recording, tick, tick))
        if found:
            return [event for block in found for _, events in block.found for event in events], "tape"
        outputs = self._cursor.outputs()
        if outputs is not None and outputs.events is not None:
            return outputs.events, "step"
        return [], "tape" if tape.sealed else "pending"

    def _recorded_hash(self, tick: int) -> str | None:
        """The recorded hash of the state; None if the tape has another kind of hash there, or none."""
        try:
            return f"{self._cursor.tape_at(tick).state_hash(tick):016x}"
        except RecordingError:
            return None

    def _cell(self, tick: int, query: Query, is_stale: IsStale) -> dict[str, Any] | None:
        """The exact value of one cell of a layer, as text."""
        if not self._cursor.walk(tick, is_stale):
            return None
        snapshot, shown = self._cursor.state(tick)
        layer = self._cursor.shown.layers(shown, snapshot, [str(query["layer"])]).get(str(query["layer"]))
        facts: dict[str, Any] = {"tick": tick, "shown": shown, "cell": None}
        x, y = int(query["x"]), int(query["y"])
        if layer is not None and 0 <= y < layer.shape[0] and 0 <= x < layer.shape[1]:
            facts["cell"] = str(layer[y, x].tolist())
        return facts


def _fields(snapshot: Snapshot, before: Snapshot | None) -> list[dict[str, Any]]:
    """Name, text and number of changed values of each field."""
    return [
        {
            "name": slot.name,
            "text": describe_field(snapshot, slot.name),
            "changed": _changed_count(snapshot, before, slot.name),
        }
        for slot in islice(shown_slots(snapshot.layout), FIELDS_MAX)
    ]


def _changed_count(snapshot: Snapshot, before: Snapshot | None, name: str) -> int | None:
    """The number of values that differ from the tick before; None if another number of values was there."""
    if before is None:
        return 0
    if name not in set(before) or before[name].shape != snapshot[name].shape:
        return None
    return int(np.count_nonzero(bits_differ(snapshot[name], before[name])))
