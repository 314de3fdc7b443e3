"""Find what a restored simulation lacks, by giving it the live run's values one by one.

A value is named only if the run is as the live one with it and is not without it: a test that could have come out
otherwise.

Invariant: each test runs in its own copy of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import attrs

from recorder.ambient.ambient import Ambient
from recorder.ambient.ambient_diff import Candidate, find_candidates
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots
from recorder.ambient.transplant import give_values
from recorder.processes.isolated_fork import Send, run_isolated
from recorder.trial.trajectory import Trajectory, follow
from sim.kernel.plain_data import decode_plain
from sim.kernel.simulation import Simulation, inner_of, restore
from sim.kernel.state import Snapshot

CANDIDATES_MAX = 16  # Each costs a copy of the process and a repetition of the run.
AGAIN = 3  # A run that has one of two states by chance passes once in 64 times.
TEST_S = 5.0  # The time limit of one test: a copy of a large process on a busy machine takes long to begin.


@attrs.frozen
class MissingValue:
    """A value outside the state that a step reads.

    Attributes:
        name: for finding it in the code, such as ``Walkers._memo`` or ``module walkers: COUNTER``.
        kind: attribute, module global, class attribute, closure, random generator, set, …; for two names that share
            memory, in which of the runs they do.
    """

    name: str
    kind: str

    def __str__(self) -> str:
        return self.name if self.name.endswith(f"({self.kind})") else f"{self.name} ({self.kind})"


def find_causes(simulation: Simulation, run: Trajectory, tick: int, names: Sequence[str]) -> list[MissingValue]:
    """The values that a restore of the state at tick lacks, proved; empty if no test shows any.

    The simulation must be in the first state of the run. It is stepped: call this in a copy of the process.
    """
    roots = Roots(type(inner_of(simulation)))
    roots.add_types(take_ambient(roots, simulation).types)
    search = _Search(simulation, run, tick, names, roots, take_ambient(roots, simulation))
    for inputs in run.inputs[:tick]:
        simulation.step(decode_plain(inputs))
    search.kept, search.live = simulation.state.snapshot(), take_ambient(roots, simulation)
    # As a fresh process sees it: everything outside the state is as it was before the first step.
    causes = search.in_a_copy(search.rewind)
    if not causes:  # As a later seek in the same process sees it.
        for inputs in run.inputs[tick:]:
            simulation.step(decode_plain(inputs))
        causes = search.in_a_copy(lambda: None)
    return causes


class _Search:
    """The search for the causes of one divergence.

    Attributes:
        kept: the state at the tick.
        live: everything outside it at that tick of the live run.
    """

    kept: Snapshot
    live: Ambient

    def __init__(
        self, simulation: Simulation, run: Trajectory, tick: int, names: Sequence[str], roots: Roots, first: Ambient
    ) -> None:
        self._simulation = simulation
        self._run = run
        self._tick = tick
        self._names = names
        self._roots = roots
        self._first = first

    def in_a_copy(self, prepare: Callable[[], None]) -> list[MissingValue]:
        """The causes that are found after prepare has run."""

        def work(send: Send) -> None:
            prepare()
            send(self._causes())

        messages = run_isolated(work, CANDIDATES_MAX * TEST_S).messages
        return messages[0] if messages else []

    def rewind(self) -> None:
        """Put everything outside the state back to what it was before the first step."""
        simulation, first = self._simulation, self._first
        now = take_ambient(self._roots, simulation)
        differing = find_candidates(first, now)
        first.put_back()
        give_values(first, now, simulation.state, differing)
        self._roots.empty_caches()

    def _causes(self) -> list[MissingValue]:
        simulation = self._simulation
        try:
            restore(simulation, self.kept)
        except Exception:  # noqa: BLE001 - reported as the divergence itself
            return []
        present = take_ambient(self._roots, simulation)
        candidates = find_candidates(self.live, present)[:CANDIDATES_MAX]
        if not candidates or self._is_same(present, []):
            return []
        alone = proving = [candidate for candidate in candidates if self._is_same(present, [candidate])]
        if not alone and len(candidates) > 1 and self._is_same(present, candidates):
            proving = candidates
            alone = [
                candidate
                for candidate in candidates
                if not self._is_same(present, [other for other in candidates if other is not candidate])
            ]
        return [_cause(candidate) for candidate in alone] if alone and self._is_so_again(present, proving) else []

    def _is_so_again(self, present: Ambient, given: Sequence[Candidate]) -> bool:
        """Return True if each further run differs without these values, and none with them: one of each may be chance."""
        return all(not self._is_same(present, []) and self._is_same(present, given) for _ in range(AGAIN))

    def _is_same(self, present: Ambient, given: Sequence[Candidate]) -> bool:
        """Return True if the run continues as the live one did once it has these values of the live run."""
        messages = run_isolated(partial(self._follow, present, given), TEST_S).messages
        return messages == [True]

    def _follow(self, present: Ambient, given: Sequence[Candidate], send: Send) -> None:
        give_values(self.live, present, self._simulation.state, given)
        send(follow(self._simulation, self._run, self._tick, self._names) is None)


def _cause(candidate: Candidate) -> MissingValue:
    return MissingValue(candidate.name, candidate.detail if candidate.kind == "alias" else candidate.kind)
