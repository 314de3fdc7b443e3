"""Results of a search, kept next to the new tape until that is written: a search that was killed continues from them.

A file of JSON lines: the first one names the search, each of the others one candidate and the tick of its failure.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from replayer.tape.copied_range import UnfitTapeError

SUFFIX = ".progress"


def kept_path(target: Path) -> Path:
    """The file with the results of the search for a new tape."""
    return target.with_name(f"{target.name}{SUFFIX}")


class KeptResults:
    """The ticks at which candidates fail, by a digest of their inputs.

    Attributes:
        reused: the number of results that an earlier search had found.
    """

    def __init__(self, target: Path | None, search: str) -> None:
        """target: the new tape; None keeps the results in memory alone. search: a digest of all that decides them.

        Raises UnfitTapeError if the file is that of a different search.
        """
        self._path = None if target is None else kept_path(target)
        self._search = search
        self._ticks: dict[str, int | None] = {}
        self._file: IO[str] | None = None
        if self._path is not None and self._path.exists():
            self._ticks = self._read(self._path)
        self.reused = len(self._ticks)

    def __contains__(self, key: str) -> bool:
        return key in self._ticks

    def __getitem__(self, key: str) -> int | None:
        return self._ticks[key]

    def put(self, key: str, tick: int | None) -> None:
        """Keep the result of a candidate: the tick of its failure, None if it does not fail. Raises OSError."""
        self._ticks[key] = tick
        if self._path is None:
            return
        if self._file is None:
            is_new = not self._path.exists()
            self._file = self._path.open("a", encoding="utf-8")
            if is_new:
                self._file.write(json.dumps({"search": self._search}) + "\n")
        self._file.write(json.dumps([key, tick]) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file, which stays."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Remove the file: the search is complete."""
        self.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _read(self, path: Path) -> dict[str, int | None]:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        try:
            is_same = not lines or json.loads(lines[0]) == {"search": self._search}
        except ValueError:
            is_same = False
        if not is_same:
            raise UnfitTapeError(f"{path} has the results of a different search: remove it, or name another output")
        ticks: dict[str, int | None] = {}
        for line in lines[1:]:
            try:
                key, tick = json.loads(line)
            except (ValueError, TypeError):
                continue  # The process was killed while it wrote this line.
            ticks[str(key)] = tick
        return ticks
