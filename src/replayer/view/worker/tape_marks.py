"""Read a tape once for the marks of the time bar: events, inputs, episodes, telemetry, damage, and a second tape's differences.

It runs in a process of its own and sends each part as it is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import numpy.typing as npt

from recorder.errors import RecordingError
from recorder.location.tape_location import Location
from recorder.processes.worker_pipes import begin_as_worker
from replayer.desync.object_diff import shown_fields
from replayer.diagnose.compare.tape_diff import TapeDifference, diff_tapes
from replayer.report.tape_facts import tape_facts
from replayer.tape.episodes import find_episodes
from replayer.tape.tape import Tape
from replayer.view.finding_folder import findings_beside
from replayer.view.states.page_json import page_json, page_text
from replayer.view.worker.page_jobs import Indexed
from sim.scenario.event_kinds import has_required_keys

KINDS_MAX = 60  # Kinds of events with a mark of their own; the others are counted together.
OTHER_KINDS = "other kinds"
VIOLATIONS_MAX = 200
_NO_INPUTS = {b"\x90", b"\xc0", b"\x80"}  # An empty list, nothing, an empty map, as MessagePack.

Ticks = npt.NDArray[np.int64]


def read_marks(parent: int, pipe: Connection, path: Location, other: Location | None) -> None:
    """Send all parts as Indexed, then end. other: the second tape; differences are read for the first tape alone."""
    begin_as_worker(parent)
    try:
        with Tape(path) as tape:
            for part in mark_parts(tape, other):
                pipe.send(Indexed(part()))
    except (RecordingError, OSError) as error:
        pipe.send(Indexed({"marks_error": page_text(str(error))}))
    except BrokenPipeError:
        return  # The server has ended.


def mark_parts(tape: Tape, other: Location | None) -> Iterator[Callable[[], dict[str, Any]]]:
    """Functions that read one part each. other: the second tape, if differences are wanted."""
    yield lambda: {"keyframe_ticks": np.array(sorted({place.tick for place in tape.keyframes}), np.int64)}
    if other is not None:
        yield lambda: {"difference": _difference(tape, other)}
    yield lambda: {"telemetry": tape.telemetry()}
    yield lambda: {"input_ticks": input_ticks(tape, tape.first_tick + 1, tape.last_tick)}
    yield lambda: {"dumps": findings_beside(tape.path, tape.run_id)}
    yield lambda: event_marks(tape)
    yield lambda: {"episodes": _episodes(tape)}
    yield lambda: {"checked": _checked(tape)}


def input_ticks(tape: Tape, first: int, last: int) -> Ticks:
    """The ticks from first to last whose inputs are not empty."""
    runs = tape.recording.runs(first, last)
    ticks = (frame.tick for run in runs for frame in run.frames if frame.encoded_inputs not in _NO_INPUTS)
    return np.fromiter(ticks, np.int64)


def event_marks(tape: Tape, first: int = 0, last: int | None = None) -> dict[str, Any]:
    """The ticks of the events from first to last, by kind; a tick comes once for each event. And the violated properties."""
    ticks: dict[str, array[int]] = {}
    violations: list[tuple[int, str]] = []
    has_properties = tape.meta.get("scenario") is not None
    for tick, event in tape.events(first, last):
        is_violation = has_properties and event.get("kind") == "violation" and has_required_keys(event)
        if is_violation and len(violations) < VIOLATIONS_MAX:
            violations.append((tick, page_text(f"property {event['property']} is violated: {event['details']}")))
        kind = page_text(str(event.get("kind", "")))
        if kind not in ticks and len(ticks) >= KINDS_MAX:
            kind = OTHER_KINDS
        ticks.setdefault(kind, array("q")).append(tick)
    event_ticks = {kind: np.array(found, np.int64) for kind, found in ticks.items()}
    return {"event_ticks": event_ticks, "violations": violations}


def _episodes(tape: Tape) -> list[list[Any]]:
    """First tick, last tick, return and seed of each."""
    return [
        [episode.first_tick, episode.last_tick, page_json(episode.total), page_json(episode.seed)]
        for episode in find_episodes(tape)
    ]


def _checked(tape: Tape) -> dict[str, Any]:
    """Damage is known only after all blocks have been read: an index hides it."""
    facts = tape_facts(tape, with_episodes=False)
    return {
        "status": facts["status"],
        "missing": facts["missing_ticks"],
        "keyframes": facts["full_keyframes"] + facts["delta_keyframes"],
        "damages": page_json(facts["damages"]),
        "damaged_blocks": page_json(facts.get("damaged_blocks", [])),
    }


def _difference(tape: Tape, other: Location) -> dict[str, Any]:
    try:
        with Tape(other) as second:
            return difference_facts(diff_tapes(tape, second))
    except (RecordingError, OSError, ValueError) as error:
        return {"error": page_text(str(error))}


def difference_facts(result: TapeDifference) -> dict[str, Any]:
    """What `replay diff` says of two tapes, with the ticks that differ."""
    first = result.ticks[0].fields if result.ticks else None
    return {
        "first": result.first_bad,
        "inputs": result.inputs_tick,
        "phase": page_text(result.phase) if result.phase is not None else None,
        "trend": result.trend,
        "fields": None if first is None else [page_text(name) for name in shown_fields(first)],
        "unreadable": result.unreadable_ticks,
        "compared": result.compared_ticks,
        "ticks": np.array([one.tick for one in result.ticks], np.int64),
    }
