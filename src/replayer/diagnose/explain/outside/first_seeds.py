"""Generators that the system seeds at their first use in a step, since no keyframe has them.

A step that finds such a generator asks the system for nothing: in the recorded run it may have been there, with other values.
"""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np

from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_ambient, take_instance
from recorder.ambient.outside.outside_read import ENTROPY
from recorder.ambient.outside.own_code import OwnCode
from recorder.ambient.outside.read_watch import ReadWatch
from recorder.ambient.replacement.named_values import Path
from recorder.ambient.roots import Roots
from replayer.diagnose.explain.trace_step import Run, TracedStep
from sim.kernel.simulation import Simulation, inner_of, restore

RUNS = 3  # Of the step, with the generators there: it may ask the system in one run, and not in the next.
GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)


def first_seeds(step: TracedStep, run: Run, inputs: Any) -> list[str]:
    """The names of generators that a step makes, seeded by the system, and that no restore takes away again.

    Empty unless these are all that the step asks the system's random numbers for. run: see trace_step_in.
    """
    if not any(read.kind == ENTROPY for read in step.reads):
        return []
    found: list[str] = run(partial(_seeded, inputs=inputs))["names"]
    return found


def _seeded(simulation: Simulation, inputs: Any) -> dict[str, Any]:
    """As above, under "names". It changes the simulation: only in a copy."""
    before = simulation.state.snapshot()
    had = set(_generators(simulation))
    if _raises(partial(simulation.step, inputs)):
        return {"names": []}
    made = {path: one for path, one in _generators(simulation).items() if path not in had}
    kept: dict[Path, Any] = {}
    for number in range(RUNS):
        if _raises(partial(restore, simulation, before)):
            return {"names": []}
        found = _generators(simulation)
        if number == 0:
            kept = {path: one for path, one in made.items() if found.get(path) is one}
        watch = ReadWatch(OwnCode(simulation))
        with watch.watching():
            has_raised = not kept or _raises(partial(simulation.step, inputs))
        if has_raised or any(read.kind == ENTROPY for read in watch.reads):
            return {"names": []}
    return {"names": sorted(map(name_of, kept))}


def _raises(call: Any) -> bool:
    try:
        call()
    except Exception:  # noqa: BLE001 - of the user's step: nothing is known then
        return True
    return False


def _generators(simulation: Simulation) -> dict[Path, Any]:
    """The random generators that a simulation and its modules hold, by where."""
    roots = Roots(type(inner_of(simulation)))
    roots.add_types(take_instance(simulation).types)
    objects = take_ambient(roots, simulation).objects
    return {path: one for path, one in objects.items() if isinstance(one, GENERATORS)}
