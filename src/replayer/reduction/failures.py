"""Failures that a run is watched for. Only the same failure counts: the same condition, property, or raising line."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replayer.search.expressions import Expression
from replayer.search.search_errors import UndefinedError
from replayer.search.state_values import StateValues
from sim.kernel.hooks import HasTelemetry, hook
from sim.kernel.simulation import Simulation, events_of, inner_of, request_events
from sim.kernel.state import Snapshot

Predicate = Callable[[Snapshot], Any]


class Failure:
    """A failure that neither a state nor an exception shows; the base of the others.

    Attributes:
        text: for people.
    """

    text = "the failure"

    def stops(self, tick: int, simulation: Simulation) -> bool:
        """See Watch."""
        del tick, simulation
        return False

    def is_failure(self, tick: int, error: Exception) -> bool:
        """See Watch."""
        del tick, error
        return False

    def result(self, tick: int, simulation: Simulation) -> Any:
        """See Watch."""
        del tick, simulation


class ConditionFailure(Failure):
    """A condition over the state holds; a step that raises is something else.

    Attributes:
        text: the condition for people.
        identity: what tells it from other conditions.
    """

    def __init__(self, condition: Expression | Predicate) -> None:
        self._condition = condition
        is_text = isinstance(condition, Expression)
        self.text = condition.text if is_text else getattr(condition, "__name__", "the condition")  # type: ignore[union-attr]
        self.identity = self.text if is_text else _code_text(condition)

    def stops(self, tick: int, simulation: Simulation) -> bool:
        """See Watch. Raises ExpressionError where the value of the condition is no truth value."""
        state = simulation.state
        if not isinstance(self._condition, Expression):
            return bool(self._condition(state.snapshot()))
        telemetry = hook(simulation, HasTelemetry) or hook(inner_of(simulation), HasTelemetry)
        try:
            return self._condition.holds(StateValues(tick, state, telemetry.telemetry() if telemetry else {}))
        except UndefinedError:
            return False


class ViolationFailure(Failure):
    """A property of the scenario is violated.

    Attributes:
        text: the property for people.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.text = f"violation of {name}"

    def stops(self, tick: int, simulation: Simulation) -> bool:
        """See Watch."""
        del tick
        events = events_of(simulation)
        found = events() if events is not None else ()
        return any(event.get("kind") == "violation" and event.get("property") == self._name for event in found)

    @staticmethod
    def prepare(simulation: Simulation) -> None:
        """Make the simulation collect its events."""
        request_events(simulation)


class RaisedFailure(Failure):
    """A step raises an exception of the same class at the same line, with the same text in its message, if one is asked for.

    Attributes:
        text: the exception and its place for people; before the first one, what is looked for.
    """

    def __init__(self, wanted: str, not_before: int) -> None:
        """wanted: in the class name and message of the exception. not_before: the first tick that counts."""
        self._wanted = wanted
        self._not_before = not_before
        self._place: tuple[str, ...] | None = None
        self.text = f"an exception with {wanted!r}" if wanted else "an exception"

    @property
    def identity(self) -> str:
        """What is compared, as text."""
        return " ".join((self._wanted, *(self._place or ())))

    def is_failure(self, tick: int, error: Exception) -> bool:
        """See Watch. The first one decides the class and the line that are asked for from then on."""
        if self._wanted not in f"{type(error).__qualname__}: {error}":
            return False
        place = _place(error)
        if self._place is None:
            if tick < self._not_before:
                return False
            self._place = place
            self.text = f"{type(error).__qualname__} at {place[-1]}"
        return place == self._place


def _code_text(function: Any) -> str:
    """The code of a function, to tell it from others; only its name where it has none of Python."""
    code = getattr(function, "__code__", None)
    if code is None:
        return repr(function)
    constants = [getattr(constant, "co_code", constant) for constant in code.co_consts]  # Functions inside it are code.
    return f"{function.__qualname__} {code.co_code.hex()} {constants!r} {code.co_names!r}"


def _place(error: Exception) -> tuple[str, str]:
    """The class of an exception, and the line that raised it."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return type(error).__qualname__, "?"
    frame, number = frames[-1]
    return type(error).__qualname__, f"{Path(frame.f_code.co_filename).name}:{number} in {frame.f_code.co_qualname}"
