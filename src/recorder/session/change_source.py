"""How a recorder knows which rows of a state have changed: by marks, by a scan, by both, or by the pages written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs

from recorder.settings import ChangeTracking
from sim.kernel.changes.row_changes import AuditedChanges, ChangeSource, MarkedChanges, ScannedChanges
from sim.kernel.changes.tick_changes import TICK_SOURCES, TickSource
from sim.kernel.hooks import marks_its_writes
from sim.kernel.simulation import ArenaOfSaved
from sim.kernel.state import State


@attrs.frozen
class ChangeSources:
    """What tells what changed: since the last full keyframe, and in each tick."""

    whole: Callable[[State], ChangeSource]
    ticks: Callable[[State], TickSource]
    marks: bool = False  # Whether that is what the simulation marks.


_SOURCES: dict[str, ChangeSources] = {
    "marks": ChangeSources(MarkedChanges, TICK_SOURCES["marks"], marks=True),
    "scan": ChangeSources(ScannedChanges, TICK_SOURCES["scan"]),
    "audit": ChangeSources(AuditedChanges, TICK_SOURCES["audit"], marks=True),
}


def find_source(simulation: Any, changes: ChangeTracking) -> ChangeSources:
    """How to know what changed in a simulation. Raises ValueError for what it cannot be asked for."""
    if changes == "auto":
        return _choose(simulation)
    if changes in ("marks", "audit") and isinstance(simulation, ArenaOfSaved):
        raise ValueError(f'changes="{changes}": a simulation with save and load marks nothing; use "scan"')
    if changes == "pages":
        return _by_pages()
    if changes not in _SOURCES:
        raise ValueError(f"changes={changes!r}: auto, marks, scan, pages or audit was expected")
    return _SOURCES[changes]


def _choose(simulation: Any) -> ChangeSources:
    """Marks if there are; else pages, if the state is large, or becomes so, and the kernel tells; else a scan."""
    if marks_its_writes(simulation):
        return _SOURCES["marks"]
    if isinstance(simulation, ArenaOfSaved):  # Its arena is written anew at each step.
        return _SOURCES["scan"]
    return _by_pages_if_large()


# The modules that are imported below take their time, and whoever marks needs none of them.


def _by_pages() -> ChangeSources:
    from recorder.session.pages.paged_row_changes import PagedChanges  # noqa: PLC0415 - see above
    from recorder.session.pages.paged_tick_changes import PagedTicks  # noqa: PLC0415
    from recorder.session.pages.userfaultfd import obstacle  # noqa: PLC0415

    why = obstacle()
    if why is not None:
        raise ValueError(f'changes="pages": {why}; use "scan"')
    return ChangeSources(PagedChanges, PagedTicks)


def _by_pages_if_large() -> ChangeSources:
    from recorder.session.pages.paged_row_changes import PagedChanges  # noqa: PLC0415 - see above
    from recorder.session.pages.paged_tick_changes import PagedTicks  # noqa: PLC0415
    from recorder.session.pages.userfaultfd import is_filtered  # noqa: PLC0415
    from recorder.session.pages.watch_cost import WATCHED_KEYFRAMES_BYTES_MIN, WATCHED_TICKS_BYTES_MIN  # noqa: PLC0415

    if is_filtered():
        return _SOURCES["scan"]
    return ChangeSources(
        functools.partial(PagedChanges, size_min_bytes=WATCHED_KEYFRAMES_BYTES_MIN),
        functools.partial(PagedTicks, size_min_bytes=WATCHED_TICKS_BYTES_MIN),
    )
