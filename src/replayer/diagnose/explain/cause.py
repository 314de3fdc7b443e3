"""The cause of a divergence, as data: find_cause.py finds it, and the command prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from replayer.desync.ulps import DifferingElements

IDLE, OPEN = "has no effect", "not known"


def is_save(function: str) -> bool:
    """Return True for the name of save(), or of an expression with its own frame in it."""
    return "save" in function.partition(".<locals>")[0].split(".")[-1:]


@attrs.frozen
class SourceLocation:
    """One line of source.

    Attributes:
        path, line, function: of the source.
        text: the statement, in one line.
    """

    path: str
    line: int
    function: str
    text: str

    @property
    def name(self) -> str:
        """For example flock.py:14."""
        return f"{Path(self.path).name}:{self.line}" if self.line else Path(self.path).name


@attrs.frozen
class DifferingValue:
    """A value that differs.

    Attributes:
        name: for people: the field energy, growth, self.count.
        first, second: its text in both variants.
        elements: the elements that differ; None if it was not kept or is not an array of numbers of one shape.
        parts: of a container or an object: the path and both texts of each part that differs; empty if they were not
            kept.
        path: from the simulation, such as .reaches[0].level; empty if it is not known.
    """

    name: str
    first: str
    second: str
    elements: DifferingElements | None
    parts: list[tuple[str, str, str]] = attrs.field(factory=list)
    path: str = ""

    @property
    def is_digest_alone(self) -> bool:
        """True if its two digests differ, and nothing that was kept of it does."""
        return self.elements is None and self.first == self.second and not self.parts

    def told(self, text: str) -> DifferingValue:
        """The value with a remark behind its name, which the paths of its parts do not have."""
        name = f"{self.name}, {text}"
        parts = [(name if path == self.name else path, one, other) for path, one, other in self.parts]
        return attrs.evolve(self, name=name, parts=parts)


@attrs.frozen
class Undone:
    """A value that a line of load() changed after it had been set.

    Attributes:
        text: the value before, as parts_of shows it.
        set_by: the line of load(), or of a function that it calls, that had set it; None if it was so before load() ran.
        changed_by: the line of the same function, or of load(), that changed it.
        changed_in: the line of what this one calls that did it; None if it was that line itself.
    """

    text: str
    set_by: SourceLocation | None
    changed_by: SourceLocation
    changed_in: SourceLocation | None

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> Undone:
        """Decode the plain data of attrs.asdict."""
        text, *places = plain["text"], plain["set_by"], plain["changed_by"], plain["changed_in"]
        set_by, by, inside = (None if one is None else SourceLocation(**one) for one in places)
        assert by is not None
        return Undone(text, set_by, by, inside)


@attrs.frozen
class Cause:
    """The line at which two runs of one step diverge.

    Attributes:
        kind: "operation" (same inputs, different results), "edited" (the line differs in the other version),
            "outside" (it reads hidden state that differed before the step), "version" (as "outside", but the two variants
            have different code or environments, which may give it different values), "branch" (the two took different branches
            after it), "identity" (it changes an object that two names lead to in one of the two alone), "order" (it iterates
            over a set with the same members in another order), "load" (load() did not give back what the step reads),
            or the line is the head of load(), if which line reads that is not known (is_of_load),
            "inexact" (save() returned the same for two values that the step reads; the line is the one of save() that reads them),
            "alone" (only one of the two runs this line, before any that both run), "depth" (it is in a try that catches a RecursionError, and where that arises depends on how deep the stack is),
            "split" (load() made two objects of one there; where they are joined again, the step gives the same state),
            "joined" (load() made one object of two there; where they are two again, the step gives the same state),
            "shared" (names shared an object or memory before the step in one of the two alone; as in A, B gives the state of A),
            "is" (it asks whether two equal values are one object, and they are in one of the two alone),
            "file" (the versions of the code have another text in this line of a file that is no Python code, and with that of A, B gives
            the state of A; if it is not is_shown, with the whole file of A, which differs there first; line 0 without lines),
            "function" (the versions of the code differ in this function, and with that of A, B gives the state of A),
            "line" (it gave different values, and of those that it reads none was seen to differ) or "unseen" (as "line",
            but what it reads was not all seen, or it calls nothing that could give other values: the cause is before it; or
            a large value differs after it, and no line was seen to change that).
        place: of the line; of a "load", of the line of load() if that is known, else of the line that reads it; of an "edited"
            value, of the line that gives it.
        other_place: of the line in the other version; None if it has none, or the same.
        only_in: of what one version alone has: "A" or "B"; empty if that is not known.
        reordered: of an "edited" line that has changed places with another one: that one, in both versions; None of any other.
        operation: for example np.exp; None if none is known.
        calls: the functions that the line calls, as written. may_call: of these, those that it need not have called.
        value: the first value that differs; None if it was not kept.
        outside: the hidden state that the line reads and that differed before the step.
        orders: of an "order": the set, and the first members in both orders.
        read_at: of a "load", "inexact" or "edited" whose place is elsewhere: the line of the step that reads it.
        loaded_at: of what is "outside": the line of load() that gave B its value; None if load() gave it none.
        undone: of a "load", or of what is "outside": how the line of load(), which is place or loaded_at, changed what was as A has it;
            None if that was not seen.
        saved_at: of what is "outside": the line of save() that reads it; None if none was seen to.
        defined_at: of an "edited" line that reads what differed before the step: the edited lines that give that its value.
        is_of_branches: True if the value differs only after the branches that the two take after a line that reads what
            differs, and is not one of the line.
        is_of_load: True if the line of a "split", "joined" or "shared" is one of load(); else the two diverge there. Of a "load",
            see there.
        is_shown: True if B gives the state of A with the value that an "edited" line gives.
        memory: of an "operation" whose inputs differ in what fresh memory holds: IDLE if that was tested and has no effect, OPEN
            if not; empty if its inputs are the same.
        asked: of an "is": what is one object in one of the two alone, in words.
        way: the lines from this one to the state, each with the value that it changed; the last is in the state.
    """

    kind: str
    place: SourceLocation
    other_place: SourceLocation | None
    operation: str | None
    calls: tuple[str, ...]
    value: DifferingValue | None
    outside: list[DifferingValue]
    way: list[tuple[SourceLocation, str]]
    orders: list[DifferingValue] = attrs.field(factory=list)
    read_at: SourceLocation | None = None
    loaded_at: SourceLocation | None = None
    undone: Undone | None = None
    saved_at: SourceLocation | None = None
    defined_at: tuple[SourceLocation, SourceLocation | None] | None = None
    is_of_branches: bool = False
    is_of_load: bool = False
    may_call: frozenset[str] = frozenset()
    is_shown: bool = False
    memory: str = ""
    asked: str = ""
    only_in: str = ""
    reordered: tuple[SourceLocation, SourceLocation] | None = None

    @property
    def called(self) -> list[str]:
        """The functions that the line called, as written."""
        return [name for name in self.calls if name not in self.may_call]

    @property
    def reads_outside(self) -> bool:
        """True if the step reads what differed before it, between two instances of one version of the code."""
        return self.kind in ("outside", "load", "inexact")


def without_values(cause: Cause) -> Cause:
    """The cause with its lines alone: the values of the two variants are not shown."""
    return attrs.evolve(cause, other_place=None, value=None, outside=[], orders=[])
