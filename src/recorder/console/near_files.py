"""A hint for a file that does not exist: those beside its place that are spelt nearly like it."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from recorder.location.tape_url import TapeUrl, is_url
from recorder.text import shown_path
from sim.near_names import near_names

FILES_MAX = 10_000  # Of a folder, that are compared.


def files_near(filename: str | bytes | int | os.PathLike[str]) -> str:
    """Return the end of a message, such as "; did you mean harbor.tape?", or "" if none with its ending is near."""
    if isinstance(filename, int | TapeUrl):
        return ""
    text = os.fsdecode(filename)
    path = Path(text)
    if is_url(text) or os.path.lexists(path):  # A link that leads nowhere is no misspelt name.
        return ""
    try:
        with os.scandir(path.parent) as entries:
            beside = [Path(entry.name) for entry in islice(entries, FILES_MAX)]
    except OSError:
        return ""
    endings = {path.suffix} if path.suffix else {"", ".tape"}  # The name of a tape without its ending.
    by_stem = {one.stem: one.name for one in sorted(beside) if one.suffix in endings}
    near = [shown_path(path.parent / by_stem[stem]) for stem in near_names(path.stem, by_stem)]
    return f"; did you mean {' or '.join(near)}?" if near else ""
