"""Find sets whose order a step uses although it differs from process to process, or from restore to restore.

The order of a set of texts depends on PYTHONHASHSEED, that of a set of objects without a hash of their own on their
memory addresses. Each such set that the simulation holds gets a different order in a copy of the process. If the run
then differs, a step iterates over it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs

from recorder.ambient.ambient import INSTANCE, Ambient, Path
from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from recorder.ambient.roots import is_our_own
from recorder.ambient.value_kinds import kind_of
from recorder.processes.isolated_fork import Send, run_isolated
from recorder.trial.returned import Leaves, digest_of, leaves_of
from recorder.trial.trajectory import Trajectory, several
from sim.kernel.plain_data import decode_plain
from sim.kernel.sets.given_order import give_order
from sim.kernel.simulation import Simulation, inner_of

SETS_MAX = 16  # Sets that are reordered one by one.
TEST_S = 5.0
ORDERS = 4  # The reverse, and others at random: a step may use one place in the order, which some leave as it is.
_FILLERS = (48, 200, 800)  # A larger table gives a different order; after one of these it almost always does.


@attrs.frozen
class IteratedSet:
    """A set whose order a step uses.

    Attributes:
        name: of the set, as written in code.
        classes: of the elements that hash by their memory addresses; empty for a set of texts.
    """

    name: str
    classes: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """What the order depends on, after the name."""
        if not self.classes:
            return "a set of texts: it differs from process to process, unless PYTHONHASHSEED is set"
        return (
            f"a set of objects that hash by their memory addresses ({several(self.classes)}): it may differ after each "
            "restore and in each run; a dict or a list keeps an order"
        )


def find_iterated_sets(simulation: Simulation, run: Trajectory, tick: int) -> list[IteratedSet]:
    """The sets whose order changes the run from tick on. Steps the simulation: call this in a copy."""
    for inputs in run.inputs[:tick]:
        simulation.step(decode_plain(inputs))
    ambient = take_instance(simulation)
    found = [
        (IteratedSet(name_of(path), classes), value)
        for path, value in ambient.objects.items()
        if (classes := _without_order(path, value)) is not None
    ]
    if not found:
        return []
    sets = [value for _, value in found]
    for is_each in (False, True):
        search = _Search(simulation, run, tick, is_each=is_each)
        plain, again, moved = search.outcome(), search.outcome(), search.outcome(copies=sets)
        if plain is None or plain != again or moved is None:
            return []  # Two equal runs differ: nothing can be concluded.
        if moved == plain:
            return _named(search, found, plain)
        if is_each:  # Steps depend on the addresses of new objects: what other allocations change says nothing.
            same = next(number for number, parts in enumerate(plain) if moved[number : number + 1] != [parts])
            return _named(search, found, plain[:same])
    return []


def _named(
    search: _Search, found: Sequence[tuple[IteratedSet, set[Any]]], plain: Sequence[Leaves]
) -> list[IteratedSet]:
    """The sets with which alone, in another order, the run is not as this beginning of it."""
    sets = [value for _, value in found]
    for order in range(ORDERS):
        if search.differs(plain, sets, order):
            return [one for one, value in found[:SETS_MAX] if search.differs(plain, [value], order)]
    return []


def _without_order(path: Path, value: Any) -> tuple[str, ...] | None:
    """The classes in a set that has an order of its own in every process, none for texts; None for all else."""
    if path[0][0] != INSTANCE or not isinstance(value, set) or len(value) < 2:
        return None
    if any(map(_has_text, value)):
        return ()
    return tuple(sorted({type(one).__name__ for element in value for one in _addressed(element)})) or None


def _has_text(element: Any) -> bool:
    if isinstance(element, tuple | frozenset):
        return any(map(_has_text, element))
    return isinstance(element, str | bytes)


def _addressed(element: Any) -> list[Any]:
    """The parts of an element that hash by their memory address."""
    if isinstance(element, tuple | frozenset):
        return [one for part in element for one in _addressed(part)]
    hash_method: Any = type(element).__hash__
    return [element] if hash_method is object.__hash__ else []


@attrs.frozen
class _Search:
    """Continues the run in copies of this process, with sets in another order.

    Attributes:
        is_each: True if the values are taken after each step, not only at the end.
    """

    simulation: Simulation
    run: Trajectory
    tick: int
    is_each: bool

    def outcome(
        self, reordered: Sequence[set[Any]] = (), copies: Sequence[set[Any]] = (), order: int = 0
    ) -> list[Leaves] | None:
        """The results of the further steps, and the values; None if a step raises or the time is up.

        copies: sets of which only copies are reordered, with as many allocations. order: which one they get.
        """
        messages = run_isolated(partial(self._continue, reordered, copies, order), TEST_S).messages
        return messages[0] if messages else None

    def differs(self, plain: Sequence[Leaves], reordered: Sequence[set[Any]], order: int) -> bool:
        """Return True if the run with these sets in another order is known, and does not begin in this way."""
        outcome = self.outcome(reordered, order=order)
        return outcome is not None and outcome[: len(plain)] != list(plain)

    def _continue(self, reordered: Sequence[set[Any]], copies: Sequence[set[Any]], order: int, send: Send) -> None:
        run = self.run
        kept = [set(value) for value in copies]
        for value in (*reordered, *kept):
            _reorder(value, order)
        outcome: list[Leaves] = []
        for inputs in run.inputs[self.tick :]:
            result = self.simulation.step(decode_plain(inputs))  # type: ignore[func-returns-value]
            leaves = leaves_of(result)
            outcome.append({path: digest for path, digest in leaves.items() if path not in run.unstable})
            if self.is_each:
                outcome.append(_values(take_instance(self.simulation), self.simulation))
        outcome.append(_values(take_instance(self.simulation), self.simulation))
        send(outcome)


def _reorder(value: set[Any], order: int) -> None:
    """Give a set a different order with the same elements, in place, if possible: the reverse, or one at random."""
    before = list(value)
    wanted = before[::-1] if order == 0 else random.Random(order).sample(before, len(before))  # noqa: S311 - the same order for the same number
    if give_order(value, wanted):
        return
    for count in _FILLERS[order % len(_FILLERS) :]:
        fillers = [("filler", number) for number in range(count)]
        value.clear()
        value.update(fillers)
        value.update(wanted)
        value.difference_update(fillers)
        if list(value) != before:
            return


def _values(ambient: Ambient, simulation: Simulation) -> Leaves:
    """The values that a simulation holds, without the order of its sets."""
    inside = {path: leaf for path, leaf in ambient.leaves.items() if path[0][0] == INSTANCE}
    sets = {path for path, value in ambient.objects.items() if kind_of(type(value)) == "set"}
    # The state of an adapter may hold the order of a set, for exact restores; that alone affects no step.
    leaves: Leaves = {} if is_our_own(type(inner_of(simulation))) else {"state": simulation.state.hash()}
    below: dict[Path, list[int]] = {}
    for path, leaf in inside.items():
        outer = next((path[:depth] for depth in range(1, len(path)) if path[:depth] in sets), None)
        if outer is not None:  # Of an element: its place in the order is its name, so only the value counts.
            below.setdefault(outer, []).append(digest_of(leaf))
            continue
        value = (leaf[0], set(map(repr, leaf[1]))) if path in sets and isinstance(leaf[1], list) else leaf
        leaves |= leaves_of(value, root=repr(path))
    return leaves | {f"elements of {path!r}": digest_of(sorted(digests)) for path, digests in below.items()}
