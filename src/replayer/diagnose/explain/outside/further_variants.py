"""Variants for a step that differed when the tape was verified, or differs from all that was tried, and for no known reason.

Fresh memory is filled with a pattern: a step that reads it before it has written there gives another state with another
pattern. And more hash seeds are tried: the one of the process that differed is not known.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache

import attrs

from recorder.processes.interpreter import finish, start_python
from replayer.desync.finding import TestedCause
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.outside.deciding_variables import RUNS
from replayer.diagnose.explain.outside.outside_variants import AT_A_TIME
from replayer.diagnose.explain.trace_step import NOT_REPEATABLE
from replayer.diagnose.explain.variant_choice import SEED, seeded
from replayer.diagnose.explain.variants import Variant, VariantOutcome

MORE_SEEDS = tuple(str(number) for number in range(4, 16))
MEMORY, OTHER_SEEDS = "what fresh memory holds", "other hash seeds"
UNSURE_RUNS = 6  # Of a step that differs from run to run: one that tosses a coin passes once in 2,000 times.
_FILL = "MALLOC_PERTURB_"  # Of glibc: what it gives out has the bytes of this number, inverted.
_PATTERNS = {"255": "zeros", "165": "bytes of 5a"}
# Prints True if memory that malloc gives out has the bytes of 5a.
_PROBE = """
import ctypes
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
print(ctypes.string_at(library.malloc(5000), 5000)[:4000] == b"Z" * 4000)
"""

Run = Callable[[Sequence[Variant]], list[VariantOutcome]]
Pair = tuple[VariantOutcome, VariantOutcome]


@attrs.frozen(eq=False)
class Further:
    """What further variants gave.

    Attributes:
        outcomes: of those that were run, without repetitions.
        pair: two that differ; None without.
        tested: what was tried without a result.
        memory_runs: if the two differ by what fresh memory holds, the number of processes that each pattern was tried in.
    """

    outcomes: list[VariantOutcome]
    pair: Pair | None
    tested: list[TestedCause]
    memory_runs: int = 0


def try_further(explanation: Explanation, now: Variant, run: Run) -> Further:
    """Fill fresh memory; if that makes no difference, and all variants gave the recorded state, try more hash seeds.

    explanation: by variants that all gave one state. now: the present one.
    """
    found = filled_memory(explanation, now, run)
    if found.pair is not None or not explanation.agrees:
        return found
    seeds = more_seeds(explanation, run)
    outcomes, tested = [*found.outcomes, *seeds.outcomes], [*found.tested, *seeds.tested]
    return attrs.evolve(seeds, outcomes=outcomes, tested=tested)


def filled_memory(explanation: Explanation, now: Variant, run: Run) -> Further:
    """Run the step with fresh memory filled with one pattern, and with another one, each in several processes."""
    variants = [
        attrs.evolve(
            now,
            label=f"fresh memory filled with {what} ({_FILL}={value})",
            environment={**now.environment, _FILL: value},
        )
        for value, what in _PATTERNS.items()
    ]
    if not fills_memory():
        why = f"not tested: the system's library does not fill memory ({_FILL} of glibc)"
        return Further([], None, [TestedCause(MEMORY, why, suspicious=None)])
    outcomes = run(variants)
    results = [one.result for one in outcomes]
    here = explanation.ran[0]
    if None in results:
        return Further(outcomes, None, [TestedCause(MEMORY, "not tested: the step was not reached", suspicious=None)])
    if results[0] == results[1]:
        found = "the step gives the same, whether memory that it gets is filled with zeros or with another pattern"
        limits = "not filled is what Python and NumPy keep for themselves, and give out again"
        return Further(outcomes, None, [TestedCause(MEMORY, f"{found}; {limits}", suspicious=False)])
    if any(read.name == _FILL for one in outcomes if one.step is not None for read in one.step.reads):
        why = f"not tested: the step reads the variable {_FILL}, by which memory is filled"
        return Further(outcomes, None, [TestedCause(MEMORY, why, suspicious=None)])
    runs = UNSURE_RUNS if NOT_REPEATABLE in explanation.notes else RUNS
    for _ in range(1, runs):
        if [one.result for one in run(variants)] != results:
            found = "not decided: filled with one pattern, the step gives different states in different processes"
            return Further(outcomes, None, [TestedCause(MEMORY, found, suspicious=None)])
    recorded = next((one for one in outcomes if explanation.is_recorded(one)), None)
    if (
        recorded is None and not explanation.agrees
    ):  # The step reads fresh memory; that it differs may have other causes.
        found = f"{memory_text(outcomes)} (in {runs} of {runs} processes each); neither is what was recorded"
        return Further(outcomes, None, [TestedCause(MEMORY, found, suspicious=True)])
    if explanation.agrees:
        return Further(outcomes, (here, next(one for one in outcomes if one.result != here.result)), [], runs)
    assert recorded is not None
    return Further(outcomes, (recorded, here), [], memory_runs=runs)


def memory_text(outcomes: Sequence[VariantOutcome]) -> str:
    """What the step gives under the two patterns, which give two different results."""
    filled = [one.result for one in outcomes if _FILL in one.variant.environment]
    raises = tuple(result is not None and result[1] is not None for result in filled)
    match raises:
        case (True, False):
            gives = "the step raises, and with another pattern it does not"
        case (False, True):
            gives = "the step does not raise, and with another pattern it does"
        case (True, True):
            gives = "the step raises one error, and with another pattern another one"
        case _:
            gives = "the step gives one state, and with another pattern another one"
    return f"where fresh memory is filled with zeros, {gives}"


def more_seeds(explanation: Explanation, run: Run) -> Further:
    """Run the step with more hash seeds, up to the first one that gives another state."""
    here, outcomes = explanation.ran[0], list[VariantOutcome]()
    for first in range(0, len(MORE_SEEDS), AT_A_TIME):
        outcomes += run([seeded(seed) for seed in MORE_SEEDS[first : first + AT_A_TIME]])
        other = next((one for one in outcomes if one.result not in (None, here.result)), None)
        if other is not None:
            return Further(outcomes, (here, other), [])
    seeds = {one.variant.environment.get(SEED) for one in (*explanation.ran, *outcomes) if one.step is not None}
    own = here.variant.environment.get(SEED, os.environ.get(SEED, "0"))
    found = f"the step gives the recorded state with each of {len(seeds - {None, own})} other seeds ({SEED})"
    return Further(outcomes, None, [TestedCause(OTHER_SEEDS, found, suspicious=False)])


@cache
def fills_memory() -> bool:
    """Return True if the C library fills memory as it is told to."""
    try:
        return finish(start_python(["-I", "-S", "-c", _PROBE], environment={_FILL: "165"})).output.strip() == b"True"
    except OSError:
        return False
