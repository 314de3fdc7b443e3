"""Types of integers on a command line, with their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter, Token
from cyclopts.validators import Number

from recorder.format.limits import WHOLE_MAX

WHOLE_CHARS_MAX = 100  # Python refuses to convert very long texts, with a message of its own.


def whole_number(_: type, tokens: Sequence[Token]) -> int:
    """Convert an argument to an integer; 5.5 is refused, not rounded. Raises ValueError."""
    text = tokens[0].value
    try:
        if len(text) <= WHOLE_CHARS_MAX and abs(number := int(text)) <= WHOLE_MAX:
            return number
    except ValueError:
        raise ValueError(f"expected an integer, got {text!r}.") from None
    raise ValueError(f"expected an integer of at most {WHOLE_MAX:,}.")


Positive = Annotated[int, Parameter(converter=whole_number, validator=Number(gte=1))]
NotNegative = Annotated[int, Parameter(converter=whole_number, validator=Number(gte=0))]
Whole = Annotated[int, Parameter(converter=whole_number)]
