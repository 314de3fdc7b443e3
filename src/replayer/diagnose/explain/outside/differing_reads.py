"""The kind of reads by which two variants of a step differ, found with stand-ins that are the same in both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from recorder.ambient.outside.outside_read import CLOCK, ENTROPY, GENERATOR, IDENTITY, OutsideRead
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.variants import Replaced, Variant, VariantOutcome

# Of each of the two variants, each in a process of its own: by chance alone, a step that has one of two states would pass
# once in 128 times.
STAND_IN_RUNS = 4
KINDS = {
    IDENTITY: "the addresses of objects",
    CLOCK: "clocks",
    ENTROPY: "the system's random numbers",
    GENERATOR: "a random generator of the process",
}

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]


def differing_reads(
    cause: Cause | None, pair: tuple[VariantOutcome, VariantOutcome], reads: Sequence[OutsideRead], run: Run
) -> str | None:
    """The kind of reads, with the names and lines, if the two variants give one state with stand-ins for it; else None.

    cause: of their difference; None is returned if it says more than that values differ after a line. reads: of the step.
    run: runs variants, from these starts.
    """
    if cause is not None and cause.kind not in ("unseen", "line", "branch"):
        return None
    for kind in KINDS:
        if any(read.kind == kind for read in reads) and _is_one_state(kind, pair, run):
            return _text(kind, reads)
    return None


def raising_reads(outcome: VariantOutcome, run: Run) -> str | None:
    """The kind of reads, as above, with whose stand-ins a step that raised does not, and gives one state; else None."""
    reads = outcome.step.reads if outcome.step is not None and outcome.step.raised is not None else []
    for kind in KINDS:
        if any(read.kind == kind for read in reads) and _is_one_state(kind, [outcome], run, may_raise=False):
            return _text(kind, reads)
    return None


def _is_one_state(kind: str, outcomes: Sequence[VariantOutcome], run: Run, *, may_raise: bool = True) -> bool:
    first = None
    for number in range(STAND_IN_RUNS):
        for outcome in outcomes:
            replaced = Replaced(f"stand-ins for {KINDS[kind]}", f"run {number + 1}", stands_in=(kind,))
            variant = attrs.evolve(outcome.variant, label=f"{replaced.what}, {replaced.how}", replaced=replaced)
            for ran in run([variant], [outcome.variant.start]):
                first = first or ran.result
                if ran.result is None or ran.result != first or (ran.result[1] is not None and not may_raise):
                    return False
    return first is not None


def _text(kind: str, reads: Iterable[OutsideRead]) -> str:
    """For example: the addresses of objects, by id() (read at game.py:12)."""
    of_kind = [read for read in reads if read.kind == kind]
    names = dict.fromkeys("id()" if read.name == "id" else read.name for read in of_kind)
    return f"{KINDS[kind]}, by {', '.join(names)} (read at {', '.join(dict.fromkeys(read.place for read in of_kind))})"
