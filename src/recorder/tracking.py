"""How a recorder knows which rows of a state have changed: by marks, by a scan, or by both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs

from sim.kernel.changes import AuditedChanges, ChangeSource, MarkedChanges, ScannedChanges
from sim.kernel.simulation import ArenaOfSaved
from sim.kernel.state import State
from sim.kernel.tick_changes import TICK_SOURCES, TickSource

ChangeTracking = Literal["auto", "marks", "scan", "audit"]


@attrs.frozen
class Sources:
    """What tells what changed: since the last full keyframe, and in each tick."""

    whole: Callable[[State], ChangeSource]
    ticks: Callable[[State], TickSource]
    marks: bool  # Whether that is what the simulation marks.


_SOURCES: dict[str, Callable[[State], ChangeSource]] = {
    "marks": MarkedChanges,
    "scan": ScannedChanges,
    "audit": AuditedChanges,
}


def find_source(simulation: Any, changes: ChangeTracking) -> Sources:
    """How to know what changed in a simulation. Raises ValueError for what it cannot be asked for."""
    if changes == "auto":
        changes = "marks" if getattr(simulation, "marks_writes", False) else "scan"
    elif changes in ("marks", "audit") and isinstance(simulation, ArenaOfSaved):
        raise ValueError(f'changes="{changes}": a simulation with save and load marks nothing; use "scan"')
    if changes not in _SOURCES:
        raise ValueError(f"changes={changes!r}: auto, marks, scan or audit was expected")
    return Sources(_SOURCES[changes], TICK_SOURCES[changes], marks=changes in ("marks", "audit"))
