"""Re-run an interval of a tape in a forked copy of this process, as verify does: runs do not influence each other.

The globals of modules have the values from before any step. They can neither hide nor cause a difference. The random
generators of the process (random, numpy.random) are reseeded, as in a new process.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from recorder.ambient.outside.outside_read import OutsideRead
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.outside.read_watch import ReadWatch
from recorder.errors import CorruptError, MissingTickError, RecordingError, SimulationFailedError, TornError
from recorder.processes.fork_call import in_a_copy
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from replayer.playback.cursor import Cursor

RERUNS_MAX = 9  # A step that differs in one run of three differs in nine runs with a probability of 97 %.
SMALL_BYTES_MAX, ALIGNED_BYTES = 480, 16  # Of the objects of one size that Python keeps side by side.
RERUN_S = 1.0  # Of each finding: after that no further run begins.

MakeCursor = Callable[[], "Cursor"]


def isolated_hashes(make_cursor: MakeCursor, start_tick: int, bad_tick: int) -> list[list[int]]:
    """The hashes of the ticks after start_tick, up to the first keyframe at or after bad_tick, or up to a failure.

    Of several runs: RERUNS_MAX, or fewer if they take RERUN_S, or if two of them differ. None of one whose process died.
    """
    runs: list[list[int]] = []
    started_s = time.monotonic()
    while len(runs) < RERUNS_MAX and (not runs or time.monotonic() - started_s < RERUN_S):
        try:
            runs.append(in_a_copy(partial(_hashes, make_cursor, start_tick, bad_tick))["hashes"])
        except RuntimeError:
            break
        if runs[-1] != runs[0]:
            break
    return runs


def earlier_hash(make_cursor: MakeCursor, bad_tick: int) -> dict[str, Any]:
    """The hash of bad_tick if re-simulated from one keyframe earlier than usual: keys "start" and "hash", or "why"."""
    try:
        return in_a_copy(partial(_earlier, make_cursor, bad_tick))
    except RuntimeError as error:
        return {"why": f"from an earlier keyframe, {error}"}


def step_reads(make_cursor: MakeCursor, tick: int, before: Snapshot | None) -> list[OutsideRead] | None:
    """What the step to a tick reads of the outside world; None if a copy of this process cannot make it.

    before: the state at tick - 1.
    """
    for functions in (True, False):  # Replaced functions may stop code from being compiled.
        try:
            watched = in_a_copy(partial(_watched, make_cursor, tick, before, functions=functions))
        except RuntimeError:
            return None
        if watched["is_made"]:
            return list(map(OutsideRead.from_plain, watched["reads"]))
    return None


def _watched(make_cursor: MakeCursor, tick: int, before: Snapshot | None, *, functions: bool) -> dict[str, Any]:
    cursor = _fresh(make_cursor)
    watch, is_made = ReadWatch(OwnCode(cursor.simulation)), False
    try:
        if before is not None:
            cursor.put(tick - 1, before)
            with watch.watching(functions=functions):
                cursor.advance()
            is_made = True
    except RecordingError:  # Of a step that raises; or the state cannot be put.
        pass
    return {"is_made": is_made, "reads": [read.to_plain() for read in watch.reads]}


def _hashes(make_cursor: MakeCursor, start_tick: int, bad_tick: int) -> dict[str, Any]:
    cursor = _fresh(make_cursor)
    keyframe = cursor.tape.keyframe_after(bad_tick)
    last = keyframe.tick if keyframe is not None else bad_tick
    hashes: list[int] = []
    try:
        cursor.place_before(start_tick)
        while cursor.tick != last:
            cursor.advance()
            hashes.append(cursor.state.hash())
    except (CorruptError, TornError, MissingTickError, SimulationFailedError):
        pass  # The caller compares the hashes up to here.
    return {"hashes": hashes}


def _earlier(make_cursor: MakeCursor, bad_tick: int) -> dict[str, Any]:
    cursor = _fresh(make_cursor)
    tape = cursor.tape
    try:
        usual = cursor.place_before(max(bad_tick - 1, tape.first_tick))
        if usual == tape.first_tick:
            return {"why": "the tick is re-simulated from the first keyframe; replay check --inputs tests for it"}
        start = cursor.place_before(usual - 1)
        while cursor.tick != bad_tick:
            cursor.advance()
    except RecordingError as error:  # The re-simulation failed: that says nothing about hidden state.
        return {"why": f"from an earlier keyframe, {error}"}
    return {"start": start, "hash": cursor.state.hash()}


def _fresh(make_cursor: MakeCursor) -> Cursor:
    random.seed()
    _held.extend(_scattered())
    np.random.seed()  # noqa: NPY002 - the global generator: it is not part of the state
    return make_cursor()


_held: list[bytes] = []  # In a copy, until it ends.


def _scattered() -> list[bytes]:
    """Small objects with gaps between them at random: new objects get other addresses than in the copies before.

    Copies of one process would otherwise order sets of objects alike, each time, and a new process would not.
    """
    made = [bytes(size) for size in range(0, SMALL_BYTES_MAX, ALIGNED_BYTES) for _ in range(random.randrange(400))]  # noqa: S311
    random.shuffle(made)
    return made[: len(made) // 2]
