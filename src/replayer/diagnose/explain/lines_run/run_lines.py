"""What running statements of the program before a step gives, as data."""

from __future__ import annotations

from typing import Any

import attrs

from replayer.diagnose.explain.cause import SourceLocation


@attrs.frozen
class RunBefore:
    """Statements with which, run before the step, it gives the recorded state.

    Attributes:
        values: those that the statements change, of the ones that are not as the tape notes them, each with its line.
        lines: the statements that are needed for it.
        others: further ones, with which the values are as the tape notes them.
        is_as_noted: True if with all of these the values are as they were when the recording began.
        is_by_values: True if the step gives another state where all is as the statements leave it, but for the values; and the
            recorded one where all else of the program is as it was before the statements.
    """

    values: tuple[str, ...]
    lines: tuple[SourceLocation, ...]
    others: tuple[SourceLocation, ...] = ()
    is_as_noted: bool = False
    is_by_values: bool = False

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return attrs.asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> RunBefore:
        """From plain data."""
        lines, others = (tuple(SourceLocation(**one) for one in plain[name]) for name in ("lines", "others"))
        return cls(tuple(plain["values"]), lines, others, plain["is_as_noted"], plain["is_by_values"])


@attrs.frozen
class SharedResult:
    """What the step before returned and the state holds, too: code that writes into the one writes into the other.

    Attributes:
        tick: to which that step led.
        parts: what is shared, by its names in the result and in the state.
        returned_at: the line that returned it; None if it was not seen.
        writers: lines of the program that write into what such calls return, as its text tells.
        proved: of these, those with which, run on what was returned, the step gives the recorded state.
        is_alone: True if it does so with each of them alone, False with all of them together.
        is_only: True if all other lines that were found were run, too, and gave another state.
    """

    tick: int
    parts: tuple[str, ...]
    returned_at: SourceLocation | None = None
    writers: tuple[SourceLocation, ...] = ()
    proved: tuple[SourceLocation, ...] = ()
    is_alone: bool = True
    is_only: bool = False

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return attrs.asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> SharedResult:
        """From plain data."""
        writers, proved = (tuple(SourceLocation(**one) for one in plain[name]) for name in ("writers", "proved"))
        returned = SourceLocation(**plain["returned_at"]) if plain["returned_at"] is not None else None
        return cls(plain["tick"], tuple(plain["parts"]), returned, writers, proved, plain["is_alone"], plain["is_only"])
