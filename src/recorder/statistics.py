"""Figures of a recording that is being made: its writer's and its recorder's."""

from __future__ import annotations

import attrs


@attrs.frozen
class WriterStatistics:
    """What the writer has done so far.

    Attributes:
        written_bytes: appended to the files.
        frame_count, full_count, delta_count: written, or waiting for a disk that refuses.
        dropped: ranges of ticks, first and last, whose frames could not be kept.
        waiting_bytes: of frames that were put and not yet taken.
        sync_count, sync_s_max: how often the file was synced, and the longest time that took.
        wait_s: how long the simulation's thread waited for the writer, in all.
        failure: why the disk refuses now; None if it does not.
    """

    written_bytes: int
    frame_count: int
    full_count: int
    delta_count: int
    dropped: list[tuple[int, int]]
    waiting_bytes: int
    sync_count: int
    sync_s_max: float
    wait_s: float
    failure: str | None


@attrs.frozen
class RecorderStatistics:
    """What a recorder has done so far.

    Attributes:
        tick: the last one recorded.
        keyframes_skipped: because the writer was still busy with earlier ones.
        writer: the writer's own figures.
    """

    tick: int
    keyframes_skipped: int
    writer: WriterStatistics
