"""The interface between a scenario and its world: the messages that roles send, and their delivery.

A world with messages of its own implements kernel/messages.py. For any other world, its inputs are the messages: each
goes from its role to the world. Inputs have one of these forms:

    list      {role: [input, ...]}; a list without roles, or the list of the role "", reaches the world unchanged
    one       the value of the only role
    by_role   {role: value}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from sim.kernel.hooks import (
    AcceptsInputs,
    ChoosesPolicy,
    CountsBuffered,
    EventsOnRequest,
    HasChannels,
    HasConcurrency,
    HasDepths,
    HasOrigin,
    HasRoles,
    HasSamples,
    hook,
)
from sim.kernel.messages import Event, Message, MessageWorld, Router
from sim.kernel.plain_data import encode_plain
from sim.kernel.registry import ConfigError, Origin
from sim.kernel.simulation import Simulation, events_of, inner_of
from sim.scenario.config.scenario import WORLD, Execution, ScenarioConfig
from sim.scenario.event_kinds import ABSENT, MESSAGE_KINDS, OWN_KINDS, rename_reserved
from sim.scenario.middleware.adversary import message_facts

ONLY_ROLE = "agent"  # The role of a simulation that names no roles.
NO_ROLE = ""


def roles_of(simulation: Simulation, config: ScenarioConfig) -> tuple[str, ...]:
    """The roles of a scenario: those that it names, or the world's. Raises ConfigError for one that the world lacks."""
    with_roles = hook(inner_of(simulation), HasRoles)
    if with_roles is None:
        return config.roles or (ONLY_ROLE,)
    world_roles = with_roles.roles
    for index, role in enumerate(config.roles):
        if role not in world_roles:
            problem = f"the world has no role {role}; roles: {', '.join(world_roles) or 'none'}"
            raise ConfigError(f"roles[{index}]", problem)
    return tuple(role for role in world_roles if role in config.roles) if config.roles else tuple(world_roles)


def fit_execution(world: Any, execution: Execution) -> None:
    """Set the scheduling policy of the world, if the scenario names one.

    Raises ConfigError for a world without a scheduler, or for one whose own configuration names a different policy. Also
    raises it if the threaded backend's concurrency differs from the world's.
    """
    with_concurrency = hook(world, HasConcurrency)
    concurrency = with_concurrency.concurrency if with_concurrency is not None else None
    if execution.backend == "threaded" and concurrency is not None and concurrency != execution.scheduler_concurrency:
        problem = f"expected {concurrency}, the world's own concurrency, got {execution.scheduler_concurrency}"
        raise ConfigError("execution.scheduler_concurrency", problem)
    policy = execution.scheduler_policy
    if policy == "auto":
        return
    scheduler = hook(world, ChoosesPolicy)
    if scheduler is None:
        raise ConfigError(
            "execution.scheduler_policy", f"expected 'auto', since the world has no scheduler, got {policy!r}"
        )
    try:
        scheduler.choose_policy(policy)
    except ConfigError as error:
        raise ConfigError("execution.scheduler_policy", error.problem) from None


class MessageRoles:
    """The interface of a world with messages of its own."""

    def __init__(self, world: Any) -> None:
        self._world: MessageWorld = world
        self._channels, self._buffers, self._depths = (
            hook(world, HasChannels),
            hook(world, CountsBuffered),
            hook(world, HasDepths),
        )
        self.world_inputs: Any = None

    def take_inputs(self, inputs: Any) -> None:
        """Begin a round with the world's inputs."""
        self.world_inputs = inputs

    def begin_step(self, paused: frozenset[str], router: Router, _events: list[Event]) -> None:
        """Route the world's messages through router and pause roles, until end_step."""
        self._world.paused, self._world.router = paused, router

    def end_step(self) -> Sequence[Event]:
        """The events that the world emitted in its step."""
        self._world.paused, self._world.router = frozenset(), None
        return rename_reserved(self._world.events(), OWN_KINDS)

    @property
    def has_channels(self) -> bool:
        """Return True if the world declares its channels: who can send to whom."""
        return self._channels is not None

    def has_channel(self, message: Message) -> bool:
        """Return True if the world accepts messages of this sender to this receiver."""
        return self._channels is None or self._channels.has_channel(message.sender, message.receiver)

    def deliver(self, message: Message) -> bool:
        """See MessageWorld."""
        return self._world.deliver(message)

    def sample(self, role: str) -> list[int]:
        """See MessageWorld."""
        return [int(value) for value in self._world.sample(role)]

    def buffered_count(self) -> int:
        """See MessageWorld."""
        return self._world.buffered_count()

    def buffered_by_session(self) -> dict[int, int]:
        """The number of messages in buffers, by session; all in session 0 if the world does not count them by session."""
        return self._buffers.buffered_by_session() if self._buffers is not None else {0: self.buffered_count()}

    def depths(self) -> dict[int, int]:
        """The steps left, by session; empty if the world does not report them."""
        return self._depths.depths() if self._depths is not None else {}


class InputRoles:
    """The interface of a world whose inputs are the messages of its roles.

    Attributes:
        world_inputs: the inputs of the world's step; valid from begin_step on.

    A role's input gives an event ``sent``, and an event ``received`` when it is among the inputs of the world's step.
    Inputs of roles outside the scenario reach the world unchanged.
    """

    def __init__(
        self, world: Simulation, roles: Sequence[str], config: ScenarioConfig, next_number: Callable[[], int]
    ) -> None:
        self._world, self._roles, self._idle = world, roles, config.idle
        inner = inner_of(world)
        with_roles, with_origin = hook(inner, HasRoles), hook(world, HasOrigin)
        self._world_roles: Sequence[str] = with_roles.roles if with_roles is not None else roles
        self._form = _form_of(world, roles, config)
        self._next_number = next_number
        self._judge, self._samples = hook(inner, AcceptsInputs), hook(inner, HasSamples)
        on_request = hook(inner, EventsOnRequest) is not None
        self._events = events_of(world) if not on_request else None
        self._own: list[Any] = []  # This and the next three are of the current round.
        self._own_by_role: dict[str, Any] = {}
        self._sent: Mapping[str, Sequence[Any]] = {}
        self._arrived: list[Message] = []
        self.world_inputs: Any = None
        if (
            self._form != "list"
            and with_origin is not None
            and isinstance(with_origin.origin, Origin)
            and hook(world, HasRoles) is not None
        ):
            raise ConfigError("inputs", f'expected "list", since this world takes a list, got "{self._form}"')
        self._leaves_out = config.absent == "left_out"
        self._idle_bytes = encode_plain(config.idle)
        self._own_kinds = OWN_KINDS | MESSAGE_KINDS | ({ABSENT} if self._leaves_out else set())
        self._present: frozenset[str] = frozenset()
        if self._leaves_out and self._form != "by_role":
            raise ConfigError("absent", f'expected inputs = "by_role" with "left_out", got "{self._form}"')
        if self._form == "one" and len(self._world_roles) != 1:
            raise ConfigError("inputs", f'expected one role with "one", got {len(self._world_roles)}')

    def take_inputs(self, inputs: Any) -> None:
        """Begin a round with the inputs of the roles. Raises ValueError if they do not have the form of this world's inputs."""
        self._own_by_role = {}
        self._own, self._sent = self._split_by_role(inputs)
        self._arrived = []

    def begin_step(self, paused: frozenset[str], router: Router, events: list[Event]) -> None:
        """Send this tick's inputs. Those that arrive, with the late ones that were delivered, become world_inputs."""
        if self._leaves_out:
            absent = [role for role in self._world_roles if role not in self._present]
            events.extend({"kind": ABSENT, "role": role} for role in absent)
        for role, payloads in self._sent.items():
            for payload in payloads:
                message = Message(self._next_number(), role, WORLD, _label(payload), payload)
                if role in paused:
                    events.append({"kind": "suppressed", **message_facts(message)})
                    continue
                events.append({"kind": "sent", **message_facts(message)})
                arrived = router(message)
                if arrived is not None:
                    self._arrived.append(arrived)
        self.world_inputs = self._joined(events)

    def _split_by_role(self, inputs: Any) -> tuple[list[Any], dict[str, Sequence[Any]]]:
        """The inputs that reach the world unchanged, and the inputs of each role."""
        if self._form == "one":
            return [], {self._roles[0]: [] if inputs is None else [inputs]}
        if self._form == "list" and (inputs is None or isinstance(inputs, list | tuple)):
            return list(inputs or ()), {}
        if inputs is None:
            self._present = frozenset()
            return [], {}
        valid_roles = {*self._world_roles, NO_ROLE} if self._form == "list" else {*self._world_roles}
        if not isinstance(inputs, Mapping) or set(inputs) - valid_roles:
            raise ValueError(f"expected inputs by role, of {', '.join(self._world_roles)}, got {inputs!r}")
        other_roles = [role for role in self._world_roles if role in inputs and role not in self._roles]
        if self._form == "by_role":
            self._own_by_role, self._present = {role: inputs[role] for role in other_roles}, frozenset(inputs)
            return [], {
                role: [inputs[role]] for role in self._roles if role in inputs and not self._is_idle(inputs[role])
            }
        for role, value in inputs.items():
            if not isinstance(value, list | tuple):
                problem = f"expected inputs by role, a list of each, got {value!r} of {role or 'no role'}"
                raise ValueError(problem)  # noqa: TRY004 - as for any other form that is not this world's
        own = [payload for role in (NO_ROLE, *other_roles) for payload in inputs.get(role, ())]
        return own, {role: inputs[role] for role in self._roles if role in inputs}

    def _is_idle(self, payload: Any) -> bool:
        """Return True if a role that is present sends nothing, where that is told from an absent role."""
        return self._leaves_out and encode_plain(payload) == self._idle_bytes

    def _joined(self, events: list[Event]) -> Any:
        """The inputs of the world: all in the order of arrival, or the newest of each role."""
        accepted = [message for message in self._arrived if self._is_accepted(message, events)]
        if self._form == "list":
            taken = accepted
        else:
            newest: dict[str, Message] = {}
            for message in sorted(accepted, key=lambda message: message.number):
                if message.sender in newest:
                    events.append({"kind": "superseded", **message_facts(newest[message.sender])})
                newest[message.sender] = message
            taken = [newest[role] for role in self._roles if role in newest]
        events.extend(
            {"kind": "received", "role": WORLD, "from": message.sender, "message": message.number} for message in taken
        )
        if self._form == "list":
            return [*self._own, *(message.payload for message in taken)]
        shown = [role for role in self._world_roles if role in self._present or not self._leaves_out]
        latest = dict.fromkeys(shown, self._idle) | self._own_by_role
        latest |= {message.sender: message.payload for message in taken}  # Also of a role that is absent by now.
        return latest[self._roles[0]] if self._form == "one" else latest

    def _is_accepted(self, message: Message, events: list[Event]) -> bool:
        if self._judge is None or self._judge.accepts(message.payload):
            return True
        events.append({"kind": "invalid", **message_facts(message)})
        return False

    def end_step(self) -> Sequence[Event]:
        """The events that the world emitted in its step; none if it emits them on request only.

        The scenario itself emits ``sent`` and ``received``.
        """
        return rename_reserved(self._events(), self._own_kinds) if self._events is not None else ()

    has_channels = False

    @staticmethod
    def has_channel(_: Message) -> bool:
        """Return True: every message goes to the world."""
        return True

    def deliver(self, message: Message) -> bool:
        """Add a late message to the inputs of this tick."""
        self._arrived.append(message)
        return True

    def sample(self, role: str) -> list[int]:
        """The figures of a role; empty if the world has none."""
        return [int(value) for value in self._samples.sample(role)] if self._samples is not None else []

    @staticmethod
    def buffered_count() -> int:
        """Return 0: inputs do not wait."""
        return 0

    def buffered_by_session(self) -> dict[int, int]:
        """Return 0 for the only session: inputs do not wait."""
        return {0: 0}

    @staticmethod
    def depths() -> dict[int, int]:
        """Return no depths: a world without protocols has none."""
        return {}


def _form_of(world: Simulation, roles: Sequence[str], config: ScenarioConfig) -> Literal["list", "one", "by_role"]:
    if config.inputs != "auto":
        return config.inputs
    if hook(inner_of(world), HasRoles) is not None:
        return "list"
    return "one" if len(roles) == 1 else "by_role"


def _label(payload: Any) -> str:
    kind = payload.get("kind") if isinstance(payload, Mapping) else None
    return kind if isinstance(kind, str) else "input"
