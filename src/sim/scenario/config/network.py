"""The network of a scenario as it is written, and its reconfigurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import attrs

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.registry import ConfigError
from sim.scenario.config.adversary import AdversaryTrigger
from sim.scenario.config.keys import TICKS_MAX, Chance, Milliseconds, check_keys, check_name
from sim.scenario.config.structure import Decimal, Whole

ReconfigurationKind = Literal["link", "delegation", "handoff", "federation", "mode_transition"]


@attrs.frozen
class Link:
    """From one role to another, in this direction only; what is not said is as in the network."""

    from_: str
    to: str
    enabled: bool = True
    latency_ms: Milliseconds | None = None
    variance: Chance | None = None
    loss: Chance | None = None


@attrs.frozen
class Network:
    """What messages go through.

    Attributes:
        tick_ms: how long a tick is.
        latency_ms: of a message; a part of a tick counts as a whole one.
        variance: by what share of it the latency of a message is more or less at most.
        loss: the chance of a message to be lost.
        links: exceptions.
        partition: groups of roles that cannot reach each other; roles that are in none reach everybody.
    """

    tick_ms: Annotated[int, Decimal(0, 1_000_000)] = ONE
    latency_ms: Milliseconds = 0
    variance: Chance = 0
    loss: Chance = 0
    links: tuple[Link, ...] = ()
    partition: tuple[tuple[str, ...], ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.tick_ms <= 0:
            raise ConfigError("tick_ms", "a time above 0 was expected")
        pairs = [(link.from_, link.to) for link in self.links]
        for index, pair in enumerate(pairs):
            if pair in pairs[:index]:
                raise ConfigError(f"links[{index}]", f"there is a link from {pair[0]} to {pair[1]} already")
        _check_groups("partition", self.partition)


@attrs.frozen
class Reconfiguration:
    """A change of who is connected with whom, or of who acts for whom, in mid-run.

    Attributes:
        id: its name.
        cost: ticks for which the roles concerned do nothing but reconfigure; 0 makes the effect pure.
        from_, to: roles: of a link; of a delegation, who acts for whom (what from_ sends counts as to's, or as that
            role's for whom to acts; a circle is not closed, but to is itself again); of a handoff, whose waiting
            messages go to whom.
        enabled, latency_ms, variance, loss: of a link.
        groups: of a federation, as Network.partition; none unites all.
        roles, mode: of a mode_transition: who is in which mode from now on.
    """

    id: str
    kind: ReconfigurationKind
    trigger: AdversaryTrigger = attrs.field(factory=AdversaryTrigger)
    cost: Annotated[int, Whole(0, TICKS_MAX)] = 0
    from_: str | None = None
    to: str | None = None
    enabled: bool | None = None
    latency_ms: Milliseconds | None = None
    variance: Chance | None = None
    loss: Chance | None = None
    groups: tuple[tuple[str, ...], ...] | None = None
    roles: tuple[str, ...] | None = None
    mode: str | None = None

    def __attrs_post_init__(self) -> None:
        check_name("id", self.id)
        pair = ("from_", "to")
        needed: dict[str, tuple[str, ...]] = {
            "link": pair,
            "delegation": pair,
            "handoff": pair,
            "federation": ("groups",),
            "mode_transition": ("roles", "mode"),
        }
        own = (*pair, "enabled", "latency_ms", "variance", "loss", "groups", "roles", "mode")
        changes = ("enabled", "latency_ms", "variance", "loss")
        check_keys(self, self.kind, needed[self.kind], own, changes if self.kind == "link" else ())
        if self.kind == "link" and all(getattr(self, key) is None for key in changes):
            raise ConfigError("enabled", "a link needs one of enabled, latency_ms, variance and loss")
        _check_groups("groups", self.groups or ())


def _check_groups(key: str, groups: Sequence[Sequence[str]]) -> None:
    """Raise ConfigError for the first role that is in two groups, or twice in one."""
    seen: set[str] = set()
    for index, group in enumerate(groups):
        for number, role in enumerate(group):
            if role in seen:
                raise ConfigError(f"{key}[{index}][{number}]", f"{role} is in another group already")
            seen.add(role)
