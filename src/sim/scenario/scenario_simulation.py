"""A scenario around a simulation: the fixed order of a round, with all middleware in the simulation's own state.

A round, which is the step that leads to a tick:

    reconfigurations → adversaries (crashed roles recover, triggers fire) → messages that adversaries held back →
    messages that the network held back → the world's step, in which each message that a role sends goes through
    adversaries, surroundings and network → a sample of each role → the surroundings move → properties

There is no other path: a fresh run, a resumed run, a replay and a branch are all steps of this simulation.

Invariants:
    1. Everything that the next round reads is in the state: the world's fields, and those prefixed ``scenario.``.
    2. Events are output. A round reads only the kinds and roles of the previous round's events, which are in the state.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from sim.kernel.hooks import (
    RECORDING_HOOKS,
    SCENARIO_HOOKS,
    AfterRestore,
    CanEnd,
    HasOrigin,
    HasPhases,
    HasRoles,
    HasTelemetry,
    Phase,
    ensure_hooks,
    hook,
    marks_its_writes,
    member_name,
)
from sim.kernel.messages import Event, Message
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.registry import ConfigError
from sim.kernel.schema import Blob, Field
from sim.kernel.simulation import SCENARIO_PREFIX, as_simulation, inner_of, run_phases
from sim.kernel.state import State
from sim.scenario.config.feasibility import ensure_possible, own_properties
from sim.scenario.config.network import Network
from sim.scenario.config.scenario import ScenarioConfig
from sim.scenario.config.surroundings import Environment
from sim.scenario.message_interface import InputRoles, MessageRoles, fit_execution, roles_of
from sim.scenario.middleware.adversary import AdversaryProgram, message_facts
from sim.scenario.middleware.draws import ScenarioDraws
from sim.scenario.middleware.monitors import Look, Monitors, PropertyFunction, distance_to_equilibrium
from sim.scenario.middleware.network import InFlightMessages, NetworkStage
from sim.scenario.middleware.reconfiguration import Reconfigurations
from sim.scenario.middleware.surroundings import Surroundings
from sim.scenario.middleware.triggers import ScenarioRound

CLOCK = f"{SCENARIO_PREFIX}clock"  # The tick; the number of messages sent in a world without messages of its own.
HEARD_KINDS = {"sent", "received", "opened", "closed", "invoked", "halted", "faulted"}


class ScenarioSimulation:
    """A simulation with a scenario around it: itself a simulation, whose state is that of both.

    Attributes:
        inner: the simulation.
        config: of the scenario.
        scenario: the configuration as plain data, for the tape.
        roles: the roles that the scenario acts on.
        world_roles: all roles of the world.
    """

    def __init__(
        self,
        simulation: Any,
        config: ScenarioConfig,
        plain: Mapping[str, Any],
        functions: Mapping[str, PropertyFunction] | None = None,
    ) -> None:
        """Wrap a simulation. simulation: at tick 0; from now on used only by this object. plain: config as plain data.

        functions: for properties of kind function, by name, in addition to the simulation's member ``properties``.
        Raises ConfigError; LookupError for a missing function; TypeError if simulation is not a simulation or keeps
        views of its state.
        """
        self.inner = as_simulation(simulation)
        self.config, self.scenario = config, plain
        self.state: State = self.inner.state
        world = inner_of(self.inner)
        ensure_hooks(world, (*RECORDING_HOOKS, *SCENARIO_HOOKS))
        with_origin, self._telemetry = hook(self.inner, HasOrigin), hook(world, HasTelemetry)
        self.origin = with_origin.origin if with_origin is not None else None
        self.marks_writes = marks_its_writes(self.inner)
        for kind in (HasTelemetry, CanEnd):  # Present only if the world has them.
            if hook(world, kind) is not None:
                setattr(self, member_name(kind), getattr(world, member_name(kind)))
        self.roles: Sequence[str] = roles_of(self.inner, config)
        with_roles = hook(world, HasRoles)
        self.world_roles: Sequence[str] = with_roles.roles if with_roles is not None else self.roles
        config.check_roles(self.roles, self.world_roles)
        ensure_possible(config, inner_of(self.inner), self.roles)
        self._scenario_roles = frozenset(self.roles)
        fit_execution(inner_of(self.inner), config.execution)
        self._interface: MessageRoles | InputRoles = self._make_interface()
        self._make_parts({**own_properties(inner_of(self.inner)), **(functions or {})})
        self._property_kinds = frozenset(checked.kind for checked in config.properties)
        self._events: list[Event] = []
        self._step_events: list[Event] = []  # Of messages sent in the world's step.
        self._result: Any = None  # Of the world's step: output, like events.
        self._packed: dict[str, bytes] = {}
        self._extend_state()
        self._save()
        self.phases = self._make_phases()
        self._sample(0)
        self._check_figures()

    # --- construction

    def _make_interface(self) -> MessageRoles | InputRoles:
        if hasattr(inner_of(self.inner), "router"):
            if self.config.absent != "idle":
                problem = f'expected "idle", since the roles send messages of their own, got "{self.config.absent}"'
                raise ConfigError("absent", problem)
            return MessageRoles(inner_of(self.inner))
        return InputRoles(self.inner, self.roles, self.config, self._next_number)

    def _make_parts(self, functions: Mapping[str, PropertyFunction]) -> None:
        config, chances = self.config, ScenarioDraws(self.config.seed)
        self._adversaries = AdversaryProgram(config.adversaries, chances)
        self._network = NetworkStage(config.network or Network(), chances)
        self._changes = Reconfigurations(config.reconfigurations, chances)
        self._surroundings = Surroundings(config.environment or Environment())
        self._monitors = Monitors(config.properties, functions)
        self._held, self._under_way = InFlightMessages(), InFlightMessages()
        self._heard: list[list[str]] = []
        self._parts: dict[str, Any] = {  # Stored in blobs of the state, by name.
            "adversaries": self._adversaries,
            "network": self._network,
            "reconfigurations": self._changes,
            "surroundings": self._surroundings,
            "properties": self._monitors,
            "held": self._held,
            "under_way": self._under_way,
        }

    def _extend_state(self) -> None:
        """Add the scenario's fields to the state. Raises TypeError if the simulation keeps views of its old arena."""
        before = weakref.ref(self.state.arena.base)  # All views share it; the arena is a view itself.
        names = [*self._parts, "heard"]
        self.state.extend(Field(CLOCK, "i8", (2,)), *(Blob(f"{SCENARIO_PREFIX}{name}") for name in names))
        if before() is not None:
            raise TypeError(
                f"{type(self.inner).__name__} keeps views of its state, which a scenario moves to add its fields: "
                'let each step read them again, as in self.state["x"]'
            )

    def _make_phases(self) -> tuple[Phase, ...]:
        with_phases = hook(self.inner, HasPhases)
        inner_phases = with_phases.phases if with_phases is not None else ()

        def wrapped(phase: Phase) -> Phase:
            return attrs.evolve(phase, run=lambda _: phase.run(self._interface.world_inputs))

        world = [wrapped(phase) for phase in inner_phases] if inner_phases else [Phase("world", self._step_world)]
        return (Phase("before_world", self._before), *world, Phase("after_world", self._after))

    def _check_figures(self) -> None:
        """Raise ConfigError for a property with an unknown figure: the names of figures are the same at every tick."""
        figures = self._look(0).figures
        for index, checked in enumerate(self.config.properties):
            for key in ("when", "precondition", "goal"):
                predicate = getattr(checked, key)
                if predicate is not None and predicate.figure not in figures:
                    problem = f"unknown figure {predicate.figure}; figures: {', '.join(figures)}"
                    raise ConfigError(f"properties[{index}].{key}", problem)

    def _step_world(self, _: Any) -> None:
        step: Callable[[Any], Any] = self.inner.step
        self._result = step(self._interface.world_inputs)

    # --- the round

    def step(self, inputs: Any) -> Any:
        """Run one round and return the result of the world's step.

        inputs: of the roles, see message_interface.py, or of a world with messages. Raises ValueError if they have a
        different form; the state is then unchanged.
        """
        self._result = None
        run_phases(self.phases, inputs)
        return self._result

    def events(self) -> Sequence[Event]:
        """The events of the last round, in order; at tick 0, the first sample."""
        return self._events

    @property
    def tick(self) -> int:
        """The tick of the state."""
        return int(self.state[CLOCK][0])

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the properties that were violated so far."""
        return self._monitors.violated

    def _next_number(self) -> int:
        number = int(self.state[CLOCK][1])
        self.state.set(CLOCK, 1, number + 1)
        return number

    def _before(self, inputs: Any) -> None:
        self._interface.take_inputs(inputs)
        self._events, self._step_events = [], []
        tick, events = self.tick + 1, self._events
        now = ScenarioRound(tick, {(kind, role) for kind, role in self._heard})
        self._surroundings.begin_round()
        self._changes.begin_round(now, self._network, (self._held, self._under_way), self.roles, events)
        self._adversaries.begin_round(now, events)
        for message in self._held.take_due(tick):
            passed = self._through_network(message, tick, events)
            if passed is not None:
                self._arrive(passed, tick)
        for message in self._under_way.take_due(tick):
            self._arrive(message, tick)
        paused = self._adversaries.crashed | self._changes.busy
        self._interface.begin_step(paused, lambda message: self._route(message, tick), events)

    def _arrive(self, message: Message, tick: int) -> None:
        """Put a late message into the receiver's buffer. If the buffer is full, try again in the next round.

        A message is undeliverable if a reconfiguration gave it a sender or receiver without such a channel.
        """
        if not self._interface.has_channel(message):
            self._events.append({"kind": "undeliverable", **message_facts(message)})
        elif not self._interface.deliver(message):
            self._events.append({"kind": "retried", **message_facts(message)})
            self._under_way.add(message, tick + 1)

    def _route(self, message: Message, tick: int) -> Message | None:
        """Pass a message that is being sent through all stages. Return it if it arrives now, else None."""
        if message.sender not in self._scenario_roles:
            return message
        events = self._step_events
        sender = self._changes.acting_for(message.sender)
        sent_as = message if sender == message.sender else attrs.evolve(message, sender=sender)
        interception = self._adversaries.intercept(sent_as, tick, events)
        for ticks, repeated in interception.copies:
            self._held.add(repeated, tick + ticks)
        if interception.message is None:
            return None
        if interception.delay_ticks:
            self._held.add(interception.message, tick + interception.delay_ticks)
            return None
        passed = self._through_network(interception.message, tick, events)
        if passed is not None and sender != message.sender and self._interface.has_channels:
            # The world made sure of room in the queue of the original sender only.
            self._under_way.add(passed, tick + 1)
            events.append({"kind": "under_way", **message_facts(passed), "ticks": 1})
            return None
        return passed

    def _through_network(self, message: Message, tick: int, events: list[Event]) -> Message | None:
        medium_delay = self._surroundings.judge(message, tick, events)
        network_delay = self._network.pass_on(message, tick, events) if medium_delay is not None else None
        if medium_delay is None or network_delay is None:
            return None
        if medium_delay + network_delay == 0:
            return message
        self._under_way.add(message, tick + medium_delay + network_delay)
        return None

    def _after(self, _: Any) -> None:
        tick, events = self.tick + 1, self._events
        events += self._interface.end_step()
        events += self._step_events
        self.state.set(CLOCK, 0, tick)
        self._sample(tick)
        self._surroundings.end_round(tick, events)
        if self.config.properties:
            self._monitors.end_round(self._look(tick), events)
        heard = {(event["kind"], _role_of(event)) for event in events if event["kind"] in HEARD_KINDS}
        self._heard = [list(pair) for pair in sorted(heard)]
        self._save()

    def _sample(self, tick: int) -> None:
        for role in self.roles:
            values = self._interface.sample(role)
            self._events.append({"kind": "sample", "step": tick, "role": role, "values": values})

    def _look(self, tick: int) -> Look:
        samples = {event["role"]: event["values"] for event in self._events if event["kind"] == "sample"}
        figures: dict[str, int | float] = {}
        if self._property_kinds & {"always", "liveness", "function"}:
            in_flight = len(self._held) + len(self._under_way)
            figures = {"tick": tick, "buffered": self._interface.buffered_count(), "in_flight": in_flight}
            figures["distance_to_equilibrium"] = distance_to_equilibrium(samples)
            figures |= self._telemetry.telemetry() if self._telemetry is not None else {}
        buffered = self._interface.buffered_by_session() if "buffer_bound" in self._property_kinds else {}
        depths = self._interface.depths() if "type_monotonicity" in self._property_kinds else {}
        return Look(tick, figures, samples, self._events, buffered, depths, self.state)

    # --- the state

    def _save(self) -> None:
        """Write the parts that have changed into the state."""
        plain = {name: part.plain for name, part in self._parts.items()} | {"heard": self._heard}
        for name, value in plain.items():
            packed = encode_plain(value)
            if packed != self._packed.get(name):
                self.state.set_blob(f"{SCENARIO_PREFIX}{name}", packed)
                self._packed[name] = packed

    def after_restore(self) -> None:
        """Read the state of all parts again, after a restore."""
        after = hook(self.inner, AfterRestore)
        if after is not None:
            after.after_restore()
        self._packed = {name: self.state.blob(f"{SCENARIO_PREFIX}{name}") for name in [*self._parts, "heard"]}
        for name, part in self._parts.items():
            part.plain = decode_plain(self._packed[name])
        self._heard = decode_plain(self._packed["heard"])
        self._events, self._step_events = [], []


def _role_of(event: Event) -> str:
    """The role of an event; empty if the world stored anything but a text there."""
    role = event.get("role")
    return role if isinstance(role, str) else ""
