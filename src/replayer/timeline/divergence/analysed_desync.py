"""Analyse the first divergent tick of an interval, and test what can have caused it.

Each run is made in a copy of this process which, as the run that found the tick, has made one simulation: a counter that a
class or a module keeps is changed by each one that is made, and the tick may depend on it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import attrs

from recorder.errors import CorruptError, TornError
from replayer.desync.code_comparison import compared_code
from replayer.desync.finding import NOT_DETERMINISTIC, STACK_DEPTH, Finding, find_desync
from replayer.desync.isolated_rerun import (
    earlier_runs,
    interval_differs_by_depth,
    isolated_reruns,
    lost_field,
    step_reads,
)
from replayer.desync.sets.set_use import set_use
from replayer.desync.tested_causes import with_causes
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.intervals import IntervalResult, run_each
from sim.kernel.simulation import Simulation

ISOLATED_BYTES_MAX = 256 << 20  # Of a state: four of them are sent from one process to the other, in one message.


def analysed_desync(
    tape: Tape, world: Factory | None, result: IntervalResult, fresh: Simulation | None, *, tests_causes: bool
) -> Finding:
    """Analyse the first divergent tick with fresh simulations, in forked copies of this process.

    The forks leave the globals of this process unchanged. For a large state one would cost too much: the analysis then
    runs in this process. fresh: see make_for_copies; each copy works with its copy of it.
    """
    bad_tick, actual_hash = result.bad_tick, result.actual_hash
    assert bad_tick is not None

    def make_cursor() -> Cursor:
        return Cursor(tape, fresh if fresh is not None else make_simulation(tape, world))

    def make_another() -> Cursor:
        _held.append(make_cursor())
        return Cursor(tape, make_simulation(tape, world))

    def find(cursor: Cursor, *_: Any) -> Finding:
        return find_desync(cursor, bad_tick, actual_hash, reruns)

    # Before a step runs, which may count or keep something.
    code = compared_code(tape, world) if tests_causes else None
    earlier = earlier_runs(make_cursor, bad_tick) if tests_causes else []
    reruns = isolated_reruns(make_cursor, make_another, bad_tick, actual_hash)
    if _state_bytes(tape, bad_tick) > ISOLATED_BYTES_MAX:
        finding = find(Cursor(tape, make_simulation(tape, world)))
    else:
        [finding] = run_each(tape, world, [result.interval], 1, lambda _: None, find, fresh=fresh)
    if finding.note == NOT_DETERMINISTIC and interval_differs_by_depth(make_cursor, bad_tick):
        finding = attrs.evolve(finding, note=STACK_DEPTH)
    if not tests_causes:
        return finding
    lost = lost_field(make_cursor, bad_tick) if finding.note is None else None
    reads = step_reads(make_cursor, finding.tick, finding.before)
    sets = set_use(make_cursor, finding.tick, finding.before, code)
    return with_causes(finding, tape, earlier, reads, lost, code, sets)


_held: list[Cursor] = []  # In a copy, until it ends: what was made before is still there.


def _state_bytes(tape: Tape, tick: int) -> int:
    """The size of a state before a tick, as the tape has it: a simulation made for that would be one more in this process."""
    for place in tape.keyframes_at_or_before(tick):
        with suppress(CorruptError, TornError):
            return tape.snapshot(place).layout.size_bytes
    return 0
