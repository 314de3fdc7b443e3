"""The seam between a scenario and its world: where messages of the roles are taken, and where they arrive.

A world with messages of its own is asked through kernel/messages.py. Of any other the inputs are the messages: those of
a tick go from their role to the world. Inputs come in one of these forms:

    list      {role: [input, ...]}; a list without a role, or that of the role "", is the world's own and never touched
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
from sim.kernel.registry import ConfigError, Origin
from sim.kernel.simulation import Simulation, events_of, inner_of
from sim.scenario.config.scenario import WORLD, Execution, ScenarioConfig
from sim.scenario.event_kinds import MESSAGE_KINDS, OWN_KINDS, told_by_world
from sim.scenario.middleware.adversary import message_facts

ONLY_ROLE = "agent"  # What the role of a simulation is called that says nothing about roles.
NOBODY = ""


def roles_of(simulation: Simulation, config: ScenarioConfig) -> tuple[str, ...]:
    """The roles of a scenario: those that it names, or the world's. Raises ConfigError for one that the world lacks."""
    found = hook(inner_of(simulation), HasRoles)
    if found is None:
        return config.roles or (ONLY_ROLE,)
    own = found.roles
    for index, role in enumerate(config.roles):
        if role not in own:
            raise ConfigError(f"roles[{index}]", f"the world has no role {role}; roles: {', '.join(own) or 'none'}")
    return tuple(role for role in own if role in config.roles) if config.roles else tuple(own)


def fit_execution(world: Any, execution: Execution) -> None:
    """Tell the world the policy of its scheduler, if the scenario names one.

    Raises ConfigError for a world without a scheduler, or one whose own configuration names another policy; and if it
    advances another number of roles at once than the threaded backend is told.
    """
    found = hook(world, HasConcurrency)
    own = found.concurrency if found is not None else None
    if execution.backend == "threaded" and own is not None and own != execution.scheduler_concurrency:
        problem = f"the world advances {own} roles in a round, found {execution.scheduler_concurrency}"
        raise ConfigError("execution.scheduler_concurrency", problem)
    policy = execution.scheduler_policy
    if policy == "auto":
        return
    scheduler = hook(world, ChoosesPolicy)
    if scheduler is None:
        raise ConfigError("execution.scheduler_policy", f"the world has no scheduler, found {policy!r}")
    try:
        scheduler.choose_policy(policy)
    except ConfigError as error:
        raise ConfigError("execution.scheduler_policy", error.problem) from None


class MessageRoles:
    """The seam of a world with messages of its own."""

    def __init__(self, world: Any) -> None:
        self._world: MessageWorld = world
        self._channels, self._buffers, self._depths = (
            hook(world, HasChannels),
            hook(world, CountsBuffered),
            hook(world, HasDepths),
        )
        self.world_inputs: Any = None

    def take_inputs(self, inputs: Any) -> None:
        """Begin a round with what the world is given."""
        self.world_inputs = inputs

    def begin_step(self, paused: frozenset[str], router: Router, _events: list[Event]) -> None:
        """From now until end_step the world's messages go through router, and paused roles do nothing."""
        self._world.paused, self._world.router = paused, router

    def end_step(self) -> Sequence[Event]:
        """What the world says that happened."""
        self._world.paused, self._world.router = frozenset(), None
        return told_by_world(self._world.events(), OWN_KINDS)

    @property
    def has_channels(self) -> bool:
        """Whether the world says who can send to whom."""
        return self._channels is not None

    def has_channel(self, message: Message) -> bool:
        """Whether the world takes messages of this sender to this receiver."""
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
        """Messages in buffers by session; all of them as session 0 if the world does not tell."""
        return self._buffers.buffered_by_session() if self._buffers is not None else {0: self.buffered_count()}

    def depths(self) -> dict[int, int]:
        """How much is left to be done by session; empty if the world does not tell."""
        return self._depths.depths() if self._depths is not None else {}


class InputRoles:
    """The seam of a world whose inputs are the messages of its roles.

    Attributes:
        world_inputs: what the world's step is given; valid from begin_step on.

    A role's input is an event ``sent``, and ``received`` by the world when it is among what the step is given. What
    roles send that are not looked at is the world's own.
    """

    def __init__(
        self, world: Simulation, roles: Sequence[str], config: ScenarioConfig, next_number: Callable[[], int]
    ) -> None:
        self._world, self._roles, self._idle = world, roles, config.idle
        own = inner_of(world)
        with_roles, named = hook(own, HasRoles), hook(world, HasOrigin)
        self._world_roles: Sequence[str] = with_roles.roles if with_roles is not None else roles
        self._form = _form_of(world, roles, config)
        self._next_number = next_number
        self._judge, self._samples = hook(own, AcceptsInputs), hook(own, HasSamples)
        on_request = hook(own, EventsOnRequest) is not None
        self._events = events_of(world) if not on_request else None
        self._own: list[Any] = []  # This and the next three are of the present round.
        self._own_by_role: dict[str, Any] = {}
        self._sent: Mapping[str, Sequence[Any]] = {}
        self._arrived: list[Message] = []
        self.world_inputs: Any = None
        if (
            self._form != "list"
            and named is not None
            and isinstance(named.origin, Origin)
            and hook(world, HasRoles) is not None
        ):
            raise ConfigError("inputs", f'"list" was expected, since this world takes a list; found "{self._form}"')
        if self._form == "one" and len(self._world_roles) != 1:
            raise ConfigError("inputs", f'"one" needs one role, found {len(self._world_roles)}')

    def take_inputs(self, inputs: Any) -> None:
        """Begin a round with what the roles send. Raises ValueError if inputs have another form than this world's."""
        self._own_by_role = {}
        self._own, self._sent = self._shared_out(inputs)
        self._arrived = []

    def begin_step(self, paused: frozenset[str], router: Router, events: list[Event]) -> None:
        """Send this tick's inputs; with what was delivered before, they are what the world is given."""
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

    def _shared_out(self, inputs: Any) -> tuple[list[Any], dict[str, Sequence[Any]]]:
        """What is the world's own, and what each role sends."""
        if self._form == "one":
            return [], {self._roles[0]: [] if inputs is None else [inputs]}
        if self._form == "list" and (inputs is None or isinstance(inputs, list | tuple)):
            return list(inputs or ()), {}
        if inputs is None:
            return [], {}
        known = {*self._world_roles, NOBODY} if self._form == "list" else {*self._world_roles}
        if not isinstance(inputs, Mapping) or set(inputs) - known:
            raise ValueError(f"inputs by role were expected, of {', '.join(self._world_roles)}; found {inputs!r}")
        beyond = [role for role in self._world_roles if role in inputs and role not in self._roles]
        if self._form == "by_role":
            self._own_by_role = {role: inputs[role] for role in beyond}
            return [], {role: [inputs[role]] for role in self._roles if role in inputs}
        for role, value in inputs.items():
            if not isinstance(value, list | tuple):
                problem = f"inputs by role were expected, a list of each; found {value!r} of {role or 'nobody'}"
                raise ValueError(problem)  # noqa: TRY004 - as for any other form that is not this world's
        own = [payload for role in (NOBODY, *beyond) for payload in inputs.get(role, ())]
        return own, {role: inputs[role] for role in self._roles if role in inputs}

    def _joined(self, events: list[Event]) -> Any:
        """The inputs of the world: all in the order in which they arrived, or of each role the one sent last."""
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
        events.extend({"kind": "received", "role": WORLD, "from": one.sender, "message": one.number} for one in taken)
        if self._form == "list":
            return [*self._own, *(message.payload for message in taken)]
        latest = dict.fromkeys(self._world_roles, self._idle) | self._own_by_role
        latest |= {message.sender: message.payload for message in taken}
        return latest[self._roles[0]] if self._form == "one" else latest

    def _is_accepted(self, message: Message, events: list[Event]) -> bool:
        if self._judge is None or self._judge.accepts(message.payload):
            return True
        events.append({"kind": "invalid", **message_facts(message)})
        return False

    def end_step(self) -> Sequence[Event]:
        """What the world says that happened; nothing if it wants to be asked for it: a scenario has its own events.

        What was sent and received is the scenario's to say.
        """
        return told_by_world(self._events(), OWN_KINDS | MESSAGE_KINDS) if self._events is not None else ()

    has_channels = False

    @staticmethod
    def has_channel(_: Message) -> bool:
        """Everything goes to the world."""
        return True

    def deliver(self, message: Message) -> bool:
        """Let a late message be among the inputs of this tick."""
        self._arrived.append(message)
        return True

    def sample(self, role: str) -> list[int]:
        """What the world shows of a role, if it does."""
        return [int(value) for value in self._samples.sample(role)] if self._samples is not None else []

    @staticmethod
    def buffered_count() -> int:
        """Inputs do not wait."""
        return 0

    def buffered_by_session(self) -> dict[int, int]:
        """Inputs do not wait."""
        return {0: 0}

    @staticmethod
    def depths() -> dict[int, int]:
        """A world without protocols has none."""
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
