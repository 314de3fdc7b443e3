"""Let a step go through a set in a fixed order: that in which its members were made, or the reverse of it.

A loop over a set of objects that are hashed by their addresses takes them in an order that differs from run to run. Its source is
changed so that it asks in_order() for them; see alike_members.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.trace_step import run_untraced
from sim.kernel.simulation import Simulation

MADE, REVERSED = "made", "reversed"
RUNS = 2  # Of each order, by each start, in each process.
WALKS_MAX = 500  # In one step: for each one, all objects of the process are listed.
_MEMBERS_MAX = 10_000

_order: list[str] = []  # The order in which sets are gone through; none: as they are.
_walked: list[
    list[Any]
] = []  # For each set: the names of the members' classes, and whether all are hashed by their addresses.
_problems: list[str] = []


def in_order(values: Any) -> Any:
    """The members of a set in the order that is set; all else as it is."""
    if not _order or type(values) not in (set, frozenset) or len(values) < 2:
        return values
    if len(_walked) >= WALKS_MAX or len(values) > _MEMBERS_MAX:
        _problems.append("it is gone through too often, or has too many members")
        return values
    wanted, places = set(map(id, values)), dict[int, int]()
    # Of one generation, the objects are listed as they were made, and those of an older one were made before.
    for generation in (2, 1, 0):
        for one in gc.get_objects(generation):
            if id(one) in wanted:
                places[id(one)] = len(places)
    if places.keys() != wanted:
        _problems.append("Python does not tell in which order its members were made")
        return values
    kinds: set[Any] = set(map(type, values))
    is_addressed = all(kind.__hash__ is object.__hash__ for kind in kinds)
    _walked.append([sorted(kind.__name__ for kind in kinds), is_addressed])
    return sorted(values, key=lambda one: places[id(one)], reverse=_order[0] == REVERSED)


def ordered_runs(
    prepare: Callable[[int | None], Simulation], starts: Sequence[int | None], inputs: Any
) -> dict[str, Any]:
    """The results of the step in both orders, from each start, and what was gone through.

    prepare: makes a simulation in the state before the step. Raises RuntimeError if a copy of this process died, or prepare raised.
    """
    runs = [one for start in starts for one in in_a_copy(partial(_runs_of, prepare, start, inputs))["runs"]]
    return {"runs": runs}


def _runs_of(prepare: Callable[[int | None], Simulation], start: int | None, inputs: Any) -> dict[str, Any]:
    simulation = prepare(start)

    def run(order: str, work: Callable[[Simulation], dict[str, Any]]) -> dict[str, Any]:
        return in_a_copy(partial(_in_order, order, partial(work, simulation)))

    orders: Iterable[str] = (MADE, REVERSED)
    return {"runs": [run_untraced(partial(run, order), inputs) for order in orders for _ in range(RUNS)]}


def _in_order(order: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    _order.append(order)
    gc.disable()  # A collection may list objects in another order.
    ran = work()
    told = {"order": order, "hash": ran["hash"], "raised": ran["raised"]}
    return told | {"walked": _walked, "problems": _problems}
