"""The error for a value that cannot be saved, with the reason and what to do instead."""

from __future__ import annotations

from typing import Any


class UnsavableError(TypeError):
    """A value that cannot be saved exactly.

    Attributes:
        reason: a noun phrase or clause about the value, without the path to it, which only the caller knows.
        advice: what to do instead, as an imperative.
        value: the value, once it is known.
        path: from the roots of the graph to the value, once it is known.
    """

    def __init__(self, reason: str, advice: str, value: Any = None) -> None:
        super().__init__(reason, advice)
        self.reason = reason
        self.advice = advice
        self.value = value
        self.path = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.advice}"
