"""Attempts: steps that raised. Each is a tick of its own, which a replay repeats, and which raises again.

A step is a function of the state and the inputs also where it raises: it leaves a state, which is captured, and an
exception, whose type and message stand in the inputs of the tick:

    {"raised": type, "message": text, "inputs": the inputs of the step}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

RAISED, MESSAGE, INPUTS = "raised", "message", "inputs"
MESSAGE_MAX = 400  # Characters; some exceptions print whole arrays.
# How far a step came before one of these is not decided by the state and the inputs.
_NOT_REPEATABLE = (MemoryError, RecursionError)


class NotRepeatedError(ValueError):
    """A step that raised in the recorded run did not raise when it was repeated."""


@attrs.frozen
class Attempt:
    """A recorded step that raised.

    Attributes:
        kind: the name of the class of the exception.
        message: its text.
        inputs: of the step.
    """

    kind: str
    message: str
    inputs: Any


def encode_attempt(inputs: Any, error: Exception) -> dict[str, Any] | None:
    """The inputs that record a step that raised; None if a replay could not repeat it."""
    if isinstance(error, _NOT_REPEATABLE):
        return None
    return {RAISED: type(error).__qualname__, MESSAGE: _text(error), INPUTS: inputs}


def is_attempt(inputs: Any) -> bool:
    """Return True for inputs of encode_attempt, and for inputs that look like them."""
    return type(inputs) is dict and inputs.keys() == {RAISED, MESSAGE, INPUTS}


def attempt_of(inputs: Any) -> Attempt | None:
    """The attempt that these inputs record; None if they record something else."""
    if not is_attempt(inputs):
        return None
    return Attempt(str(inputs[RAISED]), str(inputs[MESSAGE]), inputs[INPUTS])


def repeat_attempt(attempt: Attempt, call: Callable[[Any], Any]) -> None:
    """Call with the inputs of an attempt. The call has to raise as it did; any other exception is passed on.

    Raises NotRepeatedError if it returns.
    """
    try:
        call(attempt.inputs)
    except Exception as error:
        if type(error).__qualname__ != attempt.kind:
            raise
        return
    raise NotRepeatedError(
        f"expected the step to raise {attempt.kind} ({attempt.message}), as it did in the recorded run; it returned"
    )


class KeepsItsAttempts:
    """A simulation of an adapter that records steps which raise: subclasses make a call and capture the state."""

    _error: Exception | None = None  # Of the last call, until the attempt is recorded.

    def step(self, inputs: Any) -> Any:
        """Make the step, or the attempt, of the inputs, capture the state, and return what the step returned."""
        attempt = attempt_of(inputs) if type(inputs) is dict else None
        self._prepare(inputs if attempt is None else attempt.inputs)
        result = None
        if attempt is None:
            try:
                result = self._call(inputs)
            except Exception as error:
                self._error = error
                raise
        else:
            repeat_attempt(attempt, self._call)
        self._capture(inputs)
        return result

    def attempted(self, inputs: Any, error: Exception) -> Any:
        """Capture the state that a step left which raised; return the inputs that record the attempt, or None."""
        is_of_call, self._error = self._error is error, None
        attempt = encode_attempt(inputs, error) if is_of_call else None  # Otherwise the state could not be captured.
        if attempt is not None:
            self._capture(attempt)
        return attempt

    def _prepare(self, inputs: Any) -> None:
        """Called before a call."""

    def _call(self, inputs: Any) -> Any:
        """Make the call of these inputs."""
        raise NotImplementedError

    def _capture(self, inputs: Any) -> None:
        """Capture the state after the tick of these inputs, which may be an attempt."""
        raise NotImplementedError


def _text(error: Exception) -> str:
    try:
        message = str(error)
    except Exception as failed:  # noqa: BLE001 - the user's __str__ may raise anything, which must not hide the error
        message = f"its text is not available ({type(failed).__name__})"
    return message[:MESSAGE_MAX].encode("utf-8", "replace").decode("utf-8")
