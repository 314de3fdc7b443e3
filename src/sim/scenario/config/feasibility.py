"""What of a scenario can never happen around the world at hand: a mistake of the user's, which is told before the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sim.kernel.hooks import EmitsEvents, EventsOnRequest, HasLabels, HasProperties, HasSessions, hook
from sim.kernel.registry import ConfigError
from sim.scenario.config.adversary import AdversaryTrigger
from sim.scenario.config.scenario import WORLD, ScenarioConfig
from sim.scenario.event_kinds import MESSAGE_KINDS


def ensure_possible(config: ScenarioConfig, world: Any, roles: Sequence[str]) -> None:
    """Raise ConfigError for the first event, label or session that this world never has.

    world: the user's own object. roles: that are looked at. A world says what labels its messages have and how many
    sessions there are by HasLabels and HasSessions; of one that does not, nothing is known.
    """
    has_messages = hasattr(world, "router")
    tells = hook(world, EmitsEvents) is not None and hook(world, EventsOnRequest) is None  # See InputRoles.end_step.
    for key, trigger in _triggers(config):
        if not has_messages:
            _ensure_heard(key, trigger, roles, tells=tells)
        elif trigger.on_event is not None and trigger.on_event.role == WORLD not in world.roles:
            raise ConfigError(f"{key}.role", f"{WORLD} is no role; roles: {', '.join(world.roles)}")
    labelled = hook(world, HasLabels)
    labels = labelled.labels if labelled is not None else None
    if isinstance(labels, tuple | list | set | frozenset) and all(isinstance(label, str) for label in labels):
        _ensure_labels(config, labels if isinstance(labels, tuple | list) else sorted(labels))
    counted = hook(world, HasSessions)
    sessions = (counted.sessions if counted is not None else None) if has_messages else 1
    if type(sessions) is int:
        _ensure_sessions(config, sessions)


def own_properties(world: Any) -> Mapping[str, Callable[[Any], str | None]]:
    """The functions that a simulation has under ``properties``, for properties of kind function; by their names."""
    found = hook(world, HasProperties)
    own: Any = found.properties if found is not None else None
    if not isinstance(own, Mapping):
        return {}
    return {name: function for name, function in own.items() if isinstance(name, str) and callable(function)}


def _triggers(config: ScenarioConfig) -> Iterator[tuple[str, AdversaryTrigger]]:
    for key in ("adversaries", "reconfigurations"):
        for index, part in enumerate(getattr(config, key)):
            yield f"{key}[{index}].trigger.on_event", part.trigger


def _ensure_heard(key: str, trigger: AdversaryTrigger, roles: Sequence[str], *, tells: bool) -> None:
    """For a world whose inputs are the messages: roles send, the world receives, and the rest it must tell itself."""
    pattern = trigger.on_event
    if pattern is None:
        return
    if pattern.kind not in MESSAGE_KINDS:
        if not tells:
            problem = f"the world tells no events; sent and received are all that there is, found {pattern.kind!r}"
            raise ConfigError(f"{key}.kind", problem)
    elif pattern.kind == "received" and pattern.role not in {None, WORLD}:
        raise ConfigError(
            f"{key}.role", f"what roles send is received by the world: leave it out, found {pattern.role!r}"
        )
    elif pattern.kind == "sent" and pattern.role not in {None, *roles}:
        raise ConfigError(f"{key}.role", f"{pattern.role} is none of the roles that are looked at: {', '.join(roles)}")


def _ensure_labels(config: ScenarioConfig, labels: Sequence[str]) -> None:
    for index, adversary in enumerate(config.adversaries):
        for number, label in enumerate(adversary.labels):
            if label not in labels:
                problem = f"no message has this label; labels: {', '.join(labels) or 'none'}; found {label!r}"
                raise ConfigError(f"adversaries[{index}].labels[{number}]", problem)


def _ensure_sessions(config: ScenarioConfig, sessions: int) -> None:
    for index, one in enumerate(config.properties):
        if one.session is not None and one.session >= sessions:
            known = "there is one session, 0" if sessions == 1 else f"sessions go from 0 to {sessions - 1}"
            raise ConfigError(f"properties[{index}].session", f"{known}; found {one.session}")
