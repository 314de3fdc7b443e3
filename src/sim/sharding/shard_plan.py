"""What a world declares in order to run in shards: its regions, its halo, its exchanges, and how pieces become a state."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol

from sim.kernel.registry import Readable
from sim.kernel.schema import Schema
from sim.kernel.state import Snapshot, State
from sim.sharding.stripes import Stripes

Messages = list[Any]  # One for each shard, by its number, also for itself: arrays and plain data.
Exchange = Generator[Messages, Messages, None]  # Yields messages to all shards, and is sent those from all shards.
Piece = Mapping[str, Any]  # Arrays and plain data.


class Shard(Protocol):
    """One shard: a state of its own rows. Nothing of another shard reaches it but by messages."""

    def load(self, whole: Snapshot) -> None:
        """Take the own rows, and the halo, out of the state of the whole world."""

    def step(self, inputs: Any) -> Exchange:
        """Advance by one tick.

        Each ``inbox = yield outbox`` is one exchange, and all shards make equally many in a tick. Raises ValueError for
        invalid inputs, in every shard, before the first exchange and before anything has changed.
        """

    def piece(self) -> Piece:
        """Return the own part of the state after a step, or what has changed in it since the last piece, or the load."""


class ShardPlan(Protocol):
    """The division of a world. It can be pickled: other processes make their shards from it."""

    def stripes(self, count: int) -> Stripes:
        """Divide the world. Raises ShardsError."""

    def shard(self, number: int, stripes: Stripes) -> Shard:
        """Make a shard, which loads a state before its first step."""

    def assemble(self, state: State, stripes: Stripes, pieces: Sequence[Piece]) -> None:
        """Advance the state of the whole world by a tick, from the pieces of all shards."""


class PartedPlan(ShardPlan, Protocol):
    """A division that can say which part of a whole state is a shard's, so that each shard can have a tape.

    A part depends on the whole state alone, not on how the run came there.
    """

    def part_schema(self, whole: Readable, stripes: Stripes, shard: int) -> Schema:
        """Return the fields of the part of a shard."""

    def write_part(self, whole: Readable, stripes: Stripes, shard: int, part: State) -> None:
        """Write the part of a shard into a state of its schema."""

    def join_parts(self, parts_of_all: Sequence[Readable]) -> State:
        """Return the whole state from the parts of all shards, in their order."""

    def differing_fields(self, part: Readable, other: Readable) -> list[str]:
        """Return the fields of a shard's own rows that differ in two parts of it."""
