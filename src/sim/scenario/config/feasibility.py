"""Check before a run that the events, labels and sessions of a scenario exist in its world."""

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

    world: the user's own object. roles: those of the scenario. A world declares the labels of its messages with
    HasLabels and the number of its sessions with HasSessions. Without these hooks, labels and sessions are not checked.
    """
    has_messages = hasattr(world, "router")
    emits_events = (
        hook(world, EmitsEvents) is not None and hook(world, EventsOnRequest) is None
    )  # See InputRoles.end_step.
    for key, trigger in _triggers(config):
        if not has_messages:
            _ensure_heard(key, trigger, roles, emits_events=emits_events)
        elif trigger.on_event is not None and trigger.on_event.role == WORLD not in world.roles:
            raise ConfigError(f"{key}.role", f"{WORLD} is not a role; roles: {', '.join(world.roles)}")
    labelled = hook(world, HasLabels)
    labels = labelled.labels if labelled is not None else None
    if isinstance(labels, tuple | list | set | frozenset) and all(isinstance(label, str) for label in labels):
        _ensure_labels(config, labels if isinstance(labels, tuple | list) else sorted(labels))
    counted = hook(world, HasSessions)
    sessions = (counted.sessions if counted is not None else None) if has_messages else 1
    if type(sessions) is int:
        _ensure_sessions(config, sessions)


def own_properties(world: Any) -> Mapping[str, Callable[[Any], str | None]]:
    """The functions of a simulation's member ``properties``, for properties of kind function; by name."""
    with_properties = hook(world, HasProperties)
    functions: Any = with_properties.properties if with_properties is not None else None
    if not isinstance(functions, Mapping):
        return {}
    return {name: function for name, function in functions.items() if isinstance(name, str) and callable(function)}


def _triggers(config: ScenarioConfig) -> Iterator[tuple[str, AdversaryTrigger]]:
    for key in ("adversaries", "reconfigurations"):
        for index, part in enumerate(getattr(config, key)):
            yield f"{key}[{index}].trigger.on_event", part.trigger


def _ensure_heard(key: str, trigger: AdversaryTrigger, roles: Sequence[str], *, emits_events: bool) -> None:
    """Check the trigger of a world whose inputs are the messages: roles send, the world receives and emits the rest."""
    pattern = trigger.on_event
    if pattern is None:
        return
    if pattern.kind not in MESSAGE_KINDS:
        if not emits_events:
            problem = f"expected sent or received, since the world emits no events; got {pattern.kind!r}"
            raise ConfigError(f"{key}.kind", problem)
    elif pattern.kind == "received" and pattern.role not in {None, WORLD}:
        raise ConfigError(
            f"{key}.role", f"the world receives what roles send: leave this key out, got {pattern.role!r}"
        )
    elif pattern.kind == "sent" and pattern.role not in {None, *roles}:
        raise ConfigError(f"{key}.role", f"{pattern.role} is not one of the scenario's roles: {', '.join(roles)}")


def _ensure_labels(config: ScenarioConfig, labels: Sequence[str]) -> None:
    for index, adversary in enumerate(config.adversaries):
        for number, label in enumerate(adversary.labels):
            if label not in labels:
                problem = f"no message has the label {label!r}; labels: {', '.join(labels) or 'none'}"
                raise ConfigError(f"adversaries[{index}].labels[{number}]", problem)


def _ensure_sessions(config: ScenarioConfig, sessions: int) -> None:
    for index, checked in enumerate(config.properties):
        if checked.session is not None and checked.session >= sessions:
            valid = "0, the only session" if sessions == 1 else f"a session from 0 to {sessions - 1}"
            raise ConfigError(f"properties[{index}].session", f"expected {valid}, got {checked.session}")
