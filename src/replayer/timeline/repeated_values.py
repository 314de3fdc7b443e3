"""Find a value that differs between two repeats of the same inputs: it is no evidence against a recording.

At the level inputs_only a keyframe is restored by repeating inputs. What is not a function of them, such as the time, the id
of the process or a generator without a seed, then differs from the recorded value, also if no step reads it.
"""

from __future__ import annotations

from typing import Any

from recorder.processes.pool import Report
from replayer.playback.cursor import Cursor
from replayer.playback.make_simulation import Factory, make_simulation
from replayer.tape.tape import Tape
from replayer.timeline.intervals import Interval, run_each
from sim.kernel.exactness import Level
from sim.kernel.hooks import ComparesValues, KeepsValues, hook
from sim.kernel.simulation import inner_of


def unrepeated_value(tape: Tape, world: Factory | None, interval: Interval) -> str | None:
    """The path of the first value that differs between two restores of the interval's keyframe, each in a process of its own.

    None if there is none, and at any other level than inputs_only. Raises SimulationFailedError if the simulation raises;
    WorkerDiedError; WorkerStuckError.
    """
    if tape.meta.get("level") != Level.INPUTS_ONLY.value:
        return None

    def restored(cursor: Cursor, interval: Interval) -> Any:
        # Made here: a copy of one that the parent made has its process and its time.
        again = Cursor(cursor.tape, make_simulation(cursor.tape, world))
        again.put(interval.place.tick, cursor.tape.snapshot(interval.place))
        return inner_of(again.simulation)

    def keep(cursor: Cursor, interval: Interval, _: Report) -> Any:
        keeps = hook(restored(cursor, interval), KeepsValues)
        return None if keeps is None else keeps.kept_values()

    [kept] = run_each(tape, world, [interval], 1, lambda _: None, keep)

    def compare(cursor: Cursor, interval: Interval, _: Report) -> str | None:
        compares = hook(restored(cursor, interval), ComparesValues)
        return None if compares is None or kept is None else compares.value_difference(kept)

    [path] = run_each(tape, world, [interval], 1, lambda _: None, compare)
    return path
