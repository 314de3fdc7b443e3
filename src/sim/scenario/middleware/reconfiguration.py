"""Changes during a run: of links, groups, modes, and of the role that another one acts for. Each is made once."""

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
    """All reconfigurations of a run. The entire state is ``plain``, plain data.

    plain: "made" holds True for each change that was made; "busy" the tick until which a role reconfigures; "acts_for"
    the role that a role acts for; "modes" the mode of a role.
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
        """The role that counts as the sender of this role's messages: the end of the chain of delegations."""
        acts_for: dict[str, str] = self.plain["acts_for"]
        while role in acts_for:  # It ends: _delegate closes no circle.
            role = acts_for[role]
        return role

    def _delegate(self, role: str, target: str) -> None:
        """Let role act for target. If target acts for role, even through others, target acts for itself again.

        A role that is delegated to itself acts for itself again, too.
        """
        acts_for: dict[str, str] = self.plain["acts_for"]
        end = target
        while end != role and end in acts_for:
            end = acts_for[end]
        if end == role:
            acts_for.pop(target, None)
        if role != target:
            acts_for[role] = target

    def begin_round(
        self,
        now: ScenarioRound,
        network: NetworkStage,
        queues: Sequence[InFlightMessages],
        roles: Sequence[str],
        events: list[Event],
    ) -> None:
        """Make the changes whose trigger fires. queues: the messages in flight, which a handoff redirects."""
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
        """Make one change and return the affected roles, in the world's order."""
        from_, to = change.from_ or "", change.to or ""
        affected = {from_, to}
        match change.kind:
            case "link":
                values = {key: getattr(change, key) for key in _LINK_KEYS}
                network.set_link(from_, to, {key: value for key, value in values.items() if value is not None})
            case "delegation":
                self._delegate(from_, to)
            case "handoff":
                for queue in queues:
                    for due_tick, message in queue.take_of(from_):
                        queue.add(attrs.evolve(message, receiver=to), due_tick)
            case "federation":
                network.set_groups(change.groups or ())
                affected = {role for group in change.groups or () for role in group} or set(roles)
            case "mode_transition":
                self.plain["modes"] |= dict.fromkeys(change.roles or (), change.mode)
                affected = set(change.roles or ())
        return [role for role in roles if role in affected]
