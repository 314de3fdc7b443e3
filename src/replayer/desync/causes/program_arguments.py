"""The arguments of the program, as code reads them in sys.argv: those of the recording, and the present ones."""

from __future__ import annotations

import sys

from recorder.ambient.outside.outside_note import OutsideNote
from recorder.ambient.outside.outside_read import ARGUMENTS, ARGUMENTS_NAME, arguments_fact
from recorder.text import counted

BEGAN = "when the recording began"
SAME_ARGUMENTS = f"as {BEGAN}; the name of the program, {ARGUMENTS_NAME}[0], is not compared"
SHOWN = f"the arguments of the program ({ARGUMENTS_NAME})"


def arguments_difference(note: OutsideNote) -> str | None:
    """How the present arguments differ from those that a recording noted; "" if they do not, None if none were noted."""
    noted, present = note.fact(ARGUMENTS, ARGUMENTS_NAME), arguments_fact(map(str, sys.argv[1:]))
    if noted is None or noted[0] is None:
        return None
    return "" if noted[0] == present else other_arguments(note, present)


def other_arguments(note: OutsideNote, present: str | None) -> str:
    """How many arguments there were and are, which differ; present: the fact of those that were read."""
    then, now = note.arguments(), _count_of(present)
    if then is None or now is None:
        return f"other arguments than {BEGAN}"
    others = " others" if now > 1 else " other"
    return f"{counted(len(then), 'argument')} {BEGAN}, {now or 'none'}{others if now == len(then) else ''} now"


def _count_of(fact: str | None) -> int | None:
    """The number of the arguments that a fact is of; None if it is not known."""
    known: tuple[list[str], ...] = ([], sys.argv[1:])
    return next((len(one) for one in known if arguments_fact(map(str, one)) == fact), None)
