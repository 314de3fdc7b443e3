"""The protocol of what starts actors: a server and its workers, on this machine or others.

An engine promises:
    1. Messages between an actor and the one that started it arrive in order, each once.
    2. A dead actor is noticed: receive raises EOFError after its last message.
    3. An actor ends with the one that started it, also if that one is killed, where the system allows it.

Messages are plain data with NumPy arrays. A role is a function of a module, with arguments that can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Message = dict[str, Any]


class Channel(Protocol):
    """One end of a connection between two actors."""

    def send(self, message: Message) -> None:
        """Send a message. Raises OSError if the other end is gone."""

    def receive(self) -> Message:
        """Wait for a message. Raises EOFError if the other end is gone."""


Role = Callable[..., None]  # Called with the channel to the one that started the actor, then with the arguments.


class Actor(Channel, Protocol):
    """An actor that this one started, seen from here."""

    @property
    def process_id(self) -> int:
        """The id of its process."""

    def is_alive(self) -> bool:
        """Return False if it is known to be dead."""

    def idle_s(self, progress: object) -> float:
        """The seconds for which it has made no progress and used no processor time, where that is known; else 0."""

    def end(self) -> int | None:
        """End it at once, if it has not ended, and return its exit code, minus the signal that killed it, if known."""


class ActorEngine(Protocol):
    """Starts actors."""

    def start(self, role: Role, arguments: tuple[Any, ...]) -> Actor:
        """Start an actor. Raises OSError."""

    def wait(self, actors: Sequence[Actor], timeout_s: float) -> Sequence[Actor]:
        """Wait until some of the actors have a message or are dead, and return these; none after the timeout."""
