"""What the roles of a world send each other, and what a world is to have so that a scenario can stand in between.

A world with messages calls its ``router`` for each one that a role sends: what comes back goes into the receiver's
buffer at once; None means that it was dropped, or comes later, when the scenario calls ``deliver``. Without a router
each message arrives as it was sent.
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
        label: what kind of message it is.
        payload: plain data.
    """

    number: int
    sender: str
    receiver: str
    label: str
    payload: Any = None


Router = Callable[[Message], Message | None]
Event = dict[str, Any]  # Plain data; "kind" says what happened, "role" to whom.


@runtime_checkable
class MessageWorld(Simulation, Protocol):
    """A simulation whose roles send each other messages.

    hooks.py lists the further members that a scenario asks for. On the threaded backend its step is given
    {"race": [role, ...]}, in which order its roles came in.

    Attributes:
        roles: their names, in a fixed order.
        router: asked for each message that is sent in a step; None if there is none.
        paused: roles that do nothing in the next step; set anew before each step, never kept by the world.
    """

    roles: Sequence[str]
    router: Router | None
    paused: frozenset[str]

    def deliver(self, message: Message) -> bool:
        """Put a message into its receiver's buffer; False, and nothing has changed, if that is full."""

    def buffered_count(self) -> int:
        """How many messages are in buffers."""

    def events(self) -> Sequence[Event]:
        """What happened in the last step and in calls of deliver since the step before it, in order."""

    def sample(self, role: str) -> Sequence[int]:
        """The figures of a role that a trace keeps, Q32.32 as integers (1.0 is 2**32)."""
