"""Text about what a traced step read of the outside world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from recorder.ambient.outside.outside_read import ARGUMENTS, ATTRIBUTES, CONTACT, FILE, FOLDER, VARIABLE, ZONE
from recorder.ambient.outside.process_facts import FLAG_VARIABLES
from recorder.text import counted
from replayer.desync.outside_comparison import DIFFERS, EQUAL, LATER, NOT_COMPARED, ReadComparison
from replayer.diagnose.explain.answer.explanation import DecidingVariables, Explanation
from replayer.diagnose.explain.outside.further_variants import memory_text
from replayer.diagnose.explain.outside.outside_variants import CACHE_FOLDER
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE
from replayer.diagnose.explain.variant_choice import SEED
from replayer.diagnose.explain.variants import VariantOutcome
from replayer.report.program_lines import other_values_text, place_lines, run_before_text, shared_lines

_READS_SHOWN = 12
_NAMES_SHOWN = 6
_DEPEND_ON_SEED = "on which hash() of texts and the order of sets of texts depend"
_FLAG_OF = {variable: f"sys.flags.{name}" for name, variable in FLAG_VARIABLES.items()}  # Or its command line sets it.
_BY_DIGEST = (FILE, FOLDER, ATTRIBUTES, VARIABLE, ARGUMENTS)  # Kinds of reads whose values no tape has.
_MARKS = {DIFFERS: "!", LATER: "!", EQUAL: "-"}


def outside_cause_line(explanation: Explanation) -> str | None:
    """The cause, where it is known by a replacement of what the step reads of the outside world; else None."""
    if (run := explanation.run_before) is not None:
        return f"cause: {run_before_text(run)}"
    if (values := explanation.other_values) is not None:
        return f"cause: {other_values_text(values)}"
    if (replaced := explanation.replaced) is not None:
        gives = f"the step gives the recorded state (in {replaced.runs} of {replaced.runs} processes)"
        now = "they are" if replaced.arguments else "it is"
        return f"cause: {replaced.what}: where {replaced.how}, {gives}, and as {now} now another one"
    if (count := explanation.memory_runs) > 0:
        filled = f"{memory_text(explanation.variants)} (in {count} of {count} processes each)"
        return f"cause: memory that the step reads before anything was written there: {filled}"
    if (reads := explanation.differs_by) is not None:
        return f"cause: {reads.what}: {reads.test}"
    # After what stand-ins prove in several processes: a variable that moves objects in memory has an effect by chance.
    if (variables := _variables_text(explanation.variables)) is not None:
        return f"cause: {variables}"
    if (reads := explanation.depends_on) is not None:
        return f"cause: {reads.what}: {reads.test}"
    return None


def what_is_known(explanation: Explanation) -> str:
    """The begin of the sentence on what was not tested, where no variant gives the recorded state."""
    if (
        unrepeated_lines(explanation.outside, explanation.variants)
        or explanation.run_before is not None
        or explanation.other_values is not None
        or (explanation.shared is not None and explanation.shared.proved)
        or explanation.differs_by is not None
        or explanation.depends_on is not None
        or explanation.is_maybe_in_step
    ):
        return "not tested either are"
    found = [one for one in explanation.tested if one.suspicious]
    if any(one.is_of_tick for one in found):
        return "what may be the cause is marked ! below; not tested are"
    if found:
        return "the cause is not known; what was found at another tick is marked ! below; not tested are"
    return "the cause is not known: not tested are"


def between_lines(explanation: Explanation) -> list[str]:
    """What is known of a change of the state between the last step and this one, with the lines that may have made it."""
    between, shared = explanation.between, shared_lines(explanation.shared)
    if between is None and shared:
        return shared
    if between is None:
        which = "nor a change of the state between two steps, which no variant repeats"
        return [f"  {which}; recording with between_steps=True names one"]
    if not between.suspicious:
        return [f"  a change of the state: {between.found}", *shared]
    lines = [f"  {between.found}", *shared]
    changing = place_lines(explanation.changing_lines)
    what = "  lines of the code, not seen to be of the step, that change an attribute or a variable of this name:"
    return [*lines, what, *changing] if changing else lines


def variants_heading(explanation: Explanation) -> str:
    """The heading of the variants. Of a step that gives one state or another by chance, their labels are no reason for that."""
    if NOT_REPEATABLE in explanation.notes:
        return "variants, of a step that is non-deterministic: by chance, too, one gives another state than the next:"
    return "variants:"


def dependence_lines(explanation: Explanation) -> list[str]:
    """Of a tick at which every variant gives the recorded state: what its state depends on, if that is known."""
    dependence = outside_cause_line(explanation)
    if dependence is None:
        return []
    return [f"  in another run it may give another one; it depends on {dependence.removeprefix('cause: ')}"]


def unrepeated_desync_lines(explanation: Explanation) -> list[str]:
    """Of a tick that differed somewhere, and has the recorded state with every variant: what is not known; else empty."""
    if not explanation.is_seen:
        return []
    where = "when it was verified in this process" if explanation.is_only_here else None
    if explanation.is_found:
        where = "when all ticks up to it were run"
    if explanation.seen is not None:
        where = f"when replay verify ran ({explanation.seen})"
    begins = f"  it differed {where}, and that was not repeated" if where else "  in copies of one process it differed"
    if explanation.depends_on is not None:
        return [begins]
    return [
        f"{begins}: the cause is not known; not ruled out are, among others, the hash seed that a process draws,",
        "  addresses of memory, memory that is read before it is written, threads, clocks, and code that was changed since",
    ]


def _variables_text(found: DecidingVariables | None) -> str | None:
    """The environment variables that decide, with what the step gives under their values; None without any."""
    if found is None:
        return None
    runs = f"(in {found.runs} of {found.runs} processes each)"
    if list(found.values) == [CACHE_FOLDER]:
        gives = "where that is empty, the step gives the recorded state, with what it holds now another one"
        return f"machine code in numba's cache on disk: {gives} {runs}"
    is_seed = list(found.values) == [SEED]
    if found.is_recorded:
        then = {name: f"{_set_text(recorded)} in the recording" for name, (recorded, _) in found.values.items()}
        what = f", {_DEPEND_ON_SEED}" if is_seed else ""
        shown = [f"{name} ({then[name]})" for name in then if name not in _FLAG_OF]
        flags = [f"Python's flag {_FLAG_OF[name]} (or {name}; {then[name]})" for name in then if name in _FLAG_OF]
        variables = [f"the environment variable{'s' if len(shown) > 1 else ''} {', '.join(shown)}"] if shown else []
        named = " and ".join(variables + flags) + what
        # A seed that the process drew for itself was not tried: that of the variants is another one.
        tried = found.values[SEED][1] if SEED in found.values else None
        now = "as it is now" if tried is None else f"with {tried}" if is_seed else f"as now, with {SEED}={tried},"
        other = f"{now} another one"
        return f"{named}: as recorded, the step gives the recorded state, and {other} {runs}"
    first = ", ".join(
        f"{name}={value}" if value is not None else f"{name} not set" for name, (value, _) in found.values.items()
    )
    second = ", ".join(value if value is not None else "it not set" for _, value in found.values.values())
    gives = f"with {first} the step gives the recorded state, with {second} another one {runs}"
    if is_seed:
        unknown = "" if found.is_noted else "; which seed the recording had is not known"
        return f"the hash seed of the process, {_DEPEND_ON_SEED}: {gives}{unknown}"
    many = "s" if len(found.values) > 1 else ""
    return f"the environment variable{many} {', '.join(found.values)}: {gives}"


def _set_text(value: str | None) -> str:
    return "not set" if value is None else value


def outside_lines(reads: Sequence[ReadComparison]) -> list[str]:
    """The lines of replay explain about what the step read; empty if it read nothing."""
    if not reads:
        return []
    lines = ["", "read from outside in this step:"]
    lines += [f"  {_MARKS.get(read.result, '?')} {read}" for read in reads[:_READS_SHOWN]]
    more = len(reads) - _READS_SHOWN
    return lines + ([f"  and {counted(more, 'more read')}"] if more > 0 else [])


def unrepeated_lines(reads: Iterable[ReadComparison], variants: Iterable[VariantOutcome] = ()) -> list[str]:
    """Lines about what differs, or may differ, and whose effect no variant showed; empty if there is nothing.

    variants: those that ran, none of which gave the recorded state.
    """
    own = list(reads)
    different = [read for read in own if read.result == DIFFERS]
    lines = _block("reads what is not as it was when the recording began", different)
    if different:
        lines += _tested_lines(different, list(variants))
    later = [read for read in own if read.result == LATER]
    asked = [read for read in own if read.result == NOT_COMPARED and read.kind == CONTACT]
    for heading, found in (
        ("reads what was changed after the recording began", later),
        ("asks another program or computer, whose answers the recording did not note", asked),
    ):
        lines += _block(heading, found)
        lines += ["  whether that makes the difference is not tested"] if found else []
    variables = dict.fromkeys(read.name for read in different if read.kind == VARIABLE)
    return lines + [f"  --env {name}=VALUE tests a value" for name in list(variables)[:_NAMES_SHOWN]]


def _tested_lines(different: Sequence[ReadComparison], variants: Iterable[VariantOutcome]) -> list[str]:
    """What is known of the effect of what differs."""
    tested = [one for one in different if any(map(partial(_makes_as_recorded, one), variants))]
    names = ", ".join(dict.fromkeys(one.name for one in tested[:_NAMES_SHOWN]))
    lines = (
        [f"  tested: with what the recording noted of {names}, the step does not give the recorded state"]
        if tested
        else []
    )
    rest = [one for one in different if one not in tested]
    if not rest:
        return lines
    has_digests = all(one.kind in _BY_DIGEST for one in rest)
    why = ": the tape has a digest of it at most, and no content" if has_digests else ""
    what = "that" if not tested else "the rest of it"
    return [*lines, f"  whether {what} makes the difference is not tested{why}"]


def _makes_as_recorded(read: ReadComparison, outcome: VariantOutcome) -> bool:
    """Return True if a variant that ran the step had what was read as it was when the recording began."""
    variant = outcome.variant
    if outcome.result is None:
        return False
    if variant.replaced is not None and (read.kind, read.name) in variant.replaced.as_recorded:
        return True
    name = "TZ" if read.kind == ZONE else read.name if read.kind == VARIABLE else None
    return variant.is_recorded and name in variant.environment


def _block(what: str, reads: Sequence[ReadComparison]) -> list[str]:
    heading = [f"  this step, or the code that it runs, {what}:"] if reads else []
    return heading + [f"    {read}" for read in reads[:_NAMES_SHOWN]]


def tested_block(explanation: Explanation) -> list[str]:
    """The further causes that were tested, marked as replay verify marks them."""
    marks = {True: "!", False: "-", None: "?"}
    heading = ["  tested:"] if explanation.tested else []
    return heading + [f"    {marks[one.suspicious]} {one.cause}: {one.found}" for one in explanation.tested]
