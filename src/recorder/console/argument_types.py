"""Types of arguments on a command line: integers with their limits, and paths of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token
from cyclopts.validators import Number

from recorder.format.limits import WHOLE_MAX
from recorder.location.tape_location import tape_location
from recorder.location.tape_url import TapeUrl

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


def local_path(_: object, tokens: Sequence[Token]) -> Path:
    """Convert an argument to a path of this machine; a URL is refused. Raises ValueError."""
    found = tape_location(tokens[0].value)
    if isinstance(found, TapeUrl):
        raise ValueError(f"{found.shown}: expected a path of this machine, not a URL.")  # noqa: TRY004 - as cyclopts expects
    return found


def local_paths(_: object, tokens: Sequence[Token]) -> list[Path]:
    """Convert the arguments of an option that is repeated, as local_path does. Raises ValueError."""
    return [local_path(_, [token]) for token in tokens]


LocalPath = Annotated[Path, Parameter(converter=local_path)]
