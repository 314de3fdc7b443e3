"""Actors of the server and workers on Ray: on any machine of the cluster that this process is connected to."""

from __future__ import annotations

import importlib
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from recorder.cluster.actor_engine import Actor, Message, Role

_CALLS = 4  # At once in one actor: one waits for a message of the role, the others are short.
_ALIVE_S = 30.0  # An actor that does not answer for longer counts as dead.


@attrs.frozen
class RayActorEngine:
    """Starts actors on Ray; see ActorEngine. The caller has connected this process: ``ray.init(...)``.

    A folder for checkpoints has to be one that all machines share.

    Attributes:
        options: of each actor, as Ray takes them: num_cpus, resources and others. By default an actor reserves nothing.
    """

    options: Mapping[str, Any] = attrs.field(factory=lambda: {"num_cpus": 0})

    def start(self, role: Role, arguments: tuple[Any, ...]) -> RayActor:
        """See ActorEngine. Raises OSError if the actor does not start."""
        ray = _ray()
        host = ray.remote(_RoleHost).options(max_concurrency=_CALLS, max_restarts=0, **self.options).remote()
        try:
            process_id = ray.get(host.begin.remote(role, arguments))
        except ray.exceptions.RayError as error:
            raise OSError(f"Ray did not start an actor: {str(error).splitlines()[0]}") from None
        return RayActor(host, process_id)

    def wait(self, actors: Sequence[Actor], timeout_s: float) -> Sequence[Actor]:
        """See ActorEngine."""
        ray = _ray()
        by_answer = {cast("RayActor", actor).answer(): actor for actor in actors}
        if not ray.wait(list(by_answer), num_returns=1, timeout=timeout_s)[0]:
            return []
        return [by_answer[ready] for ready in ray.wait(list(by_answer), num_returns=len(by_answer), timeout=0)[0]]


class RayActor:
    """An actor on Ray, seen from the one that started it."""

    def __init__(self, host: Any, process_id: int) -> None:
        self._host, self._process_id = host, process_id
        self._sent = 0
        self._answer: Any = None

    @property
    def process_id(self) -> int:
        """See Actor: an id on the machine where it runs."""
        return self._process_id

    def send(self, message: Message) -> None:
        """See Channel. A death is noticed by receive."""
        self._host.give.remote(self._sent, message)
        self._sent += 1

    def answer(self) -> Any:
        """The reference to the next message."""
        if self._answer is None:
            self._answer = self._host.take.remote()
        return self._answer

    def receive(self) -> Message:
        """See Channel."""
        ray = _ray()
        reference = self.answer()
        try:
            message = ray.get(reference)
        except ray.exceptions.RayError:
            raise EOFError from None
        self._answer = None
        if message is None:
            raise EOFError
        return cast("Message", message)

    def is_alive(self) -> bool:
        """See Actor."""
        ray = _ray()
        try:
            ray.get(self._host.process_id.remote(), timeout=_ALIVE_S)
        except ray.exceptions.RayError:
            return False
        return True

    def idle_s(self, progress: object) -> float:  # noqa: ARG002 - as Actor
        """See Actor: not known on Ray."""
        return 0.0

    def end(self) -> int | None:
        """See Actor."""
        _ray().kill(self._host, no_restart=True)
        return None


class _RoleHost:
    """Runs a role in a thread of an actor, and passes its messages on. Calls of an actor may overtake each other."""

    def __init__(self) -> None:
        self._outbox: queue.Queue[Message | None] = queue.Queue()
        self._received = 0
        self._arrived = threading.Condition()
        self._waiting: dict[int, Message] = {}

    def begin(self, role: Role, arguments: tuple[Any, ...]) -> int:
        """Begin the role, and return the id of this process."""
        threading.Thread(target=self._run, args=(role, arguments), daemon=True).start()
        return os.getpid()

    def process_id(self) -> int:
        """The id of this process."""
        return os.getpid()

    def give(self, number: int, message: Message) -> None:
        """Take a message for the role, with its number."""
        with self._arrived:
            self._waiting[number] = message
            self._arrived.notify()

    def take(self) -> Message | None:
        """Wait for the role's next message; None if it has ended."""
        return self._outbox.get()

    def _run(self, role: Role, arguments: tuple[Any, ...]) -> None:
        try:
            role(self, *arguments)
        finally:
            self._outbox.put(None)

    def send(self, message: Message) -> None:
        """See Channel; of the role."""
        self._outbox.put(message)

    def receive(self) -> Message:
        """See Channel; of the role: the messages in the order of their numbers."""
        with self._arrived:
            while self._received not in self._waiting:
                self._arrived.wait()
            message = self._waiting.pop(self._received)
            self._received += 1
            return message


def _ray() -> Any:
    return importlib.import_module("ray")
