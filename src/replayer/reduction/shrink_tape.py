"""Shrink the inputs of a failing run to a minimal list that fails in the same way."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import attrs
import xxhash

from replayer.playback.make_simulation import Factory, make_stepping
from replayer.reduction.candidate_runs import CandidateRuns
from replayer.reduction.chunk_search import ChunkSearch, Parts
from replayer.reduction.desync_runs import DesyncFailure, DesyncRuns
from replayer.reduction.failures import Predicate, ViolationFailure
from replayer.reduction.first_failure import (
    AskedFailure,
    ask_condition,
    ask_raised,
    ask_violation,
    ensure_can_shrink,
    run_as_recorded,
    text_of,
)
from replayer.reduction.input_parts import Inputs, find_empty, read_inputs
from replayer.reduction.kept_results import KeptResults
from replayer.reduction.reduced_tape import Shrunk, interval_of, write_reduced
from replayer.reduction.trials_ahead import Asked, asked_key, next_candidates, run_together
from replayer.tape.copied_range import UnfitTapeError
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.plain_data import encode_plain

Progress = Callable[[int, int], None]  # Candidates tried so far, candidates in all, about.
_FORM = 1  # Of the kept results; a change of the search makes them those of a different one.

# State in modules is there in a run and in its replays, which share a process.
MODULES_HIDE = (
    "; what a simulation keeps in its modules is not found in this way: replay verify and replay explain find it"
)


@attrs.frozen
class LeftInput:
    """An input that is needed.

    Attributes:
        tick: that it leads to.
        item: its index in the list of inputs of that tick, or its key in a dict; None for all inputs of the tick.
        value: the input.
    """

    tick: int
    item: int | str | None
    value: Any


@attrs.frozen
class ShrinkReport:
    """A minimal list of inputs that fails.

    Attributes:
        failure: what was compared, for people: the condition, the property, the exception and its line.
        tick: of the failure with the inputs that are left.
        recorded_tick: of the failure in the recorded run.
        inputs: those that are left, by tick; without any one of them, there is no such failure.
        recorded_count: the number of ticks with inputs up to the failure in the recorded run.
        empty: the input of the other ticks.
        runs, steps: simulated for the search.
        reused: the number of results that an earlier, interrupted search had found.
        path: of the new tape; None if none was written.
        is_desync: True if the failure is a desync: a verification of the new tape finds it.
    """

    failure: str
    tick: int
    recorded_tick: int
    inputs: list[LeftInput]
    recorded_count: int
    empty: Any
    runs: int
    steps: int
    reused: int
    path: Path | None
    is_desync: bool = False


def shrink(
    path: str | os.PathLike[str],
    until: str | Predicate | None = None,
    world: Factory | None = None,
    *,
    raises: str | Literal[True] | None = None,
    violation: str | None = None,
    desync: bool = False,
    output: str | os.PathLike[str] | None = None,
    empty: Any = attrs.NOTHING,
    jobs: int = 1,
    progress: Progress | None = None,
) -> ShrinkReport:
    """Leave out inputs of a run until each one that is left is needed for its failure.

    Ticks stay: an input is replaced by the empty one, and an item is taken out of the list or dict of its tick.

    until: a condition as in Timeline.find, or a function of a Snapshot; the failure is that it holds. raises: a step
    raises an exception of the same class at the same line; a text selects one that has it in class and message, True
    takes the last one. violation: the name of a property of the tape's scenario. desync: a replay from a keyframe gives
    other states than the run, first in the same fields: the simulation keeps something outside its state. Exactly one of
    them is needed.
    output: a new tape of the run that is left. Until it is written, results are kept in a file next to it, so that an
    interrupted search continues when it is called again.
    empty: what stands for no input; by default None, [] or {}, as on the tape, or a call of a recorded object's method
    without arguments.
    jobs: candidates that are run at the same time, in forked processes; the result is the same.

    Raises UnfitTapeError if there is no such failure, or the simulation takes no empty input; ExpressionError for a
    condition that is none; DesyncError if the tape does not replay; FileExistsError, OSError; and as Timeline does.

    Examples:
        >>> report = replayer.shrink("run.tape", lambda state: state["x"].max() > 40, Walkers, empty=0)
        >>> report.recorded_count > len(report.inputs)
        True
    """
    if [until, raises, violation, desync or None].count(None) != 3:
        raise UnfitTapeError("expected one failure: until, raises, violation or desync")
    if jobs < 1:
        raise ValueError(f"jobs: expected at least 1, got {jobs}")
    target = None if output is None else Path(output)
    if target is not None and os.path.lexists(target):
        raise FileExistsError(f"{target}: a file of this name exists already: choose a different name")
    with Timeline(path, world) as run:
        asked = AskedFailure(DesyncFailure(), run.last_tick) if desync else _asked(run, until, raises, violation)
        ensure_can_shrink(run.tape, asked.last_tick)
        return _Shrinking(run.tape, world, asked, empty, progress, jobs).shrink(target)


def _asked(
    run: Timeline, until: str | Predicate | None, raises: str | Literal[True] | None, violation: str | None
) -> AskedFailure:
    if until is not None:
        return ask_condition(run, until)
    if violation is not None:
        return ask_violation(run.tape, violation)
    return ask_raised(run.tape, raises if isinstance(raises, str) else "")


class _Shrinking:
    """One search."""

    def __init__(
        self,
        tape: Tape,
        world: Factory | None,
        asked: AskedFailure,
        empty: Any,
        progress: Progress | None,
        jobs: int,
    ) -> None:
        self._jobs = jobs
        self._tape = tape
        self._world = world
        self._asked = asked
        self._progress = progress
        simulation = make_stepping(tape, world)
        if isinstance(asked.watch, ViolationFailure):
            asked.watch.prepare(simulation)
        self._start = tape.snapshot(tape.keyframes[0])
        given = () if empty is attrs.NOTHING else (empty,)
        encoded = find_empty(tape, simulation, self._start, given)
        self._recorded = read_inputs(tape, asked.last_tick, encoded, asked.ending)
        self._runs: CandidateRuns | DesyncRuns
        if isinstance(asked.watch, DesyncFailure):
            self._runs = DesyncRuns(tape, world, self._recorded, interval_of(tape))
        else:
            self._runs = CandidateRuns(simulation, tape.first_tick, asked.last_tick, self._start, self._recorded)

    def shrink(self, target: Path | None) -> ShrinkReport:
        """Search, and write the new tape. Raises as the function shrink does."""
        all_inputs = self._recorded.encoded
        watch, last = self._asked.watch, self._asked.last_tick
        if isinstance(self._runs, DesyncRuns):
            assert isinstance(watch, DesyncFailure)
            ending = self._runs.run_as_recorded(all_inputs, last, watch)
        else:
            ending = run_as_recorded(self._tape, self._runs, all_inputs, watch, last)
        tick = ending.tick
        if not ending.failed:
            limit = MODULES_HIDE if isinstance(watch, DesyncFailure) else ""
            raise UnfitTapeError(
                f"{text_of(self._asked.watch)} does not come in the recorded run, so there is nothing to shrink{limit}"
            )
        results = KeptResults(target, self._identity(tick))
        try:
            left, last = self._search(tick, results)
        finally:
            results.close()
        report = self._report(left, tick, last, results.reused, target)
        if isinstance(watch, DesyncFailure):
            watch.ends_at = last
        if target is not None:
            facts = {
                "from": self._tape.path.name,
                "run": self._tape.run_id,
                "failure": report.failure,
                "tick": last,
                "inputs": [len(self._recorded.encoded), len({part.tick for part in left})],
            }
            chosen = self._recorded.select(left)
            write_reduced(self._tape, self._world, target, Shrunk(chosen, self._recorded, last, watch, facts))
        results.remove()
        return report

    def _search(self, tick: int, results: KeptResults) -> tuple[Parts, int]:
        """The parts that are left, and the tick of their failure."""
        ticks, tick = self._smallest(self._recorded.by_tick(), tick, results)
        items = self._recorded.by_item(part.tick for part in ticks)
        return self._smallest(items, tick, results) if items != ticks else (ticks, tick)

    def _smallest(self, base: Parts, tick: int, results: KeptResults) -> tuple[Parts, int]:
        known: dict[Asked, int | None] = {}

        def fails(parts: Parts) -> int | None:
            if self._jobs > 1 and not self._is_known(parts, search.tick, results):
                self._run_ahead(next_candidates(base, tick, known, self._jobs), results)
            key = asked_key(parts, search.tick)
            known[key] = self._fails(parts, search.tick, results)
            return known[key]

        search = ChunkSearch(fails, tick, self._progress)
        return search.smallest(base), search.tick

    def _is_known(self, parts: Parts, limit: int, results: KeptResults) -> bool:
        return _digest(self._recorded.select(parts), limit) in results

    def _run_ahead(self, candidates: list[tuple[Parts, int]], results: KeptResults) -> None:
        """Run these candidates at the same time, but for those whose results are known."""
        chosen = [(self._recorded.select(parts), limit) for parts, limit in candidates]
        new = [one for one in chosen if _digest(*one) not in results]
        if not run_together(
            self._runs,
            self._asked.watch,
            new,
            self._jobs,
            lambda number, tick: results.put(_digest(*new[number]), tick),
        ):
            self._jobs = 1

    def _fails(self, parts: Parts, limit: int, results: KeptResults) -> int | None:
        """The tick at which these parts fail, up to limit; None if they do not."""
        inputs = self._recorded.select(parts)
        key = _digest(inputs, limit)
        if key not in results:
            ending = self._runs.run(inputs, limit, self._asked.watch)
            results.put(key, ending.tick if ending.failed else None)
        return results[key]

    def _identity(self, tick: int) -> str:
        """A digest of all that decides the results of candidates, but for the code of the simulation."""
        watch = self._asked.watch
        failure = str(getattr(watch, "identity", text_of(watch)))
        world = f"{getattr(self._world, '__module__', '')}:{getattr(self._world, '__qualname__', '')}"
        facts = [_FORM, self._tape.run_id, type(watch).__name__, failure, world, self._recorded.empty, tick]
        return xxhash.xxh3_128_hexdigest(encode_plain(facts))

    def _report(self, left: Parts, recorded: int, tick: int, reused: int, target: Path | None) -> ShrinkReport:
        inputs = [LeftInput(part.tick, self._recorded.part_key(part), self._recorded.part_value(part)) for part in left]
        count = sum(1 for one in self._recorded.encoded if one <= recorded)
        failure = text_of(self._asked.watch)
        steps = self._runs.steps + self._asked.steps
        return ShrinkReport(
            failure,
            tick,
            recorded,
            inputs,
            count,
            self._recorded.value(-1),
            self._runs.runs,
            steps,
            reused,
            target,
            isinstance(self._asked.watch, DesyncFailure),
        )


def _digest(inputs: Inputs, limit: int) -> str:
    digest = xxhash.xxh3_128(limit.to_bytes(8, "little"))
    for tick in sorted(inputs):
        digest.update(encode_plain([tick, inputs[tick]]))
    return digest.hexdigest()
