"""Run the candidates of a search several at a time: the one that is asked for, and those that are asked for next.

The search asks for one candidate after the other, and each answer decides the next question. Which ones come next if
this one and those after it do not fail is known, though, and mostly so it is. They are run at the same time, in forked
copies of this process, and their results are kept. The search takes the same way as without them, so it finds the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from recorder.processes.fork_hazard import fork_hazard
from recorder.processes.fork_pool import ForkPool
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from recorder.processes.pool import Report, results_in_order
from replayer.reduction.candidate_runs import Ending, Watch
from replayer.reduction.chunk_search import ChunkSearch, Parts
from replayer.reduction.input_parts import InputPart, Inputs

Asked = tuple[tuple[int, ...], int]  # The parts of a candidate, by identity, and the tick to beat.


class Runs(Protocol):
    """Runs of candidates, see CandidateRuns."""

    steps: int
    runs: int

    def run_here(self, inputs: Inputs, last_tick: int, watch: Watch) -> Ending:
        """Run one in this process, which is a copy made for it."""


class _EnoughError(Exception):
    """No more candidates are needed."""


def asked_key(parts: Parts, limit: int) -> Asked:
    """A candidate of one list of parts, as a key."""
    return tuple(map(id, parts)), limit


def next_candidates(
    base: Sequence[InputPart], tick: int, known: dict[Asked, int | None], count: int
) -> list[tuple[Parts, int]]:
    """The next candidates of a search, each with its tick to beat, if none of them fails.

    base, tick: that the search began with. known: the answers so far.
    """
    found: dict[Asked, tuple[Parts, int]] = {}

    def fails(parts: Parts) -> int | None:
        key = asked_key(parts, search.tick)
        if key in known:
            return known[key]
        found.setdefault(key, (list(parts), search.tick))
        if len(found) >= count:
            raise _EnoughError
        return None

    search = ChunkSearch(fails, tick)
    with contextlib.suppress(_EnoughError):
        search.smallest(base)
    return list(found.values())


@attrs.frozen
class _Trial:
    """A candidate in a copy of this process: whether and when it fails, and the steps that took."""

    runs: Runs
    watch: Watch

    def __call__(self, candidate: tuple[Inputs, int], report: Report, /) -> tuple[int | None, int]:
        del report
        before = self.runs.steps
        ending = self.runs.run_here(*candidate, self.watch)
        return (ending.tick if ending.failed else None), self.runs.steps - before


def run_together(
    runs: Runs,
    watch: Watch,
    candidates: Sequence[tuple[Inputs, int]],
    jobs: int,
    put: Callable[[int, int | None], None],
) -> bool:
    """Run candidates at the same time; put gets the number of each, and the tick at which it fails, or None.

    Returns False if this process cannot be forked: nothing was run then. Raises what a run raises.
    """
    if fork_hazard() is not None:
        return False
    pool = ForkPool(jobs, PATIENCE_S)
    results = results_in_order(
        pool, _Trial(runs, watch), candidates, name=lambda item: f"simulated up to tick {item[1]:,}", size=lambda _: 1
    )
    for number, (tick, steps) in enumerate(results):
        runs.steps += steps
        runs.runs += 1
        put(number, tick)
    return True
