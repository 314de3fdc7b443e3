"""Find the first tick at which a replay went wrong, also where a second run in this process goes another way."""

from __future__ import annotations

from functools import partial

import attrs

from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from recorder.processes.pool import Report
from recorder.processes.spawn_pool import SpawnPool
from replayer.desync.finding import NOT_DETERMINISTIC, RIGHT_THE_SECOND_TIME, Finding, find_desync
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.make_simulation import Factory
from replayer.timeline.intervals import Interval, list_intervals, run_each


def first_divergence(cursor: Cursor, world: Factory | None, mismatch: MismatchError) -> Finding:
    """Find the first divergent tick up to the tick of the mismatch. Afterwards the cursor is not at any tick.

    A second run in this process begins with what the first one left in the globals of modules. If it does not repeat the
    first, the interval is run in a new process. If that does not repeat it either, the finding has a latest_tick.
    Raises as find_desync does.
    """
    finding = find_desync(cursor, mismatch.tick, mismatch.actual_hash)
    if finding.note not in (NOT_DETERMINISTIC, RIGHT_THE_SECOND_TIME) or finding.keyframe_tick + 1 == mismatch.tick:
        return finding
    second = _in_a_new_process(cursor, world, mismatch)
    if second is None or second.note in (NOT_DETERMINISTIC, RIGHT_THE_SECOND_TIME):
        return attrs.evolve(finding, latest_tick=mismatch.tick)
    return attrs.evolve(second, note=finding.note)


def _in_a_new_process(cursor: Cursor, world: Factory | None, mismatch: MismatchError) -> Finding | None:
    """The finding of a process that has made no step yet; None if none can be started, or work there."""
    intervals = [each for each in list_intervals(cursor.tape) if each.place.tick < mismatch.tick]
    work = partial(_find, bad_tick=mismatch.tick, actual_hash=mismatch.actual_hash)
    pool = SpawnPool(1, patience_s=PATIENCE_S, imports_main=False)
    try:
        [finding] = run_each(cursor.tape, world, intervals[-1:], 1, lambda _: None, work, pool)
    except Exception:  # noqa: BLE001 - of a factory that only this process has, or of the user's code: nothing is found out
        return None
    return finding


def _find(cursor: Cursor, _: Interval, __: Report, *, bad_tick: int, actual_hash: int) -> Finding:
    return find_desync(cursor, bad_tick, actual_hash)
