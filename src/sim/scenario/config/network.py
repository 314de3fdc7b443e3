"""The network of a scenario file, and its reconfigurations."""

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
    """The connection from one role to another, in this direction only. Without a key, the network's value applies."""

    from_: str
    to: str
    enabled: bool = True
    latency_ms: Milliseconds | None = None
    variance: Chance | None = None
    loss: Chance | None = None


@attrs.frozen
class Network:
    """The network that all messages pass through.

    Attributes:
        tick_ms: the length of a tick.
        latency_ms: of a message, rounded up to full ticks.
        variance: the largest share by which a message's latency is longer or shorter.
        loss: the chance that a message is lost.
        links: exceptions, by sender and receiver.
        partition: groups of roles that cannot reach each other; a role in no group reaches every role.
    """

    tick_ms: Annotated[int, Decimal(0, 1_000_000)] = ONE
    latency_ms: Milliseconds = 0
    variance: Chance = 0
    loss: Chance = 0
    links: tuple[Link, ...] = ()
    partition: tuple[tuple[str, ...], ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.tick_ms <= 0:
            raise ConfigError("tick_ms", f"expected a time above 0, got {self.tick_ms / ONE:g}")
        pairs = [(link.from_, link.to) for link in self.links]
        for index, pair in enumerate(pairs):
            if pair in pairs[:index]:
                raise ConfigError(f"links[{index}]", f"a second link from {pair[0]} to {pair[1]}: merge the two")
        _check_groups("partition", self.partition)


@attrs.frozen
class Reconfiguration:
    """A change during the run: of the links, of the partition, of a mode, or of the role that another one acts for.

    Attributes:
        id: its name.
        cost: ticks for which the affected roles do nothing but reconfigure; with 0 the effect is pure.
        from_, to: the roles of a link. In a delegation, messages from from_ count as sent by to, or by the role that to
            acts for; a delegation that would close a circle makes to act for itself again. In a handoff, the messages
            that wait for from_ go to to.
        enabled, latency_ms, variance, loss: of a link.
        groups: of a federation, as in Network.partition; an empty list unites all roles.
        roles, mode: of a mode_transition: the roles, and the mode that they are in from then on.
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
                raise ConfigError(f"{key}[{index}][{number}]", f"{role} is in a group already")
            seen.add(role)
