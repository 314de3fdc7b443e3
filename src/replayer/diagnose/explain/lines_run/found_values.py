"""What putting other values outside the state in before a step gives, as data."""

from __future__ import annotations

from typing import Any

import attrs

from replayer.diagnose.explain.cause import SourceLocation


@attrs.frozen
class ValuePutIn:
    """A value outside the state, and another one that was put in its place.

    Attributes:
        name: for people, such as options.HARD, or keyboard._pressed['right'].
        of: the name in the module that stands for all of it, such as HARD or _pressed.
        place: the file and the line that define it.
        then: the value that was put in.
        now: the value that is there.
        is_noted: True if the tape has the digest of the other value: the recording began with it.
        set_at: lines that give it a value, of those that the step is not seen to run.
        read_at: lines of the step that name it, and the last one before the step takes another branch with it.
    """

    name: str
    of: str
    place: str
    then: str
    now: str
    is_noted: bool = False
    set_at: tuple[SourceLocation, ...] = ()
    read_at: tuple[SourceLocation, ...] = ()

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> ValuePutIn:
        """From plain data."""
        lines = {name: tuple(SourceLocation(**one) for one in plain[name]) for name in ("set_at", "read_at")}
        return cls(**{**plain, **lines})


@attrs.frozen
class ValuesPutIn:
    """What was found.

    Attributes:
        found: those with which the step gives the recorded state: with each alone, or with all of them together.
        is_joint: True if all of them are needed for it.
        unneeded: those of which the tape has the digest, too, and without which it gives the recorded state as well.
        tried: the number of values that were put in.
    """

    found: tuple[ValuePutIn, ...] = ()
    is_joint: bool = False
    unneeded: tuple[ValuePutIn, ...] = ()
    tried: int = 0

    @property
    def is_noted(self) -> bool:
        """True if the recording is known to have begun with these values."""
        return all(one.is_noted for one in self.found)

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        return attrs.asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> ValuesPutIn:
        """From plain data."""
        found, unneeded = (tuple(map(ValuePutIn.from_plain, plain[name])) for name in ("found", "unneeded"))
        return cls(found, plain["is_joint"], unneeded, plain["tried"])
