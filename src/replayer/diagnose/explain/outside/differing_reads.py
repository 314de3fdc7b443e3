"""The kind of reads that makes the difference, found with stand-ins that are the same in each run.

Two variants that differ give one state with the same stand-ins; or one variant gives two states with two sets of stand-ins,
whatever the variants did by chance. The stand-ins for threads run them one after another. That takes away the order in which they
end, and that one changes what another one reads: which of these decides is told by a second order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from recorder.ambient.outside.outside_read import (
    CLOCK,
    CONTACT,
    ENTROPY,
    GENERATOR,
    IDENTITY,
    NUMBER,
    THREADS,
    OutsideRead,
)
from recorder.ambient.outside.read_functions import starts_thread
from replayer.desync.stand_ins import LATE, READY, SWITCHED
from replayer.diagnose.explain.answer.explanation import DecidingReads
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.foreign.unseen_draws import is_unseen_draw
from replayer.diagnose.explain.outside.outside_variants import AT_A_TIME
from replayer.diagnose.explain.trace_step import Result, TracedStep
from replayer.diagnose.explain.variants import Replaced, Variant, VariantOutcome

# Of each of the two variants, each in a process of its own: by chance alone, a step that has one of two states would pass
# once in 128 times.
STAND_IN_RUNS = 4
KINDS = {
    IDENTITY: "the addresses of objects",
    CLOCK: "clocks",
    ENTROPY: "the system's random numbers",
    GENERATOR: "a random generator of the process",
    THREADS: "the order in which threads end",
    NUMBER: "the numbers of threads",
    CONTACT: "what the interpreter keeps alive",
}
# A generator may be part of what is recorded: that a step draws from it is no fault.
DEPENDENT = (THREADS, IDENTITY, CLOCK, ENTROPY, NUMBER, CONTACT)
SET_RUNS = 4  # With each of the two sets: a step that has one of two states by chance would pass once in 128 times.
_COUNTED = ("gc.collect", "sys.getrefcount")  # Of CONTACT; of all others there are no stand-ins.
# Names of reads of pools that have processes in place of threads.
_OF_PROCESSES = ("concurrent.futures.process.", "multiprocessing.context.", "multiprocessing.Pool.")

_OF_TASKS = ("concurrent.futures.", "multiprocessing.")  # And of all pools.
SWITCHED_RUNS = 4  # With threads among which Python switches often.
_MANY_OF_SWITCHED = 2  # That give another state than each order does: one alone may do so by something else.

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]


def differing_reads(
    cause: Cause | None, pair: tuple[VariantOutcome, VariantOutcome], step: TracedStep, run: Run
) -> DecidingReads | None:
    """The kind of reads, with the names and lines, if the two variants give one state with stand-ins for it; else None.

    cause: of their difference; None is returned if it was tested. A line that reads hidden state was not: what it reads may
    have no effect, and a clock all of it. step: the present one. run: runs variants, from these starts.
    """
    reads = step.reads
    is_tested = cause is not None and cause.kind not in ("unseen", "line", "branch", "outside")
    # What a library or compiled code draws differs with the same inputs: of such a difference nothing else is known.
    draws = [read for read in reads if is_unseen_draw(read)]
    if is_tested and not (cause is not None and cause.kind == "operation" and draws):
        return None
    for kind in (GENERATOR,) if is_tested else KINDS:
        if not any(_is_of(kind, read) for read in reads) or not _both_read(kind, pair):
            continue
        if (state := _one_state(kind, pair, run)) is None or _only_hides(kind, cause, pair, state, run):
            continue
        if kind == THREADS:
            return _differing_threads(state, pair, reads, run)
        return DecidingReads(
            _text(kind, reads, step.first_seeds),
            f"with stand-ins that are the same in A and B, both give one state ({_runs(STAND_IN_RUNS)})",
        )
    return None


def _only_hides(
    kind: str, cause: Cause | None, pair: tuple[VariantOutcome, VariantOutcome], state: Result, run: Run
) -> bool:
    """Return True if stand-ins for addresses make no difference to one of two steps: they may hide what the other one keeps.

    A value that it keeps under the address of an object is not found with a stand-in for that. cause: reads such a value, or
    is no reason to think so. state: of both, with the first set of stand-ins.
    """
    if kind != IDENTITY or cause is None or cause.kind != "outside" or state not in [one.result for one in pair]:
        return False
    return _results(kind, pair[0], run, (1,)) == [state]


def _differing_threads(
    state: Result, pair: Sequence[VariantOutcome], reads: Sequence[OutsideRead], run: Run
) -> DecidingReads:
    """Which property of threads makes the difference; both variants gave one state where they ran one after another.

    state: with the threads in the order in which they were started.
    """
    other = _one_state(THREADS, pair, run, number=1, runs=SET_RUNS)
    first, second = _runs(STAND_IN_RUNS), _runs(SET_RUNS)
    if other is None:
        test = f"where they run one after another, in the order of their start, A and B give one state ({first})"
        return DecidingReads(_threads_text(reads, "threads", "tasks of a pool"), test)
    if other == state:
        return DecidingReads(
            _race_text(reads),
            f"where they run one after another, in two orders, A and B give one state ({first}, in reverse {second})",
        )
    test = (
        f"in the order of their start, A and B give one state ({first}), and in the reverse one another one ({second})"
    )
    return DecidingReads(_text(THREADS, reads), test)


def _runs(count: int) -> str:
    return f"in {count} of {count} processes each"


def _both_read(kind: str, pair: Iterable[VariantOutcome]) -> bool:
    """Return False if one of two steps read nothing of a kind: it did not take part in that one.

    The other one may read it only because it lacks a value, such as a generator that it makes with a seed from the system.
    """
    return all(
        one.step is None or not one.step.is_traced or any(_is_of(kind, read) for read in one.step.reads) for one in pair
    )


def dependent_reads(outcome: VariantOutcome, run: Run) -> DecidingReads | None:
    """The kind of reads, as above, on which the state after the step depends; None if it was not seen to.

    With one set of stand-ins the step gives one state in each of some processes, and another one with the other set. Or it gives
    one state with threads in two orders, and another one where they run at the same time.
    """
    reads = outcome.step.reads if outcome.step is not None else []
    for kind in DEPENDENT:
        if not any(_is_of(kind, read) for read in reads):
            continue
        results: list[set[Result | None]] = [set(), set()]
        for _ in range(SET_RUNS):
            for number, result in enumerate(_results(kind, outcome, run, (0, 1))):
                results[number].add(result)
            if any(len(found) != 1 or _has_no_state(found) for found in results):
                break
            if results[0] == results[1]:
                found = _of_threads(results[0], outcome, reads, run) if kind == THREADS else None
                if found is not None:
                    return found
                break
        else:
            runs = f"each the same in {SET_RUNS} of {SET_RUNS} processes"
            test = f"with two sets of stand-ins for it, the step gives two states ({runs})"
            return DecidingReads(_text(kind, reads, _first_seeds(outcome)), test)
    return None


def _of_threads(
    ordered: set[Result | None], outcome: VariantOutcome, reads: Sequence[OutsideRead], run: Run
) -> DecidingReads | None:
    """When threads are ready, or that they run at the same time, if the state depends on that; else None."""
    states = [_results(THREADS, outcome, run, [number] * SET_RUNS) for number in (READY, LATE)]
    if any(len(set(one)) != 1 or _has_no_state(one) for one in states) or states[0] == states[1]:
        return _raced(ordered, outcome, reads, run)
    test = (
        "where the step goes on only when they have done their work, it gives one state, and where they begin late, another one"
        f" ({_runs(SET_RUNS)})"
    )
    return DecidingReads(
        _threads_text(reads, "at which moment threads are ready", "at which moment tasks are ready"), test
    )


def _raced(
    ordered: set[Result | None], outcome: VariantOutcome, reads: Sequence[OutsideRead], run: Run
) -> DecidingReads | None:
    """That threads run at the same time, if the step then gives another state than in two orders; else None."""
    switched = _results(THREADS, outcome, run, [SWITCHED] * SWITCHED_RUNS)
    others = [one for one in switched if one not in ordered]
    if _has_no_state(switched) or len(others) < _MANY_OF_SWITCHED:
        return None
    # What decides may be something else, that gave one state in few runs by chance.
    if set(_results(THREADS, outcome, run, [0, 1] * STAND_IN_RUNS)) != ordered:
        return None
    return DecidingReads(
        _race_text(reads),
        f"where they run one after another, in two orders, the step gives one state ({_runs(STAND_IN_RUNS)}), and where Python "
        f"switches often among them, another one (in {len(others)} of {SWITCHED_RUNS} processes)",
    )


def _results(kind: str, outcome: VariantOutcome, run: Run, numbers: Sequence[int]) -> list[Result | None]:
    """The results of a variant with these sets of stand-ins, each in a process of its own."""
    variants = [
        attrs.evolve(outcome.variant, label=f"{one.what}, {one.how}", replaced=one)
        for place, number in enumerate(numbers)
        for one in [Replaced(f"stand-ins for {KINDS[kind]}", f"set {number}, {place}", (), {}, (kind,), number)]
    ]
    found: list[Result | None] = []
    for begin in range(0, len(variants), AT_A_TIME):
        found += [ran.result for ran in run(variants[begin : begin + AT_A_TIME], [outcome.variant.start])]
    return found


def _has_no_state(results: Iterable[Result | None]) -> bool:
    return any(one is None or one[1] is not None for one in results)


def raising_reads(outcome: VariantOutcome, run: Run) -> DecidingReads | None:
    """The kind of reads, as above, with whose stand-ins a step that raised does not, and gives one state; else None."""
    reads = outcome.step.reads if outcome.step is not None and outcome.step.raised is not None else []
    for kind in KINDS:
        if any(_is_of(kind, read) for read in reads) and _one_state(kind, [outcome], run, may_raise=False) is not None:
            runs = f"in {STAND_IN_RUNS} of {STAND_IN_RUNS} processes"
            if kind == THREADS:
                what, how = _threads_text(reads, "threads", "tasks of a pool"), "where they run one after another"
            else:
                what, how = _text(kind, reads, _first_seeds(outcome)), "with stand-ins that are the same in each run"
            return DecidingReads(what, f"{how}, the step does not raise and gives one state ({runs})")
    return None


def _is_of(kind: str, read: OutsideRead) -> bool:
    """Return True for a read of a kind of which there are stand-ins."""
    if kind == THREADS:
        return starts_thread(read)
    return read.kind == kind and (kind != CONTACT or read.name.startswith(_COUNTED))


def _one_state(
    kind: str,
    outcomes: Sequence[VariantOutcome],
    run: Run,
    *,
    number: int = 0,
    runs: int = STAND_IN_RUNS,
    may_raise: bool = True,
) -> Result | None:
    """The state that each of these variants gives with a set of stand-ins, in so many processes; None if it is not one."""
    first: Result | None = None
    for begin in range(0, runs, AT_A_TIME):
        for outcome in outcomes:
            for result in _results(kind, outcome, run, [number] * min(AT_A_TIME, runs - begin)):
                first = first or result
                if result is None or result != first or (result[1] is not None and not may_raise):
                    return None
    return first


def _first_seeds(outcome: VariantOutcome) -> list[str]:
    return outcome.step.first_seeds if outcome.step is not None else []


def _text(kind: str, reads: Iterable[OutsideRead], first_seeds: Sequence[str] = ()) -> str:
    """For example: the addresses of objects, by id() (read at game.py:12).

    first_seeds: generators that are there already in a run that does not begin at a keyframe: the system's random numbers are
    no cause of how that one went on.
    """
    of_kind = [read for read in reads if _is_of(kind, read)]
    if kind == THREADS:
        return _threads_text(of_kind, KINDS[kind], KINDS[kind], "the order in which processes end")
    places = ", ".join(dict.fromkeys(read.place for read in of_kind))
    if kind == ENTROPY and first_seeds:
        what = "the random generator" if len(first_seeds) == 1 else "the random generators"
        it = "it" if len(first_seeds) == 1 else "them"
        return (
            f"{what} {' and '.join(first_seeds)}, which no keyframe has: in a replay the system seeds {it} at the first use in "
            f"this step (at {places}), and the recorded run may have used or seeded {it} before"
        )
    names = dict.fromkeys("id()" if read.name == "id" else read.name for read in of_kind)
    return f"{KINDS[kind]}, by {', '.join(names)} (read at {places})"


def _race_text(reads: Iterable[OutsideRead]) -> str:
    """For example: threads that run at the same time (started at game.py:12).

    The stand-ins run all tasks of a pool in one thread.
    """
    return _threads_text(
        reads,
        "threads that run at the same time",
        "tasks of a pool that run at the same time, or in which of its threads each one runs",
        "processes that run at the same time, or in which of them each task runs",
    )


def _threads_text(reads: Iterable[OutsideRead], threads: str, tasks: str, processes: str | None = None) -> str:
    """A text for threads, for tasks if a pool is among those that the step uses, or for processes if it uses no others."""
    of_kind = [read for read in reads if _is_of(THREADS, read)]
    if all(read.name.startswith(_OF_PROCESSES) for read in of_kind):
        text = processes or tasks
    else:
        text = tasks if any(read.name.startswith(_OF_TASKS) for read in of_kind) else threads
    return f"{text} (started at {', '.join(dict.fromkeys(read.place for read in of_kind))})"
