"""The triggers of a scenario, checked once a round, before anything else happens in it."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from sim.scenario.config.adversary import AdversaryTrigger
from sim.scenario.middleware.draws import ScenarioDraws, ScenarioPhase


@attrs.frozen
class ScenarioRound:
    """The data of a round at its beginning.

    Attributes:
        tick: the tick at the end of the round.
        heard: kinds and roles of the events of the previous round.
    """

    tick: int
    heard: Collection[tuple[str, str]] = ()

    @property
    def rounds_done(self) -> int:
        """The number of rounds that are over."""
        return self.tick - 1


def fires(
    trigger: AdversaryTrigger, now: ScenarioRound, chances: ScenarioDraws, phase: ScenarioPhase, key: int
) -> bool:
    """Return True if a trigger that has not fired yet fires in this round. key: see key_of."""
    if trigger.at_tick is not None:
        return now.tick >= trigger.at_tick
    if trigger.after_step is not None:
        return now.rounds_done >= trigger.after_step
    if trigger.random is not None:
        return chances.happens(trigger.random, phase, now.tick, key)
    if trigger.on_event is not None:
        pattern = trigger.on_event
        return any(kind == pattern.kind and pattern.role in {None, role} for kind, role in now.heard)
    return True
