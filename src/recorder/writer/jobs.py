"""What passes between the simulation's thread and the writer's."""

from __future__ import annotations

import attrs

from recorder.format.blocks.full_keyframe import Changes
from sim.kernel.schema import Layout
from sim.kernel.state import Snapshot


@attrs.define(eq=False)
class Baseline:
    """A full state, as the writer comes to know it.

    Attributes:
        layout: of the state.
        snapshot: the state; None until the writer has made it.
    """

    layout: Layout
    snapshot: Snapshot | None = None


@attrs.frozen(eq=False)
class KeyframeJob:
    """A keyframe to be encoded by the writer.

    Attributes:
        tick, state_hash: of the state.
        baseline: the last full state; the state itself for a full keyframe.
        changes: what may differ from the baseline, or from upon; None for a full keyframe whose baseline is known.
        upon: for a full keyframe that is made of changes, the full state before.
        rotate: begin a new segment with it.
        begins_log: changes of the ticks that follow are recorded, too, and come upon it.
        wants_spare: the next one will be a copy of the whole state.
    """

    tick: int
    state_hash: int
    baseline: Baseline
    changes: Changes | None
    rotate: bool = False
    begins_log: bool = False
    upon: Baseline | None = None
    wants_spare: bool = False

    @property
    def is_full(self) -> bool:
        """Whether it is a full keyframe."""
        return self.changes is None or self.upon is not None

    @property
    def size_bytes(self) -> int:
        """Memory that it holds until it is written."""
        if self.changes is None:
            return self.baseline.layout.size_bytes
        return sum(values.nbytes for values in self.changes.values.values())


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


def not_sealed(last_tick: int, dropped: list[tuple[int, int]]) -> str:
    """What a recording comes to whose end alone could not be written, for the end of a message."""
    ticks = f"all {last_tick:,} ticks" if not dropped else f"all of the {last_tick:,} ticks that were not lost"
    return f"; {ticks} are on the tape, which is not sealed: make room and resume it"


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
