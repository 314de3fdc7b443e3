"""In a party's process: note the files that the making of a simulation reads, and give it other ones."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from recorder.ambient.outside.outside_read import FILE, OutsideRead


def read_files(reads: list[OutsideRead]) -> dict[str, str]:
    """The files among what was read: for each full path the line that opened it."""
    return {os.path.abspath(read.name): read.place for read in reads if read.kind == FILE}  # noqa: PTH100 - a name as it was given


@attrs.define
class GivenFiles:
    """Files that are opened in place of others, by full paths.

    Attributes:
        places: for the path of a file, that of the file to open in its place.
    """

    places: Mapping[str, str]
    _opened: set[str] = attrs.field(factory=set)

    def use(self) -> None:
        """Replace the functions that open files; C code that opens them by itself is not reached."""
        if not self.places:
            return
        opened = self._with_places(builtins.open)
        builtins.open = io.open = opened
        os.open = self._with_places(os.open)

    def unopened(self) -> list[str]:
        """The files that have not been opened yet."""
        return [path for path in self.places if path not in self._opened]

    def _with_places(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def substitute(file: Any, *arguments: Any, **named: Any) -> Any:
            path = os.path.abspath(os.fsdecode(file)) if isinstance(file, str | bytes | os.PathLike) else None  # noqa: PTH100 - as above
            if path is None or path not in self.places:
                return original(file, *arguments, **named)
            self._opened.add(path)
            return original(self.places[path], *arguments, **named)

        return substitute
