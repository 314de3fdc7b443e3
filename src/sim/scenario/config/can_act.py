"""Refuse the parts of a new scenario that can never act: triggers after the end, network parts that no message meets.

Only a run that begins is checked. A tape whose scenario has such a part is replayed as before: the part does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sim.kernel.hooks import HasChannels, HasOrigin, hook
from sim.kernel.registry import ConfigError, Origin
from sim.kernel.simulation import inner_of
from sim.scenario.config.adversary import Adversary
from sim.scenario.config.network import Link, Reconfiguration
from sim.scenario.config.scenario import WORLD, ScenarioConfig

PAIRS_MAX = 1 << 16  # With more pairs of roles, a search for a channel takes too long: every part counts as possible.
CHANCE_ONE = 1 << 32

Carries = Callable[[str, str], bool]


def ensure_can_act(simulation: Any, last_tick: int | None) -> None:
    """Raise ConfigError for the first part of a scenario that can never act.

    simulation: with the scenario around it; without one, nothing is checked. last_tick: of the planned run; None if
    unknown, then triggers are not checked.
    """
    config = getattr(simulation, "config", None)
    if not isinstance(config, ScenarioConfig):
        return
    world = inner_of(simulation.inner)
    _ensure_triggers(config, last_tick)
    for index, adversary in enumerate(config.adversaries):
        _ensure_chances(f"adversaries[{index}]", adversary)
    is_receiver = not hasattr(world, "router")
    receivers = [WORLD] if is_receiver else list(simulation.world_roles)
    _ensure_receivers(config, receivers, is_receiver=is_receiver)
    carries = _carries(world, config, is_receiver=is_receiver)
    for key, link in _links(config):
        _ensure_link(key, link, carries)
    _ensure_groups(config, simulation.roles, receivers, carries)
    _ensure_reach(config, simulation.roles, receivers, carries)


def planned_last_tick(simulation: Any, steps: int | None) -> int | None:
    """The last tick that a scenario was planned for: by its own ``steps``, or by its world's ``ticks``.

    steps: samples of this run. A longer run counts; a shorter one is no mistake of a scenario that names its length, and
    the plan of one that names none. None if nothing names a length.
    """
    config: ScenarioConfig = simulation.config
    with_origin = hook(simulation.inner, HasOrigin)
    origin = with_origin.origin if with_origin is not None else None
    ticks = origin.config.get("ticks") if isinstance(origin, Origin) else None
    if config.steps is not None:
        ticks = config.steps - 1
    plans = [ticks, steps - 1 if steps is not None else None]
    return max((plan for plan in plans if type(plan) is int), default=None)


def _ensure_triggers(config: ScenarioConfig, last_tick: int | None) -> None:
    if last_tick is None:
        return

    def hint(steps: int) -> str:
        return f"; to run a part of a longer scenario, give it steps = {steps} or more" if config.steps is None else ""

    for kind in ("adversaries", "reconfigurations"):
        for index, part in enumerate(getattr(config, kind)):
            at_tick, after_step = part.trigger.at_tick, part.trigger.after_step
            if at_tick is not None and at_tick > last_tick:
                problem = f"expected at most {last_tick}, the last tick of the run, got {at_tick}"
                raise ConfigError(f"{kind}[{index}].trigger.at_tick", problem + hint(at_tick + 1))
            if after_step is not None and after_step >= last_tick:
                problem = f"expected less than {last_tick}, the rounds of the run, got {after_step}"
                raise ConfigError(f"{kind}[{index}].trigger.after_step", problem + hint(after_step + 2))


def without_late_parts(scenario: Mapping[str, Any], last_tick: int) -> dict[str, Any]:
    """A scenario as plain data, valid, without the parts whose trigger fires after a tick: up to there, they do nothing."""

    def is_late(part: Mapping[str, Any]) -> bool:
        trigger = part.get("trigger") or {}
        return trigger.get("at_tick", 0) > last_tick or (last_tick > 0 and trigger.get("after_step", -1) >= last_tick)

    kinds = [kind for kind in ("adversaries", "reconfigurations") if kind in scenario]
    return {**scenario, **{kind: [part for part in scenario[kind] if not is_late(part)] for kind in kinds}}


def _ensure_chances(key: str, adversary: Adversary) -> None:
    chances = [chance or 0 for chance in (adversary.withhold, adversary.corrupt, adversary.delay)]
    if sum(chances) > CHANCE_ONE:
        shown = " + ".join(f"{chance / CHANCE_ONE:g}" for chance in chances if chance)
        raise ConfigError(key, f"expected chances with a sum of at most 1, got {shown}")


def _ensure_receivers(config: ScenarioConfig, receivers: Sequence[str], *, is_receiver: bool) -> None:
    """Check all keys that name a receiver, which the check of roles lets be the world or any role."""
    for key, name in _named_receivers(config):
        if is_receiver and name != WORLD:
            problem = f'expected "{WORLD}", which receives all inputs of this simulation, got {name!r}'
            raise ConfigError(key, problem)
        if not is_receiver and name not in receivers:
            raise ConfigError(key, f"{name} is not a role; roles: {', '.join(receivers)}")
    if not is_receiver:
        for key, groups in _all_groups(config):
            for index, group in enumerate(groups):
                if WORLD in group and WORLD not in receivers:
                    raise ConfigError(f"{key}[{index}]", f"{WORLD} is not a role; roles: {', '.join(receivers)}")
        return
    for index, change in enumerate(config.reconfigurations):
        if change.kind == "handoff":
            problem = "no message waits for a role: the inputs of roles are the messages, and the world receives them"
            raise ConfigError(f"reconfigurations[{index}].kind", problem)


def _named_receivers(config: ScenarioConfig) -> Iterator[tuple[str, str]]:
    for key, link in _links(config):
        yield f"{key}.to", link.to or ""
    for index, adversary in enumerate(config.adversaries):
        for number, name in enumerate(adversary.receivers):
            yield f"adversaries[{index}].receivers[{number}]", name


def _links(config: ScenarioConfig) -> Iterator[tuple[str, Link | Reconfiguration]]:
    for index, link in enumerate(config.network.links if config.network else ()):
        yield f"network.links[{index}]", link
    for index, change in enumerate(config.reconfigurations):
        if change.kind == "link":
            yield f"reconfigurations[{index}]", change


def _all_groups(config: ScenarioConfig) -> Iterator[tuple[str, Sequence[Sequence[str]]]]:
    if config.network is not None and config.network.partition:
        yield "network.partition", config.network.partition
    for index, change in enumerate(config.reconfigurations):
        if change.kind == "federation":
            yield f"reconfigurations[{index}].groups", change.groups or ()


def _carries(world: Any, config: ScenarioConfig, *, is_receiver: bool) -> Carries:
    """Tell if a message from one role to another is possible. Delegations and handoffs change senders and receivers."""
    channels = hook(world, HasChannels)
    if is_receiver or channels is None or any(c.kind in {"delegation", "handoff"} for c in config.reconfigurations):
        return lambda sender, receiver: sender != receiver
    return channels.has_channel


def _ensure_link(key: str, link: Link | Reconfiguration, carries: Carries) -> None:
    sender, receiver = link.from_ or "", link.to or ""
    if sender == receiver:
        raise ConfigError(key, f"a link from {sender} to itself: no role sends messages to itself")
    if not carries(sender, receiver):
        raise ConfigError(key, f"{sender} sends no messages to {receiver}")


def _ensure_groups(config: ScenarioConfig, roles: Sequence[str], receivers: Sequence[str], carries: Carries) -> None:
    """Check that a partition parts two roles of which one sends to the other; and that there is one to unite."""
    all_groups = list(_all_groups(config))
    if all_groups and not any(groups for _, groups in all_groups):
        raise ConfigError(all_groups[0][0], "there is no partition that could be united")
    for key, groups in all_groups:
        group_of = {name: number for number, group in enumerate(groups) for name in group}
        senders = [role for role in roles if role in group_of]
        targets = [role for role in receivers if role in group_of]
        if not groups or len(senders) * len(targets) > PAIRS_MAX:
            continue
        if not any(group_of[a] != group_of[b] and carries(a, b) for a in senders for b in targets):
            hint = f': put "{WORLD}", the receiver of all inputs, into a group of its own' if WORLD in receivers else ""
            raise ConfigError(key, f"no message goes from one group to another{hint}")


def _ensure_reach(config: ScenarioConfig, roles: Sequence[str], receivers: Sequence[str], carries: Carries) -> None:
    environment = config.environment
    if environment is None or environment.reach is None:
        return
    placed = {body.role for body in environment.bodies}
    senders, targets = ([role for role in names if role in placed] for names in (roles, receivers))
    if len(senders) * len(targets) <= PAIRS_MAX and not any(carries(a, b) for a in senders for b in targets):
        who = f'a role and of "{WORLD}", which receives all inputs' if WORLD in receivers else "a role and its receiver"
        raise ConfigError("environment.reach", f"needs the bodies of {who}")
