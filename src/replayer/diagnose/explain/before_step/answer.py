"""What the trial of changes before a step gives, as data."""

from __future__ import annotations

from typing import Any

import attrs

from replayer.diagnose.explain.cause import SourceLocation


@attrs.frozen
class Found:
    """What was found.

    Attributes:
        texts: of the changes with each of which alone the step gives the recorded state.
        names: of the attributes that these change.
        tried: the number of changes that were made.
        is_complete: True if all candidates were tried.
    """

    texts: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    tried: int = 0
    is_complete: bool = True

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return {**attrs.asdict(self), "texts": list(self.texts), "names": list(self.names)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Found:
        """From plain data."""
        return cls(tuple(plain["texts"]), tuple(plain["names"]), plain["tried"], plain["is_complete"])


@attrs.frozen
class ChangingLines:
    """Lines that change what was looked for.

    Attributes:
        of_others: in functions that the step is not seen to run.
        of_step: in functions that it may run.
    """

    of_others: list[SourceLocation]
    of_step: list[SourceLocation]

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return attrs.asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> ChangingLines:
        """From plain data."""
        others, own = ([SourceLocation(**place) for place in plain[name]] for name in ("of_others", "of_step"))
        return cls(others, own)
