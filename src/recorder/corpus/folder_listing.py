"""One listing of a folder for all of its tapes: without it, each tape would list the whole folder again."""

from __future__ import annotations

import os
import re
from pathlib import Path

from recorder.corpus.file_times import is_settled
from recorder.storage.file_names import JOURNAL_SUFFIX, SEGMENT_NUMBER

_SEGMENT = re.compile(rf"(.+?){SEGMENT_NUMBER}", re.DOTALL)


class FolderListing:
    """The segments and journals of the tapes in one folder; lists it again only if it has changed."""

    def __init__(self, folder: Path) -> None:
        """folder: listed when it is first needed."""
        self.folder = folder
        self._changed_ns: int | None = None  # Of the folder when it was listed; None if a change would not show.
        self._segments: dict[str, list[int]] = {}
        self._journals: set[str] = set()

    def following(self, tape: str) -> list[int]:
        """The numbers of the segments after the first of the tape of this name, ascending. Raises OSError."""
        self._update()
        return self._segments.get(tape, [])

    def has_journal(self, tape: str) -> bool:
        """Return True if the tape of this name has a journal. Raises OSError."""
        self._update()
        return tape in self._journals

    def _update(self) -> None:
        changed_ns = self.folder.stat().st_mtime_ns
        if changed_ns == self._changed_ns:
            return
        # Asked before the folder is listed: a file that comes afterwards gives the folder a later time.
        self._changed_ns = changed_ns if is_settled(changed_ns) else None
        self._segments, self._journals = {}, set()
        with os.scandir(self.folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            if name.endswith(JOURNAL_SUFFIX):
                self._journals.add(name.removesuffix(JOURNAL_SUFFIX))
            elif match := _SEGMENT.fullmatch(name):
                self._segments.setdefault(match[1], []).append(int(match[2]))
        for numbers in self._segments.values():
            numbers.sort()
