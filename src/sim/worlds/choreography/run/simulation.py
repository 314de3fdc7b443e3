"""The choreography as a simulation: its state at tick 0, its phases, its messages, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgpack
import numpy as np

from sim.kernel.hooks import Phase
from sim.kernel.messages import Event, Message, Router
from sim.kernel.registry import Config, ConfigError, Origin
from sim.kernel.simulation import run_phases
from sim.kernel.state import Snapshot, State
from sim.worlds.choreography.cast import Cast
from sim.worlds.choreography.config import read_config
from sim.worlds.choreography.protocol.bounds import Measures, report, total
from sim.worlds.choreography.protocol.payload import STATE_REGISTER
from sim.worlds.choreography.protocol.projection import Choose, Send
from sim.worlds.choreography.q32 import to_text
from sim.worlds.choreography.run.interpreter import ChoreographyRound
from sim.worlds.choreography.run.layout import Status, fill_registers, make_schema
from sim.worlds.choreography.run.message_queues import read_buffers, write_buffers
from sim.worlds.choreography.run.scheduler import note_round, pick

WORLD_NAME = "choreography"
WORLD_VERSION = 1  # Changes if and only if the same configuration and inputs give different states.
PRODUCTIVE = ("sent", "received", "offered", "chose")

_MACHINE_WRITES = frozenset(
    {"tick", "message_count", "productive_steps", "roles.status", "roles.place", "roles.registers", "roles.counted"}
    | {"roles.choices", "scheduler.cursor", "scheduler.waited", "scheduler.tokens", "buffers"}
)


class Choreography:
    """Roles that follow a protocol; see layout.py for the state and sim.kernel.messages for the message interface.

    Attributes:
        roles: of all sessions; ``Alice.0`` is Alice in session 0 of several, ``Alice`` in the only one.
        router, paused: see MessageWorld; paused is empty again after each step.
    """

    def __init__(self, plain_config: Config) -> None:
        """Build a choreography at tick 0. plain_config: as parsed from TOML. Raises ConfigError."""
        self.config = read_config(plain_config)
        self.origin = Origin(WORLD_NAME, WORLD_VERSION, plain_config)
        self._cast = Cast.of(self.config)
        self.programs = tuple(program for programs in self._cast.part_programs for program in programs)
        self.roles: Sequence[str] = self._cast.names
        self._priorities = self.config.priorities
        self._models = [part.field for part in self.config.parts]
        self.router: Router | None = None
        self.paused: frozenset[str] = frozenset()
        self.state = State(make_schema(self.config))
        own = frozenset({"choreographies.productive_steps"} if self.config.choreographies else ())
        self.phases = (
            Phase("machine", self._run_machine, _MACHINE_WRITES | own),
            Phase("fields", self._run_fields, frozenset({"roles.registers", "field.calls"})),
        )
        self._channels = self._cast.channels
        self._numbers = {role: number for number, role in enumerate(self.roles)}
        self._events: list[Event] = []
        self._measures: list[Measures] = []  # Of the protocols, not of the state; expensive, computed on first use.
        fill_registers(self.state, self.config)
        write_buffers(self.state, [[] for _ in self._channels])

    # --- stepping

    def step(self, inputs: Any) -> None:
        """Advance by one round.

        inputs: None, one of two tables, or a list of at most one such table. {"order": [role, …]} lists the roles that
        advance, in order, and replaces the scheduler. {"race": [role, …]} orders the roles that the scheduler picks.
        Raises ValueError for anything else; the state is then unchanged.
        """
        run_phases(self.phases, inputs)

    def after_restore(self) -> None:
        """Drop the events of the replaced state."""
        self._events = []

    def _run_machine(self, inputs: Any) -> None:
        order, race = self._read_order(inputs, "order"), self._read_order(inputs, "race")
        state, config = self.state, self.config
        self._events = []
        state["tick"][...] += 1
        queues = read_buffers(state)
        round_ = ChoreographyRound(config, self._cast, state, queues, self._route, self._events)
        halted, status = int(Status.HALTED), state["roles.status"].tolist()
        live = [number for number, role in enumerate(self.roles) if status[number] < halted and role not in self.paused]
        picked = pick(state, config.scheduler, live, round_.able, self._priorities)
        if order is not None:
            picked = [number for number in order if number in live]
        elif race is not None:
            picked.sort(key=lambda number: (number not in race, race.index(number) if number in race else 0))
        for number in picked:
            round_.advance(number)
        note_round(state, config.scheduler, live, picked)
        write_buffers(state, queues)
        self.paused = frozenset()

    @property
    def concurrency(self) -> int:
        """The most roles that advance in a round."""
        return self.config.scheduler.concurrency

    @property
    def scheduler_policy(self) -> str:
        """The scheduler's policy."""
        return self.config.scheduler.policy

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of all messages of the protocol, sorted."""
        nodes = [node for program in self.programs for node in program]
        sent = {node.label for node in nodes if isinstance(node, Send)}
        chosen = {branch[0] for node in nodes if isinstance(node, Choose) for branch in node.branches}
        return tuple(sorted(sent | chosen))

    @property
    def sessions(self) -> int:
        """The number of sessions, numbered from 0."""
        return self._cast.session_count

    def choose_policy(self, policy: str) -> None:
        """Set the scheduler's policy, one of POLICIES. Raises ConfigError if the configuration names a different one."""
        configured = self.origin.config.get("scheduler", {}).get("policy", policy)
        if configured != policy:
            problem = f"expected {configured}, the world's own scheduler.policy, got {policy!r}"
            raise ConfigError("scheduler.policy", problem)
        scheduler = attrs.evolve(self.config.scheduler, policy=policy)
        self.config = attrs.evolve(self.config, scheduler=scheduler)

    def _read_order(self, inputs: Any, requested_key: str) -> list[int] | None:
        """The numbers of the roles under a key of the inputs; None if the inputs have a different key."""
        if inputs is None or inputs in ([], {}):
            return None
        table = inputs[0] if isinstance(inputs, list) and len(inputs) == 1 else inputs
        if not isinstance(table, dict) or len(table) != 1 or not isinstance(order := next(iter(table.values())), list):
            raise ValueError(f'expected {{"order": [role, …]}}, got {str(inputs)[:80]}')
        key = next(iter(table))
        if key not in ("order", "race"):
            raise ValueError(f'expected {{"order": [role, …]}}, got {str(inputs)[:80]}')
        for role in order:
            if not isinstance(role, str) or role not in self._numbers:
                raise ValueError(f"{key}: expected one of the roles {', '.join(self.roles)}, got {role!r}")
        if len(set(order)) < len(order):
            raise ValueError(f"{key}: expected each role once, got {order}")
        return [self._numbers[role] for role in order] if key == requested_key else None

    def _route(self, message: Message) -> Message | None:
        return message if self.router is None else self.router(message)

    def _run_fields(self, _inputs: Any) -> None:
        models = self._models
        if models.count(None) == len(models):
            return
        registers, calls = self.state["roles.registers"], self.state["field.calls"]
        for event in [event for event in self._events if event["kind"] in PRODUCTIVE]:
            number = self._numbers[event["role"]]
            model = models[self._cast.parts[number]]
            if model is None:
                continue
            calls[number] += 1
            row = registers[number].tolist()
            acted = model.act(row, int(calls[number]))
            registers[number] = row
            invoked = {"kind": "invoked", "role": event["role"], "session": event["session"]}
            self._events.append({**invoked, "model": model.kind, "acted": acted})

    # --- messages

    def has_channel(self, sender: str, receiver: str) -> bool:
        """Return True if the protocol has messages from sender to receiver, in one session."""
        return (self._numbers.get(sender, -1), self._numbers.get(receiver, -1)) in self._channels

    def deliver(self, message: Message) -> bool:
        """Put a message into the queue from its sender to its receiver. Return False, without a change, if it is full.

        Raises ValueError if the protocol has no messages from that sender to that receiver, or if the payload is not
        plain data.
        """
        channel = (self._numbers.get(message.sender, -1), self._numbers.get(message.receiver, -1))
        if channel not in self._channels:
            raise ValueError(f"the protocol has no messages from {message.sender!r} to {message.receiver!r}")
        queues = read_buffers(self.state)
        queue = queues[self._channels[channel]]
        if len(queue) >= self.config.buffer_capacity:
            return False
        queue.append([message.number, message.label, message.payload])
        try:
            msgpack.packb(queue[-1])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the payload of {message} is not plain data: {error}") from None
        write_buffers(self.state, queues)
        return True

    def buffered_count(self) -> int:
        """The number of messages in buffers."""
        return sum(map(len, read_buffers(self.state)))

    def buffered_by_session(self) -> dict[int, int]:
        """The number of messages in buffers, by session."""
        counts = dict.fromkeys(range(self.sessions), 0)
        queues = read_buffers(self.state)
        for (sender, _), place in self._channels.items():
            counts[self._cast.sessions[sender]] += len(queues[place])
        return counts

    def depths(self) -> dict[int, int]:
        """The most steps left for the roles of each session; empty for a protocol with an endless loop."""
        all_measures = self._find_measures()
        by_session: dict[int, int] = {}
        for role, place in enumerate(self.state["roles.place"].tolist()):
            depths = all_measures[self._cast.parts[role]].depths
            if depths is not None:
                session = self._cast.sessions[role]
                by_session[session] = by_session.get(session, 0) + depths[self._cast.roles[role]][place]
        return by_session

    def events(self) -> Sequence[Event]:
        """The events of the last step, in order: the machine's, then the calls of the field model."""
        return tuple(self._events)

    def sample(self, role: str) -> Sequence[int]:
        """A role's registers from 2 on, Q32.32 as integers. Raises ValueError for an unknown role."""
        if role not in self._numbers:
            raise ValueError(f"expected one of the roles {', '.join(self.roles)}, got {role!r}")
        values: list[int] = self.state["roles.registers"][self._numbers[role], STATE_REGISTER:].tolist()
        return values

    # --- figures

    def progress(self) -> dict[str, Any]:
        """The steps done and left, see bounds.py; a figure that this protocol does not have is None."""
        reports = [self._report_of(number) for number in range(len(self.config.parts))]
        if not self.config.choreographies:
            return reports[0]
        named = {part.name: one for part, one in zip(self.config.parts, reports, strict=True)}
        return {**total(reports, self.config.buffer_capacity), "choreographies": named}

    def _report_of(self, part: int) -> dict[str, Any]:
        state, endpoints = self.state, self._cast.endpoints_of(part)
        if self.config.choreographies:
            productive = int(state["choreographies.productive_steps"][part])
            queues, own = read_buffers(state), set(endpoints)
            buffered = sum(len(queues[place]) for (sender, _), place in self._channels.items() if sender in own)
        else:
            productive, buffered = int(state["productive_steps"]), self.buffered_count()
        return report(
            self._find_measures()[part],
            places=state["roles.place"][endpoints].tolist(),
            sessions=self.config.parts[part].sessions,
            buffered=buffered,
            productive=productive,
            capacity=self.config.buffer_capacity,
        )

    def _find_measures(self) -> list[Measures]:
        if not self._measures:
            self._measures = [Measures.of(programs) for programs in self._cast.part_programs]
        return self._measures

    def telemetry(self) -> Mapping[str, int | float]:
        """The figures of the current tick: roles by status, messages sent and waiting, productive steps."""
        figures = {f"roles.{status.name.lower()}": _count(self.state, status) for status in Status}
        figures |= {"messages": int(self.state["message_count"]), "buffered": self.buffered_count()}
        figures["productive_steps"] = int(self.state["productive_steps"])
        for number, part in enumerate(self.config.choreographies):
            status = self.state["roles.status"][self._cast.endpoints_of(number)]
            figures[f"{part.name}.live"] = int(np.count_nonzero(status < Status.HALTED))
            figures[f"{part.name}.productive_steps"] = int(self.state["choreographies.productive_steps"][number])
        return figures

    def ended(self) -> tuple[str, str] | None:
        """The reason for the end, ("halted", sentence), when all roles have halted or faulted; None before."""
        halted, faulted = _count(self.state, Status.HALTED), _count(self.state, Status.FAULTED)
        if halted + faulted < len(self.roles):
            return None
        return "halted", "all roles have halted" + (f", {faulted} of them by a fault" if faulted else "")


def _count(state: State | Snapshot, status: Status) -> int:
    return int(np.count_nonzero(state["roles.status"] == status))


def summarize(plain_config: Config, snapshot: Snapshot) -> Mapping[str, str]:
    """Summarize one tick: figures as text, by name."""
    config = read_config(plain_config)
    counts = ((status, _count(snapshot, status)) for status in Status)
    lines = {"roles": ", ".join(f"{count} {status.name.lower()}" for status, count in counts if count)}
    waiting = sum(map(len, msgpack.unpackb(snapshot.blob("buffers"), strict_map_key=False)))
    lines["messages"] = f"{int(snapshot['message_count']):,} sent, {waiting:,} waiting"
    lines["productive steps"] = f"{int(snapshot['productive_steps']):,}"
    widths = [part.field.width if part.field else 0 for part in config.parts for _ in part.endpoints]
    for number, (role, width) in enumerate(list(zip(config.endpoints, widths, strict=True))[:8]):  # A screen's worth.
        if width:
            values = snapshot["roles.registers"][number, STATE_REGISTER : STATE_REGISTER + width].tolist()
            lines[role] = " ".join(map(to_text, values))
    return lines
