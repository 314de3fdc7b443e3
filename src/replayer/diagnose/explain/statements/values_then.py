"""Search statements of the program that give values outside the state what they were when the recording began."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np

from recorder.ambient.outside.code_parts.defining_lines import place_text
from recorder.ambient.outside.code_parts.places import Place, places_of
from recorder.ambient.outside.loaded_code import CodeComparison, CodeNote, compare_code, is_noted
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.before_step.change_search import step_name
from replayer.diagnose.explain.before_step.changeable_values import attributes_of, has_attributes
from replayer.diagnose.explain.before_step.program_code import functions_of_program
from replayer.diagnose.explain.lines_run.run_lines import RunBefore
from replayer.diagnose.explain.statements.guarded import ended_by_a_clock, refuse_effects
from replayer.diagnose.explain.statements.program_names import NotRunnableError, ProgramNames
from replayer.diagnose.explain.statements.statement_groups import StatementGroup, groups_of
from replayer.tape.noted_outside import noted_outside
from replayer.tape.plain_state import snapshot_from_plain
from replayer.tape.tape import Tape
from sim.kernel.simulation import Simulation, restore, subject_of

SEARCH_S = 30.0  # On the clock: each trial is a process of its own.
_LEVELS_MAX = 4
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
    names = ProgramNames(functions, modules)
    bench = _Bench(simulation, note, places, names, tape.frame(tick).inputs, tape.state_hash(tick))
    groups = groups_of(functions, {one.key for one in places.values()}, step_name(tape), modules) if places else []
    found = _found(bench, groups)
    return {"found": found.to_plain() if found is not None else None}


def _other_places(simulation: Simulation, compared: CodeComparison) -> dict[str, Place]:
    """The values that are not as noted, and those that cannot be compared and that functions change, by what is shown of them."""
    texts = {*compared.values, *(one for one in compared.left_out if one in compared.by_functions)}
    shown = ((f"{one.name} ({place_text(one.path, one.name)})", one) for one in places_of(simulation))
    return {text: place for text, place in shown if text in texts}


@attrs.frozen(eq=False)
class _Bench:
    """A simulation in the state before the step, of which each trial is a copy."""

    simulation: Simulation
    note: CodeNote
    places: dict[str, Place]
    names: ProgramNames
    inputs: Any
    recorded_hash: int

    def trial(
        self, group: StatementGroup | None, chosen: Sequence[int] | None = None, *, puts_back: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Run statements of a group, then the step. puts_back: values that are then as they were before these."""
        try:
            return in_a_copy(partial(self._trial, group, chosen, puts_back=puts_back))
        except RuntimeError:
            return {"ran": [], "changed": [], "noted": [], "is_recorded": False}

    def _trial(
        self, group: StatementGroup | None, chosen: Sequence[int] | None, *, puts_back: Sequence[str]
    ) -> dict[str, Any]:
        refuse_effects()
        before = {text: _Kept(place) for text, place in self.places.items()}
        numbers = chosen if chosen is not None else range(len(group.statements) if group is not None else 0)
        ran = [number for number in numbers if group is not None and self._runs(group, number)]
        changed = [text for text, kept in before.items() if kept.is_other()]
        noted = [one for one in changed if is_noted(self.note, self.places[one])]
        for text in puts_back:
            before[text].put_back()
        is_recorded = (bool(changed) or group is None) and self._gives_recorded()
        return {"ran": ran, "changed": changed, "noted": noted, "is_recorded": is_recorded}

    def _runs(self, group: StatementGroup, number: int) -> bool:
        try:
            with ended_by_a_clock():
                self.names.run(group.statements[number], group.function)
        except (NotRunnableError, SyntaxError):
            return False
        except BaseException as error:
            # The user's code, run alone, may fail in any way, also by sys.exit(). What it did up to there counts for nothing.
            raise RuntimeError from error
        return True

    def _gives_recorded(self) -> bool:
        try:
            self.simulation.step(self.inputs)
            return self.simulation.state.hash() == self.recorded_hash
        except Exception:  # noqa: BLE001 - the step, after code that the recorded process may not have run
            return False


def _found(bench: _Bench, groups: Sequence[StatementGroup]) -> RunBefore | None:
    """The first statements with which the values are as noted, and the step gives the recorded state; else with which it does."""
    end_s, best = time.monotonic() + SEARCH_S, None
    for group in groups:
        if time.monotonic() > end_s:
            break
        trial = bench.trial(group)
        if trial["is_recorded"] and (best is None or trial["noted"]):
            best = group, trial
            if trial["noted"]:
                break
    if best is None or bench.trial(None)["is_recorded"]:
        return None
    group, trial = best
    needed = _needed(bench, group, trial["ran"])
    last = bench.trial(group, needed)
    if not last["is_recorded"]:
        return None  # By chance.
    values = trial["noted"] or trial["changed"]
    return RunBefore(
        tuple(values),
        tuple(map(group.place, needed)),
        tuple(group.place(one) for one in trial["ran"] if one not in needed),
        is_as_noted=bool(trial["noted"]),
        is_by_values=not bench.trial(group, trial["ran"], puts_back=values)["is_recorded"],
    )


def _needed(bench: _Bench, group: StatementGroup, ran: Sequence[int]) -> list[int]:
    """Those of the statements without each of which, of these, the step does not give the recorded state."""
    needed = list(ran)
    for one in ran:
        rest = [other for other in needed if other != one]
        if rest and bench.trial(group, rest)["is_recorded"]:
            needed = rest
    return needed


class _Kept:
    """What a name stood for, with the content of containers, so that it can be compared and put back."""

    def __init__(self, place: Place) -> None:
        self._place, self._value = place, place.value()
        self._contents = list(_contents(self._value))
        self._digest = _shape(self._value)

    def is_other(self) -> bool:
        """Return True if the name stands for another value now, or that one's content is another."""
        return self._place.value() is not self._value or _shape(self._value) != self._digest

    def put_back(self) -> None:
        """Give the name and the containers what they had."""
        if self._place.value() is not self._value:
            setattr(self._place.holder, self._place.key, self._value)
        for container, content in self._contents:
            container.clear()
            if isinstance(container, dict | set):
                container.update(content)
            else:
                container.extend(content)


def _contents(value: Any, level: int = 0) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list | dict | set | deque) and level < _LEVELS_MAX:
        yield value, dict(value) if isinstance(value, dict) else list(value)
        for one in list(value.values()) if isinstance(value, dict) else list(value):
            yield from _contents(one, level + 1)
    elif has_attributes(value) and isinstance(own := getattr(value, "__dict__", None), dict):
        yield from _contents(own, level)


def _shape(value: Any, level: int = 0) -> Any:
    """The identities of what a value holds."""
    if level >= _LEVELS_MAX:
        return id(value)
    if isinstance(value, dict):
        return [(id(key), _shape(one, level + 1)) for key, one in list(value.items())]
    if isinstance(value, list | tuple | deque):
        return [_shape(one, level + 1) for one in list(value)]
    if isinstance(value, set):
        return {id(one) for one in list(value)}
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return _shape(attributes_of(value), level + 1) if has_attributes(value) else id(value)
