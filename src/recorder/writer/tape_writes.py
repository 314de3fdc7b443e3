"""Write the blocks of the log to the disk, sync them, and keep on when the disk refuses: a part of the writer's thread."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from recorder.recording_options import RecordingOptions
from recorder.storage.file_interfaces import Files
from recorder.storage.segmented_log import SegmentedLog, SizeChangedError
from recorder.writer.dropped_ticks import DroppedTicks
from recorder.writer.jobs import not_sealed
from recorder.writer.keyframe_encoder import KeyframeEncoder
from recorder.writer.pending_ticks import WaitingTicks
from recorder.writer.retries import Retries

UNDURABLE_BYTES_MAX = 64 << 20  # Blocks kept until a sync; beyond this size the sync comes early.
LAST_TRIES = 3  # Attempts at the end, before the rest is given up.


class TapeWrites:
    """The writes of a Writer; the attributes below are the Writer's."""

    signal: bool
    needs_full: bool
    failing: bool
    journal_is_gone: bool
    written_tick: int
    seals: bool
    notify: Callable[[str], None]
    _files: Files
    _log: SegmentedLog
    _path: str | os.PathLike[str]
    _settings: RecordingOptions
    _waiting: WaitingTicks
    _keyframes: KeyframeEncoder
    _dropped: DroppedTicks
    _retries: Retries
    _synced_s: float
    _lost_full: bool
    _outcome: Any
    _what_is_kept: str
    _end_drop: Callable[[int], None]

    def _store(self, now_s: float, *, sync: bool, urgent: bool) -> None:
        """Write the taken items to the disk, unless it has refused shortly before."""
        if not urgent and not self._retries.is_due(now_s):
            return
        for _ in range(1 if self.failing else 2):  # A disk that refused a segment may accept a new one at once.
            try:
                self._write(sync=sync)
            except OSError as error:
                self._fail(error)
            else:
                self._succeed()
                return

    def _write(self, *, sync: bool) -> None:
        log = self._log
        log.write()
        if sync or log.undurable_bytes > UNDURABLE_BYTES_MAX:
            log.sync()
            self._synced_s = time.monotonic()
            self._reinstate()
        log.drop_front(self._settings.keep_ticks, self._settings.keep_s)
        if self._dropped.since is None:
            self.written_tick = self._waiting.first_tick - 1

    def _reinstate(self) -> None:
        """Bring back what was removed, moved or replaced from outside. Raises OSError."""
        what = self._files.reinstate()
        if what:
            self.notify(what)
        if not self._files.has_journal() and not self.journal_is_gone:
            self.journal_is_gone = self.signal = True

    def _fail(self, error: OSError) -> None:
        """Note that the disk refused. Raises error itself if that ends the recording."""
        if isinstance(error, SizeChangedError):  # The keyframes that later deltas refer to may be gone.
            self._keyframes.forget()
            self._lost_full = True
        if self._settings.on_error == "raise":
            raise error
        if self._retries.note(error):
            self.notify(f"{os.fspath(self._path)}: {error}; the recording continues in memory and retries")
        self.failing = True

    def _succeed(self) -> None:
        if self.failing:
            self.failing, self._retries.failure = False, None
            self.notify(f"{os.fspath(self._path)}: the disk accepts the recording again")
            self.needs_full = self.needs_full or self._lost_full

    def _finish(self) -> None:
        """Write the rest and the end of the tape. Raises OSError if that fails after all attempts."""
        for number in range(LAST_TRIES):
            try:
                self._log.write()
                if self._dropped.since is not None:
                    self._end_drop(self._waiting.first_tick - 1)
                if self.seals:
                    self._log.end(self._outcome, self._settings.keep_ticks, self._settings.keep_s)
                self._write(sync=self._settings.sync_interval_s is not None)
                self._log.ensure_size()
                self._reinstate()
            except OSError as error:
                if self._settings.on_error == "raise" or number == LAST_TRIES - 1:
                    if self._log.is_empty:
                        self._what_is_kept = not_sealed(self._waiting.first_tick - 1, self._dropped.ranges)
                    raise
                self._fail(error)
                if number:
                    self._retries.pause()
            else:
                return
