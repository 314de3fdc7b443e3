"""Shards of a world as processes: each has a pipe to this one and to each other shard.

Invariants:
    1. A shard answers each order once: a piece, or why there is none.
    2. When a shard is lost, or fails in a step, all are ended: the others may have advanced, or wait for its messages.
    3. No process is left behind; each ends with this one, also if it is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

import attrs

from recorder.processes.spawn_pool import without_main
from recorder.processes.worker_pipes import begin_as_worker, starting
from sim.kernel.state import Snapshot
from sim.sharding import Piece, Shard, ShardLostError, ShardPlan, Stripes
from sim.sharding.slow_shards import SLOW_S, slow_shard_text

Pipes = dict[int, Connection]  # To the other shards, by their numbers.
Progress = (
    Any  # An array of shared memory: for each shard, how often it began or ended to wait. The slowest has the least.
)
_LOOK_S = 0.5  # Between two looks at shards that have not answered.


@attrs.frozen
class _Failed:
    """The exception that a step raised."""

    error: Exception


@attrs.frozen
class _LostPeer:
    """Another shard has ended in an exchange."""

    shard: int


@attrs.frozen(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection


class ShardProcesses:
    """Runs each shard in a fresh interpreter; see sim.sharding.ShardEngine. The plan must be of a module, to be pickled."""

    def __init__(self, *, on_notice: Callable[[str], None] = lambda _: None, slow_s: float = SLOW_S) -> None:
        """on_notice: takes a sentence about a shard for which the others wait for slow_s seconds."""
        self._notify, self._slow_s = on_notice, slow_s
        self._workers: list[_Worker] = []
        self._stripes = Stripes((0, 0), 0)
        self._progress: Progress = []

    @property
    def process_ids(self) -> list[int]:
        """The ids of the processes, by number of the shard; empty before the first step."""
        return [worker.process.pid or 0 for worker in self._workers]

    def start(self, plan: ShardPlan, stripes: Stripes) -> None:
        """See ShardEngine."""
        self.close()
        context = multiprocessing.get_context("spawn")
        self._stripes, self._progress = stripes, context.RawArray("q", stripes.count)
        is_of_main = b"__main__" in bytes(ForkingPickler.dumps(plan))  # Else no script is run again in each shard.
        ends: dict[tuple[int, int], Connection] = {}
        for first in range(stripes.count):
            for second in range(first + 1, stripes.count):
                ends[first, second], ends[second, first] = context.Pipe()
        try:
            for number in range(stripes.count):
                ours, theirs = context.Pipe()
                peers = {other: ends[number, other] for other in range(stripes.count) if other != number}
                arguments = (os.getpid(), plan, stripes, number, theirs, _Peers(number, peers, self._progress))
                process = context.Process(target=_live, args=arguments, name=f"shard {number}", daemon=True)
                with starting(), nullcontext() if is_of_main else without_main():
                    process.start()
                    self._workers.append(_Worker(process, ours))
                theirs.close()
        finally:
            for end in ends.values():
                end.close()  # Only the shards hold them now, so that one that dies is noticed by the others.

    def load(self, whole: Snapshot) -> None:
        """See ShardEngine."""
        self._order(("load", whole))

    def step(self, inputs: Any) -> list[Piece]:
        """See ShardEngine."""
        return self._order(("step", inputs))

    def close(self) -> None:
        """See ShardEngine."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.process.close()
            worker.pipe.close()
        self._workers = []

    def _order(self, order: tuple[str, Any]) -> list[Any]:
        """Send an order to all shards and return their answers. Raises ShardLostError, and what a shard raised."""
        try:
            for number, worker in enumerate(self._workers):
                try:
                    worker.pipe.send(order)
                except OSError:
                    raise self._lost(number) from None
            return self._answers()
        except BaseException:
            self.close()
            raise

    def _answers(self) -> list[Any]:
        answers: dict[int, Any] = {}
        waiting = {worker.pipe: number for number, worker in enumerate(self._workers)}
        begun_s, is_named = time.monotonic(), False
        while waiting:
            if not is_named and time.monotonic() - begun_s >= self._slow_s:
                is_named = self._name_slow(set(waiting.values()), time.monotonic() - begun_s)
            for pipe in wait(list(waiting), None if is_named else min(_LOOK_S, self._slow_s)):
                assert isinstance(pipe, Connection)
                number = waiting.pop(pipe)
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):
                    raise self._lost(number) from None
                if isinstance(answer, _LostPeer):
                    raise self._lost(answer.shard)
                if isinstance(answer, _Failed):
                    raise answer.error
                answers[number] = answer
        return [answers[number] for number in range(len(self._workers))]

    def _name_slow(self, waiting: set[int], waited_s: float) -> bool:
        """Name the shards that are furthest behind, if another one waits for their messages; return True if any is.

        A shard in an exchange waits itself, so none is named by mistake.
        """
        counts = list(self._progress)
        least = min(counts[number] for number in waiting)
        slow = [number for number in sorted(waiting) if counts[number] == least]
        if least % 2 or len(slow) == len(counts):
            return False
        for number in slow:
            process_id = self._workers[number].process.pid or 0
            self._notify(slow_shard_text(number, self._stripes, process_id, waited_s))
        return True

    def _lost(self, number: int) -> ShardLostError:
        process = self._workers[number].process
        process.join(1)  # Its pipes close a moment before it has ended.
        how = "was lost" if process.exitcode is None else f"ended with exit code {process.exitcode}"
        return ShardLostError(number, f"of {len(self._workers)} {how}")


def _live(parent: int, plan: ShardPlan, stripes: Stripes, number: int, pipe: Connection, peers: _Peers) -> None:
    """Run a shard from start to end."""
    begin_as_worker(parent)
    shard = plan.shard(number, stripes)
    while True:
        try:
            kind, content = pipe.recv()
        except EOFError:
            return
        pipe.send(_carry_out(shard, kind, content, peers))


def _carry_out(shard: Shard, kind: str, content: Any, peers: _Peers) -> Any:
    try:
        if kind == "load":
            return shard.load(content)
        return _step(shard, content, peers)
    except _PeerEndedError as end:
        return _LostPeer(end.shard)
    except Exception as error:  # noqa: BLE001 - any exception is raised again in the parent
        return _Failed(error)


class _PeerEndedError(Exception):
    def __init__(self, shard: int) -> None:
        super().__init__(shard)
        self.shard = shard


@attrs.frozen
class _StepEnd:
    """In the place of messages: the shard makes no more exchanges in this tick."""


def _step(shard: Shard, inputs: Any, peers: _Peers) -> Piece:
    peers.begin_step()
    step = shard.step(inputs)
    try:
        outbox = next(step)
        while True:
            outbox = step.send(peers.exchange(outbox))
    except StopIteration:
        peers.end_step()
        return shard.piece()


@attrs.define
class _Peers:
    """The other shards, seen from one.

    The end of a step is told to them, and their ends are read before the next one: so a shard that waits for one that has
    ended its step notices it, and none waits at the end of a step.
    """

    number: int
    pipes: Pipes
    progress: Progress
    exchanges: int = 0  # In this step.
    has_ended: bool = False  # A step, whose ends of the others are not read yet.

    def begin_step(self) -> None:
        """Read that the others have ended the step before. Raises RuntimeError if one makes more exchanges."""
        if self.has_ended and not all(isinstance(self._receive(other), _StepEnd) for other in self.pipes):
            raise self._disagreement()
        self.exchanges, self.has_ended = 0, False

    def exchange(self, outbox: Sequence[Any]) -> list[Any]:
        """Send to each other shard, and receive from it. Raises RuntimeError if one has ended its step.

        All shards go through the pairs in the same order, and of a pair the first sends first: so none waits in a circle.
        """
        self.progress[self.number] += 1  # It waits.
        inbox = list(outbox)  # At the own number, what the shard sends to itself.
        for other in sorted(self.pipes):
            if other > self.number:
                self._send(other, outbox[other])
            inbox[other] = self._receive(other)
            if isinstance(inbox[other], _StepEnd):
                raise self._disagreement()
            if other < self.number:
                self._send(other, outbox[other])
        self.exchanges += 1
        self.progress[self.number] += 1  # It computes.
        return inbox

    def end_step(self) -> None:
        """Tell the others that no more messages of this step come."""
        for other in self.pipes:
            self._send(other, _StepEnd())
        self.has_ended = True

    def _send(self, other: int, message: Any) -> None:
        try:
            self.pipes[other].send(message)
        except OSError:
            raise _PeerEndedError(other) from None

    def _receive(self, other: int) -> Any:
        try:
            return self.pipes[other].recv()
        except (EOFError, OSError):
            raise _PeerEndedError(other) from None

    def _disagreement(self) -> RuntimeError:
        return RuntimeError(f"after {self.exchanges} exchanges some shards wait for messages that others do not send")
