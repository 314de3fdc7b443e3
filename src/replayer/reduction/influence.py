"""Find the inputs that influence a value at a tick: it is different when they are left out."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import attrs

from replayer.playback.make_simulation import Factory, make_stepping
from replayer.reduction.candidate_runs import CandidateRuns, Ending
from replayer.reduction.chunk_search import Parts
from replayer.reduction.failures import Failure
from replayer.reduction.first_failure import ensure_can_shrink, run_as_recorded
from replayer.reduction.input_groups import GroupSearch
from replayer.reduction.input_parts import InputPart, RecordedInputs, find_empty, read_inputs
from replayer.search.neighbours import neighbours_of, no_such_value
from replayer.search.search_errors import ExpressionError
from replayer.search.state_values import StateValues
from replayer.search.watched_value import AskedValue, are_same, watched_value
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from sim.kernel.simulation import Simulation

Progress = Callable[[int], None]  # Runs so far.


@attrs.frozen
class InfluentialInput:
    """An input without which the value is different.

    Attributes:
        tick: that it leads to.
        item: its index in the list of inputs of that tick, or its key in a dict; None for all inputs of the tick.
        value: the input.
        without: the value without it alone; None for an input that has influence only together with others.
        raised: what a step raises without it, in place of a value; None if none does.
    """

    tick: int
    item: int | str | None
    value: Any
    without: Any = None
    raised: str | None = None


@attrs.frozen
class InfluenceReport:
    """The inputs that influence a value.

    Attributes:
        value: the name of the value.
        tick: at which it was read.
        is_now: the value there, as recorded.
        inputs: those that change it when each alone is left out, by tick.
        together: sets of inputs that change it only when all of a set are left out, each by tick.
        input_count: the number of inputs up to that tick: of ticks, or of the items of lists that were looked into.
        others_change: True if the value is different without all other inputs together, and no further set was looked
            for; False if it is the same.
        each: True if every input was left out alone.
        runs, steps: simulated for that.
    """

    value: str
    tick: int
    is_now: Any
    inputs: list[InfluentialInput]
    together: list[list[InfluentialInput]]
    input_count: int
    others_change: bool
    each: bool
    runs: int
    steps: int


def influence(
    path: str | os.PathLike[str],
    field: str,
    row: int | tuple[int, ...] = (),
    world: Factory | None = None,
    *,
    entity: int | None = None,
    at: int = -1,
    each: bool = False,
    empty: Any = attrs.NOTHING,
    progress: Progress | None = None,
) -> InfluenceReport:
    """Find the inputs that influence a value at a tick: without them it is different.

    field, row, entity, at: the value and the tick, as in Timeline.last_write. Groups of inputs are left out, and halved
    where that changes the value; each: leave out every input alone instead, which takes a run for each.
    empty: what stands for no input, as in replayer.shrink.

    Raises ExpressionError for an unknown value, UnfitTapeError if the simulation takes no empty input, DesyncError if the
    tape does not replay; and as Timeline does.
    """
    asked = watched_value(field, row if isinstance(row, tuple) else (row,), entity)
    with Timeline(path, world) as run:
        return find_influence(run, asked, run.absolute_tick(at), world, each=each, empty=empty, progress=progress)


def find_influence(
    run: Timeline,
    asked: AskedValue,
    tick: int,
    world: Factory | None,
    *,
    each: bool = False,
    empty: Any = attrs.NOTHING,
    progress: Progress | None = None,
) -> InfluenceReport:
    """Find the inputs up to tick that influence a value there. Raises as influence does."""
    ensure_can_shrink(run.tape, tick)
    simulation = make_stepping(run.tape, world)
    start = run.tape.snapshot(run.tape.keyframes[0])
    encoded = find_empty(run.tape, simulation, start, () if empty is attrs.NOTHING else (empty,))
    recorded = read_inputs(run.tape, tick, encoded)
    runs = CandidateRuns(simulation, run.first_tick, tick, start, recorded)
    return _Influence(run.tape, runs, recorded, asked, tick, progress).find(each=each)


class _ReadAtEnd(Failure):
    """Reads the value at the end of a run."""

    def __init__(self, asked: AskedValue) -> None:
        self._asked = asked
        self.text = "no step that raises"

    def result(self, tick: int, simulation: Simulation) -> Any:
        """See Watch."""
        return self._asked.read(tick, simulation.state)


class _Influence:
    """The search for one value."""

    def __init__(
        self,
        tape: Tape,
        runs: CandidateRuns,
        recorded: RecordedInputs,
        asked: AskedValue,
        tick: int,
        progress: Progress | None,
    ) -> None:
        self._tape = tape
        self._runs = runs
        self._recorded = recorded
        self._asked = asked
        self._tick = tick
        self._progress = progress
        self._watch = _ReadAtEnd(asked)
        self._known: dict[tuple[InputPart, ...], Ending] = {}
        self._all: Parts = recorded.by_tick()
        self._base = Ending(tick, failed=False)

    def find(self, *, each: bool) -> InfluenceReport:
        """Find the inputs, first by tick, then the items of the lists among them."""
        self._base = run_as_recorded(self._tape, self._runs, self._recorded.encoded, self._watch, self._tick)
        self._ensure_exists()
        by_tick = GroupSearch(self._changes)
        by_tick.search(self._all, each=each)
        others_change = by_tick.rest_changes(self._all)
        single, together = self._by_item(by_tick, each=each)
        return InfluenceReport(
            str(self._asked),
            self._tick,
            self._base.result,
            [self._described(part, alone=True) for part in sorted(single)],
            [[self._described(part, alone=False) for part in sorted(group)] for group in together],
            len(self._all),
            others_change,
            each,
            self._runs.runs,
            self._runs.steps,
        )

    def _by_item(self, by_tick: GroupSearch, *, each: bool) -> tuple[Parts, list[Parts]]:
        """The single parts and the sets, with the items of lists in place of their ticks."""
        single, together = list[InputPart](), list(by_tick.together)
        for part in by_tick.single:
            items = self._recorded.by_item([part.tick])
            if len(items) < 2:
                single.append(part)
                continue
            self._all = [other for other in self._all if other != part] + items
            search = GroupSearch(self._changes)
            search.search(items, each=each)
            search.rest_changes(items)
            single += search.single
            together += search.together
        return single, together

    def _ensure_exists(self) -> None:
        """Raise ExpressionError for a name that the state at the tick does not have."""
        values = StateValues(self._tick, self._runs.simulation.state, {})
        for name in (self._asked.name, self._asked.id_column):
            if name is not None and not values.has(name):
                near = neighbours_of(values.objects(), self._tick, name)
                raise ExpressionError(f"{no_such_value(name, list(values.names()), near)} (tick {self._tick:,})")

    def _without(self, parts: Parts) -> Ending:
        """The end of the run without these parts."""
        key = tuple(sorted(parts))
        if key not in self._known:
            left_out = set(parts)
            inputs = self._recorded.select(part for part in self._all if part not in left_out)
            self._known[key] = self._runs.run(inputs, self._tick, self._watch)
            if self._progress is not None:
                self._progress(self._runs.runs)
        return self._known[key]

    def _changes(self, parts: Parts) -> bool:
        ending = self._without(parts)
        return ending.error is not None or not are_same(ending.result, self._base.result)

    def _described(self, part: InputPart, *, alone: bool) -> InfluentialInput:
        item = self._recorded.part_key(part)
        value = self._recorded.part_value(part)
        if not alone:
            return InfluentialInput(part.tick, item, value)
        ending = self._without([part])
        if ending.error is None:
            return InfluentialInput(part.tick, item, value, ending.result)
        raised = " ".join(f"{type(ending.error).__name__}: {ending.error}".split())
        return InfluentialInput(part.tick, item, value, None, f"the step to tick {ending.tick:,} raises {raised}")
