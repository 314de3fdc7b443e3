"""Statistics of a running recording: those of its writer and of its recorder."""

from __future__ import annotations

import attrs


@attrs.frozen
class WriterStatistics:
    """The work that the writer has done so far.

    Attributes:
        written_bytes: appended to the files.
        frame_count, full_count, delta_count: frames and keyframes that were written or are held until the disk
            accepts writes again.
        dropped: ranges of ticks, first and last, whose frames could not be kept.
        waiting_bytes: of frames in the queue to the writer's thread.
        sync_count, sync_s_max: number of syncs of the file, and the longest duration of one.
        wait_s: total time that the simulation's thread waited for the writer.
        failure: why the disk refuses writes now; None if it does not.
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
    """The work that a recorder has done so far.

    Attributes:
        tick: the last recorded tick.
        keyframes_skipped: number of keyframes skipped because the writer was still busy with earlier ones.
        writer: the statistics of the writer.
        capture_faults: number of captured values that differed from the object at a check, and were repaired.
    """

    tick: int
    keyframes_skipped: int
    writer: WriterStatistics
    capture_faults: int = 0
