"""Engines: where shards run, and how their messages get from one to another.

Lockstep runs all shards in this process. An engine of processes, or of actors on other machines, has the same interface.
"""

from __future__ import annotations

from typing import Any, Protocol

from sim.kernel.state import Snapshot
from sim.sharding.shard_plan import Exchange, Piece, Shard, ShardPlan
from sim.sharding.stripes import Stripes


class ShardLostError(RuntimeError):
    """A shard has ended in the middle of a run; the whole state of the last complete tick is not affected.

    Attributes:
        shard: its number.
    """

    def __init__(self, shard: int, reason: str) -> None:
        super().__init__(f"shard {shard} {reason}")
        self.shard = shard


class ShardEngine(Protocol):
    """Runs the shards of one world."""

    def start(self, plan: ShardPlan, stripes: Stripes) -> None:
        """Make the shards; those of an earlier start are given up."""

    def load(self, whole: Snapshot) -> None:
        """Let all shards take their rows out of the state of the whole world. Raises ShardLostError."""

    def step(self, inputs: Any) -> list[Piece]:
        """Advance all shards by one tick; return their pieces. Raises ShardLostError, and what a shard raises."""

    def close(self) -> None:
        """Give up the shards."""


class Lockstep:
    """All shards in this process, one after the other up to each exchange.

    Attributes:
        exchanges: how many the last step had.
    """

    def __init__(self) -> None:
        self.exchanges = 0
        self._shards: list[Shard] = []

    def start(self, plan: ShardPlan, stripes: Stripes) -> None:
        """See ShardEngine."""
        self._shards = [plan.shard(number, stripes) for number in range(stripes.count)]

    def load(self, whole: Snapshot) -> None:
        """See ShardEngine."""
        for shard in self._shards:
            shard.load(whole)

    def step(self, inputs: Any) -> list[Piece]:
        """See ShardEngine."""
        self.exchanges = run_in_lockstep([shard.step(inputs) for shard in self._shards])
        return [shard.piece() for shard in self._shards]

    def close(self) -> None:
        """See ShardEngine."""
        self._shards = []


def run_in_lockstep(steps: list[Exchange]) -> int:
    """Run the steps of all shards to their end; return the number of exchanges. Raises RuntimeError if they disagree."""
    outboxes = [next(step, None) for step in steps]
    exchanges = 0
    while any(outbox is not None for outbox in outboxes):
        if any(outbox is None or len(outbox) != len(steps) for outbox in outboxes):
            raise RuntimeError(f"after {exchanges} exchanges some shards wait for messages that others do not send")
        exchanges += 1
        inboxes = [list(messages) for messages in zip(*outboxes, strict=True)]
        outboxes = [_resume(step, inbox) for step, inbox in zip(steps, inboxes, strict=True)]
    return exchanges


def _resume(step: Exchange, inbox: list[Any]) -> list[Any] | None:
    try:
        return step.send(inbox)
    except StopIteration:
        return None
