"""What passes between the simulation's thread and the writer's."""

from __future__ import annotations

from typing import Self

import attrs

from recorder.format.blocks.full_keyframe import Changes
from recorder.format.blocks.telemetry_block import Row
from sim.kernel.changes.tick_changes import TickChanges
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


@attrs.define(eq=False)
class TickOutput:
    """What one tick has brought, for the writer.

    Attributes:
        row: of figures; None if the simulation gives none.
        events: as an EVENTS block has them, empty if nothing happened; None if the simulation tells of none.
        changes: of the state; None if they are not recorded, or not known.
        frame: of the tick; empty for the tick that a recording starts with.
    """

    row: Row | None
    events: bytes | None
    changes: TickChanges | None = None
    frame: bytes = b""

    def beside(self, frame: bytes) -> Self:
        """The same with the frame of its tick."""
        self.frame = frame
        return self

    def __len__(self) -> int:
        """How many bytes wait with it."""
        changes_bytes = self.changes.size_bytes if self.changes is not None else 0
        return len(self.frame) + len(self.events or b"") + changes_bytes


def not_sealed(last_tick: int, dropped: list[tuple[int, int]]) -> str:
    """What a recording comes to whose end alone could not be written, for the end of a message."""
    ticks = f"all {last_tick:,} ticks" if not dropped else f"all of the {last_tick:,} ticks that were not lost"
    return f"; {ticks} are on the tape, which is not sealed: make room and resume it"
