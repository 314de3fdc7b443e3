"""When something of a scenario begins: looked at once a round, before anything else happens in it."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from sim.scenario.config.adversary import AdversaryTrigger
from sim.scenario.middleware.draws import ScenarioDraws, ScenarioPhase


@attrs.frozen
class ScenarioRound:
    """What is known when a round begins.

    Attributes:
        tick: that it leads to.
        heard: kinds and roles of the events of the round before.
    """

    tick: int
    heard: Collection[tuple[str, str]] = ()

    @property
    def rounds_done(self) -> int:
        """How many rounds are over."""
        return self.tick - 1


def fires(
    trigger: AdversaryTrigger, now: ScenarioRound, chances: ScenarioDraws, phase: ScenarioPhase, key: int
) -> bool:
    """Whether the trigger of a part fires in this round, if it has not yet. key: see key_of."""
    if trigger.at_tick is not None:
        return now.tick >= trigger.at_tick
    if trigger.after_step is not None:
        return now.rounds_done >= trigger.after_step
    if trigger.random is not None:
        return chances.falls(trigger.random, phase, now.tick, key)
    if trigger.on_event is not None:
        kind, role = trigger.on_event.kind, trigger.on_event.role
        return any(found == kind and role in {None, who} for found, who in now.heard)
    return True
