"""A tape that grows: what was added, and whether a process is recording it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Literal

from recorder.errors import RecordingError
from recorder.storage.open_tape import is_locked
from replayer.tape.tape import Tape

POLL_S = 0.05  # While no page follows the head.
WRITER_CHECK_S = 1.0  # From one look at the lock to the next: each of them locks the tape for a moment.
OPEN_S, OPEN_TICKS = 2.0, 5  # What is shown is chosen by the first ticks: they get this long to come.
# The process that records goes first where processors are few. What follows the head does no more than that one.
HEAD_NICENESS, PAGES_NICENESS, MARKS_NICENESS = 1, 2, 5

Word = Literal["recording", "ended", "stopped"]


class RecordingWatch:
    """Whether a tape is still recorded.

    Attributes:
        is_recording: a process has the tape open for recording, as far as was looked.
        has_ended: the tape is sealed: nothing more will come.
        has_news: the last look has changed one of these.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape, self._path = tape, tape.path
        self._due_s = 0.0
        self.is_recording, self.has_ended, self.has_news = True, False, False

    def look(self) -> None:
        """Read what was added to the tape. Files that cannot be read at the moment are read at the next look."""
        before = self.is_recording, self.has_ended
        with contextlib.suppress(RecordingError, OSError):
            self._tape.refresh()
        now_s = time.monotonic()
        if self._tape.sealed:
            self.is_recording, self.has_ended = False, True
        elif now_s >= self._due_s:
            self._due_s = now_s + WRITER_CHECK_S
            with contextlib.suppress(OSError):
                self.is_recording = is_locked(self._path)
        self.has_news = (self.is_recording, self.has_ended) != before

    @property
    def word(self) -> Word:
        """What is going on: "stopped" is a recording whose process has gone, and which was not closed."""
        return "ended" if self.has_ended else "recording" if self.is_recording else "stopped"


def wait_for_first_ticks(path: Path) -> None:
    """Wait until a tape that is being recorded has a few ticks, or for a moment."""
    deadline_s = time.monotonic() + OPEN_S
    with contextlib.suppress(RecordingError, OSError), Tape(path) as tape:
        while time.monotonic() < deadline_s and not tape.sealed:
            if tape.keyframes and tape.last_tick >= tape.first_tick + OPEN_TICKS:
                return
            time.sleep(POLL_S)
            tape.refresh()


def wait_for_states(path: Path) -> bool:
    """Wait for the first keyframe of a tape while a process records it; False if none came. Raises as Tape does."""
    with Tape(path) as tape:
        while not tape.keyframes:
            if tape.sealed or not tape.is_being_written():
                return False
            time.sleep(POLL_S)
            tape.refresh()
    return True


def be_nice(niceness: int) -> None:
    """Let this process wait for others, such as the one that records."""
    with contextlib.suppress(OSError):
        os.nice(niceness)
