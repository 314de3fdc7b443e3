"""Name what steps change outside the simulation's objects: class attributes, globals of modules, and the like.

None of it is saved. That need not be wrong: a step may count what no step reads. Other trials show what is read.
"""

from __future__ import annotations

from recorder.ambient.ambient_diff import find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots
from recorder.processes.isolated_fork import Send, run_isolated
from recorder.trial.trajectory import Trajectory
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, inner_of

_HARMLESS = ("cache", "alias")  # A cache gives what the function would give; two names for one object are no value.


def find_changes_outside(simulation: Simulation, run: Trajectory, left_s: float) -> list[str]:
    """The names of what the run changes outside the simulation's objects, with their kinds.

    left_s: the time that this may take.
    """

    def work(send: Send) -> None:
        roots = Roots(type(inner_of(simulation)))
        roots.add_types(take_ambient(roots, simulation).types)
        before = take_ambient(roots, None)
        for inputs in run.inputs:
            simulation.step(decode_plain(inputs))
        found = find_candidates(before, take_ambient(roots, None))
        send([f"{one.name} ({one.kind})" for one in found if one.kind not in _HARMLESS])

    messages = run_isolated(work, left_s).messages
    return messages[0] if messages else []
