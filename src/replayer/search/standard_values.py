"""Compare decimal numbers, fractions, dates, paths and other values of the standard library, as Python compares them.

A text in a condition stands for the value that it is the text of: ``price == "10.05"``, ``day < "2024-03-01"``.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import pathlib
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from replayer.search.search_errors import OtherKindError

NUMBERS = (bool, int, float, Decimal, Fraction)
_FROM_TEXT: dict[type, Callable[[str], Any]] = {
    Decimal: Decimal,
    Fraction: Fraction,
    dt.datetime: dt.datetime.fromisoformat,
    dt.date: dt.date.fromisoformat,
    dt.time: dt.time.fromisoformat,
    uuid.UUID: uuid.UUID,
}
_EXAMPLES = {
    Decimal: "10.05",
    Fraction: "1/3",
    dt.datetime: "2024-03-01T12:00",
    dt.date: "2024-03-01",
    dt.time: "12:00",
}
_COMPARED = (*_FROM_TEXT, dt.timedelta, pathlib.PurePath)


def is_standard(value: Any) -> bool:
    """Return True for a value that compared_standard compares."""
    return isinstance(value, _COMPARED)


def compared_standard(test: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    """Compare two values, one at least of the standard library. Raises OtherKindError for what cannot be compared."""
    if isinstance(one, str):
        one = _of_text(one, other, test)
    elif isinstance(other, str):
        other = _of_text(other, one, test)
    if isinstance(one, str) or isinstance(other, str):  # The value is the one whose repr this is, or not.
        return bool(
            test(repr(one) if not isinstance(one, str) else one, repr(other) if not isinstance(other, str) else other)
        )
    is_number = [isinstance(value, NUMBERS) for value in (one, other)]
    if not all(is_number) and type(one) is not type(other):
        raise OtherKindError(f"{_name(one)} and {_name(other)} cannot be compared")
    if {Decimal, Fraction} == {type(one), type(other)}:
        raise OtherKindError("Decimal and Fraction cannot be compared")  # Never equal in Python, and without an order.
    if len({getattr(value, "tzinfo", None) is None for value in (one, other)}) > 1:
        raise OtherKindError(f"{one} and {other} cannot be compared: one of the two times has no time zone")
    if test in (operator.eq, operator.ne):
        _ensure_exact(one, other)
    try:
        return bool(test(one, other))
    except (TypeError, ArithmeticError):
        raise OtherKindError(f"{one!r} and {other!r} cannot be compared") from None


def _ensure_exact(*values: Any) -> None:
    """Raise OtherKindError for 0.1 beside a decimal number: the float is another number than its text, and never equal."""
    for value in values:
        if isinstance(value, float) and math.isfinite(value) and Fraction(repr(value)) != Fraction(value):
            raise OtherKindError(f"the float {value!r} is not exactly that number: compare with the text '{value!r}'")


def _of_text(text: str, like: Any, test: Callable[[Any, Any], Any]) -> Any:
    """The value of a text; the text itself if it is the repr of some value of this kind."""
    if text.startswith((f"{_name(like)}(", f"datetime.{_name(like)}(")):
        if test in (operator.eq, operator.ne):
            return text
        raise OtherKindError(f"texts such as {text[:30]!r} can be compared with == and != only")
    if isinstance(like, pathlib.PurePath):
        return type(like)(text)
    parse = _FROM_TEXT.get(type(like))
    try:
        if parse is not None:
            return parse(text)
    except (ValueError, ArithmeticError, ZeroDivisionError):
        pass
    example = f", such as {_EXAMPLES[type(like)]!r}" if type(like) in _EXAMPLES else ""
    advice = f"compare it with a text{example}" if parse is not None else f"compare it with {repr(like)!r}"
    raise OtherKindError(f"{text[:30]!r} is not a {_name(like)}: {advice}")


def _name(value: Any) -> str:
    return type(value).__name__
