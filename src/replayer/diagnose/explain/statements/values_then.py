"""Search statements of the program that give values outside the state what they were when the recording began."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.code_note import CodeNote
from recorder.ambient.outside.code_parts.defining_lines import place_text
from recorder.ambient.outside.code_parts.places import Place, places_of
from recorder.ambient.outside.loaded_code import CodeComparison, compare_code, is_noted
from recorder.processes.fork_call import in_a_copy
from recorder.processes.seeds.process_generators import generator_states, set_generator_states
from replayer.diagnose.explain.before_step.change_search import step_name
from replayer.diagnose.explain.before_step.program_code import functions_of_program
from replayer.diagnose.explain.lines_run.run_lines import RunBefore
from replayer.diagnose.explain.statements.isolated_trials import StepTrials, run_wholly, step_hash, trials_of
from replayer.diagnose.explain.statements.kept_value import KeptValue
from replayer.diagnose.explain.statements.program_names import NotRunnableError, ProgramNames
from replayer.diagnose.explain.statements.statement_groups import StatementGroup, groups_of
from replayer.tape.noted_outside import noted_outside
from replayer.tape.plain_state import snapshot_from_plain
from replayer.tape.tape import Tape
from sim.kernel.simulation import Simulation, restore, subject_of

SEARCH_S = 30.0  # On the clock: each trial is a process of its own.
_NOTHING: dict[str, Any] = {"found": None}


def values_then(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    """Run statements before the step, and see with which of them it gives the recorded state.

    Raises RuntimeError if a copy of this process died.
    """
    outside = noted_outside(tape)
    return _NOTHING if outside.code is None else in_a_copy(partial(_search, tape, job, make, outside.code))


def _search(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation], note: CodeNote) -> dict[str, Any]:
    simulation, tick = make(), job["tick"]
    restore(simulation, snapshot_from_plain(job["before"]))
    compared = compare_code(note, simulation)
    if compared is None:
        return _NOTHING
    places = _other_places(simulation, compared)
    functions = functions_of_program(subject_of(simulation))
    modules = noted_outside(tape).modules
    inputs, recorded_hash = tape.frame(tick).inputs, tape.state_hash(tick)
    trials = trials_of(simulation, inputs, recorded_hash) if places else None
    if trials is None:
        return _NOTHING
    bench = _Bench(simulation, note, places, ProgramNames(functions, modules), inputs, recorded_hash, trials)
    found = _found(bench, groups_of(functions, {one.key for one in places.values()}, step_name(tape), modules))
    return {"found": found.to_plain() if found is not None else None}


def _other_places(simulation: Simulation, compared: CodeComparison) -> dict[str, Place]:
    """The values that are not as noted, and those that cannot be compared and that functions change, by what is shown of them."""
    texts = {*compared.values, *(one for one in compared.left_out if one in compared.by_functions)}
    shown = ((f"{one.name} ({place_text(one.path, one.name)})", one) for one in places_of(simulation))
    return {text: place for text, place in shown if text in texts}


@attrs.frozen
class _Outcome:
    """What a trial gave.

    Attributes:
        ran: the numbers of the statements that could be run.
        changed: the values that are others after these, in this order.
        noted: of these, those that are as noted.
        state_hash: after the step.
    """

    ran: tuple[int, ...]
    changed: tuple[str, ...]
    noted: tuple[str, ...]
    state_hash: int


@attrs.frozen(eq=False)
class _Bench:
    """A simulation in the state before the step, of which each trial is an isolated copy."""

    simulation: Simulation
    note: CodeNote
    places: dict[str, Place]
    names: ProgramNames
    inputs: Any
    recorded_hash: int
    trials: StepTrials

    def trial(
        self,
        group: StatementGroup,
        chosen: Sequence[int] | None = None,
        *,
        puts_back: Collection[str] = (),
        keeps: Collection[str] | None = None,
    ) -> _Outcome | None:
        """Run statements of a group, then the step; None if that could not be run as it is, or the statements change nothing.

        puts_back: values that are then as they were before these. keeps: the values that alone are not.
        """
        return self.trials.run(partial(self._trial, group, chosen, puts_back, keeps))

    def gives_recorded(self, group: StatementGroup, chosen: Sequence[int]) -> bool:
        """Return True if the step is seen to give the recorded state."""
        outcome = self.trial(group, chosen)
        return outcome is not None and outcome.state_hash == self.recorded_hash

    def _trial(
        self,
        group: StatementGroup,
        chosen: Sequence[int] | None,
        puts_back: Collection[str],
        keeps: Collection[str] | None,
    ) -> _Outcome | None:
        before = {text: KeptValue(place) for text, place in self.places.items()}
        rest = _Rest(self.simulation, [self.places[one] for one in keeps]) if keeps is not None else None
        numbers = chosen if chosen is not None else range(len(group.statements))
        ran = tuple(number for number in numbers if self._runs(group, number))
        changed = tuple(text for text, kept in before.items() if kept.is_other())
        if not changed:
            return None
        noted = tuple(one for one in changed if is_noted(self.note, self.places[one]))
        for text in puts_back:
            before[text].put_back()
        if rest is not None and not rest.put_back():
            return None
        return _Outcome(ran, changed, noted, step_hash(self.simulation, self.inputs))

    def _runs(self, group: StatementGroup, number: int) -> bool:
        """Return False for a statement that cannot be run alone. Raises what it raises: what it did up to there counts for nothing."""
        try:
            run_wholly(lambda: self.names.run(group.statements[number], group.function))
        except (NotRunnableError, SyntaxError):
            return False
        return True


class _Rest:
    """Everything of the program that can be put back, but for some values and what they lead to."""

    def __init__(self, simulation: Simulation, but: Collection[Place]) -> None:
        spared = {one for place in but for one in KeptValue(place).identities}
        names = {(id(one.holder), one.key) for one in but}
        all_places = list(places_of(simulation))
        self._simulation, self._hash = simulation, simulation.state.hash()
        self._kept = [KeptValue(one, spared) for one in all_places if (id(one.holder), one.key) not in names]
        self._names = [
            (one, set(vars(one))) for one in {id(place.holder): place.holder for place in all_places}.values()
        ]
        self._variables, self._states = dict(os.environ), generator_states()

    def put_back(self) -> bool:
        """Put it back; return False if the state is another one now."""
        for one in self._kept:
            if one.is_other():
                one.put_back()
        for holder, names in self._names:
            for name in vars(holder).keys() - names:
                delattr(holder, name)
        os.environ.clear()
        os.environ.update(self._variables)
        set_generator_states(self._states)
        return bool(self._simulation.state.hash() == self._hash)


def _found(bench: _Bench, groups: Sequence[StatementGroup]) -> RunBefore | None:
    """The first statements with which the values are as noted, and the step gives the recorded state; else with which it does."""
    end_s = time.monotonic() + SEARCH_S
    best: tuple[StatementGroup, _Outcome] | None = None
    for group in groups:
        if time.monotonic() > end_s:
            break
        trial = bench.trial(group)
        if trial is not None and trial.state_hash == bench.recorded_hash and (best is None or trial.noted):
            best = group, trial
            if trial.noted:
                break
    if best is None:
        return None
    group, trial = best
    needed = _needed(bench, group, trial.ran)
    if not bench.gives_recorded(group, needed):
        return None  # By chance.
    values = next((one for one in (trial.noted, trial.changed) if one and _is_by(bench, group, trial, one)), ())
    return RunBefore(
        values or trial.noted or trial.changed,
        tuple(map(group.place, needed)),
        tuple(group.place(one) for one in trial.ran if one not in needed),
        is_as_noted=set(values or trial.noted or trial.changed) <= set(trial.noted),
        is_by_values=bool(values),
    )


def _is_by(bench: _Bench, group: StatementGroup, trial: _Outcome, values: Sequence[str]) -> bool:
    """Return True if these values alone are enough for the recorded state, and without them another one is seen."""
    without = bench.trial(group, trial.ran, puts_back=values)
    alone = bench.trial(group, trial.ran, keeps=values)
    if without is None or alone is None or {without.ran, alone.ran} != {trial.ran}:
        return False
    return without.state_hash != bench.recorded_hash == alone.state_hash


def _needed(bench: _Bench, group: StatementGroup, ran: Sequence[int]) -> list[int]:
    """Without the others of the statements, each for itself or with those before, the step gives the recorded state as well."""
    needed = list(ran)
    for one in ran:
        rest = [other for other in needed if other != one]
        if rest and bench.gives_recorded(group, rest):
            needed = rest
    return needed
