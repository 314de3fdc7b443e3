"""Test the settings of the process in which two variants of a step differed before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from replayer.diagnose.explain.values.process_settings import DifferingSetting, differing_settings
from replayer.diagnose.explain.variants import Variant, VariantOutcome

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]


def settings_tested(pair: tuple[VariantOutcome, VariantOutcome], run: Run) -> list[DifferingSetting]:
    """The settings of the process that differed before the step, each tested: B runs once more, with that of A."""
    steps = [one.step for one in pair if one.step is not None]
    tested = []
    for one in differing_settings(steps[0].trace.settings, steps[1].trace.settings):
        variant = attrs.evolve(pair[1].variant, settings={**pair[1].variant.settings, one.name: one.first})
        outcomes = run([variant], [variant.start])
        reached = [outcome.result for outcome in outcomes if outcome.step is not None]
        tested.append(attrs.evolve(one, proved=pair[0].result in reached if reached else None))
    return tested
