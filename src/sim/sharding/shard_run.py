"""The run of a world in shards: each tick stepped by all shards, and assembled into the state of the whole world."""

from __future__ import annotations

from typing import Any

from sim.kernel.state import State
from sim.sharding.shard_engine import Lockstep, ShardEngine, ShardLostError
from sim.sharding.shard_plan import Piece, ShardPlan
from sim.sharding.stripes import Stripes

RESTARTS_MAX = 3  # In one tick: a shard that ends each time has a reason that a restart does not cure.


class ShardRun:
    """The shards of one world, and its state.

    The state changes only when the pieces of all shards have arrived. So a lost shard costs nothing but time: all
    shards start again from the last complete tick, and repeat the step.

    Attributes:
        plan: the division.
        stripes: the rows of each shard.
        restarts: how many times the shards were started again.
    """

    def __init__(self, plan: ShardPlan, count: int, state: State, engine: ShardEngine | None = None) -> None:
        """Divide a world. state: of the whole world, at the tick where the run begins. engine: Lockstep by default.

        Raises ShardsError if the world cannot be divided into count shards.
        """
        self.stripes: Stripes = plan.stripes(count)
        self.restarts = 0
        self.plan, self._state = plan, state
        self._engine: ShardEngine = Lockstep() if engine is None else engine
        self._is_started = self._is_loaded = False

    def step(self, inputs: Any) -> list[Piece]:
        """Advance by one tick; return the pieces. Raises ShardLostError after too many restarts, and what a shard raises."""
        for restarts in range(RESTARTS_MAX + 1):
            try:
                self._prepare()
                pieces = self._engine.step(inputs)
                break
            except ShardLostError:
                self._is_started = False
                if restarts == RESTARTS_MAX:
                    self._engine.close()
                    raise
                self.restarts += 1
            except BaseException:
                self._is_started = False  # Some shards may have advanced, others not.
                raise
        self._is_started = False  # Until the state has reached the tick of the shards: an interrupt may come between.
        self.plan.assemble(self._state, self.stripes, pieces)
        self._is_started = True
        return pieces

    def reload(self) -> None:
        """Let the shards take their rows out of the state before the next step: it was replaced from outside."""
        self._is_loaded = False

    def close(self) -> None:
        """End the shards; the next step would start them again."""
        self._engine.close()
        self._is_started = False

    def _prepare(self) -> None:
        if not self._is_started:
            self._engine.start(self.plan, self.stripes)
            self._is_started, self._is_loaded = True, False
        if not self._is_loaded:
            self._engine.load(self._state.snapshot())
            self._is_loaded = True
