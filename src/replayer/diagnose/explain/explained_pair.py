"""Explain the difference between two outcomes of a step by their traces."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from replayer.desync.location import place_between
from replayer.desync.ulps import compare_elements
from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.answer.catching_lines import cause_of_depth
from replayer.diagnose.explain.answer.explanation import DifferingField, Explanation
from replayer.diagnose.explain.cause import IDLE
from replayer.diagnose.explain.find_cause import find_cause
from replayer.diagnose.explain.foreign.fresh_memory import gives_fresh_memory
from replayer.diagnose.explain.outside.further_variants import Run, filled_memory
from replayer.diagnose.explain.trace_step import STACK_DEPTH
from replayer.diagnose.explain.values.identities import differing_identities
from replayer.diagnose.explain.values.load_cause import with_load
from replayer.diagnose.explain.variants import Variant, VariantOutcome


def explained_pair(
    tick: int,
    recorded_hash: int,
    outcomes: list[VariantOutcome],
    pair: tuple[VariantOutcome, VariantOutcome],
    notes: list[str],
    *,
    past_memory: bool = False,
) -> Explanation:
    """The explanation of a tick by two of its outcomes: the fields that differ, and the line that makes the difference.

    past_memory: the line is searched past those that only get fresh memory; see Alignment.
    """
    first, second = pair[0].step, pair[1].step
    assert first is not None
    assert second is not None
    fields = []
    if first.state is not None and second.state is not None:
        for name in dict.fromkeys([*first.state, *second.state]):
            left, right = (state[name] if name in state.layout.slots else None for state in (first.state, second.state))
            elements = compare_elements(left, right) if left is not None and right is not None else None
            if elements is None or elements.count:
                fields.append(DifferingField(name, elements))
    alignment = Alignment(first.trace, second.trace, past_memory=past_memory)
    limits = {step.trace.limited for step in (first, second)} - {None}
    notes = [*notes, *sorted(map(str, limits)), *restored_notes(pair, recorded_hash)]
    place = place_between([field.name for field in fields], first.phases, second.phases)
    cause = find_cause(alignment)
    if STACK_DEPTH in (first.note, second.note):
        cause = cause_of_depth(first.trace)
    identities = list(differing_identities(first.trace.identities, second.trace.identities))
    if cause is not None and any(one.is_cause(cause) for one in identities):
        cause = attrs.evolve(cause, kind="identity", outside=[])
    lost = [] if first.not_given_back else second.not_given_back
    if cause is not None and cause.kind == "outside" and pair[0].variant.environment != pair[1].variant.environment:
        cause = attrs.evolve(cause, kind="version")  # Such as a global that is made of an environment variable.
    if cause is not None and cause.kind == "outside":
        cause = with_load(cause, lost, second.loaded)
    explanation = Explanation(tick, recorded_hash, outcomes, pair, fields, cause, [], None, [], notes, place)
    return attrs.evolve(explanation, identities=identities, not_given_back=lost)


def with_memory_tested(explained: Explanation, now: Variant, run: Run) -> Explanation:
    """The explanation of a pair; past an operation that gives fresh memory, if filling that is not seen to decide.

    What such an operation gives is different by nature, and has no effect where the next lines write all of it.
    """
    cause, pair, tick = explained.cause, explained.pair, explained.tick
    if (
        cause is None
        or pair is None
        or tick is None
        or not gives_fresh_memory(cause.operation)
        or cause.kind != "operation"
    ):
        return explained
    found = filled_memory(explained, now, run)
    outcomes = [*explained.variants, *found.outcomes]
    if found.pair is not None or any(one.suspicious for one in found.tested):
        tested = [*explained.tested, *found.tested]
        return attrs.evolve(explained, variants=outcomes, memory_runs=found.memory_runs, tested=tested)
    past = explained_pair(tick, explained.recorded_hash, outcomes, pair, explained.notes, past_memory=True)
    is_idle = any(one.suspicious is False for one in found.tested)
    if past.cause is not None and past.cause.memory and is_idle:
        past = attrs.evolve(past, cause=attrs.evolve(past.cause, memory=IDLE))
    return attrs.evolve(past, tested=found.tested)


def restored_notes(pair: tuple[VariantOutcome, VariantOutcome], recorded_hash: int) -> list[str]:
    """A remark on A, if it was restored and gives the recorded state: perhaps by other values than the recorded run."""
    first, second = (outcome.variant for outcome in pair)
    is_by_instance = first.start != second.start and (first.environment, first.code) == (
        second.environment,
        second.code,
    )
    if first.is_never_restored or not is_by_instance or pair[0].result != (recorded_hash, None):
        return []
    too = "" if second.is_never_restored else ", too"
    return [f"A was restored{too}: what it keeps outside the state need not be what the recorded run kept"]


def with_trace(outcome: VariantOutcome, now: Variant, run: Callable[..., list[VariantOutcome]]) -> VariantOutcome:
    """The outcome of the present code with a trace: an instance that gave the result of a variant before it has none."""
    one = outcome.variant
    if outcome.step is None or outcome.step.is_traced or one.start is None or one.code is not None:
        return outcome
    again = run([now], [one.start])
    is_same = len(again) == 1 and again[0].variant == one and again[0].result == outcome.result
    return again[0] if is_same else outcome
