"""Text about what a traced step read of the outside world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recorder.ambient.outside.outside_read import VARIABLE
from recorder.text import counted
from replayer.desync.outside_comparison import DIFFERS, EQUAL, LATER, ReadComparison
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.outside.differing_reads import STAND_IN_RUNS

_READS_SHOWN = 12
_NAMES_SHOWN = 6
_MARKS = {DIFFERS: "!", LATER: "!", EQUAL: "-"}


def outside_cause_line(explanation: Explanation) -> str | None:
    """The cause, where it is known by a replacement of what the step reads of the outside world; else None."""
    if (replaced := explanation.replaced) is not None:
        gives = f"the step gives the recorded state (in {replaced.runs} of {replaced.runs} processes)"
        return f"cause: {replaced.what}: where {replaced.how}, {gives}, and as it is now another one"
    if (what := explanation.differs_by) is not None:
        if explanation.pair is None:
            gives = f"the step does not raise and gives one state (in {STAND_IN_RUNS} of {STAND_IN_RUNS} processes)"
            return f"cause: {what}: with stand-ins that are the same in each run, {gives}"
        runs = f"in {STAND_IN_RUNS} of {STAND_IN_RUNS} processes each"
        return f"cause: {what}: with stand-ins that are the same in A and B, both give one state ({runs})"
    return None


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
    lines.append(
        "  whether that makes the difference is not tested: the tape has a digest of it at most, and no content"
    )
    variables = dict.fromkeys(read.name for read in different if read.kind == VARIABLE)
    return lines + [f"  --env {name}=VALUE tests a value" for name in list(variables)[:_NAMES_SHOWN]]
