"""What is known of one interval of a tape: the rows that its steps changed, and the zones of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.plain_data import DECODE_ERRORS

Rows = npt.NDArray[np.int64]


@attrs.frozen
class ChangedRows:
    """The rows that some steps may have changed; no other row has changed.

    Attributes:
        first_step, last_step: the ticks of these steps, both included.
        layout: the seed of the state hashes, which identifies the layout before and after each of the steps; None if
            the layout changed: every row may have changed then.
        bits: for each field with such rows a bitmap: row r is bit r mod 8 of byte r div 8.
    """

    first_step: int
    last_step: int
    layout: int | None
    bits: Mapping[str, bytes]

    def any_of(self, field: str, rows: Rows | None) -> bool:
        """Return True if any of these flat rows of a field may have changed; None stands for all rows."""
        if self.layout is None:
            return True
        bitmap = self.bits.get(field)
        if bitmap is None:
            return False
        if rows is None:
            return True
        flags = np.frombuffer(bitmap, np.uint8)
        if rows.size and int(rows.max()) >= len(flags) * 8:
            return True  # It is not the bitmap of that field.
        return bool((flags[rows >> 3] >> (rows & 7).astype(np.uint8) & 1).any())


def packed(rows: Rows, row_count: int) -> bytes:
    """The bitmap of flat rows."""
    flags = np.zeros(row_count, np.bool_)
    flags[rows] = True
    return np.packbits(flags, bitorder="little").tobytes()


@attrs.frozen
class IntervalFacts:
    """What is known of the ticks first_tick to last_tick.

    Attributes:
        first_tick, last_tick: the range, both included: from a keyframe to the tick before the next one.
        changed: the rows that the steps after first_tick have changed, that to the next keyframe included.
        zones: of all fields that each of these states has, and of paths of recorded objects, as plain data
            (Zone.from_plain): a question needs few of them. None if nothing is known.
        kept: paths of recorded objects whose value is the same after each of the steps.
    """

    first_tick: int
    last_tick: int
    changed: ChangedRows
    zones: Mapping[str, Any] | None
    kept: frozenset[str] = frozenset()

    def to_plain(self) -> list[Any]:
        """As plain data."""
        steps = self.changed
        plain = [
            [self.first_tick, self.last_tick],
            [steps.first_step, steps.last_step, steps.layout, dict(steps.bits)],
            None if self.zones is None else dict(self.zones),
        ]
        return [*plain, sorted(self.kept)] if self.kept else plain

    @classmethod
    def from_plain(cls, values: Any) -> Self:
        """The facts of plain data. Raises ValueError if these are none."""
        try:
            match values:
                case [
                    [int(first), int(last)],
                    [int(begin), int(end), layout, dict(bits)],
                    (None | dict()) as zones,
                    *rest,
                ] if not rest or (len(rest) == 1 and isinstance(rest[0], list)):
                    if not (isinstance(layout, int | None) and all(isinstance(one, bytes) for one in bits.values())):
                        raise ValueError("it has no bitmaps")
                    kept = frozenset(one for one in (rest[0] if rest else ()) if isinstance(one, str))
                    return cls(first, last, ChangedRows(begin, end, layout, bits), zones, kept)
        except DECODE_ERRORS as error:
            raise ValueError(f"the facts of an interval: {error}") from None
        raise ValueError("it has no facts of an interval")
