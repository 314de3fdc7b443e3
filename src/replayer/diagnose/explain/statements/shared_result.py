"""Whether the step before returned what the state holds, too, and which lines of the program write into that."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any, cast

import attrs
import numpy as np

from recorder.ambient.outside.own_code import OwnCode
from recorder.errors import RecordingError
from recorder.processes.fork_call import in_a_copy
from replayer.diagnose.explain.before_step.change_search import step_name
from replayer.diagnose.explain.before_step.changeable_values import (
    Path,
    ValuePlace,
    attributes_of,
    has_attributes,
    is_plain,
    path_text,
    places_of,
)
from replayer.diagnose.explain.before_step.program_code import Function, functions_of_program, program_code
from replayer.diagnose.explain.cause import SourceLocation
from replayer.diagnose.explain.lines_run.run_lines import SharedResult
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.statements.isolated_trials import StepTrials, run_wholly, step_hash, trials_of
from replayer.diagnose.explain.statements.program_names import ProgramNames
from replayer.diagnose.explain.statements.returned_writers import ReturnWriter, writers_into_arguments, writers_of
from replayer.playback.cursor import Cursor, MismatchError
from replayer.playback.line_hooks import listening
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape
from sim.kernel.simulation import Simulation, subject_of

_LEVELS_MAX = 4
_PARTS_MAX = 5_000
_ARRAYS_MAX = 500
_SHOWN_MAX = 4
_TRIED_MAX = 16
_WORK_MAX = 10_000  # Of the exact test of whether two arrays share memory.


def shared_result(tape: Tape, job: dict[str, Any], make: Callable[[], Simulation]) -> dict[str, Any]:
    """Run the step before once more, and compare what it returns with what attributes of these names lead to.

    Without names, of which it is known that something changed them, nothing counts that the step does not prove.

    Raises RuntimeError if a copy of this process died.
    """
    return in_a_copy(partial(_search, tape, job["tick"], frozenset(job["names"]), make))


def _search(tape: Tape, tick: int, names: frozenset[str], make: Callable[[], Simulation]) -> dict[str, Any]:
    nothing: dict[str, Any] = {"found": None}
    if tick - 2 < tape.first_tick:
        return nothing
    cursor = Cursor(tape, make())
    try:
        cursor.seek(tick - 2)
    except (MismatchError, RecordingError):
        return nothing
    simulation, inputs = cursor.simulation, tape.frame(tick - 1).inputs
    returns = _Returns()
    try:
        with listening(returns, OwnCode(simulation)):
            result: Any = simulation.step(inputs)  # type: ignore[func-returns-value]
    except Exception:  # noqa: BLE001 - of the user's step
        return nothing
    shared = list(_shared(subject_of(simulation), result, names))
    if not shared or simulation.state.hash() != tape.state_hash(tick - 1):
        return nothing
    name, place = returns.of(result)
    inputs, recorded_hash = tape.frame(tick).inputs, tape.state_hash(tick)
    trials = trials_of(simulation, inputs, recorded_hash)
    case = _Case(simulation, inputs, recorded_hash, noted_outside(tape).modules, trials)
    others = _others(simulation, tape)
    for some in [shared] if names else [[one] for one in shared[:_SHOWN_MAX]]:
        writers = (
            [one for item in {one.item: None for one in some} for one in writers_of(others, name, item)] if name else []
        )
        values = [value for one in some[:_SHOWN_MAX] for value in one.values]
        proof = _proved(case, writers, values) or _proved(case, writers_into_arguments(others), values) or _Proof(())
        if names or proof.lines:
            parts = tuple(dict.fromkeys(one.text for one in some))[:_SHOWN_MAX]
            places = tuple(dict.fromkeys(one.place for one in writers))
            found = SharedResult(tick - 1, parts, place, places, proof.lines, proof.is_alone, proof.is_only)
            return {"found": found.to_plain()}
    return nothing


@attrs.frozen(eq=False)
class _Shared:
    """One thing that the result and the state hold.

    Attributes:
        text: its names in the result and in the state, for people.
        item: its place in a tuple that is the result; None if the result is none, or leads to it otherwise.
        values: in the result, and what leads to it there: a variable of the program may be either.
    """

    text: str
    item: int | None
    values: tuple[Any, ...]


def _shared(subject: Any, result: Any, names: frozenset[str]) -> Iterator[_Shared]:
    """names: of attributes on the way to what is looked for in the state; empty for all."""
    held = {id(place.before): place for place in reversed(places_of(subject)) if _is_wanted(place, names)}
    arrays = [one for one in held.values() if isinstance(one.before, np.ndarray)][:_ARRAYS_MAX]
    for path, value in _parts(result):
        place = held.get(id(value))
        if place is None and isinstance(value, np.ndarray):
            place = next((one for one in arrays if _share_memory(value, one.before)), None)
        if place is not None:
            item = path[0][1] if path and isinstance(result, tuple) and isinstance(path[0][1], int) else None
            outer = [result if item is None else result[item]] if len(path) > 1 else []
            how = "shares memory with" if isinstance(value, np.ndarray) else "is"
            yield _Shared(f"{_text(path)} {how} {path_text(subject, place.path)}", item, (value, *outer))


def _is_wanted(place: ValuePlace, names: frozenset[str]) -> bool:
    is_named = not names or any(kind == "attribute" and name in names for kind, name in place.path)
    return is_named and bool(place.path) and _is_changeable(place.before)


def _parts(result: Any) -> Iterator[tuple[Path, Any]]:
    """What can be changed of a result, with its path."""
    waiting: deque[tuple[Path, Any]] = deque([((), result)])
    seen: dict[int, Any] = {}
    while waiting and len(seen) < _PARTS_MAX:
        path, value = waiting.popleft()
        if id(value) in seen or is_plain(value):
            continue
        seen[id(value)] = value
        if _is_changeable(value):
            yield path, value
        if len(path) >= _LEVELS_MAX:
            continue
        if isinstance(value, dict):
            waiting += (((*path, ("item", key)), one) for key, one in list(value.items()))
        elif isinstance(value, list | tuple | deque):
            waiting += (((*path, ("item", place)), one) for place, one in enumerate(value))
        elif has_attributes(value):
            waiting += (((*path, ("attribute", name)), one) for name, one in attributes_of(value).items())


def _is_changeable(value: Any) -> bool:
    return isinstance(value, np.ndarray | list | dict | set | deque | bytearray) or has_attributes(value)


def _share_memory(one: Any, other: Any) -> bool:
    try:
        return np.shares_memory(one, other, max_work=cast("Any", _WORK_MAX))
    except np.exceptions.TooHardError:
        return False


def _text(path: Path) -> str:
    return "result" + "".join(f".{name}" if kind == "attribute" else f"[{name!r}]" for kind, name in path)


class _Returns:
    """The lines of the user's code that returned something, with what it was."""

    def __init__(self) -> None:
        self._found: list[tuple[Any, str, str, int, str]] = []

    def line(self, frame: FrameType) -> None:
        pass

    def returned(self, frame: FrameType, value: Any) -> None:
        if not is_plain(value):
            code = frame.f_code
            self._found.append((value, code.co_name, code.co_filename, frame.f_lineno, code.co_qualname))

    def ended_early(self) -> None:
        self._found.clear()

    def of(self, result: Any) -> tuple[str, SourceLocation | None]:
        """The outermost method that returned the result, which is the last to do so, and the line."""
        for value, name, path, line, function in reversed(self._found):
            if value is result:
                return name, SourceLocation(path, line, function, SourceFile(path).statement_text(line))
        return "", None


def _others(simulation: Simulation, tape: Tape) -> list[Function]:
    """The functions that the step is not seen to run."""
    subject = subject_of(simulation)
    own = program_code(subject, step_name(tape)).of_step
    steps = {(one.path, one.name) for one in own}
    return [one for one in functions_of_program(subject) if (one.path, one.name) not in steps]


@attrs.frozen(eq=False)
class _Case:
    """The simulation after the step before, with what that returned."""

    simulation: Simulation
    inputs: Any
    recorded_hash: int
    modules: tuple[str, ...]
    trials: StepTrials | None

    def result(self, writers: Sequence[ReturnWriter], value: Any) -> int | None:
        """The hash of the state with these lines run on the value; None if that could not be run as it is."""
        return self.trials.run(partial(self._trial, writers, value)) if self.trials is not None else None

    def _trial(self, writers: Sequence[ReturnWriter], value: Any) -> int:
        names = ProgramNames(functions_of_program(subject_of(self.simulation)), self.modules)
        for one in writers:
            run_wholly(partial(names.run, one.statement, one.function, _given(one.root, value)))
        return step_hash(self.simulation, self.inputs)


@attrs.frozen
class _Proof:
    """The lines with each of which the step gives the recorded state, or those of one function with which it does together.

    Attributes:
        is_only: True if all other lines were run, and gave another state.
    """

    lines: tuple[SourceLocation, ...]
    is_alone: bool = True
    is_only: bool = False


def _proved(case: _Case, writers: Sequence[ReturnWriter], values: Sequence[Any]) -> _Proof | None:
    if case.trials is None:
        return None
    tried = writers[:_TRIED_MAX]
    results = [_result(case, [one], values) for one in tried]
    alone = tuple(dict.fromkeys(one.place for one, is_proof in zip(tried, results, strict=True) if is_proof))
    if alone:
        is_only = len(tried) == len(writers) and len(alone) == 1 and None not in results
        return _Proof(alone, is_only=is_only)
    for first in tried:
        together = [one for one in tried if one.function is first.function]
        if len(together) > 1 and together[0] is first and _result(case, together, values):
            return _Proof(tuple(one.place for one in together), is_alone=False)
    return None


def _result(case: _Case, writers: Sequence[ReturnWriter], values: Sequence[Any]) -> bool | None:
    """Return True if the step gives the recorded state, twice; False if it was seen to give another one; else None."""
    seen: set[int] = set()
    for value in values:
        result = case.result(writers, value)
        if result == case.recorded_hash and case.result(writers, value) == result:
            return True
        seen |= {result} if result is not None else set()
    return False if seen and case.recorded_hash not in seen else None


def _given(root: ast.expr, value: Any) -> dict[str, Any]:
    """The variable that leads to the value, or the object whose attribute does."""
    match root:
        case ast.Name(name):
            return {name: value}
        case ast.Attribute(ast.Name(name), attribute):
            return {name: SimpleNamespace(**{attribute: value})}
    return {}
