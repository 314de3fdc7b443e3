"""Frames and telemetry of ticks that wait for their block to fill; the writer thread's own."""

from __future__ import annotations

import time

from recorder.format.encoder import Piece, frames_piece, telemetry_piece
from recorder.format.limits import FRAMES_RAW_BYTES
from recorder.format.telemetry import Row, encode_telemetry


class WaitingTicks:
    """What becomes the next blocks.

    Attributes:
        first_tick: of the frames that wait, or of the next one that comes.
        since_s: when the first one that waits came, by the monotonic clock.
    """

    def __init__(self, first_tick: int) -> None:
        self.first_tick = first_tick
        self.since_s = 0.0
        self._frames: list[bytes] = []
        self._frames_bytes = 0
        self._rows: list[Row] = []

    def __len__(self) -> int:
        """How many frames wait."""
        return len(self._frames)

    def has_room_for(self, frame: bytes) -> bool:
        """Whether a frame still fits into the block."""
        return self._frames_bytes + len(frame) <= FRAMES_RAW_BYTES

    def take(self, frame: bytes) -> None:
        """Take the frame of the next tick."""
        if not self._frames:
            self.since_s = time.monotonic()
        self._frames.append(frame)
        self._frames_bytes += len(frame)

    def take_row(self, row: Row) -> None:
        """Take telemetry of the last tick that was taken."""
        self._rows.append(row)

    def cut(self) -> list[list[Piece]]:
        """The blocks of all that waits, one group each; nothing waits any more."""
        count, first = len(self._frames), self.first_tick
        groups = [[frames_piece(first, count, b"".join(self._frames))]]
        begin = 0
        for end in range(1, len(self._rows) + 1):
            if end == len(self._rows) or self._rows[end].names != self._rows[begin].names:
                groups.append([_telemetry(self._rows[begin:end])])
                begin = end
        self.first_tick += count
        self._frames.clear()
        self._rows.clear()
        self._frames_bytes = 0
        return groups


def _telemetry(rows: list[Row]) -> Piece:
    ticks = [row.tick for row in rows]
    payload = encode_telemetry(ticks, rows[0].names, [row.values for row in rows])
    return telemetry_piece(ticks[0], payload)
