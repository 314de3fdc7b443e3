"""The kind of reads that makes the difference, found with stand-ins that are the same in each run.

Two variants that differ give one state with the same stand-ins; or one variant gives two states with two sets of stand-ins,
whatever the variants did by chance.
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
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.outside.outside_variants import AT_A_TIME
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
SET_RUNS = 2  # With each of the two sets.
_COUNTED = ("gc.collect", "sys.getrefcount")  # Of CONTACT; of all others there are no stand-ins.
# Names of reads of pools that have processes in place of threads.
_OF_PROCESSES = ("concurrent.futures.process.", "multiprocessing.context.", "multiprocessing.Pool.")

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]


def differing_reads(
    cause: Cause | None, pair: tuple[VariantOutcome, VariantOutcome], reads: Sequence[OutsideRead], run: Run
) -> str | None:
    """The kind of reads, with the names and lines, if the two variants give one state with stand-ins for it; else None.

    cause: of their difference; None is returned if it was tested. A line that reads hidden state was not: what it reads may
    have no effect, and a clock all of it. reads: of the step. run: runs variants, from these starts.
    """
    if cause is not None and cause.kind not in ("unseen", "line", "branch", "outside"):
        return None
    for kind in KINDS:
        if any(_is_of(kind, read) for read in reads) and _both_read(kind, pair) and _is_one_state(kind, pair, run):
            return _text(kind, reads)
    return None


def _both_read(kind: str, pair: Iterable[VariantOutcome]) -> bool:
    """Return False if one of two steps read nothing of a kind: it did not take part in that one.

    The other one may read it only because it lacks a value, such as a generator that it makes with a seed from the system.
    """
    return all(
        one.step is None or not one.step.is_traced or any(_is_of(kind, read) for read in one.step.reads) for one in pair
    )


def dependent_reads(outcome: VariantOutcome, run: Run) -> str | None:
    """The kind of reads, as above, on which the state after the step depends; None if it was not seen to.

    With one set of stand-ins the step gives one state in each of some processes, and another one with the other set.
    """
    reads = outcome.step.reads if outcome.step is not None else []
    for kind in DEPENDENT:
        if not any(_is_of(kind, read) for read in reads):
            continue
        replaced = [
            Replaced(f"stand-ins for {KINDS[kind]}", f"set {number}", (), {}, (kind,), number) for number in (0, 1)
        ]
        results: list[set[object]] = [set(), set()]
        for _ in range(SET_RUNS):
            variants = [attrs.evolve(outcome.variant, label=f"{one.what}, {one.how}", replaced=one) for one in replaced]
            for number, ran in enumerate(run(variants, [outcome.variant.start])):
                results[number].add(ran.result)
            if any(len(found) != 1 or _has_no_state(found) for found in results) or results[0] == results[1]:
                break
        else:
            return _text(kind, reads)
    return None


def _has_no_state(results: set[object]) -> bool:
    return any(not isinstance(one, tuple) or one[1] is not None for one in results)


def raising_reads(outcome: VariantOutcome, run: Run) -> str | None:
    """The kind of reads, as above, with whose stand-ins a step that raised does not, and gives one state; else None."""
    reads = outcome.step.reads if outcome.step is not None and outcome.step.raised is not None else []
    for kind in KINDS:
        if any(_is_of(kind, read) for read in reads) and _is_one_state(kind, [outcome], run, may_raise=False):
            return _text(kind, reads)
    return None


def _is_of(kind: str, read: OutsideRead) -> bool:
    """Return True for a read of a kind of which there are stand-ins."""
    if kind == THREADS:
        return starts_thread(read)
    return read.kind == kind and (kind != CONTACT or read.name.startswith(_COUNTED))


def _is_one_state(kind: str, outcomes: Sequence[VariantOutcome], run: Run, *, may_raise: bool = True) -> bool:
    first = None
    for begin in range(0, STAND_IN_RUNS, AT_A_TIME):
        for outcome in outcomes:
            variants = [
                attrs.evolve(outcome.variant, label=f"{one.what}, {one.how}", replaced=one)
                for number in range(begin, min(begin + AT_A_TIME, STAND_IN_RUNS))
                for one in [Replaced(f"stand-ins for {KINDS[kind]}", f"run {number + 1}", stands_in=(kind,))]
            ]
            for ran in run(variants, [outcome.variant.start]):
                first = first or ran.result
                if ran.result is None or ran.result != first or (ran.result[1] is not None and not may_raise):
                    return False
    return first is not None


def _text(kind: str, reads: Iterable[OutsideRead]) -> str:
    """For example: the addresses of objects, by id() (read at game.py:12)."""
    of_kind = [read for read in reads if _is_of(kind, read)]
    places = ", ".join(dict.fromkeys(read.place for read in of_kind))
    if kind == THREADS:
        are_processes = all(read.name.startswith(_OF_PROCESSES) for read in of_kind)
        return f"{'the order in which processes end' if are_processes else KINDS[kind]} (started at {places})"
    names = dict.fromkeys("id()" if read.name == "id" else read.name for read in of_kind)
    return f"{KINDS[kind]}, by {', '.join(names)} (read at {places})"
