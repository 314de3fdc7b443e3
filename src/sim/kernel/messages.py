"""Messages between the roles of a world, and the members that a world needs for a scenario to intercept them.

A world with messages calls its ``router`` for each message that a role sends. The world puts the returned message into
the receiver's buffer at once. None means that the message was dropped, or that the scenario calls ``deliver`` later.
Without a router each message arrives as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from sim.kernel.simulation import Simulation


@attrs.frozen
class Message:
    """One message.

    Attributes:
        number: in the order in which the run's messages were sent, from 0.
        sender, receiver: roles.
        label: the kind of message.
        payload: plain data.
    """

    number: int
    sender: str
    receiver: str
    label: str
    payload: Any = None


Router = Callable[[Message], Message | None]
Event = dict[str, Any]  # Plain data; "kind" names what happened, "role" the role concerned.


@runtime_checkable
class MessageWorld(Simulation, Protocol):
    """A simulation whose roles send each other messages.

    hooks.py lists the optional members that a scenario uses. On the threaded backend the inputs of its step are
    {"race": [role, ...]}, the order in which its roles arrived.

    Attributes:
        roles: their names, in a fixed order.
        router: asked for each message that is sent in a step; None if there is none.
        paused: roles that do nothing in the next step; set before each step, never kept by the world.
    """

    roles: Sequence[str]
    router: Router | None
    paused: frozenset[str]

    def deliver(self, message: Message) -> bool:
        """Put a message into its receiver's buffer. Return False, without any change, if the buffer is full."""

    def buffered_count(self) -> int:
        """The number of messages in buffers."""

    def events(self) -> Sequence[Event]:
        """The events of the last step and of the calls of deliver since the step before it, in order."""

    def sample(self, role: str) -> Sequence[int]:
        """The figures of a role that a trace keeps, Q32.32 as integers (1.0 is 2**32)."""
