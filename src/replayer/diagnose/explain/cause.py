"""Say where two runs of one step parted: the data that backward_slice.py finds and the command shows."""

from __future__ import annotations

from pathlib import Path

import attrs

from replayer.desync.ulps import DifferingElements


@attrs.frozen
class SourceLocation:
    """One line of source.

    Attributes:
        path, line, function: where.
        text: the statement, in one line.
    """

    path: str
    line: int
    function: str
    text: str

    @property
    def name(self) -> str:
        """For example flock.py:14."""
        return f"{Path(self.path).name}:{self.line}"


@attrs.frozen
class DifferingValue:
    """A value that differs.

    Attributes:
        name: as people say it: the field energy, growth, self.count.
        first, second: what it is on both sides, in words.
        elements: where it differs; None if it was not kept or is no array of numbers of one shape.
    """

    name: str
    first: str
    second: str
    elements: DifferingElements | None


@attrs.frozen
class Cause:
    """Where two runs of one step parted.

    Attributes:
        kind: "operation" (same inputs, other results), "edited" (the line is another one in the other version),
            "outside" (it reads something outside of the state that differed before the step), "branch" (the two went
            other ways after it) or "line" (it gave other values from what it reads).
        place: of the line.
        other_place: of the line in the other version; None if there is none, or it is the same.
        operation: for example np.exp; None if none is known.
        calls: what the line calls, as written.
        value: what differs first; None if nothing was kept.
        outside: what it reads of that which differed before the step.
        way: the lines from here to the state, and what each changed, the last one in the state.
    """

    kind: str
    place: SourceLocation
    other_place: SourceLocation | None
    operation: str | None
    calls: tuple[str, ...]
    value: DifferingValue | None
    outside: list[DifferingValue]
    way: list[tuple[SourceLocation, str]]
