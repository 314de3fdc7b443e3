"""The environment stages of a scenario: mobility, capability, reachability, admission, medium, in this order.

The bodies move once a round. All messages of a round are judged by the same positions.
"""

from __future__ import annotations

from typing import Any

from sim.kernel.messages import Event, Message
from sim.scenario.config.surroundings import Body, Environment
from sim.scenario.middleware.adversary import message_facts


class Surroundings:
    """The positions of roles, and the messages that the medium carried in this round. The entire state is ``plain``.

    plain: plain data. "places" holds [x, y] of each body; "sent" and "received" count this round's messages by role.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._bodies: dict[str, Body] = {body.role: body for body in environment.bodies}
        places = {body.role: self._wrapped(body.x, body.y) for body in environment.bodies}
        self.plain: dict[str, Any] = {"places": places, "sent": {}, "received": {}}

    def _wrapped(self, x: int, y: int) -> list[int]:
        return [x % self._environment.width, y % self._environment.height]

    def begin_round(self) -> None:
        """Reset the counts of messages."""
        self.plain["sent"], self.plain["received"] = {}, {}

    def end_round(self, tick: int, events: list[Event]) -> None:
        """Move the bodies, and note who falls asleep or wakes."""
        for role, body in self._bodies.items():
            if body.dx or body.dy:
                x, y = self.plain["places"][role]
                self.plain["places"][role] = self._wrapped(x + body.dx, y + body.dy)
                events.append({"kind": "moved", "role": role, "place": self.plain["places"][role]})
            if body.asleep_every is not None and self._is_asleep(role, tick) != self._is_asleep(role, tick + 1):
                events.append({"kind": "fell_asleep" if self._is_asleep(role, tick + 1) else "woke", "role": role})

    def judge(self, message: Message, tick: int, events: list[Event]) -> int | None:
        """The delay of a message by the medium, in ticks; None if the medium does not carry it."""
        obstacle = self._obstacle(message, tick)
        if obstacle is not None:
            events.append({"kind": obstacle, **message_facts(message)})
            return None
        sent, received = self.plain["sent"], self.plain["received"]
        sent[message.sender] = sent.get(message.sender, 0) + 1
        count = received[message.receiver] = received.get(message.receiver, 0) + 1
        environment = self._environment
        if environment.collision is not None and count >= environment.collision:
            events.append({"kind": "collided", **message_facts(message)})
            return None
        if environment.contention is not None and count > environment.contention:
            ticks = environment.contention_ticks
            events.append({"kind": "contended", **message_facts(message), "ticks": ticks})
            return ticks
        return 0

    def _obstacle(self, message: Message, tick: int) -> str | None:
        if self._is_asleep(message.sender, tick) or self._is_asleep(message.receiver, tick):
            return "incapable"
        if not self._is_near(message.sender, message.receiver):
            return "unreachable"
        admitted = self._environment.admitted
        if admitted is not None and self.plain["sent"].get(message.sender, 0) >= admitted:
            return "refused"
        return None

    def _is_asleep(self, role: str, tick: int) -> bool:
        body = self._bodies.get(role)
        return (
            body is not None
            and body.asleep_every is not None
            and (tick - 1) % body.asleep_every < (body.asleep_ticks or 0)  # The first round leads to tick 1.
        )

    def _is_near(self, sender: str, receiver: str) -> bool:
        reach, places = self._environment.reach, self.plain["places"]
        if reach is None or sender not in places or receiver not in places:
            return True
        total = 0
        for a, b, size in zip(
            places[sender], places[receiver], (self._environment.width, self._environment.height), strict=True
        ):
            straight = abs(a - b)
            total += min(straight, size - straight) ** 2  # The shorter way around the torus.
        return total <= reach**2
