"""What was tested of values outside the state that differed before a step, as data."""

from __future__ import annotations

import re
from typing import Any, Self

import attrs

from replayer.diagnose.explain.cause import SourceLocation

# How save() treats a value that it does not tell from another one.
READS, HOLDS, BUILDS, OMITS = "reads", "holds", "builds", "omits"
ALIKE = "made in one process, both give the same state"
NOT_PUT = "what the line reads was not put into another instance"
_ORDER_OF = "order of "  # At the beginning of a kind: the members are as they were.
_VALUES = ("proved", "not_needed", "without_effect")


@attrs.frozen
class GivenValue:
    """A value outside the state that differed before the step.

    Attributes:
        name: such as Walkers._memo.
        kind: attribute, module global, …
        detail: the difference, in a few words.
    """

    name: str
    kind: str
    detail: str

    @property
    def is_order(self) -> bool:
        """True if only the order of its members differed."""
        return self.kind.startswith(_ORDER_OF)

    @property
    def word(self) -> str:
        """The last name of it, which a line that reads it may name."""
        words = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[.*?\]", "", self.name))
        return words[-1] if words else ""


@attrs.frozen
class Unsaved:
    """A value that was put into B: with it, and with that of B, save() returned the same.

    Attributes:
        name: as of the GivenValue.
        way: READS: the line is the last one of its function, in save(), that reads what differs; HOLDS: that has an object with
            it, and hands that on, so that it may read it; BUILDS: it reads other attributes of the object that has it; OMITS: it
            is the head of save(), no line of which reads what differs.
        place: the line; None if it is not known.
    """

    name: str
    way: str
    place: SourceLocation | None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Decode the plain data of attrs.asdict."""
        place = plain["place"]
        return cls(plain["name"], plain["way"], None if place is None else SourceLocation(**place))


@attrs.frozen
class FrozenValue:
    """A value of a global or of a closure that numba took as a constant as it compiled functions in the step.

    Attributes:
        name: of the global.
        functions: that take it.
        in_a: as text.
        places: the lines of them that read it.
    """

    name: str
    functions: tuple[str, ...]
    in_a: str
    in_b: str
    places: tuple[SourceLocation, ...]

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Decode the plain data of attrs.asdict."""
        places = tuple(SourceLocation(**place) for place in plain["places"])
        return cls(**plain | {"functions": tuple(plain["functions"]), "places": places})


@attrs.frozen
class GivenValues:
    """What was tested: B got values that A had outside the state, and ran the step.

    Attributes:
        proved: those with which B gives the state of A; empty if there are none.
        is_alone: True if each of them does that alone.
        is_read: True if these are values that the line reads.
        is_emptied: True if they are caches, and A gives the state of B with one of them empty.
        not_needed: with proved values: the others that differed before the step. Of later ticks nothing is known.
        without_effect: the values that the line reads, if B gives its own state with them.
        nor_others: True if B gives its own state with all else that was seen to differ, too.
        why_not: why nothing was tested; None if it was.
        unsaved: of the proved ones: those that save() does not tell from what B has.
        frozen: of the names of proved ones: with functions compiled with A's value alone, and all else as it is in B, B gives
            the state of A; with the same functions compiled again with its own value, its own state.
        is_resumed: True if the proved one is a generator, which was resumed in B until it stood where that of A does.
    """

    proved: tuple[GivenValue, ...] = ()
    is_alone: bool = True
    is_read: bool = False
    is_emptied: bool = False
    not_needed: tuple[GivenValue, ...] = ()
    without_effect: tuple[GivenValue, ...] = ()
    nor_others: bool = False
    why_not: str | None = None
    unsaved: tuple[Unsaved, ...] = ()
    frozen: tuple[FrozenValue, ...] = ()
    is_resumed: bool = False

    def to_plain(self) -> dict[str, Any]:
        """Encode as plain data."""
        return attrs.asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Decode the plain data of to_plain."""
        values = {name: tuple(GivenValue(**one) for one in plain[name]) for name in _VALUES}
        unsaved = tuple(map(Unsaved.from_plain, plain["unsaved"]))
        frozen = tuple(map(FrozenValue.from_plain, plain["frozen"]))
        return cls(**plain | values | {"unsaved": unsaved, "frozen": frozen})


@attrs.frozen
class TestedEdits:
    """What a test showed of the edits of the only function that is needed.

    Attributes:
        count: of its edits.
        needed: the first lines of those with which B gives the state of A, as few as do; empty if that is not known.
    """

    count: int
    needed: tuple[str, ...] = ()


@attrs.frozen
class GivenFunctions:
    """What a test of functions showed, which B got from A's version of the code.

    Attributes:
        names: of those with which B gives the state of A: one alone, or some together; empty if none do.
        removed: those of them that A does not have: B ran without them.
        brought: what these use and B's version lacks, such as a function that they call: B got it, too.
        has_effect: False if the first one that was tested, that of the line, alone leaves B as it was.
        edits: of a function with several edits: which of them are needed; None of any other.
        is_none_alone: of several, False if the step did not end with one of them alone: what that one does is not known.
    """

    names: tuple[str, ...]
    removed: tuple[str, ...] = ()
    has_effect: bool = True
    brought: tuple[str, ...] = ()
    edits: TestedEdits | None = None
    is_none_alone: bool = True
