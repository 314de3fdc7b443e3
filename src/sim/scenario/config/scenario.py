"""The configuration of a scenario, checked: roles, network, adversaries, reconfigurations, properties.

Decimals of a file are integers here: chances in units of 2**-32, latencies in units of 1/65,536 ms. docs/scenarios.md
explains each key to users.
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

WORLD = "world"  # The receiver of all inputs, in a world without messages of its own.

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
    """A condition on every round. The first round that violates it is reported, once.

    Attributes:
        name: the name in the report.
        when: the predicate of kind always.
        session: the session that is checked, from 0; without it, all.
        bound: the most ticks until a message is received or the goal holds.
        max: the most messages in the buffers.
        precondition, goal: of kind liveness: the goal holds at most bound ticks after the precondition.
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
    """The backend and the scheduler of a run.

    Attributes:
        backend: canonical (one thread), threaded, or auto, which is canonical.
        scheduler_policy: of a world that has a scheduler; auto keeps the policy of the world's own configuration.
        scheduler_concurrency: the number of roles that advance at once.
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
                    raise ConfigError(key, f'expected 1 unless backend = "threaded", got {getattr(self, key)}')

    @property
    def regime(self) -> str:
        """The degree to which two runs of the scenario are guaranteed to agree."""
        if self.backend != "threaded":
            return "canonical_exact"
        return "threaded_exact" if self.scheduler_concurrency == 1 else "threaded_envelope_bounded"


@attrs.frozen
class ScenarioConfig:
    """A complete scenario.

    Attributes:
        name: letters, digits, dots, underscores and dashes.
        roles: the roles that the scenario acts on; an empty list means all of the world's. Their messages or inputs
            go through adversaries, surroundings and network, they can be stopped, and they are sampled. Messages of
            other roles arrive unchanged. A world that does not name its roles has these.
        steps: the samples of a run: one before the first round and one after each; by default the world's ticks.
        inputs: the form in which a world without messages takes the inputs of its roles: list (all in one list), one
            (the value of the only role) or by_role (a table). auto is list for a world with players, otherwise one or
            by_role.
        idle: the input of a role from which nothing arrives in a round, with inputs = "one" or "by_role": it sent
            nothing, or its input was withheld, lost or delayed. With by_role, every role has an entry in each round.
        absent: what a role is that has no entry in the inputs of a round, with inputs = "by_role". idle: as one that
            sent nothing. left_out: it is absent, and the world's inputs have no entry for it; a role that sends the value
            of idle is idle, and sends no message.
        checkpoint_interval: ticks from one checkpoint to the next; without it, no checkpoints are written.
        extensions: any plain data, by namespace; stored, never interpreted.
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
    absent: Literal["idle", "left_out"] = "idle"
    checkpoint_interval: Ticks | None = None
    extensions: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        check_name("name", self.name)
        if self.execution.backend == "threaded" and self.checkpoint_interval is not None:
            raise ConfigError(
                "checkpoint_interval",
                "a threaded run writes no checkpoints: remove this key, the keyframes of its tape serve instead",
            )
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
        """Raise ConfigError for the first key that names no role of the world, or a role outside the scenario.

        A role that only receives, or that only a trigger listens to, may be any of the world's.
        """
        for key, name, may_be_any in _named_roles(self):
            if name not in world_roles:
                raise ConfigError(key, f"{name} is not a role; roles: {', '.join(world_roles) or 'none'}")
            if name not in roles and not may_be_any:
                raise ConfigError(key, f"{name} is not one of the scenario's roles: {', '.join(roles)}")


def read_scenario_config(plain: Mapping[str, Any]) -> ScenarioConfig:
    """A scenario from plain data, as parsed from TOML. Raises ConfigError, which names the key."""
    return structure(plain, ScenarioConfig)


def _check_unique(key: str, names: Sequence[str], attribute: str) -> None:
    most = ROLES_MAX if key == "roles" else PARTS_MAX
    if len(names) > most:
        raise ConfigError(key, f"expected at most {most}, got {len(names)}")
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen or not name:
            key_path = f"{key}[{index}]" + (f".{attribute}" if attribute else "")
            raise ConfigError(key_path, f"{name} is used twice" if name else "expected a name, got an empty text")
        seen.add(name)


def _check_draws(key: str, names: Sequence[str]) -> None:
    """Raise ConfigError for two names with equal keys of random draws: their random draws would be the same."""
    seen: dict[int, str] = {}
    for index, name in enumerate(names):
        first = seen.setdefault(key_of(name), name)
        if first != name:
            problem = f"{name} and {first} would make the same random draws (a chance of 1 in 4 billion): rename one"
            raise ConfigError(f"{key}[{index}].id", problem)


def _named_roles(config: ScenarioConfig) -> list[tuple[str, str, bool]]:
    """Every key that names a role, with the name, and True if the role may be outside the scenario."""
    entries: list[tuple[str, str, bool]] = []

    def add(key: str, name: str | None, *, may_be_any: bool = False) -> None:
        entries.extend([(key, name, may_be_any)] if name is not None else [])

    def add_receiver(key: str, name: str | None) -> None:
        if name != WORLD:  # Of a world whose inputs are the messages; can_act.py refuses it for any other.
            add(key, name, may_be_any=True)

    def add_each(
        key: str, names: Sequence[str] | None, *, may_be_any: bool = False, may_be_world: bool = False
    ) -> None:
        for index, name in enumerate(names or ()):
            if not may_be_world or name != WORLD:
                add(f"{key}[{index}]", name, may_be_any=may_be_any)

    def add_trigger(key: str, trigger: AdversaryTrigger) -> None:
        pattern = trigger.on_event
        if pattern is not None and (pattern.kind, pattern.role) != ("received", WORLD):  # See feasibility.py.
            add(f"{key}.trigger.on_event.role", pattern.role, may_be_any=True)

    for index, link in enumerate(config.network.links if config.network else ()):
        add(f"network.links[{index}].from", link.from_)
        add_receiver(f"network.links[{index}].to", link.to)
    for index, group in enumerate(config.network.partition if config.network else ()):
        add_each(f"network.partition[{index}]", group, may_be_any=True, may_be_world=True)
    for index, adversary in enumerate(config.adversaries):
        key = f"adversaries[{index}]"
        add(f"{key}.role", adversary.role)
        add_each(f"{key}.senders", adversary.senders)
        add_each(f"{key}.receivers", adversary.receivers, may_be_any=True, may_be_world=True)
        add_trigger(key, adversary.trigger)
    for index, change in enumerate(config.reconfigurations):
        key = f"reconfigurations[{index}]"
        add(f"{key}.from", change.from_, may_be_any=change.kind == "handoff")
        if change.kind == "link":
            add_receiver(f"{key}.to", change.to)
        else:
            add(f"{key}.to", change.to, may_be_any=change.kind == "handoff")
        add_each(f"{key}.roles", change.roles)
        for number, group in enumerate(change.groups or ()):
            add_each(f"{key}.groups[{number}]", group, may_be_any=True, may_be_world=True)
        add_trigger(key, change.trigger)
    for index, body in enumerate(config.environment.bodies if config.environment else ()):
        add_receiver(f"environment.bodies[{index}].role", body.role)
    return entries
