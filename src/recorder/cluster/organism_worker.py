"""A worker: it runs the slices of its organisms, and writes them as its part of a checkpoint.

It is told what it holds: the ids of its organisms, what the barrier gave them, and those that it does not have yet. If it
is told of another simulation or a later epoch, it drops what it has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from recorder.cluster.actor_engine import Channel, Message
from recorder.cluster.checkpoint_parts import digest_of, encode_part
from recorder.storage.atomic_file import write_file
from sim.worlds.organisms.config import OrganismsConfig
from sim.worlds.organisms.execution import Bodies, run_slices, take_bodies
from sim.worlds.organisms.layout import COLUMNS, RUNNING


class OrganismWorker:
    """One worker.

    Attributes:
        bodies: its organisms, in the order of ids.
        simulation_id, epoch: what they belong to.
    """

    def __init__(self, number: int, config: OrganismsConfig) -> None:
        self.number, self._config = number, config
        self.simulation_id, self.epoch = "", 0
        self.bodies = no_bodies()

    def answer(self, message: Message) -> Message:
        """Do what a message of the server says, and return the answer."""
        head = {"epoch": message["epoch"], "worker": self.number}
        if message["simulation_id"] == self.simulation_id and message["epoch"] < self.epoch:
            return head | {"stale": self.epoch}
        before, dropped = self.simulation_id, self._belong_to(message["simulation_id"], message["epoch"])
        match message["do"]:
            case "begin":
                return head | {"dropped": dropped, "of": before}
            case "run":
                if (missing := self._hold(message)) is not None:
                    return head | {"missing": missing}
                bodies, tick = self.bodies, message["tick"]
                requests = run_slices(bodies, self._config, self._config.seed, tick, message["level"])
                running = {name: bodies[name] for name in RUNNING}
                return head | {"tick": tick, "requests": requests.to_plain(), "running": running}
            case "save":
                if (missing := self._hold(message)) is not None:
                    return head | {"missing": missing}
                content = encode_part(self.simulation_id, message["tick"], self.number, self.bodies)
                try:
                    write_file(Path(message["path"]), content, existing="replace")
                except OSError as error:
                    return head | {"error": str(error)}
                facts = {"count": len(self.bodies["id"]), "size_bytes": len(content), "blake2b": digest_of(content)}
                return head | {"tick": message["tick"], **facts}
        raise ValueError(f"unknown message {message['do']!r}")

    def _belong_to(self, simulation_id: str, epoch: int) -> int:
        """Drop all organisms if they belong to another simulation or epoch; return how many."""
        if (simulation_id, epoch) == (self.simulation_id, self.epoch):
            return 0
        dropped, self.bodies = len(self.bodies["id"]), no_bodies()
        self.simulation_id, self.epoch = simulation_id, epoch
        return dropped

    def _hold(self, message: Message) -> int | None:
        """Hold the organisms that the message names, and no others; return an id that is missing, or None."""
        ids, new = message["ids"], message["new"]
        joined = {column.name: np.concatenate([self.bodies[column.name], new[column.name]]) for column in COLUMNS}
        order = np.argsort(joined["id"], kind="stable")
        order = order[np.isin(joined["id"][order], ids)]
        if not np.array_equal(joined["id"][order], ids):
            return int(next((one for one in ids.tolist() if one not in joined["id"]), ids[0] if len(ids) else 0))
        self.bodies = take_bodies(joined, order)
        self.bodies["energy"][:], self.bodies["max_energy"][:] = message["energy"], message["max_energy"]
        return None


def no_bodies() -> Bodies:
    """The columns of no organisms."""
    return {column.name: np.zeros((0, *column.shape), column.dtype) for column in COLUMNS}


def run_worker(channel: Channel, number: int, config: OrganismsConfig) -> None:
    """Be a worker until the server is gone."""
    worker = OrganismWorker(number, config)
    while True:
        message: Any = channel.receive()
        channel.send(worker.answer(message))
