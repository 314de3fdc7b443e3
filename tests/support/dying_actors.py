"""Actors that die at a chosen message, and a run of a small cluster whose processes are killed at random moments."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.cluster import OrganismCluster
from recorder.cluster.actor_engine import Actor, Channel, Message, Role
from recorder.cluster.process_actors import ProcessActor, ProcessEngine

from cluster_runs import CONFIG, inputs_at, plain_hashes


@attrs.frozen
class Death:
    """When an actor dies.

    Attributes:
        who: "worker", "server", or "server at a worker's answer": it kills itself.
        do: the kind of the message.
        when: "sent": as soon as the message is sent. "answered": when the answer is there, which is then lost.
        marker: a file that is made with the death, so that there is one only; None is a death at each such message.
    """

    who: str
    do: str
    when: str
    marker: Path | None

    def strikes(self, who: str, do: str, when: str) -> bool:
        """Return True if the actor dies now, and remember it."""
        if (self.who, self.do, self.when) != (who, do, when) or (self.marker is not None and self.marker.exists()):
            return False
        if self.marker is not None:
            self.marker.touch()
        return True


class DyingActor:
    """An actor that a death strikes."""

    def __init__(self, actor: ProcessActor, who: str, death: Death) -> None:
        self.actor, self._who, self._death = actor, who, death
        self._do = ""
        self.process_id, self.idle_s, self.is_alive, self.end = (
            actor.process_id, actor.idle_s, actor.is_alive, actor.end,
        )  # fmt: skip

    def send(self, message: Message) -> None:
        self.actor.send(message)
        self._do = message["do"]
        if self._death.strikes(self._who, self._do, "sent"):
            self._kill()

    def receive(self) -> Message:
        answer = self.actor.receive()
        if self._who == "worker" and self._death.strikes("server at a worker's answer", self._do, "answered"):
            os.kill(os.getpid(), signal.SIGKILL)
        if answer.get("kind") != "notice" and self._death.strikes(self._who, self._do, "answered"):
            self._kill()
            raise EOFError
        return answer

    def _kill(self) -> None:
        self.actor.process.kill()
        self.actor.process.join()


@attrs.frozen
class DyingEngine:
    """Starts processes of which one dies."""

    death: Death
    inner: ProcessEngine = attrs.field(factory=ProcessEngine)

    def start(self, role: Role, arguments: tuple[Any, ...]) -> Actor:
        return DyingActor(self.inner.start(role, arguments), role.__name__.removeprefix("run_"), self.death)

    def wait(self, actors: Sequence[Actor], timeout_s: float) -> Sequence[Actor]:
        by_actor = {one.actor: one for one in actors}  # type: ignore[attr-defined]
        return [by_actor[one] for one in self.inner.wait(list(by_actor), timeout_s)]


def run_with_kills(seed: int, folder: Path, last_tick: int, kills: int) -> Counter[str]:
    """Run the small world, kill its server and workers at random moments, and compare each hash with that of one process.

    Returns the number of kills by kind. Raises AssertionError with the seed. kills: at most this many.
    """
    chance = random.Random(seed)
    killed: Counter[str] = Counter()
    threads: list[threading.Timer] = []
    with OrganismCluster(
        CONFIG, chance.randint(1, 5), folder=folder, interval_ticks=chance.randint(2, 9), on_notice=lambda _: None
    ) as cluster:
        first = cluster.tick
        # One in a tick at most: five that hit one tick and its recovery end a run, as they should.
        when = chance.sample(range(first + 1, last_tick + 1), k=kills)
        for tick in range(first + 1, last_tick + 1):
            if tick in when:
                pids = cluster.describe()[1]
                number = 0 if chance.random() < 0.3 else chance.randrange(1, len(pids))
                threads.append(threading.Timer(chance.uniform(0, 0.05), _kill, [pids[number]]))
                threads[-1].start()
                killed["server" if number == 0 else "worker"] += 1
            cluster.simulation.step(inputs_at(tick))
            assert cluster.simulation.state.hash() == plain_hashes()[tick], f"seed {seed}: tick {tick}"
        for thread in threads:
            thread.join()
    return killed


def _kill(process_id: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # An earlier kill has ended it.
        os.kill(process_id, signal.SIGKILL)


def hang_once(marker: Path, role: Role) -> Callable[..., None]:
    """A role that waits forever at its first message, the first time."""

    def run_worker(channel: Channel, *arguments: Any) -> None:
        if not marker.exists():
            marker.touch()
            threading.Event().wait()
        role(channel, *arguments)

    return run_worker
