"""Decide when a recording continues in a new segment."""

from __future__ import annotations

import time

from recorder.recording_options import RecordingOptions
from recorder.writer.writer import Writer

RING_SEGMENTS = 4  # A ring keeps at most a quarter more than requested.


class RotationPolicy:
    """Measures the current segment against the limits of the settings."""

    def __init__(self, settings: RecordingOptions, writer: Writer, tick: int) -> None:
        self._settings = settings
        self._writer = writer
        self._begun_from = -1  # The segment that the last rotation left.
        self._tick, self._begun_s = tick, time.monotonic()
        self.raw_bytes = 0  # Of frames and keyframes put since then.

    def is_due(self, tick: int) -> bool:
        """Return True if the next keyframe should begin a new segment."""
        settings = self._settings
        if settings.keep_ticks is not None and (tick - self._tick) * RING_SEGMENTS >= settings.keep_ticks:
            return True
        if settings.keep_s is not None:
            return (time.monotonic() - self._begun_s) * RING_SEGMENTS >= settings.keep_s
        if settings.split_bytes is None:
            return False
        # The compressed size at this moment depends on the writer's thread; deterministic tapes count what was put.
        if settings.deterministic:
            return self.raw_bytes >= settings.split_bytes
        begun = self._writer.segment_number != self._begun_from  # Otherwise segment_bytes is still the old segment's.
        return begun and self._writer.segment_bytes >= settings.split_bytes

    def begin(self, tick: int) -> None:
        """Note that the keyframe of tick begins a new segment."""
        self._begun_from = self._writer.segment_number
        self._tick, self._begun_s, self.raw_bytes = tick, time.monotonic(), 0
