"""Environment variables with which alone a step gives the recorded state, each time it runs in a new process.

A variable moves objects in memory, and a hash seed is one of many: what gives the recorded state once may do so by chance.
Nothing tells the seed that a process drew for itself, so that one that gives the recorded state is not said to be that one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from replayer.diagnose.explain.answer.explanation import DecidingVariables, Explanation
from replayer.diagnose.explain.outside.outside_variants import CACHE_FOLDER
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE
from replayer.diagnose.explain.variant_choice import SEED, fixed_seed
from replayer.diagnose.explain.variants import Variant, VariantOutcome

_ARITHMETIC = ("NPY_", "OPENBLAS", "OMP_", "MKL_", "NUMBA_")  # Of these the operation says more.
_SAY_LESS = (None, "alone", "unseen", "line", "branch")  # Kinds of causes that tell less than the variables.

RUNS = 3  # Processes of each variant: a step that tosses a coin in each of them passes once in 32 times.

Run = Callable[[Sequence[Variant]], list[VariantOutcome]]


def with_deciding_variables(explained: Explanation, recorded: Mapping[str, Any], run: Run) -> Explanation:
    """Name the variables that decide, if both variants of the pair repeat their results in further processes.

    recorded: the environment of the tape. run: runs variants, each in a new process. If a result is not repeated, a note says
    so, and nothing is named; nor if one of the further processes does not reach the step.
    """
    if not _may_decide(explained):
        return explained
    assert explained.pair is not None
    ran = [_runs_of(outcome, explained) for outcome in explained.pair]
    for number in range(RUNS):
        less = [outcome for outcome, count in zip(explained.pair, ran, strict=True) if count + number < RUNS]
        again = [attrs.evolve(one.variant, label=f"{one.variant.label}, another run") for one in less]
        for outcome, repeated in zip(less, run(again) if again else (), strict=True):
            if repeated.result is None:  # It did not reach the step: that it would give the same is not known.
                return explained
            if repeated.result != outcome.result:
                varies = f"{outcome.variant.label}: the same step, run again in another process, gives another state"
                return attrs.evolve(explained, notes=[*explained.notes, varies])
    first, second = (one.variant for one in explained.pair)
    names = dict.fromkeys([*first.environment, *second.environment])
    both = {name: (_value(first, name), _value(second, name)) for name in names}
    values = {name: pair for name, pair in both.items() if pair[0] != pair[1]}
    if not values:
        return explained
    is_noted = SEED not in values or fixed_seed(recorded) is not None
    found = DecidingVariables(values, RUNS, is_recorded=first.is_recorded, is_noted=is_noted)
    return attrs.evolve(explained, variables=found)


def _runs_of(outcome: VariantOutcome, explained: Explanation) -> int:
    """The number of processes that ran a variant and gave its result."""
    like = [attrs.evolve(one.variant, label="") for one in explained.variants if one.result == outcome.result]
    return like.count(attrs.evolve(outcome.variant, label=""))


def _value(variant: Variant, name: str) -> str | None:
    """The value of a variable in the processes of a variant; see VariantRunner for the seed."""
    value = variant.environment.get(name, os.environ.get(name))
    return "0" if name == SEED and value is None else value


def _may_decide(explained: Explanation) -> bool:
    """Return True if the first of the pair gives the recorded state, and they have other environments, and that alone."""
    if explained.pair is None or not explained.is_recorded(explained.pair[0]) or NOT_REPEATABLE in explained.notes:
        return False
    first, second = (one.variant for one in explained.pair)
    if first.environment == second.environment or not (first.is_present or second.is_present):
        return False
    for one in (first, second):
        if one.start is not None or one.code is not None or one.replaced is not None or one.settings:
            return False
    changed = {**first.environment, **second.environment}
    kind = None if explained.cause is None else explained.cause.kind
    is_arithmetic = any(name.startswith(_ARITHMETIC) and name != CACHE_FOLDER for name in changed)
    return kind in _SAY_LESS or (kind == "operation" and not is_arithmetic)
