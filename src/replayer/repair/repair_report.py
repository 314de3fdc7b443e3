"""Results of a repair: what was copied, rebuilt and lost."""

from __future__ import annotations

from pathlib import Path

import attrs

from recorder.errors import MissingTickError


class NothingToRepairError(MissingTickError):
    """There is no state on the tape, and none can be made; ``damaged`` tells whether there was one."""

    def __str__(self) -> str:
        return self.why


@attrs.frozen
class RepairReport:
    """What came of a repair.

    Attributes:
        path: of the new tape.
        first_tick, last_tick: of the new tape.
        copied_keyframes: as they were.
        rebuilt_ticks: of keyframes that were re-simulated, and proved by the recorded hash.
        lost_keyframe_ticks: of keyframes that were damaged and could not be rebuilt, with the reason.
        lost_ticks: ranges, first and last, whose frames are lost, with the reason.
        lost_optional: blocks of kinds that need not be known and are damaged: name of the kind and reason.
    """

    path: Path
    first_tick: int
    last_tick: int
    copied_keyframes: int
    rebuilt_ticks: list[int]
    lost_keyframe_ticks: list[tuple[int, str]]
    lost_ticks: list[tuple[int, int, str]]
    lost_optional: list[tuple[str, str]]

    @property
    def whole(self) -> bool:
        """Nothing that was recorded is lost."""
        return not (self.lost_ticks or self.lost_keyframe_ticks or self.lost_optional)


@attrs.define
class RepairLosses:
    """What a repair has lost so far; the fields of RepairReport that begin with lost_.

    Attributes:
        keyframes: ticks of keyframes, with the reason.
        ticks: ranges, first and last, with the reason.
        optional: names of kinds of blocks, with the reason.
    """

    keyframes: list[tuple[int, str]] = attrs.field(factory=list)
    ticks: list[tuple[int, int, str]] = attrs.field(factory=list)
    optional: list[tuple[str, str]] = attrs.field(factory=list)
