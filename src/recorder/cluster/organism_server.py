"""The server: it has the world, assigns organisms to workers, and answers all of their requests at the barrier of a tick.

It runs the world's own step. Only the slices are run elsewhere, and no rule reads where. If a worker dies, the step is
lost with the state: the driver begins again from a checkpoint, in a later epoch, and messages of earlier ones are refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from recorder.cluster.actor_engine import Actor, ActorEngine, Channel, Message
from recorder.cluster.assignments import REBALANCE_TICKS, Assignments
from recorder.cluster.checkpoint_folder import part_name
from recorder.cluster.checkpoint_parts import PartNote, digest_of, encode_part
from recorder.cluster.organism_worker import no_bodies, run_worker
from recorder.cluster.whole_checkpoint import Facts, write_manifest
from sim.kernel.state import Snapshot
from sim.worlds.organisms.execution import Requests, take_bodies
from sim.worlds.organisms.layout import COLUMNS, RUNNING
from sim.worlds.organisms.simulation import Organisms, figures_of

_LOOK_S = 0.2  # Between two looks at workers that have not answered.
_COUNTED = ("steps", "instructions", "births")


class WorkerLostError(RuntimeError):
    """A worker died, or does not have what it should have; the step that was under way is lost."""


@attrs.frozen
class Patience:
    """The seconds after which a worker without an answer is named, and after which one that waits for nothing is ended."""

    slow_s: float
    stuck_s: float


class OrganismServer:
    """The server of one cluster; see run_server for its messages."""

    def __init__(self, channel: Channel, config: Mapping[str, Any], engine: ActorEngine, patience: Patience) -> None:
        self._channel, self._engine, self._patience = channel, engine, patience
        self._world = Organisms(config)
        self._world.run_slices = self._run_on_workers
        self._workers: list[Actor] = []
        self._assignments = Assignments(1)
        self._held: list[list[int]] = []  # The ids of the organisms that each worker has.
        self._mothers: dict[int, int] = {}
        self._stats: dict[int, dict[str, int]] = {}
        self._history: list[dict[str, int]] = []
        self._simulation_id, self._epoch = "", 0

    def answer(self, message: Message) -> Message:
        """Do what a message of the driver says, and return the answer. Raises WorkerLostError."""
        match message["do"]:
            case "begin":
                self._begin(message)
                return {"kind": "ready"}
            case "step":
                self._world.step(message["inputs"])
                self._note_step()
                return {"kind": "done", "arena": self._world.state.arena.tobytes()}
            case "save":
                return self._save(Path(message["folder"]), message["checkpoint_id"])
            case "describe":
                self._assign(int(self._world.state["tick"]))
                workers = [worker.process_id for worker in self._workers]
                return {"kind": "described", "facts": self._facts(), "workers": workers}
        raise ValueError(f"unknown message {message['do']!r}")

    # --- beginning

    def _begin(self, message: Message) -> None:
        state, facts = self._world.state, message["facts"]
        state.restore(Snapshot(state.layout, np.frombuffer(message["arena"], np.uint8).copy()))
        self._simulation_id, self._epoch = message["simulation_id"], message["epoch"]
        self._stats = {worker: dict(figures) for worker, figures in facts.worker_stats.items()}
        self._history = [dict(entry) for entry in facts.history]
        self._start_workers(message["workers"])
        self._assignments = Assignments(len(self._workers))
        self._assignments.follow(state["organisms.id"].tolist(), facts.assignments)
        self._held = [[] for _ in self._workers]
        head = self._head("begin")
        for answer in self._ask([head] * len(self._workers)):
            if answer["dropped"] and answer["of"] != self._simulation_id:
                self._notify(f"worker {answer['worker']} dropped {answer['dropped']:,} organisms of {answer['of']}")

    def _start_workers(self, count: int) -> None:
        """Have this many workers that live; those that died or are too many are replaced or ended."""
        for number, worker in list(enumerate(self._workers)):
            if not worker.is_alive():
                worker.end()
                self._workers[number] = self._engine.start(run_worker, (number, self._world.config))
        for worker in self._workers[count:]:
            worker.end()
        del self._workers[count:]
        for number in range(len(self._workers), count):
            self._workers.append(self._engine.start(run_worker, (number, self._world.config)))

    # --- stepping

    def _run_on_workers(self, world: Organisms) -> Requests:
        """Run the slices of all organisms on the workers; see Organisms.run_slices."""
        state, tick = world.state, int(world.state["tick"])
        self._assign(tick)
        head = {"tick": tick, "level": int(state["pool"])}
        answers = self._ask([message | head for message in self._holdings("run")])
        for ids, answer in zip(self._held, answers, strict=True):
            rows = np.searchsorted(state["organisms.id"], ids)
            for name in RUNNING:
                state[f"organisms.{name}"][rows] = answer["running"][name]
        requests = [Requests(**answer["requests"]) for answer in answers]
        for worker, one in enumerate(requests):
            stats = self._stats.setdefault(worker, dict.fromkeys(_COUNTED, 0))
            for name, figure in zip(_COUNTED, (1, int(one.figures[:, 0].sum()), len(one.mothers)), strict=True):
                stats[name] = stats.get(name, 0) + figure  # A manifest may lack a figure.
        return Requests.merged(requests)

    def _assign(self, tick: int) -> None:
        """Assign newborns to the workers of their mothers, and balance now and then."""
        state = self._world.state
        ids, mothers = state["organisms.id"].tolist(), state["organisms.mother"].tolist()
        known = self._assignments.workers
        self._assignments.follow(ids, {one: known.get(mother, -1) for one, mother in zip(ids, mothers, strict=True)})
        if tick % REBALANCE_TICKS == 0:
            self._assignments.balance()

    def _holdings(self, do: str) -> list[Message]:
        """The messages that say what each worker holds from now on."""
        state, messages = self._world.state, []
        columns = {column.name: state[f"organisms.{column.name}"] for column in COLUMNS}
        for worker, ids in enumerate(self._assignments.by_worker()):
            rows = np.searchsorted(columns["id"], ids)
            held = set(self._held[worker])
            new = [row for row, one in zip(rows.tolist(), ids, strict=True) if one not in held]
            bodies = take_bodies(columns, new) if new else no_bodies()
            barrier = {name: columns[name][rows] for name in ("energy", "max_energy")}
            messages.append(self._head(do) | {"ids": np.array(ids, np.int64), "new": bodies, **barrier})
            self._held[worker] = ids
        return messages

    def _note_step(self) -> None:
        """Add to the monitoring history, which is capped."""
        state, config = self._world.state, self._world.config
        if int(state["tick"]) % config.history_interval == 0:
            self._history.append({"global_step": int(state["tick"]), **figures_of(state)})
            del self._history[: -config.history_max]

    # --- checkpoints

    def _save(self, folder: Path, checkpoint_id: str) -> Message:
        """Have each worker write its part, compare it with the state, and write the manifest. Raises WorkerLostError."""
        state, tick = self._world.state, int(self._world.state["tick"])
        self._assign(tick)
        names = [part_name(checkpoint_id, worker) for worker in range(len(self._workers))]
        messages = [
            message | {"tick": tick, "path": str(folder / name)}
            for message, name in zip(self._holdings("save"), names, strict=True)
        ]
        parts = []
        for worker, answer in enumerate(self._ask(messages)):
            if "error" in answer:
                return {"kind": "unsaved", "why": answer["error"]}
            rows = np.searchsorted(state["organisms.id"], self._held[worker])
            bodies = {column.name: state[f"organisms.{column.name}"][rows] for column in COLUMNS}
            if answer["blake2b"] != digest_of(encode_part(self._simulation_id, tick, worker, bodies)):
                raise WorkerLostError(
                    f"{self._named(worker)} has organisms that differ from the server's at tick {tick:,}"
                )
            parts.append(PartNote(names[worker], worker, answer["count"], answer["size_bytes"], answer["blake2b"]))
        try:
            path = write_manifest(
                folder, checkpoint_id, self._simulation_id, self._epoch, self._world, self._facts(), parts
            )
        except OSError as error:
            return {"kind": "unsaved", "why": str(error)}
        return {"kind": "saved", "path": str(path)}

    def _facts(self) -> Facts:
        return Facts(dict(self._assignments.workers), self._stats, self._history)

    # --- messages

    def _head(self, do: str) -> Message:
        return {"do": do, "simulation_id": self._simulation_id, "epoch": self._epoch}

    def _ask(self, messages: list[Message]) -> list[Message]:
        """Send each worker its message, and return their answers in the order of workers. Raises WorkerLostError."""
        for number, message in enumerate(messages):
            with self._losing(number):
                self._workers[number].send(message)
        answers: dict[int, Message] = {}
        begun_s, named = time.monotonic(), set()
        while len(answers) < len(self._workers):
            waiting = {self._workers[number]: number for number in range(len(self._workers)) if number not in answers}
            for worker in self._engine.wait(list(waiting), _LOOK_S):
                number = waiting[worker]
                with self._losing(number):
                    answer = worker.receive()
                if answer["epoch"] != self._epoch:
                    continue  # An answer of an epoch that was given up.
                if "missing" in answer or "stale" in answer:
                    raise WorkerLostError(f"{self._named(number)} does not have what it was given")
                answers[number] = answer
            waited_s = time.monotonic() - begun_s
            for number in set(waiting.values()) - answers.keys():
                if waited_s >= self._patience.slow_s and number not in named:
                    named.add(number)
                    self._notify(
                        f"{self._named(number)} is slow: no answer for {waited_s:.1f} s at tick "
                        f"{int(self._world.state['tick']):,}"
                    )
                if self._workers[number].idle_s((self._epoch, int(self._world.state["tick"]))) > self._patience.stuck_s:
                    self._workers[number].end()
                    raise WorkerLostError(
                        f"{self._named(number)} did nothing for {self._patience.stuck_s:g} s, and was ended"
                    )
        return [answers[number] for number in range(len(self._workers))]

    @contextmanager
    def _losing(self, number: int) -> Iterator[None]:
        """Raise WorkerLostError if the worker turns out to be dead."""
        try:
            yield
        except (EOFError, OSError):
            code = self._workers[number].end()
            how = "" if code is None else f" with exit code {code}"
            tick = int(self._world.state["tick"])
            raise WorkerLostError(f"{self._named(number)} died at tick {tick:,}{how}") from None

    def _named(self, number: int) -> str:
        worker = self._workers[number]
        return f"worker {number} (process {worker.process_id}, {len(self._held[number]):,} organisms)"

    def _notify(self, text: str) -> None:
        self._channel.send({"kind": "notice", "text": text})


def run_server(channel: Channel, config: Mapping[str, Any], engine: ActorEngine, patience: Patience) -> None:
    """Be a server until the driver is gone.

    Each message is answered once, after any number of notices: "ready", "done" with the state, "saved" or "unsaved",
    "described"; or "lost" if a worker died, "failed" for any other error.
    """
    server = OrganismServer(channel, config, engine, patience)
    while True:
        message = channel.receive()
        try:
            answer = server.answer(message)
        except WorkerLostError as error:
            answer = {"kind": "lost", "why": str(error)}
        except Exception as error:  # noqa: BLE001 - it is raised again in the driver
            answer = {"kind": "failed", "why": f"{type(error).__name__}: {error}"}
        channel.send(answer)
