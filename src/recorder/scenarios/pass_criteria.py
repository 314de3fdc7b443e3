"""Pass criteria of a run in any world: no error, no violated property, consistent counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from sim.scenario.event_kinds import BUDGET_KINDS, EFFECT_KINDS
from sim.scenario.results.result import ScenarioResult


@attrs.frozen
class PassCriteriaReport:
    """The failed criteria, one sentence each."""

    failures: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if no criterion failed."""
        return not self.failures


def check_contracts(
    result: ScenarioResult, *, minimum_rounds: int = 0, expected_roles: Sequence[str] = ()
) -> PassCriteriaReport:
    """Check a result against the pass criteria.

    The criteria: no error and no violation; at least the expected rounds and roles; counts that agree; no adversary
    beyond its budget; no message received more often than it was sent and copied by adversaries.
    """
    failures = [f"it ended with an error: {result.error}"] if result.error is not None else []
    failures += [
        f"{violation.name} was violated at tick {violation.tick}: {violation.details}"
        for violation in result.violations
    ]
    if result.final_tick < minimum_rounds:
        failures.append(f"expected at least {minimum_rounds} rounds, got {result.final_tick}")
    roles = {sample.role for sample in result.trace.samples}
    failures += [f"the role {role} has no sample" for role in expected_roles if role not in roles]
    failures += _inconsistencies(result)
    return PassCriteriaReport(tuple(failures))


def _inconsistencies(result: ScenarioResult) -> list[str]:
    failures = []
    counts = result.event_counts
    for noun, kinds, listed in (
        ("effects", EFFECT_KINDS, result.effects),
        ("budget entries", BUDGET_KINDS, result.budget_history),
    ):
        counted = sum(counts.get(kind, 0) for kind in kinds)
        if counted != len(listed):
            failures.append(f"{counted} {noun} were counted, but {len(listed)} are listed")
    failures += [
        f"{entry['by']} has {entry['remaining']} of its budget left"
        for entry in result.budget_history
        if entry["remaining"] < 0
    ]
    received = Counter(
        event["message"] for event in result.events if event["kind"] == "received" and "message" in event
    )
    copies: Counter[int] = Counter()
    for effect in result.effects:
        if effect["kind"] == "repeated":
            copies[effect["message"]] += effect["copies"]
    failures += [
        f"message {number} was received {count} times"
        for number, count in received.items()
        if count > 1 + copies[number]
    ]
    return failures
