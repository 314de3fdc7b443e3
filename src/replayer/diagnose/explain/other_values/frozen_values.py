"""Compile functions with the constants that those of the recording had, and run the step: machine code keeps what a module had."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from recorder.ambient.caches.compiled_constants import CompiledFunctions, Key
from recorder.ambient.outside.code_parts.defining_lines import place_text
from recorder.ambient.outside.code_parts.frozen_constants import FrozenConstant, current_value
from recorder.ambient.outside.code_parts.places import places_of
from recorder.ambient.roots import Roots
from recorder.processes.fork_call import in_a_copy
from replayer.desync.code_comparison import differing_constants
from replayer.diagnose.explain.before_step.change_search import step_name
from replayer.diagnose.explain.before_step.changing_lines import changing_lines
from replayer.diagnose.explain.before_step.program_code import ProgramCode, program_code
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.lines_run.found_values import ValuePutIn, ValuesPutIn
from replayer.diagnose.explain.other_values.guesses import own_places
from replayer.diagnose.explain.other_values.tried_values import defining
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.statements.isolated_trials import StepTrials, step_hash, trials_of
from replayer.tape.noted_outside import noted_outside
from replayer.tape.plain_state import snapshot_from_plain
from replayer.tape.tape import Tape
from sim.kernel.simulation import Simulation, restore, subject_of

LINES_SHOWN = 6


def frozen_values(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    """Compile what the step calls with the constants that the tape tells, and see whether it gives the recorded state.

    Raises RuntimeError if a copy of this process died.
    """
    return in_a_copy(partial(_search, tape, job, make))


def _search(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    simulation, tick = make(), job["tick"]
    functions = CompiledFunctions(Roots(type(subject_of(simulation))), with_early=True)
    restore(simulation, snapshot_from_plain(job["before"]))
    inputs, recorded_hash = tape.frame(tick).inputs, tape.state_hash(tick)
    there = functions.now()
    frozen = [
        one
        for one in differing_constants(noted_outside(tape).frozen, simulation)
        if one.is_known and one.function in there
    ]
    trials = trials_of(simulation, inputs, recorded_hash) if frozen else None
    if trials is None:
        return {"found": None}
    bench = _Bench(simulation, inputs, functions, trials)
    found = bench.decisive(frozen, recorded_hash)
    if not found:
        return {"found": None}
    code = program_code(subject_of(simulation), step_name(tape))
    told = [_told(functions, code, simulation, one) for one in found]
    others = [_told(functions, code, simulation, one) for one in frozen if one not in found]
    return {"found": ValuesPutIn(tuple(told), len(found) > 1, tuple(others), len(frozen)).to_plain()}


@attrs.frozen(eq=False)
class _Bench:
    """A simulation in the state before the step, of which each trial is a copy."""

    simulation: Simulation
    inputs: Any
    functions: CompiledFunctions
    trials: StepTrials

    def decisive(self, frozen: Sequence[FrozenConstant], recorded_hash: int) -> list[FrozenConstant]:
        """Those that are needed for the recorded state; none if it does not come out with all, or without any."""
        there = self.functions.now()
        present = {_key(one): current_value(there[one.function], one.name) for one in frozen}
        as_now = self.trials.run(partial(self._trial, present))
        if as_now != self.trials.control or not self._is(frozen, recorded_hash):
            return []  # Functions that are compiled again have an effect of their own, or something else differs as well.
        needed = list(frozen)
        for one in frozen:
            rest = [other for other in needed if other is not one]
            needed = rest if rest and self._is(rest, recorded_hash) else needed
        # Twice: a step that gives the one state or the other by chance may do so once.
        return needed if self._is(needed, recorded_hash) else []

    def _is(self, frozen: Sequence[FrozenConstant], state_hash: int) -> bool:
        values = {_key(one): one.number for one in frozen}
        return self.trials.run(partial(self._trial, values)) == state_hash

    def _trial(self, values: Mapping[Key, Any]) -> int:
        self.functions.with_constants(values)
        return step_hash(self.simulation, self.inputs)


def _key(one: FrozenConstant) -> Key:
    return one.function, one.name


def _told(functions: CompiledFunctions, code: ProgramCode, simulation: Simulation, one: FrozenConstant) -> ValuePutIn:
    """The constant with the lines that give the name a value, and those of the function that read it."""
    path, numbers = functions.lines(_key(one))
    qualname = functions.now()[one.function].py_func.__qualname__
    read = [SourceLocation(path, line, qualname, SourceFile(path).statement_text(line)) for line in numbers]
    module = functions.now()[one.function].py_func.__module__
    defined = [place for place in own_places(places_of(simulation)) if (place.module, place.key) == (module, one.name)]
    lines = changing_lines(code, [one.name]).of_others
    set_at = [*(line for place in defined[:1] for line in defining(place)), *lines]
    return ValuePutIn(
        f"{one.name} as a constant of {one.function}",
        one.name,
        place_text(defined[0].path, defined[0].name) if defined else one.place,
        one.value,
        one.then,
        is_noted=True,
        set_at=tuple(set_at[:LINES_SHOWN]),
        read_at=tuple(read[:LINES_SHOWN]),
    )
