"""Text about what a traced step read of the outside world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recorder.ambient.outside.outside_read import VARIABLE
from recorder.text import counted
from replayer.desync.outside_comparison import DIFFERS, EQUAL, LATER, ReadComparison
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.outside.differing_reads import SET_RUNS, STAND_IN_RUNS
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE

_READS_SHOWN = 12
_NAMES_SHOWN = 6
_ARITHMETIC = ("NPY_", "OPENBLAS", "OMP_", "MKL_", "NUMBA_")  # Of these the operation says more.
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
    # After what stand-ins prove in several processes: a variable that moves objects in memory has an effect by chance.
    if (variables := _recorded_variables(explanation)) is not None:
        return f"cause: {variables}: as recorded, the step gives the recorded state, and as it is now another one"
    if (what := explanation.depends_on) is not None:
        runs = f"each the same in {SET_RUNS} of {SET_RUNS} processes"
        return f"cause: {what}: with two sets of stand-ins for it, the step gives two states ({runs})"
    return None


def dependence_lines(explanation: Explanation) -> list[str]:
    """Of a tick at which every variant gives the recorded state: what its state depends on, if that is known."""
    dependence = outside_cause_line(explanation)
    if dependence is None:
        return []
    return [f"  in another run it may give another one; it depends on {dependence.removeprefix('cause: ')}"]


def _recorded_variables(explanation: Explanation) -> str | None:
    """The environment variables with whose recorded values alone the step gives the recorded state, if no line tells more."""
    first, second = explanation.pair or (None, None)
    if first is None or second is None or not explanation.is_recorded(first) or NOT_REPEATABLE in explanation.notes:
        return None
    changed, is_now = (
        first.variant,
        second.variant.is_present and second.variant.environment.keys() <= {"PYTHONHASHSEED"},
    )
    if not changed.environment or not is_now or changed.start is not None or changed.code is not None:
        return None
    kind = None if explanation.cause is None else explanation.cause.kind
    is_arithmetic = any(name.startswith(_ARITHMETIC) for name in changed.environment)
    if kind not in (None, "alone", "unseen", "line", "branch") and (kind != "operation" or is_arithmetic):
        return None
    shown = [
        f"{name} ({'not set' if value is None else value} in the recording)"
        for name, value in changed.environment.items()
    ]
    what = (
        ", which decides on the order of sets of texts and on hash()"
        if list(changed.environment) == ["PYTHONHASHSEED"]
        else ""
    )
    return f"the environment variable{'s' if len(shown) > 1 else ''} {', '.join(shown)}{what}"


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
    lines = ["  this step, or the code that it runs, reads what is not as it was when the recording began:"]
    lines += [f"    {read}" for read in different[:_NAMES_SHOWN]]
    lines.append(
        "  whether that makes the difference is not tested: the tape has a digest of it at most, and no content"
    )
    variables = dict.fromkeys(read.name for read in different if read.kind == VARIABLE)
    return lines + [f"  --env {name}=VALUE tests a value" for name in list(variables)[:_NAMES_SHOWN]]
