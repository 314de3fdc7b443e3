"""Options that several subcommands of replay share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token

from recorder.location.tape_location import Location, tape_location
from recorder.location.tape_url import TapeUrl


def to_location(_: object, tokens: Sequence[Token]) -> Location:
    """Convert an argument to the location of a tape: a path or a URL. Raises ValueError."""
    return tape_location(tokens[0].value)


def to_local_path(_: object, tokens: Sequence[Token]) -> Path:
    """Convert an argument to a path; a URL is refused. Raises ValueError."""
    found = tape_location(tokens[0].value)
    if isinstance(found, TapeUrl):
        raise ValueError(f"{found.shown}: expected a path of this machine, not a URL: copy the tape first")  # noqa: TRY004
    return found


TapePath = Annotated[Location, Parameter(converter=to_location, accepts_keys=False, n_tokens=1)]
LocalTape = Annotated[Path, Parameter(converter=to_local_path)]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Sim = Annotated[str | None, Parameter(name="--sim")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"])]
DumpFolder = Annotated[Path | None, Parameter(name="--dump-folder")]
