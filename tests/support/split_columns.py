"""A column of numbers in shards, each of which becomes the sum of it and its neighbours modulo 1000, plus the input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sim import Field, Schema, State
from sim.kernel.state import Snapshot
from sim.sharding import Exchange, Piece, Stripes


class Column:
    """The column in one process, in plain Python."""

    def __init__(self, rows: int) -> None:
        self.state = State(Schema(Field("heat", "i8", (rows,)), Field("tick", "i8")))
        self.state["heat"][...] = np.arange(rows) ** 3 % 17

    def step(self, inputs: int) -> None:
        """Advance by one tick."""
        around = [0, *self.state["heat"].tolist(), 0]
        sums = [sum(around[y : y + 3]) + inputs for y in range(len(around) - 2)]
        self.state["heat"][...] = [one % 1000 for one in sums]
        self.state["tick"][()] += 1


class ColumnShard:
    """The rows of one shard."""

    def __init__(self, number: int, stripes: Stripes) -> None:
        self.number, self.stripes = number, stripes

    def load(self, whole: Snapshot) -> None:
        """See Shard."""
        self.own = whole["heat"][slice(*self.stripes.own(self.number))].copy()

    def step(self, inputs: int) -> Exchange:
        """See Shard. The input 13 fails in shard 1, when the others wait for it."""
        if inputs == 13 and self.number == 1:
            raise ZeroDivisionError("shard 1 met 13")
        count = self.stripes.count
        near = {self.number - 1: self.own[0], self.number + 1: self.own[-1]}
        inbox = yield [near.get(other, 0) for other in range(count)]
        above = inbox[self.number - 1] if self.number else 0
        below = inbox[self.number + 1] if self.number + 1 < count else 0
        around = np.concatenate([[above], self.own, [below]])
        self.own = (around[:-2] + around[1:-1] + around[2:] + inputs) % 1000

    def piece(self) -> Piece:
        """See Shard."""
        return {"heat": self.own}


class ColumnPlan:
    """Its declaration."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def stripes(self, count: int) -> Stripes:
        """See ShardPlan."""
        return Stripes.divide(self.rows, count, 1)

    def shard(self, number: int, stripes: Stripes) -> ColumnShard:
        """See ShardPlan."""
        return ColumnShard(number, stripes)

    def assemble(self, state: State, stripes: Stripes, pieces: Sequence[Piece]) -> None:
        """See ShardPlan."""
        assert len(pieces) == stripes.count
        state.set("heat", slice(None), np.concatenate([piece["heat"] for piece in pieces]))
        state.set("tick", 0, int(state["tick"]) + 1)


class UnevenShard(ColumnShard):
    """Makes one more exchange when the input is 7."""

    def step(self, inputs: int) -> Exchange:
        """See Shard."""
        yield from super().step(inputs)
        if inputs == 7:
            yield [b"more"] * self.stripes.count


class UnevenPlan(ColumnPlan):
    """A column of which one shard is uneven."""

    def __init__(self, odd: int) -> None:
        super().__init__(6)
        self.odd = odd

    def shard(self, number: int, stripes: Stripes) -> ColumnShard:
        """See ShardPlan."""
        return (UnevenShard if number == self.odd else ColumnShard)(number, stripes)
