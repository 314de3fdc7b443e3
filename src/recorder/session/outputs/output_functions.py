"""Functions of the user that make figures, events and sections of each tick: ``telemetry=``, ``events=``, ``aux=``.

They are called after each step with the recorded object, and may only read it. A function that raises leaves the tick
without its output, which is noted at the end of the tape. One that changes the object ends the recording at the tick
before: no replay calls it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from recorder.errors import OutputFunctionError
from recorder.exception_text import raised_text
from recorder.recording_options import FUNCTIONS
from sim.kernel.hooks import WatchesValues, hook
from sim.kernel.simulation import ArenaOfSaved, Simulation, inner_of, subject_of
from sim.kernel.state import State

COMPARED_BYTES_MAX = 1 << 18  # Larger states are compared by their hash alone, and no field is named.

Function = Callable[[Any], Any]
Convert = Callable[[int, Any], Any]


@attrs.define
class _Failures:
    """The ticks at which a function raised."""

    first_tick: int
    text: str
    count: int = 0


class OutputFunctions:
    """The functions of one session."""

    def __init__(
        self,
        simulation: Simulation,
        functions: Mapping[str, tuple[Function, Convert]],
        notify: Callable[[str], None],
        path: str | os.PathLike[str],
    ) -> None:
        """functions: by the name of the option, each with what makes the output of the tick of its result.

        notify: shows a notice to the user. path: of the tape.
        """
        self._simulation = simulation
        self._functions = dict(functions)
        self._notify, self._path = notify, os.fspath(path)
        self._failures: dict[str, _Failures] = {}
        self._has_begun = False

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def call(self, tick: int) -> dict[str, Any]:
        """The outputs of a tick by name; None for a function that raised, which is reported once.

        Raises OutputFunctionError for a function that changed the object, and, at the first tick, for one that raised.
        """
        change = watch(self._simulation)
        subject = subject_of(self._simulation)
        outputs = {name: self._output(name, tick, subject) for name in self._functions}
        path = change()
        if path is not None:
            names = " or ".join(f"{name}=" for name in self._functions)
            raise OutputFunctionError(
                names.removesuffix("="),
                tick,
                f"{names} changed {path} at tick {tick:,}, which no replay does: let the function only read, "
                "and change the object in its step",
            )
        self._has_begun = True
        return outputs

    def _output(self, name: str, tick: int, subject: Any) -> Any:
        function, convert = self._functions[name]
        try:
            return convert(tick, function(subject))
        except Exception as error:
            text = raised_text(f"{name}=", error)
            if not self._has_begun:
                raise OutputFunctionError(name, tick, f"{text}; nothing was recorded") from error
            failures = self._failures.get(name)
            if failures is None:
                failures = self._failures[name] = _Failures(tick, text)
                self._notify(
                    f"{self._path}: {text}, at tick {tick:,}: the recording continues, and the ticks at which it raises "
                    f"have no {name}"
                )
            failures.count += 1
            return None

    def outcome(self, end: Any) -> Any:
        """The end of the tape with what the functions raised; unchanged unless it is a mapping."""
        if not self._failures or not isinstance(end, dict):
            return end
        return {**end, FUNCTIONS: {name: attrs.asdict(failures) for name, failures in self._failures.items()}}


def watch(simulation: Simulation) -> Callable[[], str | None]:
    """Watch a simulation: return a function that gives the path of what was changed since, or None."""
    watches = hook(inner_of(simulation), WatchesValues)
    if watches is not None:
        return watches.watch_values()
    if isinstance(simulation, ArenaOfSaved):
        return simulation.changed_field
    return _watch_state(simulation.state)


def _watch_state(state: State) -> Callable[[], str | None]:
    if state.layout.size_bytes > COMPARED_BYTES_MAX:
        before = state.hash()
        return lambda: None if state.hash() == before else "the state"
    kept = state.snapshot()

    def change() -> str | None:
        if state.layout.hash_seed != kept.layout.hash_seed:
            return "the layout of the state"
        if state.arena.tobytes() == kept.arena.tobytes():
            return None
        return next((name for name in state if state[name].tobytes() != kept[name].tobytes()), "the state")

    return change
