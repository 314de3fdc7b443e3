"""Run a part of a tape in a copy of this process, as verify runs its intervals: nothing is carried along between runs.

What a module keeps in globals is in the copy as it was here before any step, so that it neither hides nor makes a
difference. Generators of random numbers that belong to the process are seeded anew, as they would be in another process.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from recorder.errors import CorruptError, MissingTickError, RecordingError, SimulationFailedError, TornError
from recorder.processes.fork_call import in_a_copy

if TYPE_CHECKING:
    from replayer.playback.cursor import Cursor

MakeCursor = Callable[[], "Cursor"]


def hashes_apart(make_cursor: MakeCursor, start_tick: int, bad_tick: int) -> list[int] | None:
    """The hashes of the ticks behind start_tick, up to the keyframe at or behind bad_tick, or as far as it gets.

    None if the process died.
    """
    try:
        found: list[int] = in_a_copy(partial(_hashes, make_cursor, start_tick, bad_tick))["hashes"]
    except RuntimeError:
        return None
    return found


def earlier_hash(make_cursor: MakeCursor, bad_tick: int) -> dict[str, Any]:
    """What bad_tick's hash is if it is reached from one keyframe earlier than usually: "start" and "hash", or "why" not."""
    try:
        return in_a_copy(partial(_earlier, make_cursor, bad_tick))
    except RuntimeError as error:
        return {"why": f"from an earlier keyframe, {error}"}


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
        pass  # It got this far, and whoever compares sees that.
    return {"hashes": hashes}


def _earlier(make_cursor: MakeCursor, bad_tick: int) -> dict[str, Any]:
    cursor = _fresh(make_cursor)
    tape = cursor.tape
    try:
        usual = cursor.place_before(max(bad_tick - 1, tape.first_tick))
        if usual == tape.first_tick:
            return {"why": "the tick is reached from the first keyframe; try replay check"}
        start = cursor.place_before(usual - 1)
        while cursor.tick != bad_tick:
            cursor.advance()
    except RecordingError as error:  # The simulation fails on another way, too; that is no hint.
        return {"why": f"from an earlier keyframe, {error}"}
    return {"start": start, "hash": cursor.state.hash()}


def _fresh(make_cursor: MakeCursor) -> Cursor:
    random.seed()
    np.random.seed()  # noqa: NPY002 - this one is meant: what a step draws from it is not in the state
    return make_cursor()
