"""What the operations of the model work on: one tape, its recorder, its disk, and readers."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from pathlib import Path

from recorder import Recorder
from whole_model.fallible_disk import Disk, Interruption
from whole_model.model_run import Run
from whole_model.reader_view import TailView, View


class OperationState:
    """Tapes in a folder: one of them is recorded into, and some are read.

    Attributes:
        counts: of calls, by operation. recorder, run: of the present tape; None if there is none.
        views, tails: readers, some of earlier tapes.
    """

    def __init__(self, folder: Path, interruption: Interruption) -> None:
        self.folder = folder
        self.interruption = interruption
        self.counts: Counter[str] = Counter()
        self.recorder: Recorder | None = None
        self.run: Run | None = None
        self.disk = Disk()
        self.views: list[View] = []
        self.tails: list[TailView] = []
        self._made = 0
        self._said: list[str] = []
        warnings.showwarning = lambda message, *_, **__: self._said.append(str(message))  # type: ignore[assignment]

    def _new_folder(self) -> Path:
        self._made += 1
        folder = self.folder / f"{self._made}"
        folder.mkdir()
        return folder

    def _listen(self) -> None:
        """Take what the recording has said since."""
        said, self._said = self._said, []
        if self.run is not None:
            self.run.journal_is_safe &= not any("journal" in text for text in said)
            self.run.is_lossy |= any("are lost" in text for text in said)
            self.run.was_rewritten |= self.disk.unsynced
        if self.recorder is not None and self.run is not None:
            self.run.is_lossy |= bool(self.recorder.statistics().writer.dropped)

    def _view(self, numbers: random.Random) -> View | None:
        return numbers.choice(self.views) if self.views else None
