"""Types of numbers on a command line, with their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token
from cyclopts.validators import Number

from recorder.format.limits import WHOLE_MAX

WHOLE_CHARS_MAX = 100  # Python refuses to read the longest ones, and says so in words of its own.


def whole_number(_: type, tokens: Sequence[Token]) -> int:
    """A command's number, written as one: 5.5 is refused instead of rounded. Raises ValueError."""
    text = tokens[0].value
    try:
        if len(text) <= WHOLE_CHARS_MAX and abs(number := int(text)) <= WHOLE_MAX:
            return number
    except ValueError:
        raise ValueError(f"a whole number was expected, found {text!r}.") from None
    raise ValueError(f"{WHOLE_MAX:,} is the largest number.")


Positive = Annotated[int, Parameter(converter=whole_number, validator=Number(gte=1))]
NotNegative = Annotated[int, Parameter(converter=whole_number, validator=Number(gte=0))]
Whole = Annotated[int, Parameter(converter=whole_number)]
