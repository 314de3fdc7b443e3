"""Choose how a recorder finds the changed rows of a state: by marks, a scan, both, or the memory pages written."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import attrs

from recorder.recording_options import RecordingOptions
from recorder.settings import ChangeTracking
from sim.kernel.changes.row_changes import (
    AuditedChanges,
    ChangeSource,
    MarkedChanges,
    ScannedChanges,
    ScannedWhileSmall,
)
from sim.kernel.changes.tick_changes import TICK_SOURCES, TickSource
from sim.kernel.hooks import CanRecapture, hook, marks_its_writes
from sim.kernel.simulation import ArenaOfSaved
from sim.kernel.state import State

SCANNED_BYTES_MAX = 1 << 20  # Keyframes of a larger marked state stop the simulation for less time.
SCANNED_BYTES_A_TICK = 32 << 10  # Of the interval between keyframes: a scan of that takes about as long as a few marks.


@attrs.frozen
class ChangeSources:
    """The factories of two change sources.

    Attributes:
        whole: for the changes since the last full keyframe.
        ticks: for the changes of each tick.
        marks: True if the simulation sets marks, and ticks uses them.
        audits: True if the simulation's state is to be proved at each tick, where it can be.
    """

    whole: Callable[[State], ChangeSource]
    ticks: Callable[[State], TickSource]
    marks: bool = False
    audits: bool = False


_SOURCES: dict[str, ChangeSources] = {
    "marks": ChangeSources(MarkedChanges, TICK_SOURCES["marks"], marks=True),
    "scan": ChangeSources(ScannedChanges, TICK_SOURCES["scan"]),
    "audit": ChangeSources(AuditedChanges, TICK_SOURCES["audit"], marks=True, audits=True),
}


def find_source(simulation: Any, changes: ChangeTracking, options: RecordingOptions | None = None) -> ChangeSources:
    """Choose the change sources of a simulation. Raises ValueError for changes that it does not support.

    options: of the recording; without them "auto" uses the marks of any simulation that sets them.
    """
    if changes == "auto":
        return _choose(simulation, 0 if options is None else scanned_max_bytes(options))
    if changes == "audit" and hook(simulation, CanRecapture) is not None and not marks_its_writes(simulation):
        return attrs.evolve(_SOURCES["scan"], audits=True)
    if changes in ("marks", "audit") and isinstance(simulation, ArenaOfSaved):
        raise ValueError(f'changes="{changes}": a simulation with save and load sets no marks; use "scan"')
    if changes == "pages":
        return _by_pages()
    if changes not in _SOURCES:
        raise ValueError(f"expected changes to be auto, marks, scan, pages or audit, got {changes!r}")
    return _SOURCES[changes]


def scanned_max_bytes(options: RecordingOptions) -> int:
    """The size of states that "auto" scans at keyframes although the simulation sets marks; 0 with mode="changes".

    The marks of all ticks between two keyframes cost more than the scan of such a state.
    """
    if options.mode == "changes":
        return 0
    ticks = options.keyframe_interval_ticks if options.seek_budget_ms is None else SCANNED_BYTES_MAX
    return min(SCANNED_BYTES_MAX, SCANNED_BYTES_A_TICK * ticks)


def _choose(simulation: Any, scanned_max_bytes: int) -> ChangeSources:
    """Choose marks if the simulation sets them; else pages for large states, if the kernel supports it; else a scan."""
    if marks_its_writes(simulation):
        whole = functools.partial(ScannedWhileSmall, size_max_bytes=scanned_max_bytes)
        return attrs.evolve(_SOURCES["marks"], whole=whole) if scanned_max_bytes else _SOURCES["marks"]
    if isinstance(simulation, ArenaOfSaved):  # Each step writes its arena again.
        return _SOURCES["scan"]
    return _by_pages_if_large()


# The modules that are imported below take long to import, and simulations with marks do not need them.


def _by_pages() -> ChangeSources:
    from recorder.session.pages.paged_row_changes import PagedChanges  # noqa: PLC0415 - see above
    from recorder.session.pages.paged_tick_changes import PagedTicks  # noqa: PLC0415
    from recorder.session.pages.userfaultfd import obstacle  # noqa: PLC0415

    problem = obstacle()
    if problem is not None:
        raise ValueError(f'changes="pages": {problem}; use "scan"')
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
