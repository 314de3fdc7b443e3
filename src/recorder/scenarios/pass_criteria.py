"""What a result must be for a run to count as passed, whatever the world: nothing violated, nothing incoherent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs

from sim.scenario.event_kinds import BUDGET_KINDS, EFFECT_KINDS
from sim.scenario.results.result import ScenarioResult


@attrs.frozen
class PassCriteriaReport:
    """What failed, one sentence each."""

    failures: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing did."""
        return not self.failures


def check_contracts(
    result: ScenarioResult, *, minimum_rounds: int = 0, expected_roles: Sequence[str] = ()
) -> PassCriteriaReport:
    """What is wrong with a result.

    No error and no violation; as many rounds and roles as expected; counts that agree; no adversary beyond its budget;
    no message that is received more often than once and for each copy that an adversary has made.
    """
    failures = [f"it ended with an error: {result.error}"] if result.error is not None else []
    failures += [f"{one.name} was violated at tick {one.tick}: {one.details}" for one in result.violations]
    if result.final_tick < minimum_rounds:
        failures.append(f"{minimum_rounds} rounds were expected, it had {result.final_tick}")
    roles = {sample.role for sample in result.trace.samples}
    failures += [f"the role {role} has no sample" for role in expected_roles if role not in roles]
    failures += _incoherences(result)
    return PassCriteriaReport(tuple(failures))


def _incoherences(result: ScenarioResult) -> list[str]:
    found = []
    counts = result.event_counts
    for what, kinds, listed in (
        ("effects", EFFECT_KINDS, result.effects),
        ("budget entries", BUDGET_KINDS, result.budget_history),
    ):
        counted = sum(counts.get(kind, 0) for kind in kinds)
        if counted != len(listed):
            found.append(f"{counted} {what} were counted, {len(listed)} are there")
    found += [
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
    found += [
        f"message {number} was received {count} times"
        for number, count in received.items()
        if count > 1 + copies[number]
    ]
    return found
