"""A proxy for a recorded object: the caller uses it in place of the object."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class RecordedProxy:
    """A stand-in for an object: subclasses record the step, close() closes the tape, the rest is the object's own."""

    def __init__(self, subject: Any, tape: Any) -> None:
        """subject: the object. tape: its recorder, with step(inputs) and close(outcome)."""
        self._subject = subject
        self.tape = tape

    def close(self, outcome: Any = None) -> None:
        """Close the tape."""
        self.tape.close(outcome)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_subject"], name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.tape.__exit__(kind, error, traceback)
