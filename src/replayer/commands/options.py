"""Options that several subcommands of replay share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token

from recorder.console.argument_types import LocalPath, local_path
from recorder.location.tape_location import Location, tape_location
from replayer.commands.whole_of_shards import whole_of


def to_place(_: object, tokens: Sequence[Token]) -> Location:
    """Convert an argument to a path or a URL. Raises ValueError."""
    return tape_location(tokens[0].value)


def to_location(_: object, tokens: Sequence[Token]) -> Location:
    """Convert an argument to the location of a tape: a path or a URL. Raises ValueError.

    The manifest of shards, or its folder, stands for the tape of the whole, see whole_of.
    """
    found = tape_location(tokens[0].value)
    return whole_of(found) if isinstance(found, Path) else found


def to_local_tape(_: object, tokens: Sequence[Token]) -> Path:
    """Convert an argument to the path of a tape of this machine, as to_location does. Raises ValueError, also for a URL."""
    return whole_of(local_path(_, tokens))


LocalTape = Annotated[Path, Parameter(converter=to_local_tape, accepts_keys=False, n_tokens=1)]
PlacePath = Annotated[Location, Parameter(converter=to_place, accepts_keys=False, n_tokens=1)]
TapePath = Annotated[Location, Parameter(converter=to_location, accepts_keys=False, n_tokens=1)]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Sim = Annotated[str | None, Parameter(name="--sim")]
Output = Annotated[LocalPath | None, Parameter(name=["--output", "-o"])]
DumpFolder = Annotated[LocalPath | None, Parameter(name="--dump-folder")]
