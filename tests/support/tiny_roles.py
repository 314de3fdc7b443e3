"""The smallest world with messages: each tick, every role receives its messages and sends its count to the next role."""

from __future__ import annotations

from typing import Any

from sim import Field, Schema, State
from sim.kernel.messages import Event, Message, Router
from sim.kernel.plain_data import decode_plain, encode_plain
from sim.kernel.schema import Blob


class Ring:
    """Roles in a ring. A role's count increases by one per tick; total is the sum of the numbers that it received."""

    def __init__(self, roles: str = "abc", capacity: int = 100, *, quiet: str = "") -> None:
        self.roles = tuple(roles)
        self.router: Router | None = None
        self.paused: frozenset[str] = frozenset()
        self._capacity, self._quiet = capacity, quiet
        n = len(roles)
        self.state = State(
            Schema(Field("count", "i8", (n,)), Field("total", "i8", (n,)), Field("number", "i8"), Blob("buffers"))
        )
        self.state.set_blob("buffers", encode_plain([]))
        self._events: list[Event] = []
        self._last_events: list[Event] = []

    def _buffers(self) -> list[Any]:
        return decode_plain(self.state.blob("buffers"))

    def deliver(self, message: Message) -> bool:
        buffers = self._buffers()
        if sum(entry[2] == message.receiver for entry in buffers) >= self._capacity:
            return False
        buffers.append([message.number, message.sender, message.receiver, message.label, message.payload])
        self.state.set_blob("buffers", encode_plain(buffers))
        return True

    def buffered_count(self) -> int:
        return len(self._buffers())

    def step(self, _: Any) -> None:
        self._events = []
        for index, role in enumerate(self.roles):
            if role in self.paused:
                continue
            self._take(index, role)
            self.state["count"][index] += 1
            if role not in self._quiet:
                self._send(role, self.roles[(index + 1) % len(self.roles)], int(self.state["count"][index]))
        self._last_events = self._events

    def _take(self, index: int, role: str) -> None:
        buffers = self._buffers()
        for number, sender, receiver, _label, payload in buffers:
            if receiver == role:
                self._events.append({"kind": "received", "role": role, "from": sender, "message": number})
                if type(payload) is not int:
                    self._events.append({"kind": "faulted", "role": role, "reason": "no number"})
                else:
                    self.state["total"][index] += payload
        self.state.set_blob("buffers", encode_plain([entry for entry in buffers if entry[2] != role]))

    def _send(self, sender: str, receiver: str, payload: Any) -> None:
        number = int(self.state["number"])
        self.state["number"][...] += 1
        message: Message | None = Message(number, sender, receiver, "count", payload)
        self._events.append({"kind": "sent", "role": sender, "to": receiver, "message": number})
        if self.router is not None and message is not None:
            message = self.router(message)
        if message is not None:
            self.deliver(message)

    def events(self) -> list[Event]:
        return self._last_events

    def sample(self, role: str) -> list[int]:
        return [int(self.state["total"][self.roles.index(role)]) << 32]
