"""The refusal of a value that cannot be saved: the reason, and what the user can do."""

from __future__ import annotations

from typing import Any


class Unsavable(TypeError):
    """A value that cannot be saved.

    Attributes:
        value: the value.
        reason: why, as the end of a sentence that begins with the value's path and type.
        advice: what the user can do.
        path: from the roots of the graph to the value, once it is known.
    """

    path = ""

    def __init__(self, value: Any, reason: str, advice: str) -> None:
        super().__init__(f"{reason}: {advice}")
        self.value, self.reason, self.advice = value, reason, advice
