"""What a scenario does to a run: roles, network, adversaries, reconfigurations, properties; checked.

Chances are of 2**32 and latencies of 65,536 to the millisecond here, decimals in a file. See docs/scenarios.md for
what each key means to a user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import attrs

from sim.kernel.registry import ConfigError
from sim.scenario.config.adversary import Adversary, AdversaryTrigger
from sim.scenario.config.keys import COUNT_MAX, PARTS_MAX, ROLES_MAX, Ticks, check_keys, check_name, check_plain, key_of
from sim.scenario.config.network import Network, Reconfiguration
from sim.scenario.config.predicates import Predicate
from sim.scenario.config.structure import Whole, structure
from sim.scenario.config.surroundings import Environment

WORLD = "world"  # The receiver of what the roles of a world without messages send.

PropertyKind = Literal[
    "no_faults",
    "simplex",
    "send_recv_liveness",
    "type_monotonicity",
    "buffer_bound",
    "liveness",
    "always",
    "function",
]

SchedulerPolicy = Literal[
    "auto", "cooperative", "round_robin", "priority_aging", "priority_token_weighted", "progress_aware"
]


@attrs.frozen
class Property:
    """What is to hold in every round; the first round in which it does not is reported, once.

    Attributes:
        name: for the report.
        when: the predicate of kind always.
        session, bound, max: which session (0 is the first; none is all), within how many ticks, how many messages.
        precondition, goal: of kind liveness: within bound ticks behind the one, the other.
    """

    name: str
    kind: PropertyKind
    when: Predicate | None = None
    session: Annotated[int, Whole(0, COUNT_MAX)] | None = None
    bound: Ticks | None = None
    max: Annotated[int, Whole(0, COUNT_MAX)] | None = None
    precondition: Predicate | None = None
    goal: Predicate | None = None

    def __attrs_post_init__(self) -> None:
        check_name("name", self.name)
        needed: dict[str, tuple[str, ...]] = {
            "send_recv_liveness": ("bound",),
            "buffer_bound": ("max",),
            "liveness": ("precondition", "goal", "bound"),
            "always": ("when",),
        }
        allowed = ("session",) if self.kind in {"send_recv_liveness", "type_monotonicity", "buffer_bound"} else ()
        own = ("when", "session", "bound", "max", "precondition", "goal")
        check_keys(self, self.kind, needed.get(self.kind, ()), own, allowed)


@attrs.frozen
class Execution:
    """How a run is carried out.

    Attributes:
        backend: canonical (one thread), threaded, or auto, which is canonical.
        scheduler_policy: of a world that has a scheduler; auto is what the world's own configuration says.
        scheduler_concurrency: how many roles are advanced at once.
        worker_threads: of the threaded backend.
    """

    backend: Literal["auto", "canonical", "threaded"] = "auto"
    scheduler_policy: SchedulerPolicy = "auto"
    scheduler_concurrency: Annotated[int, Whole(1, ROLES_MAX)] = 1
    worker_threads: Annotated[int, Whole(1, 1024)] = 1

    def __attrs_post_init__(self) -> None:
        if self.backend != "threaded":
            for key in ("scheduler_concurrency", "worker_threads"):
                if getattr(self, key) != 1:
                    raise ConfigError(key, f'only backend = "threaded" has more than 1, found {getattr(self, key)}')

    @property
    def regime(self) -> str:
        """What two runs of the scenario may be expected to have in common."""
        if self.backend != "threaded":
            return "canonical_exact"
        return "threaded_exact" if self.scheduler_concurrency == 1 else "threaded_envelope_bounded"


@attrs.frozen
class ScenarioConfig:
    """A whole scenario.

    Attributes:
        name: letters, digits, dots, underscores and dashes.
        roles: who is looked at: whose messages or inputs go through adversaries, surroundings and network, who can be
            stopped, and of whom there are samples; none are all of the world's. What the others send arrives as it was
            sent. A world that does not say what its roles are has these.
        steps: samples that a run takes: one before the first round and one behind each; by default the world's ticks.
        inputs: how a world without messages takes what its roles send: list (one after the other in one list), one
            (the value of the only role) or by_role (a table); auto is list where the world has players, else one or
            by_role.
        idle: what a world with inputs = "one" or "by_role" is given in a round of a role from which nothing arrives,
            whether it sent nothing or that was withheld, lost or is late; a table has an entry for every role.
        checkpoint_interval: ticks from one checkpoint to the next; none are made without.
        extensions: anything, by namespace; kept and not looked at.
    """

    name: str = "scenario"
    roles: tuple[str, ...] = ()
    seed: Annotated[int, Whole(0, (1 << 63) - 1)] = 0
    steps: Ticks | None = None
    execution: Execution = Execution()
    network: Network | None = None
    environment: Environment | None = None
    adversaries: tuple[Adversary, ...] = ()
    reconfigurations: tuple[Reconfiguration, ...] = ()
    properties: tuple[Property, ...] = ()
    inputs: Literal["auto", "list", "one", "by_role"] = "auto"
    idle: Any = None
    checkpoint_interval: Ticks | None = None
    extensions: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        check_name("name", self.name)
        if self.execution.backend == "threaded" and self.checkpoint_interval is not None:
            raise ConfigError("checkpoint_interval", "a threaded run makes no checkpoints: its tape's keyframes serve")
        for key in ("adversaries", "reconfigurations", "properties"):
            parts = getattr(self, key)
            names = [part.name if key == "properties" else part.id for part in parts]
            _check_unique(key, names, "name" if key == "properties" else "id")
            if key != "properties":
                _check_draws(key, names)
        _check_unique("roles", list(self.roles), "")
        check_plain("idle", self.idle)
        check_plain("extensions", self.extensions)

    def check_roles(self, roles: Sequence[str], world_roles: Sequence[str]) -> None:
        """Raise ConfigError for the first key that names no role of the world, or one that is not looked at.

        Who only receives, or is heard of, may be any of the world's.
        """
        for key, name, may_be_any in _named_roles(self):
            if name not in world_roles:
                raise ConfigError(key, f"{name} is no role; roles: {', '.join(world_roles) or 'none'}")
            if name not in roles and not may_be_any:
                raise ConfigError(key, f"{name} is none of the roles that are looked at: {', '.join(roles)}")


def read_scenario_config(plain: Mapping[str, Any]) -> ScenarioConfig:
    """A scenario from plain data, as a TOML file gives it. Raises ConfigError, which names the key."""
    return structure(plain, ScenarioConfig)


def _check_unique(key: str, names: Sequence[str], attribute: str) -> None:
    most = ROLES_MAX if key == "roles" else PARTS_MAX
    if len(names) > most:
        raise ConfigError(key, f"at most {most} were expected, found {len(names)}")
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen or not name:
            place = f"{key}[{index}]" + (f".{attribute}" if attribute else "")
            raise ConfigError(place, f"{name} is there already" if name else "a name was expected")
        seen.add(name)


def _check_draws(key: str, names: Sequence[str]) -> None:
    """Raise ConfigError for a name that would draw what another one does, as no two parts of a scenario may."""
    seen: dict[int, str] = {}
    for index, name in enumerate(names):
        other = seen.setdefault(key_of(name), name)
        if other != name:
            problem = f"the random draws of {name} would be those of {other}, by a chance of 1 to 4 billion: rename one"
            raise ConfigError(f"{key}[{index}].id", problem)


def _named_roles(config: ScenarioConfig) -> list[tuple[str, str, bool]]:
    """Every key that names a role, with the name, and whether it may be one that is not looked at."""
    found: list[tuple[str, str, bool]] = []

    def add(key: str, name: str | None, *, may_be_any: bool = False) -> None:
        found.extend([(key, name, may_be_any)] if name is not None else [])

    def add_each(key: str, names: Sequence[str] | None, *, may_be_any: bool = False) -> None:
        for index, name in enumerate(names or ()):
            add(f"{key}[{index}]", name, may_be_any=may_be_any)

    def add_trigger(key: str, trigger: AdversaryTrigger) -> None:
        heard = trigger.on_event
        if heard is not None and (heard.kind, heard.role) != ("received", WORLD):  # See feasibility.py.
            add(f"{key}.trigger.on_event.role", heard.role, may_be_any=True)

    for index, link in enumerate(config.network.links if config.network else ()):
        add(f"network.links[{index}].from", link.from_)
        add(f"network.links[{index}].to", link.to, may_be_any=True)
    for index, group in enumerate(config.network.partition if config.network else ()):
        add_each(f"network.partition[{index}]", group, may_be_any=True)
    for index, adversary in enumerate(config.adversaries):
        key = f"adversaries[{index}]"
        add(f"{key}.role", adversary.role)
        add_each(f"{key}.senders", adversary.senders)
        add_each(f"{key}.receivers", [name for name in adversary.receivers if name != WORLD], may_be_any=True)
        add_trigger(key, adversary.trigger)
    for index, change in enumerate(config.reconfigurations):
        key = f"reconfigurations[{index}]"
        add(f"{key}.from", change.from_, may_be_any=change.kind == "handoff")
        add(f"{key}.to", change.to, may_be_any=change.kind in {"link", "handoff"})
        add_each(f"{key}.roles", change.roles)
        for number, group in enumerate(change.groups or ()):
            add_each(f"{key}.groups[{number}]", group, may_be_any=True)
        add_trigger(key, change.trigger)
    for index, body in enumerate(config.environment.bodies if config.environment else ()):
        add(f"environment.bodies[{index}].role", body.role, may_be_any=True)
    return found
