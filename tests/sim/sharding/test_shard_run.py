"""Shards of a world of the test's own: a sum over neighbours in a column of numbers; and engines that fail."""

from __future__ import annotations

from typing import Any

import pytest
from split_columns import Column, ColumnPlan, ColumnShard

from sim.sharding import Exchange, Lockstep, Piece, ShardLostError, ShardRun, Stripes


def test_a_world_of_ones_own_in_any_number_of_shards() -> None:
    """The hash of one process at every tick."""
    for count in range(1, 11):
        one, many = Column(10), Column(10)
        run = ShardRun(ColumnPlan(10), count, many.state)
        for tick in range(12):
            one.step(tick)
            assert len(run.step(tick)) == count
            assert one.state.hash() == many.state.hash()


class Forgetful(Lockstep):
    """An engine that loses a shard at some steps, after some shards have advanced."""

    def __init__(self, *lost: int) -> None:
        super().__init__()
        self.steps, self.lost, self.closed = 0, lost, 0

    def step(self, inputs: Any) -> list[Piece]:
        self.steps += 1
        pieces = super().step(inputs)
        if self.steps in self.lost:
            raise ShardLostError(1, "of 3 was lost")
        return pieces

    def close(self) -> None:
        self.closed += 1
        super().close()


def test_a_lost_shard_costs_a_repeated_step() -> None:
    """All start again from the last complete tick."""
    one, many = Column(10), Column(10)
    run = ShardRun(ColumnPlan(10), 3, many.state, Forgetful(1, 4, 5, 9))
    for tick in range(8):
        one.step(tick)
        run.step(tick)
        assert one.state.hash() == many.state.hash()
    assert run.restarts == 4


def test_a_shard_that_is_lost_each_time_ends_the_run() -> None:
    """The error names it, and the state is that of the last complete tick."""
    many, engine = Column(10), Forgetful(*range(2, 99))
    run = ShardRun(ColumnPlan(10), 3, many.state, engine)
    run.step(1)
    before = many.state.hash()
    with pytest.raises(ShardLostError, match=r"^shard 1 of 3 was lost$"):
        run.step(2)
    assert many.state.hash() == before
    assert engine.closed == 1


class Uneven(ColumnPlan):
    """The last shard makes one exchange more than the others."""

    def shard(self, number: int, stripes: Stripes) -> ColumnShard:
        shard = super().shard(number, stripes)
        if number == stripes.count - 1:
            step = shard.step

            def longer(inputs: int) -> Exchange:
                yield from step(inputs)
                yield [None] * stripes.count

            shard.step = longer  # type: ignore[method-assign]
        return shard


def test_shards_that_disagree_about_exchanges_are_refused() -> None:
    """Instead of a wrong state."""
    run = ShardRun(Uneven(10), 3, Column(10).state)
    with pytest.raises(RuntimeError, match="after 1 exchanges some shards wait for messages that others do not send"):
        run.step(0)


def test_an_interrupt_while_the_pieces_are_put_together_does_not_put_the_shards_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step is made again from the state."""
    one, many = Column(10), Column(10)
    run = ShardRun(ColumnPlan(10), 3, many.state)
    for tick in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(ColumnPlan, "assemble", interrupted)
            with pytest.raises(KeyboardInterrupt):
                run.step(tick)
        one.step(tick)
        run.step(tick)
        assert many.state.hash() == one.state.hash()


def interrupted(*_: object) -> None:
    """Be interrupted at once."""
    raise KeyboardInterrupt
