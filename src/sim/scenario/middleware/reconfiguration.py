"""Changes of who is connected with whom and who acts for whom, in mid-run; each is made once, and takes its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from sim.kernel.messages import Event
from sim.scenario.config.keys import key_of
from sim.scenario.config.network import Reconfiguration
from sim.scenario.middleware.draws import ScenarioDraws, ScenarioPhase
from sim.scenario.middleware.network import InFlightMessages, NetworkStage
from sim.scenario.middleware.triggers import ScenarioRound, fires

_LINK_KEYS = ("enabled", "latency_ms", "variance", "loss")


class Reconfigurations:
    """All reconfigurations of a run. Its whole state is ``plain``, plain data.

    plain: "made" says of each whether it was made; "busy" until which tick a role reconfigures; "acts_for" who acts for
    whom; "modes" who is in which mode.
    """

    def __init__(self, changes: Sequence[Reconfiguration], chances: ScenarioDraws) -> None:
        self._changes = changes
        self._chances = chances
        self.plain: dict[str, Any] = {"made": [False] * len(changes), "busy": {}, "acts_for": {}, "modes": {}}

    @property
    def busy(self) -> frozenset[str]:
        """Roles that do nothing but reconfigure."""
        return frozenset(self.plain["busy"])

    def acting_for(self, role: str) -> str:
        """The role as which what this role sends counts: that for which it acts, or, if that acts for another, that one."""
        acts_for: dict[str, str] = self.plain["acts_for"]
        while role in acts_for:  # It ends: _delegate closes no circle.
            role = acts_for[role]
        return role

    def _delegate(self, one: str, other: str) -> None:
        """Let one act for other. Where other acts for one, if only by others, the newer counts: other is itself again.

        A role that is to act for itself is itself again, too.
        """
        acts_for: dict[str, str] = self.plain["acts_for"]
        end = other
        while end != one and end in acts_for:
            end = acts_for[end]
        if end == one:
            acts_for.pop(other, None)
        if one != other:
            acts_for[one] = other

    def begin_round(
        self,
        now: ScenarioRound,
        network: NetworkStage,
        queues: Sequence[InFlightMessages],
        roles: Sequence[str],
        events: list[Event],
    ) -> None:
        """Make the changes that are triggered. queues: of messages under way, which a handoff redirects."""
        self.plain["busy"] = {role: until for role, until in self.plain["busy"].items() if now.tick < until}
        for index, change in enumerate(self._changes):
            if self.plain["made"][index]:
                continue
            if not fires(change.trigger, now, self._chances, ScenarioPhase.RECONFIGURATION, key_of(change.id)):
                continue
            self.plain["made"][index] = True
            footprint = self._make(change, network, queues, roles)
            if change.cost:
                busy: dict[str, int] = self.plain["busy"]
                busy |= {role: max(busy.get(role, 0), now.tick + change.cost) for role in footprint}
            effect = "transition_choreography" if change.cost else "pure"
            links = [[change.from_, change.to]] if change.kind == "link" else []
            events.append(
                {
                    "kind": "reconfigured",
                    "operation": index,
                    "by": change.id,
                    "action": change.kind,
                    "effect": effect,
                    "cost": change.cost,
                    "step": now.rounds_done,
                    "roles": footprint,
                    "links": links,
                }
            )

    def _make(
        self, change: Reconfiguration, network: NetworkStage, queues: Sequence[InFlightMessages], roles: Sequence[str]
    ) -> list[str]:
        """Carry out one change; the roles that it concerns, in the order of the world's."""
        one, other = change.from_ or "", change.to or ""
        concerned = {one, other}
        match change.kind:
            case "link":
                given = {key: getattr(change, key) for key in _LINK_KEYS}
                network.set_link(one, other, {key: value for key, value in given.items() if value is not None})
            case "delegation":
                self._delegate(one, other)
            case "handoff":
                for queue in queues:
                    for due_tick, message in queue.take_of(one):
                        queue.add(attrs.evolve(message, receiver=other), due_tick)
            case "federation":
                network.set_groups(change.groups or ())
                concerned = {role for group in change.groups or () for role in group} or set(roles)
            case "mode_transition":
                self.plain["modes"] |= dict.fromkeys(change.roles or (), change.mode)
                concerned = set(change.roles or ())
        return [role for role in roles if role in concerned]
