"""A world of organisms run by a server and workers: the driver's side, which looks like the world itself.

Invariants:
    1. The state at each tick is that of one process, for any number of workers, or there is none: an error.
    2. If a worker or the server dies, the run goes back to the last checkpoint, or to its beginning, makes the ticks since
       then again with the same inputs, and compares the hash of each with that of the first time.
"""

from __future__ import annotations

import copy
import time
import uuid
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recorder.cluster.actor_engine import Actor, ActorEngine, Message
from recorder.cluster.checkpoint_folder import CheckpointFolder, discover_whole_checkpoints, id_of_checkpoint
from recorder.cluster.organism_server import Patience, run_server
from recorder.cluster.process_actors import ProcessEngine
from recorder.cluster.whole_checkpoint import (
    Facts,
    OtherWorldError,
    WholeCheckpoint,
    WholeCheckpointError,
    read_manifest,
    restore_whole,
)
from recorder.errors import RecordingError, RecordingWarning
from recorder.exit_codes import UsageError
from recorder.processes.lifetimes.stuck_workers import PATIENCE_S
from sim.closed_on_exit import ClosedOnExit
from sim.kernel.hooks import Phase
from sim.kernel.registry import Config
from sim.kernel.state import Snapshot
from sim.user_warning import warn_user
from sim.worlds.organisms.inputs import read_inputs
from sim.worlds.organisms.simulation import Organisms

SLOW_S = 5.0  # Without an answer for longer, a worker is named.
ATTEMPTS_MAX = 5  # At one tick. More deaths there are no accident.
WORKERS_MAX = 1024


class ClusterError(RecordingError):
    """A cluster cannot continue; the message is one line."""


class _LostError(Exception):
    """The server, or one of its workers, died: the tick under way has to be made again."""


class OrganismCluster(ClosedOnExit):
    """A server and workers that run a world of organisms.

    ``simulation`` is recorded and stepped as the world itself. With a folder, checkpoints of the whole are written there,
    and a run begins at the newest one that can be used.

    Attributes:
        simulation: the world; its state is that of the whole after each step.
        simulation_id: made for a new run, kept over checkpoints.
        resumed: the checkpoint from which this run began; None for a new run.
        checkpoints: those that this run has written, oldest first.
        epoch: counts the beginnings and the recoveries of the simulation.
    """

    def __init__(
        self,
        config: Config,
        workers: int,
        *,
        folder: Path | None = None,
        interval_ticks: int | None = None,
        engine: ActorEngine | None = None,
        on_notice: Callable[[str], None] | None = None,
        slow_s: float = SLOW_S,
        stuck_s: float = PATIENCE_S,
    ) -> None:
        """Start the server and the workers.

        interval_ticks: from one checkpoint to the next; None writes them on demand only. on_notice: takes sentences about
        what happens, such as a worker that died; by default they are warnings. slow_s, stuck_s: seconds after which a
        worker that does not answer is named, and after which one that does nothing at all is ended.

        Raises ConfigError; UsageError for a folder of another run or a wrong number; OSError.
        """
        if not 1 <= workers <= WORKERS_MAX:
            raise UsageError(f"workers: expected 1 to {WORKERS_MAX}, got {workers}")
        if interval_ticks is not None and folder is None:
            raise UsageError("checkpoints at an interval need a folder")
        self.simulation = Organisms(config)
        self.simulation_id = f"sim-{int(time.time())}-{uuid.uuid4().hex[:8]}"
        self.resumed: WholeCheckpoint | None = None
        self.checkpoints: list[WholeCheckpoint] = []
        self.epoch = 0
        self._config, self._worker_count, self._interval_ticks = config, workers, interval_ticks
        self._engine = engine if engine is not None else ProcessEngine()
        self._notify = on_notice if on_notice is not None else _warn
        self._patience = Patience(slow_s, stuck_s)
        self._server: Actor | None = None
        self._server_tick = 0
        self._wanted = self._is_closed = False
        self._inputs: dict[int, Any] = {}
        self._facts = Facts()
        self._folder = CheckpointFolder(folder) if folder is not None else None
        try:
            if self._folder is not None:
                self._resume(self._folder)
            self._first_tick = self.tick
            self._begun = self.simulation.state.snapshot()
            self._hashes = array("Q", [self._begun.hash()])  # Of each tick from the first one on.
            try:
                self._begin(self._begun, self._facts)
            except _LostError as lost:
                self._recover(str(lost), 0)
        except BaseException:
            self.close()
            raise
        self.simulation.phases = (Phase("cluster", self._step),)

    @property
    def tick(self) -> int:
        """The tick of the state."""
        return int(self.simulation.state["tick"])

    def close(self) -> None:
        """End the server and the workers, and unlock the folder. The state stays."""
        self._is_closed = True
        if self._server is not None:
            self._server.end()
            self._server = None
        if self._folder is not None:
            self._folder.close()

    def request_checkpoint(self) -> None:
        """Have a checkpoint written after the next step; a signal handler may call it."""
        self._wanted = True

    def checkpoint(self) -> WholeCheckpoint:
        """Write a checkpoint of the whole now. Raises ClusterError if there is no folder or it cannot be written."""
        self._ensure_at_tick()
        for attempt in range(ATTEMPTS_MAX):
            try:
                return self._save()
            except _LostError as lost:
                self._recover(str(lost), attempt)
        raise ClusterError(f"no checkpoint of tick {self.tick:,} could be written: each attempt lost a process")

    def describe(self) -> tuple[Facts, list[int]]:
        """What the server knows beyond the state, and the ids of the processes: the server's, then the workers'."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                answer = self._ask({"do": "describe"})
            except _LostError as lost:
                self._recover(str(lost), attempt)
            else:
                assert self._server is not None
                return answer["facts"], [self._server.process_id, *answer["workers"]]
        raise ClusterError(f"the cluster cannot be described at tick {self.tick:,}: each attempt lost a process")

    # --- beginning

    def _resume(self, folder: CheckpointFolder) -> None:
        """Enter the state of the newest checkpoint of the folder that can be used. Raises UsageError, OSError."""
        found = discover_whole_checkpoints(folder.path, inner=False)  # Those further in are of other runs.
        for path, why in found.ignored.items():
            _refuse_other_world(path)
            self._notify(f"ignored {path}: {why}" if str(path) not in why else f"ignored {why}")
        for checkpoint in found.checkpoints:
            difference = _difference(checkpoint.config, self._config)
            if difference is not None:
                raise UsageError(
                    f"{folder.path} holds checkpoints of a different simulation ({checkpoint.simulation_id}): {difference}; "
                    "choose a different folder"
                )
        for checkpoint in found.checkpoints:
            try:
                self._enter(checkpoint)
            except (OSError, WholeCheckpointError) as error:
                self._notify(f"ignored {error}")
                continue
            self.resumed, self.simulation_id = checkpoint, checkpoint.simulation_id
            break
        self.epoch = folder.last_epoch()
        folder.sweep()

    def _enter(self, checkpoint: WholeCheckpoint) -> None:
        """Enter the state of a checkpoint. Raises WholeCheckpointError, OSError."""
        restored = restore_whole(checkpoint)
        for warning in restored.warnings:
            self._notify(warning)
        self.simulation.state.restore(restored.world.state.snapshot())
        self._facts = restored.facts

    def _begin(self, snapshot: Snapshot, facts: Facts) -> None:
        """Have the server, a new one if need be, begin with a state in a new epoch. Raises _LostError."""
        self.epoch += 1
        if self._server is None:
            self._server = self._engine.start(run_server, (dict(self._config), self._engine, self._patience))
        message = {"do": "begin", "epoch": self.epoch, "simulation_id": self.simulation_id, "facts": facts}
        self._ask(message | {"arena": snapshot.arena.tobytes(), "workers": self._worker_count})
        self._server_tick = _tick_of(snapshot)

    # --- stepping

    def _step(self, inputs: Any) -> None:
        """Make the step. Raises ValueError for inputs that the world refuses; the state is then unchanged."""
        read_inputs(inputs)
        self._ensure_at_tick()
        tick = self.tick + 1
        self._inputs.pop(tick, None)  # Those of a step that was interrupted, and its hash.
        del self._hashes[tick - self._first_tick :]
        if inputs:
            self._inputs[tick] = copy.deepcopy(inputs)  # A caller may use the same object for the next tick.
        for attempt in range(ATTEMPTS_MAX):
            try:
                self.simulation.state.restore(self._make(tick))
                break
            except _LostError as lost:
                self._recover(str(lost), attempt)
        else:
            raise ClusterError(f"tick {tick:,} cannot be made: {ATTEMPTS_MAX} attempts lost a process")
        if self._wanted or (self._interval_ticks is not None and tick % self._interval_ticks == 0):
            self._wanted = False
            self._save_in_passing()

    def _ensure_at_tick(self) -> None:
        """Bring the server to the driver's tick; after an interrupt in a step or a recovery it may be elsewhere.

        Raises ClusterError if the state is not one that this cluster made: the server would not know of the change.
        """
        number = self.tick - self._first_tick
        if not 0 <= number < len(self._hashes) or self.simulation.state.hash() != self._hashes[number]:
            raise ClusterError(
                f"the state at tick {self.tick:,} was changed from outside: a cluster cannot continue from it"
            )
        if self._server_tick != self.tick:
            self._recover("a step was interrupted", 0)

    def _make(self, tick: int) -> Snapshot:
        """Have the server make a tick, and return its state. Raises _LostError, ClusterError."""
        answer = self._ask({"do": "step", "inputs": self._inputs.get(tick)})
        self._server_tick = tick
        snapshot = Snapshot(self.simulation.state.layout, np.frombuffer(answer["arena"], np.uint8).copy())
        state_hash, number = snapshot.hash(), tick - self._first_tick
        if _tick_of(snapshot) != tick:
            raise ClusterError(f"expected tick {tick:,} of the server, got {_tick_of(snapshot):,}")
        if number == len(self._hashes):
            self._hashes.append(state_hash)
        elif self._hashes[number] != state_hash:
            raise ClusterError(
                f"tick {tick:,} was made again after a recovery and differs: expected the hash {self._hashes[number]:016x}, "
                f"got {state_hash:016x}"
            )
        return snapshot

    def _recover(self, why: str, attempt: int) -> None:
        """Have the server go back to the last checkpoint and make the ticks since then again. Raises ClusterError.

        The driver's own state stays at the tick that it has.
        """
        tick, last = self.tick, why
        for _ in range(attempt, ATTEMPTS_MAX):
            try:
                snapshot, facts, origin = self._last_whole()
                self._notify(f"{last}: back to {origin}, {tick - _tick_of(snapshot):,} ticks are made again")
                self._begin(snapshot, facts)
                for again in range(_tick_of(snapshot) + 1, tick + 1):
                    self._make(again)
                if self._folder is not None:
                    self._folder.sweep()
            except _LostError as lost:
                last = str(lost)
            else:
                return
        raise ClusterError(f"tick {tick:,} cannot be reached again: {last}")

    def _last_whole(self) -> tuple[Snapshot, Facts, str]:
        """The state, what the server knew, and the name of the last checkpoint of this run, or of its beginning."""
        for checkpoint in reversed(self.checkpoints):
            try:
                restored = restore_whole(read_manifest(checkpoint.path))
            except (OSError, WholeCheckpointError) as error:
                self._notify(f"ignored {error}")
            else:
                return restored.world.state.snapshot(), restored.facts, f"the checkpoint of tick {checkpoint.tick:,}"
        return self._begun, self._facts, f"the beginning of this run at tick {self._first_tick:,}"

    # --- checkpoints

    def _save_in_passing(self) -> None:
        """Write a checkpoint; a failed write never fails the run."""
        try:
            self.checkpoint()
        except ClusterError as error:
            self._notify(str(error))

    def _save(self) -> WholeCheckpoint:
        """Write a checkpoint of the present state. Raises _LostError, ClusterError."""
        if self._folder is None:
            raise ClusterError("no checkpoint can be written: this run has no folder for them")
        checkpoint_id = id_of_checkpoint(self.tick, self.epoch)
        same = [checkpoint for checkpoint in self.checkpoints if checkpoint.checkpoint_id == checkpoint_id]
        if same:
            return same[0]
        answer = self._ask({"do": "save", "folder": str(self._folder.path), "checkpoint_id": checkpoint_id})
        if answer["kind"] == "unsaved":
            self._folder.sweep()
            raise ClusterError(f"no checkpoint of tick {self.tick:,} could be written: {answer['why']}")
        self.checkpoints.append(read_manifest(Path(answer["path"])))
        return self.checkpoints[-1]

    # --- messages

    def _ask(self, message: Message) -> Message:
        """Send the server a message and return its answer. Raises _LostError, ClusterError."""
        server = self._server
        if self._is_closed:
            raise ClusterError("the cluster is closed")
        if server is None:
            raise _LostError("the server was ended by an interrupt")
        try:
            server.send(message)
            while (answer := server.receive())["kind"] == "notice":
                self._notify(answer["text"])
        except (EOFError, OSError):
            self._server = None
            code = server.end()
            how = "" if code is None else f" with exit code {code}"
            raise _LostError(f"the server (process {server.process_id}) died{how}") from None
        except BaseException:  # Of an interrupt, or a notice: the answer would be taken for that of the next message.
            self._server = None
            server.end()
            raise
        if answer["kind"] == "lost":
            raise _LostError(answer["why"])
        if answer["kind"] == "failed":
            raise ClusterError(f"the server failed at tick {self.tick:,}: {answer['why']}")
        return answer


def _tick_of(snapshot: Snapshot) -> int:
    return int(snapshot["tick"])


def _warn(text: str) -> None:
    warn_user(text, RecordingWarning)


def _refuse_other_world(path: Path) -> None:
    """Raise UsageError if a checkpoint is of another world or version."""
    try:
        read_manifest(path)
    except OtherWorldError as error:
        raise UsageError(f"{error}; choose a different folder") from None
    except (OSError, WholeCheckpointError):
        pass  # It is ignored, with its reason.


def _difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """The first key in which two configurations differ, in a sentence; None if they are equal. The length of a run is none."""
    for key in sorted({*theirs, *ours} - {"ticks", "name"}):
        if theirs.get(key) != ours.get(key):
            return f"{key} is {theirs.get(key)!r} there and {ours.get(key)!r} here"
    return None
