"""Find sets whose order a step uses although the order depends on PYTHONHASHSEED.

The order of a set of texts differs from process to process, unless PYTHONHASHSEED is set. Each such set that the
simulation holds gets a different order in a copy of the process. If the run then differs, a step iterates over it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from recorder.ambient.ambient import INSTANCE, Ambient, Path
from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from recorder.ambient.roots import is_our_own
from recorder.ambient.value_kinds import kind_of
from recorder.processes.isolated_fork import Send, run_isolated
from recorder.trial.returned import Leaves, leaves_of
from recorder.trial.trajectory import Trajectory
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, inner_of

SETS_MAX = 16  # Sets that are reordered one by one.
TEST_S = 5.0
_FILLERS = (48, 200, 800)  # A larger table gives a different order; after one of these it almost always does.


def find_iterated_sets(simulation: Simulation, run: Trajectory, tick: int) -> list[str]:
    """The names of the sets whose order changes the run from tick on. Steps the simulation: call this in a copy."""
    for inputs in run.inputs[:tick]:
        simulation.step(decode_plain(inputs))
    ambient = take_instance(simulation)
    found = [(path, value) for path, value in ambient.objects.items() if _depends_on_hash_seed(path, value)][:SETS_MAX]
    if not found:
        return []
    plain = _outcome(simulation, run, tick, None)
    if plain is None or plain != _outcome(simulation, run, tick, None):
        return []  # Two equal runs differ: nothing can be concluded.
    return [name_of(path) for path, value in found if _outcome(simulation, run, tick, value) not in (plain, None)]


def _depends_on_hash_seed(path: Path, value: Any) -> bool:
    if path[0][0] != INSTANCE or not isinstance(value, set) or len(value) < 2:
        return False
    return any(_has_text(element) for element in value)


def _has_text(element: Any) -> bool:
    if isinstance(element, tuple | frozenset):
        return any(map(_has_text, element))
    return isinstance(element, str | bytes)


def _outcome(simulation: Simulation, run: Trajectory, tick: int, reordered: set[Any] | None) -> list[Leaves] | None:
    """The results of the further steps, and the values at the end; None if a step raises or the time is up.

    None, too, if the set cannot be reordered.
    """
    messages = run_isolated(partial(_continue, simulation, run, tick, reordered), TEST_S).messages
    return messages[0] if messages else None


def _continue(simulation: Simulation, run: Trajectory, tick: int, reordered: set[Any] | None, send: Send) -> None:
    if reordered is not None and not _reorder(reordered):
        return
    results: list[Leaves] = []
    for inputs in run.inputs[tick:]:
        result = simulation.step(decode_plain(inputs))  # type: ignore[func-returns-value]
        leaves = leaves_of(result)
        results.append({path: digest for path, digest in leaves.items() if path not in run.unstable})
    send([*results, _values(take_instance(simulation), simulation)])


def _reorder(value: set[Any]) -> bool:
    """Give a set a different order with the same elements, in place. Return False if that failed."""
    before = list(value)
    for count in _FILLERS:
        fillers = [("filler", number) for number in range(count)]
        value.clear()
        value.update(fillers)
        value.update(reversed(before))
        value.difference_update(fillers)
        if list(value) != before:
            return True
    return False


def _values(ambient: Ambient, simulation: Simulation) -> Leaves:
    """The values that a simulation holds, without the order of its sets."""
    inside = {path: leaf for path, leaf in ambient.leaves.items() if path[0][0] == INSTANCE}
    sets = {path for path, value in ambient.objects.items() if kind_of(type(value)) == "set"}
    # The state of an adapter may hold the order of a set, for exact restores; that alone affects no step.
    leaves: Leaves = {} if is_our_own(type(inner_of(simulation))) else {"state": simulation.state.hash()}
    for path, leaf in inside.items():
        if any(path[:depth] in sets for depth in range(1, len(path))):
            continue  # An element: its place in the order is its name.
        value = (leaf[0], set(map(repr, leaf[1]))) if path in sets and isinstance(leaf[1], list) else leaf
        leaves |= leaves_of(value, root=repr(path))
    return leaves
