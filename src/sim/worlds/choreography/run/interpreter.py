"""One round: each of the selected roles takes the next step of its program.

A role sends if the queue has room, receives if a message has arrived, chooses, or halts; otherwise it waits. A message
against the protocol (an unexpected label or payload) makes the role fault, never the simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.kernel.arithmetic.counter_rng import KeyedRandom, scale_words
from sim.kernel.messages import Event, Message
from sim.kernel.state import State
from sim.worlds.choreography.cast import Cast
from sim.worlds.choreography.config import ChoreographyConfig
from sim.worlds.choreography.protocol.global_type import When
from sim.worlds.choreography.protocol.payload import counts, find_mismatch, make_payload, to_numbers
from sim.worlds.choreography.protocol.projection import (
    HEARD_REGISTER,
    Carried,
    Choose,
    End,
    Node,
    Receive,
    Send,
)
from sim.worlds.choreography.q32 import read_decimal
from sim.worlds.choreography.run.layout import Status
from sim.worlds.choreography.run.message_queues import Waiting

DRAW_PHASE = 1  # Of keyed random draws: the branch of a choice.

Route = Callable[[Message], Message | None]


class ChoreographyRound:
    """The context of one round: the programs, the state, and the unpacked queues."""

    def __init__(
        self,
        config: ChoreographyConfig,
        cast: Cast,
        state: State,
        queues: list[list[Waiting]],
        route: Route,
        events: list[Event],
    ) -> None:
        """Prepare a round. events: appended to. queues: changed in place."""
        self._config, self._cast, self._channels = config, cast, cast.channels
        self._state, self._queues, self._route, self._events = state, queues, route, events
        self._names, self._firsts = cast.names, cast.firsts
        self._has_several = bool(config.choreographies)
        self._tick = int(state["tick"])

    def able(self, role: int) -> bool:
        """Return True if advancing a role would change anything."""
        match self._node(role):
            case Send() | Choose() as node:
                return len(self._queue(role, node.to)) < self._config.buffer_capacity
            case Receive() as node:
                return bool(self._incoming(role, node.sender))
        return True

    def advance(self, role: int) -> None:
        """Take the next step of a role, if it can."""
        status = self._state["roles.status"]
        if status[role] == Status.WAITING:
            status[role] = Status.RUNNING
            self._emit("opened", role)
        if not self.able(role):
            return
        match self._node(role):
            case Send() as node:
                self._send(role, node.to, node.label, node.carried, "sent")
                self._continue_at(role, node.next)
            case Choose() as node:
                label, carried, after = node.branches[self._choose(role, node)]
                self._send(role, node.to, label, carried, "chose")
                self._continue_at(role, after)
            case Receive() as node:
                self._receive(role, node)

    def _node(self, role: int) -> Node:
        return self._cast.programs[role][int(self._state["roles.place"][role])]

    def _queue(self, role: int, to: int) -> list[Waiting]:
        return self._queues[self._channels[role, self._firsts[role] + to]]

    def _incoming(self, role: int, sender: int) -> list[Waiting]:
        return self._queues[self._channels[self._firsts[role] + sender, role]]

    def _emit(self, kind: str, role: int, **more: Any) -> None:
        self._events.append({"kind": kind, "role": self._names[role], "session": self._cast.sessions[role], **more})

    def _continue_at(self, role: int, place: int) -> None:
        self._state["roles.place"][role] = place
        if isinstance(self._node(role), End):
            self._stop(role, Status.HALTED)

    def _stop(self, role: int, status: Status, **more: Any) -> None:
        all_status = self._state["roles.status"]
        all_status[role] = status
        self._emit(status.name.lower(), role, **more)
        first = self._firsts[role]
        end = first + len(self._cast.part_programs[self._cast.parts[role]])
        if (all_status[first:end] >= Status.HALTED).all():
            self._emit("closed", role)

    def _send(self, role: int, to: int, label: str, carried: Carried, kind: str) -> None:
        state = self._state
        receiver = self._firsts[role] + to
        payload = make_payload(carried.rule, state["roles.registers"][role].tolist(), int(state["roles.counted"][role]))
        if counts(carried.rule):
            state["roles.counted"][role] += 1
        number = int(state["message_count"])
        state["message_count"][...] += 1
        self._count_productive(role)
        self._emit(kind, role, to=self._names[receiver], label=label, message=number, payload=payload)
        sent = Message(number, self._names[role], self._names[receiver], label, payload)
        arrived = self._route(sent)
        if arrived is not None:
            if (arrived.sender, arrived.receiver) != (sent.sender, sent.receiver):
                raise ValueError(f"the router sent {sent} elsewhere: {arrived}")
            self._queue(role, to).append([arrived.number, arrived.label, arrived.payload])

    def _count_productive(self, role: int) -> None:
        self._state["productive_steps"][...] += 1
        if self._has_several:
            self._state["choreographies.productive_steps"][self._cast.parts[role]] += 1

    def _choose(self, role: int, node: Choose) -> int:
        choices = self._state["roles.choices"]
        count = int(choices[role, node.choice])
        choices[role, node.choice] += 1
        labels = [label for label, *_ in node.branches]
        if node.step.schedule is not None:
            return labels.index(node.step.schedule[count % len(node.step.schedule)])
        if node.step.when is not None:
            return (
                0 if _holds(node.step.when, int(self._state["roles.registers"][role, node.step.when.register])) else 1
            )
        weights = [branch.weight for branch in node.step.branches or ()]
        word = KeyedRandom(self._config.seed).words(DRAW_PHASE, self._tick, role)[0]
        drawn = int(scale_words(word, sum(weights)))
        return next(index for index in range(len(weights)) if drawn < sum(weights[: index + 1]))

    def _receive(self, role: int, node: Receive) -> None:
        number, label, payload = self._incoming(role, node.sender).pop(0)
        sender = self._names[self._firsts[role] + node.sender]
        taken = {"from": sender, "label": label, "message": number, "payload": payload}
        if label not in node.branches:
            labels = " or ".join(repr(expected) for expected in node.branches)
            # Recorded: the text of an event must not change.
            self._stop(role, Status.FAULTED, **taken, reason=f"{labels} was expected, found the label {label!r}")
            return
        carried, after = node.branches[label]
        problem = find_mismatch(carried.kind, payload)
        if problem:
            self._stop(role, Status.FAULTED, **taken, reason=problem)
            return
        numbers = to_numbers(payload)
        registers = self._state["roles.registers"][role]
        if carried.into is not None:
            registers[carried.into : carried.into + len(numbers)] = numbers
        elif numbers:
            registers[HEARD_REGISTER] = numbers[0]
        self._count_productive(role)
        self._emit("offered" if node.offered else "received", role, **taken)
        self._continue_at(role, after)


def _holds(when: When, register: int) -> bool:
    than = read_decimal(when.than)
    match when.is_:
        case "<":
            return register < than
        case "<=":
            return register <= than
        case "==":
            return register == than
        case ">=":
            return register >= than
    return register > than
