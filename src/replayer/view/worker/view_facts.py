"""The facts of a tape that the page needs once: its ticks, what it holds, what can be shown."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from recorder.errors import DesyncError, RecordingError, SimulationFailedError
from recorder.location.tape_location import Location
from replayer.branches.parent_run import find_parent, parent_of, why_unfit
from replayer.desync.object_diff import MALFORMED, objects_in
from replayer.export.viewers.object_values import PATHS_MAX, values_of
from replayer.report.tape_facts import tape_facts
from replayer.tape.fields import shown_slots
from replayer.tape.tape import Tape
from replayer.view.states.figures import curve_names, figures_of, summed_names
from replayer.view.states.page_json import page_json, page_text
from replayer.view.states.shown_rows import table_names
from replayer.view.worker.view_cursor import ViewCursor
from sim.kernel.state import Snapshot

FIRST_CURVES = 4  # Shown before the user chooses.
FIELDS_MAX = 400  # Named to choose from.
PROBED_TICKS = (3, 4)  # From the first one on.


def view_facts(cursor: ViewCursor) -> dict[str, Any]:
    """The facts as JSON. Names are kept as they are: the page sends them back."""
    tape = cursor.run.tape
    first, _ = cursor.state(cursor.run.first_tick)
    facts = tape_facts(tape, check=False, with_episodes=False)
    wanted = (
        "world",
        "scenario",
        "seed",
        "simulation",
        "status",
        "sealed",
        "being_written",
        "mode",
        "adapter",
        "bytes",
    )
    values = _object_values(first)
    curves, first_curves, summed = _curves(cursor, first)
    return {
        "name": page_text(tape.path.name),
        **{key: page_json(facts[key]) for key in wanted},
        "outcome": page_json(facts["outcome"]),
        "created": page_json(facts["created"]),
        "notes": page_json(facts["notes"]),
        "first": cursor.first_tick,
        "parent": parent_facts(tape),
        "last": cursor.run.last_tick,
        "keyframes": len(cursor.keyframes),
        "missing": facts["missing_ticks"],
        "damages": page_json(facts["damages"]),
        "problem": page_text(cursor.problem, 600) if cursor.problem is not None else None,
        "layers": cursor.shown.names,
        "has_picture": cursor.shown.has_picture,
        "hook_problems": hook_facts(cursor.shown.problems),
        "points": cursor.shown.point_kinds,
        "tables": table_names(first.layout),
        "has_object": bool(values),
        "curves": curves,
        "fields": [slot.name for slot in islice(shown_slots(first.layout), FIELDS_MAX)],
        "first_curves": first_curves,
        "summed_curves": summed,
    }


def parent_facts(tape: Tape) -> dict[str, Any] | None:
    """Of a branch the name of its parent's tape, the tick of the fork, and the path, None if it is not there."""
    parent = parent_of(tape.meta)
    if parent is None:
        return None
    path = find_parent(tape.path, parent)
    with contextlib.suppress(RecordingError, OSError):
        if path is not None and not _is_same(path, tape.path):
            with Tape(path) as found:
                is_it = why_unfit(found, parent) is None
            return {"name": page_text(path.name), "tick": parent.tick, "path": str(path) if is_it else None}
    return {"name": page_text(Path(parent.path).name), "tick": parent.tick, "path": None}


def _is_same(one: Location, other: Location) -> bool:
    return one.samefile(other) if isinstance(one, Path) and isinstance(other, Path) else one == other


def _curves(cursor: ViewCursor, first: Snapshot) -> tuple[list[str], list[str], list[str]]:
    """The names of all curves, of those to begin with, and of those that are sums of several values.

    To begin with, values that change in an early step tell most.

    Some values are there only after the first steps: what an environment returned, for instance.
    """
    run, names = cursor.run, curve_names(first, _object_values(first))
    if cursor.problem is not None:
        return names, names[:FIRST_CURVES], summed_names(first, names)
    try:
        probed = [cursor.state(min(run.last_tick, run.first_tick + ticks))[0] for ticks in PROBED_TICKS]
    except (DesyncError, SimulationFailedError):
        return names, names[:FIRST_CURVES], summed_names(first, names)  # The page reports it when it is visited.
    names = list(dict.fromkeys([*names, *curve_names(probed[1], _object_values(probed[1]))]))
    before, after = (figures_of(snapshot, names) for snapshot in probed)
    seen: dict[tuple[float | None, float | None], str] = {}
    for name in names:
        seen.setdefault(
            (before.get(name), after.get(name)), name
        )  # One of those that are the same under several names.
    moving = [name for (one, other), name in seen.items() if one != other]
    summed = list(dict.fromkeys(name for snapshot in (first, *probed) for name in summed_names(snapshot, names)))
    return names, list(dict.fromkeys([*moving, *names]))[:FIRST_CURVES], summed


def hook_facts(problems: Mapping[str, tuple[int, str]]) -> list[list[Any]]:
    """Tick and reason, for each of the user's own methods that could not be shown."""
    return [[tick, page_text(why)] for tick, why in problems.values()]


def _object_values(snapshot: Snapshot) -> dict[str, Any]:
    tree = objects_in(snapshot)
    if tree is None:
        return {}
    try:
        return dict(islice(values_of(tree, []), PATHS_MAX))
    except MALFORMED:
        return {}
