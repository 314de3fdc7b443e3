"""The error for a value that cannot be saved, with the reason and what to do instead."""

from __future__ import annotations


class UnsavableError(TypeError):
    """A value that cannot be saved exactly.

    Attributes:
        reason: a noun phrase or clause about the value, without the path to it, which only the caller knows.
        advice: what to do instead, as an imperative.
    """

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason, advice)
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.reason}: {self.advice}"
