"""The search for a variant that gives the recorded state, where those that run first do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from replayer.diagnose.explain.outside.found_arguments import with_arguments, with_fewer_arguments
from replayer.diagnose.explain.outside.given_time import with_time_for_threads
from replayer.diagnose.explain.outside.outside_variants import outside_variants, run_some, without_machine_code
from replayer.diagnose.explain.variants import Variant, VariantOutcome, traced_present
from replayer.tape.noted_outside import noted_outside
from replayer.tape.tape import Tape


def find_recorded(
    tape: Tape,
    now: Variant,
    earlier: Sequence[VariantOutcome],
    recorded_hash: int,
    pair: tuple[VariantOutcome, VariantOutcome] | None,
    empty_folder: Callable[[], str],
    last_variants: Callable[[], Sequence[Variant]],
    *,
    run: Callable[..., list[VariantOutcome]],
    asked: bool,
) -> list[VariantOutcome]:
    """Run further variants, some at a time, up to the first one that gives the recorded state.

    First those in which something that the step reads is replaced, and those in which threads get time; then, if no two
    variants differ, the last ones. now: the present variant. earlier, pair: what ran before. run: runs variants, from starts.
    asked: True if the caller named the variants.
    """
    present = traced_present(earlier)
    reads = present.step.reads if present is not None and present.step is not None else []

    def run_now(known: Sequence[VariantOutcome], variants: Sequence[Variant]) -> list[VariantOutcome]:
        return run(variants, earlier=known)

    if present is not None and not asked:
        note = noted_outside(tape)
        replacing = with_arguments(now, reads, present.imported, note)
        replacing += outside_variants(now, reads, present.imported, note)
        replacing += without_machine_code(now, empty_folder)
        outcomes = run_some(replacing, now, recorded_hash, earlier, run_now)
        outcomes = _with_needed(outcomes, now, earlier, recorded_hash, run_now)
        if all(outcome.result != (recorded_hash, None) for outcome in outcomes):
            outcomes += with_time_for_threads(now, earlier, recorded_hash, run)
        if pair is not None or any(outcome.result == (recorded_hash, None) for outcome in outcomes):
            return outcomes
        earlier = [*earlier, *outcomes]
        return [*outcomes, *run_some(last_variants(), now, recorded_hash, earlier, run_now)]
    last = last_variants() if pair is None else ()
    return run_some(last, now, recorded_hash, earlier, run_now)


def _with_needed(
    outcomes: list[VariantOutcome],
    now: Variant,
    earlier: Sequence[VariantOutcome],
    recorded_hash: int,
    run: Callable[[Sequence[VariantOutcome], Sequence[Variant]], list[VariantOutcome]],
) -> list[VariantOutcome]:
    """The outcomes with, as the last one, that of fewer arguments of the program, if those are enough."""
    last = outcomes[-1] if outcomes and outcomes[-1].result == (recorded_hash, None) else None
    if last is None or last.variant.replaced is None or not last.variant.replaced.arguments:
        return outcomes
    fewer = with_fewer_arguments(last, partial(run, [last]))
    if fewer is None:
        return outcomes
    found = run_some([fewer], now, recorded_hash, earlier, run)
    return [*outcomes, *found] if any(one.result == (recorded_hash, None) for one in found) else outcomes
