"""Data passed from the simulation's thread to the writer's thread."""

from __future__ import annotations

from typing import Self

import attrs

from recorder.format.blocks.aux_block import Encoded
from recorder.format.blocks.full_keyframe import Changes
from recorder.format.blocks.telemetry_block import Row
from sim.kernel.changes.tick_changes import TickChanges
from sim.kernel.schema import Layout
from sim.kernel.state import Snapshot


@attrs.define(eq=False)
class Baseline:
    """A full state that the writer may have to build.

    Attributes:
        layout: of the state.
        snapshot: the state; None until the writer has built it.
    """

    layout: Layout
    snapshot: Snapshot | None = None


@attrs.frozen(eq=False)
class KeyframeJob:
    """A keyframe to be encoded by the writer.

    Attributes:
        tick, state_hash: of the state.
        baseline: the last full state; the state itself for a full keyframe.
        changes: rows that may differ from the baseline, or from previous; None for a full keyframe with a known state.
        rotate: begin a new segment with this keyframe.
        begins_log: the changes of the following ticks are recorded, starting from this state.
        keeps_words: those changes do not hold the values before them: the writer keeps these.
        previous: for a full keyframe that is built from changes, the full state before.
        needs_spare: the next keyframe will be a copy of the complete state and needs a buffer.
        digest: of the simulation's values; empty if it has none.
        writes: the first step and the payload of a WRITES block for the steps before it; None without one.
        size_bytes: size of the memory that is in use until the keyframe is written.
    """

    tick: int
    state_hash: int
    baseline: Baseline
    changes: Changes | None
    rotate: bool = False
    begins_log: bool = False
    keeps_words: bool = False
    previous: Baseline | None = None
    needs_spare: bool = False
    digest: bytes = b""
    writes: tuple[int, bytes] | None = None
    size_bytes: int = attrs.field(init=False)

    @property
    def is_full(self) -> bool:
        """True for a full keyframe."""
        return self.changes is None or self.previous is not None

    @size_bytes.default
    def _size_bytes(self) -> int:
        if self.changes is None:
            return self.baseline.layout.size_bytes
        return sum(values.nbytes for values in self.changes.values.values())


@attrs.define(eq=False)
class TickOutput:
    """The output of one tick for the writer.

    Attributes:
        row: of telemetry; None if the simulation has none.
        events: encoded for an EVENTS block, empty if there were none; None if the simulation has no events.
        changes: of the state; None if they are not recorded, or unknown.
        aux: the sections kept by others, encoded, the same object as before if unchanged; None if they are unknown.
        aux_bytes: the size of those that are new.
        frame: of the tick; empty for the tick that a recording starts with.
    """

    row: Row | None
    events: bytes | None
    changes: TickChanges | None = None
    aux: Encoded | None = None
    aux_bytes: int = 0
    frame: bytes = b""

    def with_frame(self, frame: bytes) -> Self:
        """Set the frame of the tick, and return self."""
        self.frame = frame
        return self

    def __len__(self) -> int:
        """Size in the queue, in bytes."""
        changes_bytes = self.changes.memory_bytes if self.changes is not None else 0
        return len(self.frame) + len(self.events or b"") + changes_bytes + self.aux_bytes


def not_sealed(last_tick: int, dropped: list[tuple[int, int]]) -> str:
    """The end of the message for a recording of which only the end could not be written."""
    ticks = f"all {last_tick:,} ticks" if not dropped else f"all of the {last_tick:,} ticks that were not lost"
    return f"; {ticks} are on the tape, which is not sealed: make room and resume it"
