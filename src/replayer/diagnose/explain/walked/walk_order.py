"""Let a step go through a set in a fixed order, or in the reverse of it.

A loop over a set of objects that are hashed by their addresses takes them in an order that differs from run to run. Its source is
changed so that it asks in_order() for them; see alike_members.py.

The order is fixed by what is the same in each run: members that the step made come in the order in which it made them, and those
that are older before them, by what they hold.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.trace_step import run_untraced
from replayer.diagnose.explain.walked.member_content import content_of
from sim.kernel.simulation import Simulation

FIXED, REVERSED = "fixed", "reversed"
# The set itself, as without the change of the source, and a list of its members in the order that it had then. If these two give
# different states, it is not the order alone that changes in the other runs.
ITSELF, COPIED = "itself", "copied"
RUNS = 2  # Of each order, by each start, in each process.
WALKS_MAX = 500  # In one step: for each one, all objects that the step made are listed.
_MEMBERS_MAX = 10_000

_order: list[str] = []  # The order in which sets are gone through; none: as they are.
_walked: list[list[Any]] = []  # For each set; see _told.
_problems: list[str] = []
_own_orders: list[list[int]] = []  # For each set, which members the set itself gave: their numbers in the fixed order.
_collected: list[int] = []  # The number of garbage collections before the step.


def in_order(values: Any) -> Any:
    """The members of a set in the order that is set; all else as it is."""
    if not _order or type(values) not in (set, frozenset) or len(values) < 2:
        return values
    if len(_walked) >= WALKS_MAX or len(values) > _MEMBERS_MAX:
        _problems.append("it is gone through too often, or has too many members")
        return values
    members = list(values)
    places = _places(members)
    if len(set(places)) < len(places):
        _problems.append("members of it look alike, and Python does not tell in which order its members were made")
        return values
    numbers = sorted(range(len(members)), key=lambda number: places[number], reverse=_order[0] == REVERSED)
    walk = len(_walked)
    _walked.append(_told(members, places))
    if _order[0] == ITSELF:
        _own_orders.append(sorted(range(len(members)), key=lambda number: numbers[number]))
        return values
    ordered = [members[number] for number in numbers]
    if _order[0] != COPIED:
        return ordered
    own = _own_orders[walk] if walk < len(_own_orders) else []
    return [ordered[number] for number in own] if len(own) == len(ordered) else ordered


def _places(members: Sequence[Any]) -> list[tuple[int, str]]:
    """The place of each member in the fixed order; equal for two of which it is not known which one comes first."""
    wanted, made = set(map(id, members)), dict[int, int]()
    # A garbage collection lists objects in another order, by what holds them.
    if _collections() == _collected[0]:
        for one in gc.get_objects():
            if id(one) in wanted:
                made[id(one)] = len(made) + 1
    return [(made[id(one)], "") if id(one) in made else (0, content_of(one)) for one in members]


def _told(members: Sequence[Any], places: Sequence[tuple[int, str]]) -> list[Any]:
    """The names of the members' classes, whether all are hashed by their addresses and made by the step, and what fixes the order."""
    kinds: set[Any] = set(map(type, members))
    is_addressed = all(kind.__hash__ is object.__hash__ for kind in kinds)
    digest = hashlib.blake2b(repr(sorted(places)).encode(), digest_size=8).hexdigest()
    return [sorted(kind.__name__ for kind in kinds), is_addressed, all(place for place, _ in places), digest]


def _collections() -> int:
    return sum(one["collections"] for one in gc.get_stats())


def ordered_runs(
    prepare: Callable[[int | None], Simulation], starts: Sequence[int | None], inputs: Any
) -> dict[str, Any]:
    """The results of the step in each order, from each start, and what was gone through.

    prepare: makes a simulation in the state before the step. Raises RuntimeError if a copy of this process died, or prepare raised.
    """
    runs = [one for start in starts for one in in_a_copy(partial(_runs_of, prepare, start, inputs))["runs"]]
    return {"runs": runs}


def _runs_of(prepare: Callable[[int | None], Simulation], start: int | None, inputs: Any) -> dict[str, Any]:
    simulation = prepare(start)

    def run(order: str, work: Callable[[Simulation], dict[str, Any]]) -> dict[str, Any]:
        return in_a_copy(partial(_in_order, order, partial(work, simulation)))

    runs = [run_untraced(partial(run, ITSELF), inputs)]
    # In another copy, objects have other addresses, and the set another order.
    _own_orders.extend(runs[0].pop("own"))
    orders = [COPIED, *(order for order in (FIXED, REVERSED) for _ in range(RUNS))]
    return {"runs": [*runs, *(run_untraced(partial(run, order), inputs) for order in orders)]}


def _in_order(order: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    _order.append(order)
    gc.disable()
    gc.freeze()  # What is there is not listed from here on: all that is, the step has made.
    _collected.append(_collections())
    ran = work()
    told = {"order": order, "hash": ran["hash"], "raised": ran["raised"]}
    own = {"own": _own_orders} if order == ITSELF else {}
    return told | own | {"walked": _walked, "problems": _problems}
