"""What a scenario does to a run: roles, network, adversaries, reconfigurations, properties; checked.

Chances are of 2**32 and latencies of 65,536 to the millisecond here, decimals in a file. See docs/scenarios.md for
what each key means to a user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import attrs

from sim.kernel.fixed_point import ONE
from sim.kernel.registry import ConfigError
from sim.scenario.environment_config import Environment
from sim.scenario.predicates import Predicate
from sim.scenario.structure import Decimal, Whole, structure

TICKS_MAX = (1 << 40) - 1  # What the keys of random draws can count.
COUNT_MAX = 1 << 31
ROLES_MAX = 4096
PARTS_MAX = 1024  # Adversaries, reconfigurations, properties, links: each is looked at in every round.
CHANCE_PLACES = 32

Tick = Annotated[int, Whole(0, TICKS_MAX)]
Ticks = Annotated[int, Whole(1, TICKS_MAX)]
Count = Annotated[int, Whole(1, COUNT_MAX)]
Chance = Annotated[int, Decimal(0, 1, CHANCE_PLACES)]
Milliseconds = Annotated[int, Decimal(0, 1_000_000)]

AdversaryKind = Literal["withholding", "timing_disturbance", "corruption", "crash", "byzantine_interference"]
BudgetKind = Literal["activation", "independent", "windowed", "correlated"]
ReconfigurationKind = Literal["link", "delegation", "handoff", "federation", "mode_transition"]
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
Diagnostic = Literal["quorum_intersection", "authentication_evidence", "fairness", "unsupported_regime"]
EventKind = Literal["sent", "received", "opened", "closed", "invoked", "halted", "faulted"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")


def check_name(key: str, name: str) -> None:
    """Raise ConfigError unless name is made of ASCII letters, digits and . _ -, so that files may be called by it."""
    if not _NAME.fullmatch(name) or set(name) == {"."}:
        raise ConfigError(key, f"1 to 100 letters, digits, dots, underscores and dashes were expected, found {name!r}")


@attrs.frozen
class EventPattern:
    """Events of a kind, of one role or of any."""

    kind: EventKind
    role: str | None = None


@attrs.frozen
class Trigger:
    """When an adversary begins or a reconfiguration is made: at most one of these; none is at once. It fires once.

    Attributes:
        immediate: at the first round.
        at_tick: at this tick or behind it.
        after_step: when so many rounds are over.
        random: with this chance at each tick.
        on_event: in the round behind one with such an event.
    """

    immediate: bool = False
    at_tick: Tick | None = None
    after_step: Tick | None = None
    random: Chance | None = None
    on_event: EventPattern | None = None

    def __attrs_post_init__(self) -> None:
        given = [name for name in ("at_tick", "after_step", "random", "on_event") if getattr(self, name) is not None]
        given += ["immediate"] if self.immediate else []
        if len(given) > 1:
            raise ConfigError("", f"one trigger was expected, found {' and '.join(given)}")


@attrs.frozen
class Budget:
    """How often an adversary may strike.

    Attributes:
        total: at most so often in the whole run.
        kind: activation (every message that it can reach), independent (each with a chance), windowed (at most
            max_per_window in each window), correlated (a chance starts a burst, in which every one is struck).
    """

    total: Count
    kind: BudgetKind = "activation"
    chance: Chance | None = None
    window_ticks: Ticks | None = None
    max_per_window: Count | None = None
    burst_ticks: Ticks | None = None

    def __attrs_post_init__(self) -> None:
        wanted = {
            "activation": (),
            "independent": ("chance",),
            "windowed": ("window_ticks", "max_per_window"),
            "correlated": ("chance", "burst_ticks"),
        }
        check_keys(self, self.kind, wanted[self.kind], ("chance", "window_ticks", "max_per_window", "burst_ticks"))


@attrs.frozen
class Adversary:
    """Somebody who interferes with messages, or stops a role.

    Attributes:
        id: its name.
        budget: obligatory, so that no run is at the mercy of an adversary without bounds.
        senders, receivers, labels: of messages that it can reach; none is all.
        ticks: by which timing_disturbance delays.
        role, duration: whom crash stops, and for how many ticks; for ever without.
        withhold, corrupt, delay, ticks: what byzantine_interference does, and how likely; delay by ticks.
        diagnostic: which assumption is in doubt when the budget is used up.
    """

    id: str
    kind: AdversaryKind
    budget: Budget
    trigger: Trigger = Trigger()
    senders: tuple[str, ...] = ()
    receivers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    ticks: Ticks | None = None
    role: str | None = None
    duration: Ticks | None = None
    withhold: Chance | None = None
    corrupt: Chance | None = None
    delay: Chance | None = None
    diagnostic: Diagnostic | None = None

    def __attrs_post_init__(self) -> None:
        check_name("id", self.id)
        own = ("ticks", "role", "duration", "withhold", "corrupt", "delay")
        needed: dict[str, tuple[str, ...]] = {"timing_disturbance": ("ticks",), "crash": ("role",)}
        allowed: dict[str, tuple[str, ...]] = {
            "crash": ("duration",),
            "byzantine_interference": ("withhold", "corrupt", "delay", "ticks"),
        }
        check_keys(self, self.kind, needed.get(self.kind, ()), own, allowed.get(self.kind, ()))
        if self.kind == "crash" and (self.budget.kind, self.budget.total) != ("activation", 1):
            raise ConfigError("budget", "a crash has a budget of kind activation and total 1")
        if self.kind == "crash" and (self.senders or self.receivers or self.labels):
            raise ConfigError("senders", "a crash stops a role: messages cannot be chosen")
        if self.kind == "byzantine_interference":
            if self.withhold is None and self.corrupt is None and self.delay is None:
                raise ConfigError("withhold", "byzantine_interference needs one of withhold, corrupt and delay")
            if (self.delay is None) != (self.ticks is None):
                raise ConfigError("delay", "delay, a chance, and ticks, by how much, go together")

    @property
    def doubt(self) -> str:
        """The assumption that is in doubt when the budget is used up."""
        forged = self.kind in {"corruption", "byzantine_interference"}
        return self.diagnostic or ("authentication_evidence" if forged else "fairness")


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


@attrs.frozen
class Reconfiguration:
    """A change of who is connected with whom, or of who acts for whom, in mid-run.

    Attributes:
        id: its name.
        cost: ticks for which the roles concerned do nothing but reconfigure; 0 makes the effect pure.
        from_, to: roles: of a link; of a delegation, who acts for whom (what from_ sends counts as to's); of a handoff,
            whose waiting messages go to whom.
        enabled, latency_ms, variance, loss: of a link.
        groups: of a federation, as Network.partition; none unites all.
        roles, mode: of a mode_transition: who is in which mode from now on.
    """

    id: str
    kind: ReconfigurationKind
    trigger: Trigger = Trigger()
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
        allowed = ("enabled", "latency_ms", "variance", "loss") if self.kind == "link" else ()
        check_keys(self, self.kind, needed[self.kind], own, allowed)


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
        scheduler_concurrency: how many roles are advanced at once.
        worker_threads: of the threaded backend.
    """

    backend: Literal["auto", "canonical", "threaded"] = "auto"
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
        roles: whose messages or inputs are looked at; none are those of the world.
        steps: samples that a run takes: one before the first round and one behind each; by default the world's ticks.
        inputs: how a world without messages takes what its roles send: list (one after the other in one list), one
            (the value of the only role) or by_role (a table); auto is list where the world has players, else one or
            by_role.
        idle: what a world with inputs = "one" is given in a round in which its role sends nothing.
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
        _check_unique("roles", list(self.roles), "")
        if len(self.roles) > ROLES_MAX:
            raise ConfigError("roles", f"at most {ROLES_MAX} were expected, found {len(self.roles)}")

    def check_roles(self, roles: Sequence[str]) -> None:
        """Raise ConfigError for the first key that names a role which is not one of these."""
        for key, name in _named_roles(self):
            if name not in roles:
                raise ConfigError(key, f"{name} is no role; roles: {', '.join(roles) or 'none'}")


def read_scenario_config(plain: Mapping[str, Any]) -> ScenarioConfig:
    """A scenario from plain data, as a TOML file gives it. Raises ConfigError, which names the key."""
    return structure(plain, ScenarioConfig)


def check_keys(part: Any, kind: str, needed: Sequence[str], own: Sequence[str], allowed: Sequence[str] = ()) -> None:
    """Raise ConfigError if a key is missing that the kind needs, or one of own is there that it does not know."""
    for key in own:
        is_there = getattr(part, key) is not None
        if key in needed and not is_there:
            raise ConfigError(key.removesuffix("_"), f"this key is missing: {kind} needs it")
        if is_there and key not in needed and key not in allowed:
            raise ConfigError(key.removesuffix("_"), f"{kind} does not have this key")


def _check_unique(key: str, names: Sequence[str], attribute: str) -> None:
    if len(names) > max(PARTS_MAX, ROLES_MAX if key == "roles" else 0):
        raise ConfigError(key, f"at most {PARTS_MAX} were expected, found {len(names)}")
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen or not name:
            place = f"{key}[{index}]" + (f".{attribute}" if attribute else "")
            raise ConfigError(place, f"{name} is there already" if name else "a name was expected")
        seen.add(name)


def _named_roles(config: ScenarioConfig) -> list[tuple[str, str]]:
    """Every key that names a role, with the name."""
    found: list[tuple[str, str]] = []

    def add(key: str, *names: str | None) -> None:
        found.extend((key, name) for name in names if name is not None)

    def add_each(key: str, names: Sequence[str] | None) -> None:
        for index, name in enumerate(names or ()):
            add(f"{key}[{index}]", name)

    def add_trigger(key: str, trigger: Trigger) -> None:
        if trigger.on_event is not None:
            add(f"{key}.trigger.on_event.role", trigger.on_event.role)

    for index, link in enumerate(config.network.links if config.network else ()):
        add(f"network.links[{index}].from", link.from_)
        add(f"network.links[{index}].to", link.to)
    for index, group in enumerate(config.network.partition if config.network else ()):
        add_each(f"network.partition[{index}]", group)
    for index, adversary in enumerate(config.adversaries):
        key = f"adversaries[{index}]"
        add(f"{key}.role", adversary.role)
        add_each(f"{key}.senders", adversary.senders)
        add_each(f"{key}.receivers", [name for name in adversary.receivers if name != WORLD])
        add_trigger(key, adversary.trigger)
    for index, change in enumerate(config.reconfigurations):
        key = f"reconfigurations[{index}]"
        add(f"{key}.from", change.from_)
        add(f"{key}.to", change.to)
        add_each(f"{key}.roles", change.roles)
        for number, group in enumerate(change.groups or ()):
            add_each(f"{key}.groups[{number}]", group)
        add_trigger(key, change.trigger)
    for index, body in enumerate(config.environment.bodies if config.environment else ()):
        add(f"environment.bodies[{index}].role", body.role)
    return found


WORLD = "world"  # The receiver of what the roles of a world without messages send.
