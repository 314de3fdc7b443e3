"""Predicates over the figures of a round, in the form of a scenario file: ``tick < 100``, ``heads of beetle > 0``.

A figure is ``tick``, ``buffered`` (messages in buffers), ``in_flight`` (messages under way),
``distance_to_equilibrium`` (the largest Euclidean distance of a role's figures from the uniform distribution), or
one that the simulation's ``telemetry()`` returns under this name.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Self

import attrs

from sim.kernel.registry import ConfigError

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_FORM = re.compile(r"\s*(?P<figure>.*?\S)\s*(?P<operator><=|>=|==|!=|<|>)\s*(?P<number>-?\d+(\.\d+)?)\s*")


@attrs.frozen
class Predicate:
    """A figure compared with a number."""

    figure: str
    operator: str
    number: int | float

    @classmethod
    def from_text(cls, text: Any) -> Self:
        """Parse a predicate. Raises ConfigError if text is not a comparison."""
        match = _FORM.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ConfigError("", f"expected a comparison such as 'tick < 100', got {text!r}")
        number = match["number"]
        return cls(match["figure"], match["operator"], float(number) if "." in number else int(number))

    def __str__(self) -> str:
        return f"{self.figure} {self.operator} {self.number}"

    def holds(self, figures: Mapping[str, int | float]) -> bool:
        """Return True if the comparison is true of figures; never for NaN. Raises KeyError if the figure is missing."""
        value = figures[self.figure]
        return not math.isnan(value) and _OPERATORS[self.operator](value, self.number)
