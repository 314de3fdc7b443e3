"""Test the settings of the process in which two variants of a step differed before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from recorder.ambient.outside.outside_read import ARGUMENTS_NAME
from replayer.diagnose.explain.values.process_settings import DifferingSetting, differing_settings
from replayer.diagnose.explain.variants import Variant, VariantOutcome

Run = Callable[[Sequence[Variant], Sequence[int | None]], list[VariantOutcome]]


def settings_tested(pair: tuple[VariantOutcome, VariantOutcome], run: Run) -> list[DifferingSetting]:
    """The settings of the process that differed before the step, each tested: B runs once more, with that of A."""
    steps = [one.step for one in pair if one.step is not None]
    # Those of the program's arguments are of the import as well, and a variant that has others is their test.
    has_arguments = any(one.variant.replaced is not None and one.variant.replaced.arguments for one in pair)
    tested = []
    for one in differing_settings(steps[0].trace.settings, steps[1].trace.settings):
        if has_arguments and one.name == ARGUMENTS_NAME:
            continue
        variant = attrs.evolve(pair[1].variant, settings={**pair[1].variant.settings, one.name: one.first})
        outcomes = run([variant], [variant.start])
        reached = [outcome.result for outcome in outcomes if outcome.step is not None]
        tested.append(attrs.evolve(one, proved=pair[0].result in reached if reached else None))
    return tested
