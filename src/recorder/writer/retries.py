"""When the writer tries again to reach a disk that has refused."""

from __future__ import annotations

import time

RETRY_S = (0.25, 2.0)  # The shortest and the longest wait from a failure to the next attempt.


class Retries:
    """The last refusal, and the wait until the next attempt, which grows.

    Attributes:
        failure: of the last attempt; None once one has succeeded.
    """

    def __init__(self) -> None:
        self.failure: OSError | None = None
        self._wait_s = RETRY_S[0]
        self._at_s = 0.0

    def note(self, error: OSError) -> bool:
        """Keep a refusal; return True if the attempt before it succeeded."""
        is_first = self.failure is None
        self._wait_s = RETRY_S[0] if is_first else min(2 * self._wait_s, RETRY_S[1])
        self.failure, self._at_s = error, time.monotonic() + self._wait_s
        return is_first

    def is_due(self, now_s: float) -> bool:
        """Whether to try now."""
        return self.failure is None or now_s >= self._at_s

    def pause(self) -> None:
        """Wait the shortest time."""
        time.sleep(RETRY_S[0])
