"""What a tail does while nothing comes: wait, and say so if nothing is going to come by itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from recorder.storage.open_tape import is_locked

LOOK_S = 5.0  # From one look for the writer to the next; each of them locks the tape for a moment.


class Waiting:
    """Sleeps, and notes on stderr, once, that nobody is recording the tape."""

    def __init__(
        self,
        path: Path,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._sleep = sleep
        self._clock = clock
        self._look_at = clock()
        self._said = False

    def __call__(self, seconds: float) -> None:
        """Wait so long. Raises FileNotFoundError if the tape is gone."""
        if not self._said and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_S
            if not is_locked(self._path):
                self._said = True
                print(
                    f"note: nobody is recording {self._path}; waiting (Ctrl-C ends that)", file=sys.stderr, flush=True
                )
        self._sleep(seconds)
