"""The order in which differences are tested: what may have set others comes first, and what consists of others last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from replayer.diagnose.parties.differences.factor import Factor, together
from replayer.diagnose.parties.differences.factors import WHOLES
from replayer.diagnose.parties.differences.set_factors import SET
from replayer.diagnose.parties.party_explanation import FactorTest

FACTORS_MAX = 12  # Each is tested by two processes.


def in_stages(factors: Sequence[Factor]) -> tuple[tuple[list[Factor], list[Factor], list[Factor]], list[Factor]]:
    """What is given from outside, what the processes have set, and the wholes; and what is not tested."""
    parts = [one for one in factors if one.kind not in (*WHOLES, *SET)]
    sets = [one for one in factors if one.kind in SET]
    wholes = [one for one in factors if one.kind in WHOLES]
    return (parts[:FACTORS_MAX], sets[:FACTORS_MAX], wholes), [*parts[FACTORS_MAX:], *sets[FACTORS_MAX:]]


def choices(sets: list[Factor], wholes: list[Factor]) -> list[Callable[[Sequence[FactorTest]], list[Factor]]]:
    """What is tested after the first stage, until something decides: each chooses by the tests so far."""
    return [
        _that_matter_together,
        _that_may_matter_together,
        lambda _: sets,
        *([_that_matter_together, _that_may_matter_together] if sets else []),
        lambda _: wholes,
    ]


def _that_matter_together(tests: Sequence[FactorTest]) -> list[Factor]:
    """Those that have an effect, as one; none if that was tested."""
    matter = _that_matter(tests)
    return [together(matter)] if len(matter) > 1 and not _is_tested(matter, tests) else []


def _that_may_matter_together(tests: Sequence[FactorTest]) -> list[Factor]:
    """Those that have an effect, with those that alone do not run, as one; none if that was tested.

    A file may import a name that the other party's version of another file lacks.
    """
    matter = _that_matter(tests)
    failed = [one.factor for one in tests if one.why_not is not None and one.factor not in matter and _is_single(one)]
    several = [*matter, *failed]
    return [together(several)] if failed and len(several) > 1 and not _is_tested(several, tests) else []


def _that_matter(tests: Sequence[FactorTest]) -> list[Factor]:
    return [one.factor for one in tests if _is_single(one) and not one.has_no_effect and one.outcomes != (None, None)]


def _is_single(test: FactorTest) -> bool:
    return not test.factor.parts


def _is_tested(several: list[Factor], tests: Sequence[FactorTest]) -> bool:
    return any(list(one.factor.parts) == several for one in tests)
