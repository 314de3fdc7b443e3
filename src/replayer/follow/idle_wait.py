"""Wait while a followed tape does not grow, and print a note if no process is recording it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from recorder.location.tape_location import Location
from recorder.storage.open_tape import is_locked
from recorder.visible_text import print_visible

WRITER_CHECK_S = 5.0  # Interval between two checks for a writer; each of them locks the tape for a moment.


class Waiting:
    """Sleeps; prints a note to stderr, once, if no process is recording the tape. Of one at a URL that is not known."""

    def __init__(
        self,
        path: Location,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._sleep = sleep
        self._clock = clock
        self._next_check_s = clock()
        self._noted = False

    def __call__(self, seconds: float) -> None:
        """Wait this long. Raises FileNotFoundError if the tape is gone."""
        if isinstance(self._path, Path) and not self._noted and self._clock() >= self._next_check_s:
            self._next_check_s = self._clock() + WRITER_CHECK_S
            if not is_locked(self._path):
                self._noted = True
                print_visible(
                    f"note: no process is recording {self._path}; waiting (Ctrl-C to stop)", file=sys.stderr, flush=True
                )
        self._sleep(seconds)
