"""The progress of an iteration over samples, as positions in the parts of the tapes, without any data.

An iteration is resumed before a part: the parts before it are not read again, except for the rows that a shuffle buffer
held at that point. The rows yielded since then are made once more and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import attrs

from replayer.datasets.request import ExtractionError
from replayer.datasets.stream.shuffle_buffer import Held


@attrs.frozen
class Position:
    """A point at which reading can begin: before a part.

    Attributes:
        part: its index in the order in which the parts are read.
        rows: the number of rows that come before. held: the shuffle buffer; None if there is none, or nothing in it.
    """

    part: int = 0
    rows: int = 0
    held: Held | None = None

    def plain(self) -> dict[str, Any]:
        """The position as JSON objects, with the lists themselves: loaders take a state with each item."""
        held = None if self.held is None else attrs.asdict(self.held, recurse=False)
        return {"part": self.part, "rows": self.rows, "held": held}


class Progress:
    """The progress of one iteration.

    Attributes:
        epoch: of the iteration. rows: the number of rows yielded so far, those before a resumed one included.
    """

    def __init__(self, epoch: int, rows: int = 0, position: Position | None = None) -> None:
        self.epoch, self.rows = epoch, rows
        self._positions = [position or Position()]  # By rows, ascending; the first one has no more than were yielded.

    @property
    def position(self) -> Position:
        """The last position that lies before every row that was not yielded."""
        # Rows may be made and not yet yielded: an incomplete batch when the next part raises, or is interrupted.
        while len(self._positions) > 1 and self._positions[1].rows <= self.rows:
            del self._positions[0]
        return self._positions[0]

    @property
    def newest(self) -> Position:
        """The last position that was noted."""
        return self._positions[-1]

    def note(self, position: Position) -> None:
        """Add a position, of more rows than those before."""
        self._positions = [self.position, *self._positions[1:], position]

    def plain(self) -> dict[str, Any]:
        """The progress as JSON objects."""
        return {"epoch": self.epoch, "rows": self.rows, "from": self.position.plain()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The progress from JSON objects; those without a position begin at the first part. Raises ExtractionError."""
        try:
            position = dict(plain.get("from") or {})
            held = position.pop("held", None)
            return cls(plain["epoch"], plain["rows"], Position(**position, held=None if held is None else Held(**held)))
        except (KeyError, TypeError, ValueError) as error:
            raise ExtractionError("expected a state as state_dict() returns it, got other values") from error
