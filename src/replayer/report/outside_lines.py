"""Text about what steps read of the outside world: in the traced step, and noted by a recording."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from recorder.ambient.outside.outside_note import OutsideNote
from recorder.ambient.outside.outside_read import VARIABLE
from recorder.text import counted
from replayer.desync.outside_comparison import DIFFERS, EQUAL, ReadComparison

_READS_SHOWN = 12
_NAMES_SHOWN = 6
_MARKS = {DIFFERS: "!", EQUAL: "-"}


def outside_lines(reads: Sequence[ReadComparison]) -> list[str]:
    """The lines of replay explain about what the step read; empty if it read nothing."""
    if not reads:
        return []
    lines = ["", "read from outside in this step:"]
    lines += [f"  {_MARKS.get(read.result, '?')} {read}" for read in reads[:_READS_SHOWN]]
    more = len(reads) - _READS_SHOWN
    return lines + ([f"  and {counted(more, 'more read')}"] if more > 0 else [])


def unrepeated_lines(reads: Iterable[ReadComparison]) -> list[str]:
    """Lines about the differences whose effect no variant could show; empty if there are none."""
    different = [read for read in reads if read.result == DIFFERS]
    if not different:
        return []
    lines = ["  this step reads what is not as it was when the recording began:"]
    lines += [f"    {read}" for read in different[:_NAMES_SHOWN]]
    lines.append("  whether that makes the difference is not tested: the tape has a digest of it, and no content")
    variables = dict.fromkeys(read.name for read in different if read.kind == VARIABLE)
    return lines + [f"  --env {name}=VALUE tests a value" for name in list(variables)[:_NAMES_SHOWN]]


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
