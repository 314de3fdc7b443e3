"""The variant in which threads that outlive a step get time before the next one: what they hand over is there by then, or not.

A game waits for its next frame between two steps, and a replay does not. The threads may have been started long before, by another
step, or with the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from recorder.ambient.outside.outside_read import THREADS
from replayer.desync.finding import TestedCause
from replayer.desync.stand_ins import GIVEN_TIME
from replayer.diagnose.explain.outside.outside_variants import AT_A_TIME, RUNS
from replayer.diagnose.explain.trace_step import Result
from replayer.diagnose.explain.variants import Replaced, Variant, VariantOutcome

GOING_ON = "threads that go on between two steps"
_HOW = "they get time before the step, until they wait or end"


def with_time_for_threads(
    now: Variant, earlier: Sequence[VariantOutcome], recorded_hash: int, run: Callable[..., list[VariantOutcome]]
) -> list[VariantOutcome]:
    """The outcome of that variant, on an instance like one that went on from an earlier tick; none if no threads do.

    It gives the recorded state only if it does so in RUNS processes, and none of as many without that time does.
    """
    recorded = recorded_hash, None
    base = next((one for one in earlier if _going_on(one) and one.result not in (None, recorded)), None)
    if base is None:
        return []
    variant = attrs.evolve(
        now,
        label="threads given time before the step",
        replaced=Replaced(f"{GOING_ON}, {', '.join(_going_on(base))}", _HOW, stands_in=(THREADS,), number=GIVEN_TIME),
    )
    start = base.variant.start
    found = run([variant], [start])
    if not found or found[0].result != recorded:
        return found
    with_time = _results(variant, RUNS - 1, start, run)
    without = _results(now, RUNS, start, run)
    if set(with_time) != {recorded} or None in without or recorded in without:
        return []
    [outcome] = found
    assert outcome.variant.replaced is not None
    replaced = attrs.evolve(outcome.variant.replaced, runs=RUNS)
    return [attrs.evolve(outcome, variant=attrs.evolve(outcome.variant, replaced=replaced))]


def _going_on(outcome: VariantOutcome) -> list[str]:
    is_used = outcome.variant.start is not None and outcome.variant.replaced is None
    return outcome.step.going_on if outcome.step is not None and is_used else []


def _results(
    variant: Variant, count: int, start: int | None, run: Callable[..., list[VariantOutcome]]
) -> list[Result | None]:
    """What a variant gives in so many processes."""
    again = [attrs.evolve(variant, label=f"{variant.label}, run {number}") for number in range(count)]
    outcomes = list[VariantOutcome]()
    for first in range(0, count, AT_A_TIME):
        outcomes += run(again[first : first + AT_A_TIME], [start])
    return [one.result for one in outcomes]


def threads_tested(outcomes: Sequence[VariantOutcome], recorded_hash: int) -> list[TestedCause]:
    """What is said of that variant where it does not give the recorded state; nothing where it did not run."""
    tried = [one for one in outcomes if one.variant.replaced is not None and one.variant.replaced.number == GIVEN_TIME]
    if not tried or tried[0].result in (None, (recorded_hash, None)):
        return []
    base = next((one for one in outcomes if _going_on(one) and one.variant.start == tried[0].variant.start), None)
    if base is None:
        return []
    threads = ", ".join(_going_on(base))
    if tried[0].result != base.result:
        found = (
            f"{threads}: where {_HOW}, it gives another state than without that time, and not the recorded one either"
        )
        return [TestedCause(GOING_ON, found, suspicious=True)]
    found = f"{threads}: where {_HOW}, it gives the same state as without; with less time it was not run"
    return [TestedCause(GOING_ON, found, suspicious=None)]
