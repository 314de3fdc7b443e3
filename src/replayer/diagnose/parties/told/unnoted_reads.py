"""What a step reads of the outside world and the tapes do not tell: named, and of an environment variable values to try."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from recorder.ambient.outside.outside_note import OutsideNote
from recorder.ambient.outside.outside_read import CHANGED, FILE, IMPORT, VARIABLE, OutsideRead, variable_fact
from replayer.diagnose.parties.differences.named_texts import constants_of
from replayer.diagnose.parties.party import Made
from replayer.diagnose.parties.told.told_environment import NOT_TRIED

VALUES_MAX = 8  # Of a variable; each is tried in a process of its own.
VARIABLES_MAX = 4


@attrs.frozen
class FoundVariable:
    """An environment variable with which a party gives what its tape has, and without it another state.

    Attributes:
        party: 0 for A, 1 for B.
        name, value: of the variable; None if it is not set.
        present: its value without that, as Party.shown_variable gives it; None if it is not set.
        place: where the step reads it, such as prices.py:8.
        is_noted: True if the party's tape tells a value of it, which this one does not contradict.
        times: how many further processes repeated both results.
    """

    party: int
    name: str
    value: str | None
    present: str | None
    place: str
    is_noted: bool
    times: int


def unnoted_text(reads: Iterable[OutsideRead], notes: Sequence[OutsideNote]) -> str:
    """What was read and is not the same on both tapes, as far as they tell; empty without anything.

    Files are left out: the parties' own ones are compared elsewhere.
    """
    found: dict[str, None] = {}
    for read in reads:
        if read.kind in (FILE, CHANGED, IMPORT):
            continue
        facts = [fact[0] for note in notes if (fact := note.fact(read.kind, read.name)) is not None]
        told = [one for one in facts if one is not None]
        if len(told) == len(notes):
            how = "of which the tapes tell different values" if len(set(told)) > 1 else ""
        else:
            how = "of which one tape tells nothing" if told else "of which neither tape tells a value"
        if how:
            kind = "the environment variable " if read.kind == VARIABLE else ""
            found[f"{kind}{read.name} (read at {read.place}), {how}"] = None
    return "; ".join(found)


def reads_before(made: Iterable[Made | None]) -> list[OutsideRead]:
    """The first read of each environment variable that the user's code reads before the step."""
    return [
        one.read_of(name)
        for one in made
        if one is not None
        for name, (*_, stage) in one.variables.items()
        if stage != "step"
    ]


def variables_of(reads: Iterable[OutsideRead]) -> list[OutsideRead]:
    """The first read of each environment variable."""
    named: dict[str, OutsideRead] = {}
    for read in reads:
        if read.kind == VARIABLE and read.name not in NOT_TRIED:
            named.setdefault(read.name, read)
    return list(named.values())[:VARIABLES_MAX]


def values_to_try(read: OutsideRead, present: str | None, note: OutsideNote) -> list[str | None]:
    """The values that a variable may have had: not set, and the texts and numbers of the function that reads it.

    Those of the rest of its module come after them. present: the value that it has, which is left out. note: of the
    tape; values that it contradicts are left out.
    """
    try:
        tree = ast.parse(Path(read.path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        tree = ast.Module([], [])
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= read.line <= (node.end_lineno or 0)
    ]
    texts: dict[str | None, None] = {None: None}
    for node in (*sorted(around, key=lambda one: -one.lineno), tree):
        texts |= dict.fromkeys(constants_of(node))
    left_out = {present, read.name}
    [noted] = note.fact(VARIABLE, read.name) or (None,)
    possible = (text for text in texts if text not in left_out and noted in (None, variable_fact(text)))
    return list(possible)[:VALUES_MAX]
