"""The new tape that a command makes: at a path, or at a URL, to which it is uploaded when it is complete."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from recorder.exit_codes import UsageError
from recorder.location.tape_location import Location
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.uploads import ensure_url_is_free, upload_tape
from replayer.commands.options import to_location
from replayer.tape.copied_range import UnfitTapeError

NewTape = Annotated[Location, Parameter(name=["--output", "-o"], converter=to_location, accepts_keys=False, n_tokens=1)]


@contextmanager
def new_tape(output: Location) -> Iterator[Path]:
    """The path at which to make the tape; without an exception it is at output afterwards.

    Raises FileExistsError if there is a tape at the URL, and as uploads do; that a path is free is ensured by the maker.
    """
    if not isinstance(output, TapeUrl):
        yield output
        return
    ensure_url_is_free(output)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        made = Path(folder) / (output.name or "run.tape")
        yield made
        upload_tape(made, output)


@contextmanager
def fitting(*others: type[Exception]) -> Iterator[None]:
    """Turn an UnfitTapeError, or another of these errors, into the mistake that it is."""
    mistakes: tuple[type[Exception], ...] = (UnfitTapeError, *others)
    try:
        yield
    except mistakes as error:
        raise UsageError(str(error)) from None
