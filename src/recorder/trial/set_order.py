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
from weakref import WeakSet

import attrs

from recorder.ambient.ambient import INSTANCE, Ambient
from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from recorder.ambient.replacement.named_values import Path
from recorder.ambient.roots import is_our_own
from recorder.ambient.value_kinds import kind_of
from recorder.processes.isolated_fork import Send, run_isolated
from recorder.trial.returned import Leaves, digest_of, leaves_of
from recorder.trial.trajectory import Trajectory, several
from sim.kernel.plain_data import decode_plain
from sim.kernel.sets.equal_hashes import hashes_alike
from sim.kernel.sets.given_order import give_order
from sim.kernel.simulation import Simulation, inner_of

SETS_MAX = 16  # Sets that are reordered one by one.
TEST_S = 5.0
ORDERS = 4  # The reverse, and others at random: a step may use one place in the order, which some leave as it is.
_FILLERS = (48, 200, 800)  # A larger table gives a different order; after one of these it almost always does.


@attrs.frozen
class UnorderedSet:
    """A set whose order is not saved, since no process has the order of another one.

    Attributes:
        name: of the set, as written in code.
        classes: of the elements that decide about it; empty for a set of texts.
        is_addressed: True if these hash by their memory addresses.
    """

    name: str
    classes: tuple[str, ...] = ()
    is_addressed: bool = False

    @property
    def kind(self) -> str:
        """What is in it."""
        if not self.classes:
            return "a set of texts"
        how = "by their memory addresses" if self.is_addressed else "differently in each process"
        return f"a set of objects that hash {how}: {several(self.classes)}"

    @property
    def why(self) -> str:
        """What the order depends on, after the name."""
        if not self.classes:
            return "a set of texts: it differs from process to process, unless PYTHONHASHSEED is set"
        if not self.is_addressed:
            return f"a set of values whose hash differs from process to process ({several(self.classes)}); a dict or a list keeps an order"
        return (
            f"a set of objects that hash by their memory addresses ({several(self.classes)}): it may differ after each "
            "restore and in each run; a dict or a list keeps an order"
        )


@attrs.frozen
class SetOrders:
    """The sets of a simulation whose order is not saved.

    Attributes:
        used: those with which alone, in another order, a run goes on differently.
        unused: those that had other orders together, without any effect.
        untried: the others.
    """

    used: tuple[UnorderedSet, ...] = ()
    unused: tuple[UnorderedSet, ...] = ()
    untried: tuple[UnorderedSet, ...] = ()

    @property
    def texts(self) -> list[str]:
        """What is not saved of the sets whose order changed nothing, as far as it was tried."""
        return [
            f"the order of {several([one.name for one in sets])} is not saved ({what}): {tried}"
            for all_sets, tried in (
                (self.unused, "no step tried depends on it"),
                (self.untried, "no other order was tried"),
            )
            for what in dict.fromkeys(one.kind for one in all_sets)
            if (sets := [one for one in all_sets if one.kind == what])
        ]


def find_set_orders(simulation: Simulation, run: Trajectory, tick: int) -> SetOrders:
    """The sets whose order is not saved, and those of them that change the run from tick on.

    Steps the simulation and reorders its sets: call this in a copy.
    """
    for inputs in run.inputs[:tick]:
        simulation.step(decode_plain(inputs))
    ambient = take_instance(simulation)
    found = [
        (one, value) for path, value in ambient.objects.items() if (one := _without_order(path, value)) is not None
    ]
    movable = [(one, value) for one, value in found if isinstance(value, set)]
    used = _used(simulation, run, tick, movable) if movable else None
    if used is None:
        return SetOrders(untried=tuple(one for one, _ in found))
    if used:
        return SetOrders(used=tuple(used))
    moved = [one for one, value in movable if _takes_an_order(value)]
    return SetOrders(unused=tuple(moved), untried=tuple(one for one, _ in found if one not in moved))


def _used(
    simulation: Simulation, run: Trajectory, tick: int, found: Sequence[tuple[UnorderedSet, set[Any]]]
) -> list[UnorderedSet] | None:
    """The sets with which alone, in another order, the run differs; None if nothing can be concluded."""
    sets = [value for _, value in found]
    for is_each in (False, True):
        search = _Search(simulation, run, tick, is_each=is_each)
        plain, again, moved = search.outcome(), search.outcome(), search.outcome(copies=sets)
        if plain is None or plain != again or moved is None:
            return None  # Two equal runs differ.
        if moved == plain:
            return _named(search, found, plain)
        if is_each:  # Steps depend on the addresses of new objects: what other allocations change says nothing.
            same = next(number for number, parts in enumerate(plain) if moved[number : number + 1] != [parts])
            return _named(search, found, plain[:same])
    return None


def _named(
    search: _Search, found: Sequence[tuple[UnorderedSet, set[Any]]], plain: Sequence[Leaves]
) -> list[UnorderedSet] | None:
    """The sets with which alone, in another order, the run is not as this beginning of it; None if it needs several."""
    sets = [value for _, value in found]
    for order in range(ORDERS):
        if search.differs(plain, sets, order):
            return [one for one, value in found[:SETS_MAX] if search.differs(plain, [value], order)] or None
    return []


def _takes_an_order(value: set[Any]) -> bool:
    """Return True if one of the orders is another one. It stays."""
    before = list(value)
    for order in range(ORDERS):
        _reorder(value, order)
        if list(value) != before:
            return True
    return False


def _without_order(path: Path, value: Any) -> UnorderedSet | None:
    """The set, if it has an order of its own in every process; None for all else."""
    if path[0][0] != INSTANCE or not isinstance(value, set | frozenset | WeakSet) or len(value) < 2:
        return None
    parts = [part for element in value for part in _parts(element)]
    if any(isinstance(part, str | bytes) for part in parts):
        return UnorderedSet(name_of(path))
    for is_addressed in (True, False):
        kinds = {type(part) for part in parts if is_addressed is _is_addressed(part) and not hashes_alike(part)}
        if kinds:
            return UnorderedSet(name_of(path), tuple(sorted(kind.__name__ for kind in kinds)), is_addressed)
    return None


def _parts(element: Any) -> list[Any]:
    """The values of which the hash of an element is made."""
    if type(element) in (tuple, frozenset):
        return [one for part in element for one in _parts(part)]
    return [element]


def _is_addressed(part: Any) -> bool:
    hash_method: Any = type(part).__hash__
    return hash_method is object.__hash__


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
