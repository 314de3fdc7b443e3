"""Text about what a recording noted of the outside world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recorder.ambient.outside.outside_note import OutsideNote
from recorder.text import counted

_NAMES_SHOWN = 6


def note_lines(facts: Mapping[str, Any] | None) -> list[str]:
    """The line of replay info about what the first steps read; none if they were not watched. facts: of note_facts."""
    if facts is None or facts["steps"] is None:
        return []
    steps = f"the first {counted(facts['steps'], 'step')}" if facts["steps"] != 1 else "the first step"
    names = list(dict.fromkeys(f"{read['name']} ({read['place']})" for read in facts["reads"]))
    if not names:
        return [f"read from outside by {steps}: nothing that can be seen"]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return [f"read from outside by {steps}: {', '.join(names[:_NAMES_SHOWN])}{more}"]


def note_facts(note: OutsideNote) -> dict[str, Any] | None:
    """The JSON object of a note; None if the recording noted nothing."""
    if note.process is None and note.steps is None:
        return None
    reads = [{"kind": read.kind, "name": read.name, "place": read.place, "fact": read.fact} for read in note.reads]
    return {"process": note.process, "steps": note.steps, "reads": reads}
