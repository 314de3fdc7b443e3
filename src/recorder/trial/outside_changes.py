"""Name what steps change outside the simulation's objects: class attributes, globals of modules, and the like.

None of it is saved. That need not be wrong: a step may count what no step reads. Other trials show what is read.

A name outside may lead to what the simulation saves, as a descriptor of a class does to a layer of cells. So the state
before the steps is restored, and only what does not come back is named.
"""

from __future__ import annotations

from recorder.ambient.ambient import Ambient
from recorder.ambient.ambient_diff import Candidate, find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.replacement.named_values import Path
from recorder.ambient.roots import Roots
from recorder.processes.isolated_fork import Send, run_isolated
from recorder.trial.trajectory import Trajectory
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, inner_of, restore

_HARMLESS = ("cache", "alias")  # A cache gives what the function would give; two names for one object are no value.


def find_changes_outside(simulation: Simulation, run: Trajectory, left_s: float) -> list[str]:
    """The names of what the run changes outside the simulation's objects and no restore brings back, with their kinds.

    left_s: the time that this may take.
    """

    def work(send: Send) -> None:
        roots = Roots(type(inner_of(simulation)))
        roots.add_types(take_ambient(roots, simulation).types)
        before, state = take_ambient(roots, None), simulation.state.snapshot()
        for inputs in run.inputs:
            simulation.step(decode_plain(inputs))
        found = _changed(before, take_ambient(roots, None))
        if found:
            try:
                restore(simulation, state)
            except Exception:  # noqa: BLE001 - of the user's load: what it brings back is not known
                found = []
            else:
                left = [path for one in _changed(before, take_ambient(roots, None)) for path in one.paths]
                found = [one for one in found if any(_overlap(path, other) for path in one.paths for other in left)]
        send([f"{one.name} ({one.kind})" for one in found])

    messages = run_isolated(work, left_s).messages
    return messages[0] if messages else []


def _changed(before: Ambient, now: Ambient) -> list[Candidate]:
    return [one for one in find_candidates(before, now) if one.kind not in _HARMLESS]


def _overlap(one: Path, other: Path) -> bool:
    """Return True if one value is the other, or a part of it."""
    depth = min(len(one), len(other))
    return one[:depth] == other[:depth]
