"""What the process of a variant does to find values outside the state that were others in the recorded run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.code_note import CodeNote
from recorder.ambient.outside.code_parts.defining_lines import place_text
from recorder.ambient.outside.code_parts.places import Place, places_of
from recorder.ambient.outside.loaded_code import compare_code
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.before_step.change_search import step_name
from replayer.diagnose.explain.before_step.changeable_values import places_of as values_of
from replayer.diagnose.explain.before_step.changing_lines import changing_lines
from replayer.diagnose.explain.before_step.program_code import ProgramCode, functions_of_program, program_code
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.lines_run.found_values import ValuePutIn, ValuesPutIn
from replayer.diagnose.explain.other_values.guesses import (
    Guess,
    constants_in,
    guesses_of,
    noted_guess,
    own_places,
)
from replayer.diagnose.explain.other_values.step_lines import Line, branching, constants_on, lines_of_step, naming
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.statements.isolated_trials import StepTrials, step_hash, trials_of
from replayer.tape.noted_outside import noted_outside
from replayer.tape.plain_state import snapshot_from_plain
from replayer.tape.tape import Tape
from sim.kernel.simulation import Simulation, restore, subject_of

SEARCH_S = 10.0  # On the clock: each trial is a process of its own.
TRIED_MAX = 300
NAMED_MAX = 48  # Constants that sets and dicts are asked for.
LINES_SHOWN = 6


def other_values(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    """Put other values in before the step, and see with which of them it gives the recorded state.

    job: "noted" to try the values that the tape has digests of, else those that functions give which the step does not run.

    Raises RuntimeError if a copy of this process died.
    """
    return in_a_copy(partial(_search, tape, job, make))


def _search(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    simulation, tick = make(), job["tick"]
    restore(simulation, snapshot_from_plain(job["before"]))
    inputs, recorded_hash = tape.frame(tick).inputs, tape.state_hash(tick)
    # A step that gives the recorded state without another value as well does so by chance.
    trials = trials_of(simulation, inputs, recorded_hash)
    if trials is None:
        return {"found": None}
    bench = _Bench(simulation, inputs, recorded_hash, trials)
    note = noted_outside(tape).code
    found: ValuesPutIn | None = None
    if not job["noted"]:
        found = _given(bench, step_name(tape))
    elif note is not None:
        found = _noted(bench, note, step_name(tape))
    if found is None or not found.found or not bench.is_other(()):
        return {"found": None}  # The step gives it without another value as well: by chance.
    return {"found": found.to_plain()}


@attrs.frozen(eq=False)
class _Bench:
    """A simulation in the state before the step, of which each trial is a copy."""

    simulation: Simulation
    inputs: Any
    recorded_hash: int
    trials: StepTrials

    def is_recorded(self, guesses: Sequence[Guess]) -> bool:
        """Put the values in, and run the step; return True if it is seen to give the recorded state."""
        return self.trials.run(partial(self._trial, guesses)) == self.recorded_hash

    def is_other(self, guesses: Sequence[Guess]) -> bool:
        """Put the values in, and run the step; return True if it is seen to give another state."""
        return self.trials.run(partial(self._trial, guesses)) not in (None, self.recorded_hash)

    def lines(self, guesses: Sequence[Guess]) -> list[Line]:
        """The lines that the step runs with these values."""
        return self.trials.run(partial(self._lines, guesses)) or []

    def _trial(self, guesses: Sequence[Guess]) -> int:
        for one in guesses:
            one.apply()
        return step_hash(self.simulation, self.inputs)

    def _lines(self, guesses: Sequence[Guess]) -> list[Line]:
        for one in guesses:
            one.apply()
        return lines_of_step(self.simulation, self.inputs)


# --- values whose digests the tape has


def _noted(bench: _Bench, note: CodeNote, step: str) -> ValuesPutIn | None:
    compared = compare_code(note, bench.simulation)
    places = {_shown(one): one for one in own_places(places_of(bench.simulation))}
    different = [places[text] for text in (compared.values if compared is not None else ()) if text in places]
    code = program_code(subject_of(bench.simulation), step)
    constants = constants_in(functions_of_program(subject_of(bench.simulation))) if different else []
    guesses = [one for place in different if (one := noted_guess(note, place, constants)) is not None]
    if not guesses or not bench.is_recorded(guesses):
        return None
    needed = _needed(bench, guesses)
    rests = [[one for one in needed if one is not left_out] for left_out in needed]
    if not all(map(bench.is_other, rests)):
        return None  # Not seen to be needed.
    told = partial(_told, bench, code)
    return ValuesPutIn(
        tuple(map(told, needed)),
        len(needed) > 1,
        tuple(map(told, (one for one in guesses if one not in needed))),
        len(guesses),
    )


def _needed(bench: _Bench, guesses: Sequence[Guess]) -> list[Guess]:
    """Those without each of which, of these, the step does not give the recorded state."""
    needed, is_smaller = list(guesses), True
    while is_smaller:
        rests = ([other for other in needed if other is not one] for one in needed)
        smaller = next((rest for rest in rests if rest and bench.is_recorded(rest)), None)
        is_smaller, needed = smaller is not None, smaller or needed
    return needed


def _shown(place: Place) -> str:
    return f"{place.name} ({place_text(place.path, place.name)})"


# --- values that other functions give


def _given(bench: _Bench, step: str) -> ValuesPutIn:
    code, ran = program_code(subject_of(bench.simulation), step), bench.lines(())
    named = constants_on(ran)[:NAMED_MAX]
    others = [*code.of_others, *code.given]
    end_s, tried = time.monotonic() + SEARCH_S, 0
    found: list[Guess] = []
    state = {id(one.before) for one in values_of(subject_of(bench.simulation))}
    for guess in guesses_of(own_places(places_of(bench.simulation)), others, named):
        if not naming(ran, guess.key) or guess.is_in(state):
            continue
        if tried >= TRIED_MAX or time.monotonic() > end_s:
            break
        tried += 1
        # Twice: a step that gives the one state or the other by chance may do so once.
        if bench.is_recorded([guess]) and bench.is_recorded([guess]):
            found.append(guess)
    return ValuesPutIn(tuple(_told(bench, code, one, ran) for one in found), False, (), tried)


def _told(bench: _Bench, code: ProgramCode, guess: Guess, ran: Sequence[Line] | None = None) -> ValuePutIn:
    """The value with the lines that give it and that read it."""
    now = list(ran) if ran is not None else bench.lines(())
    read = naming(now, guess.key)
    if (branch := branching(now, bench.lines([guess]))) is not None and branch not in read:
        read.append(branch)
    lines = sorted(changing_lines(code, [guess.key]).of_others, key=lambda one: (one.path, one.line))
    own = defining(guess.place)
    return ValuePutIn(
        guess.name,
        guess.place.name,
        place_text(guess.place.path, guess.place.name),
        guess.then_text,
        guess.now_text,
        guess.is_noted,
        tuple([*own, *lines][:LINES_SHOWN] if guess.is_noted else lines[:LINES_SHOWN]),
        tuple(read[:LINES_SHOWN]),
    )


def defining(place: Place) -> Iterable[SourceLocation]:
    """The line of a module or a class that gives a name its value, if there is one."""
    file, _, line = place_text(place.path, place.name).rpartition(":")
    if line.isdecimal() and place.path.endswith(file):
        yield SourceLocation(place.path, int(line), "", SourceFile(place.path).statement_text(int(line)))
