"""Results of a repair: what was copied, rebuilt and lost."""

from __future__ import annotations

import attrs

from recorder.errors import MissingTickError
from recorder.location.tape_location import Location


class NothingToRepairError(MissingTickError):
    """The tape has no readable state, and none can be rebuilt; ``damaged`` is True if damage is the reason."""

    def __str__(self) -> str:
        return self.why


@attrs.frozen
class RepairReport:
    """The result of a repair.

    Attributes:
        path: of the new tape, or its URL.
        first_tick, last_tick: range of the new tape.
        copied_keyframes: number of keyframes copied unchanged.
        rebuilt_ticks: ticks of keyframes that were re-simulated, and verified by the recorded hash.
        lost_keyframe_ticks: ticks of keyframes that were damaged and could not be rebuilt, with the reason.
        lost_ticks: ranges, first and last, whose frames are lost, with the reason.
        lost_optional: damaged blocks of optional kinds: name of the kind and reason.
    """

    path: Location
    first_tick: int
    last_tick: int
    copied_keyframes: int
    rebuilt_ticks: list[int]
    lost_keyframe_ticks: list[tuple[int, str]]
    lost_ticks: list[tuple[int, int, str]]
    lost_optional: list[tuple[str, str]]

    @property
    def complete(self) -> bool:
        """True if nothing that was recorded is lost."""
        return not (self.lost_ticks or self.lost_keyframe_ticks or self.lost_optional)


@attrs.define
class RepairLosses:
    """Losses of a repair so far; the fields of RepairReport that begin with lost_.

    Attributes:
        keyframes: ticks of keyframes, with the reason.
        ticks: ranges, first and last, with the reason.
        optional: names of kinds of blocks, with the reason.
    """

    keyframes: list[tuple[int, str]] = attrs.field(factory=list)
    ticks: list[tuple[int, int, str]] = attrs.field(factory=list)
    optional: list[tuple[str, str]] = attrs.field(factory=list)
