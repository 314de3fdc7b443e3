"""A meadow whose steps are made by shards: the same simulation, state, events and ledger as in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.kernel.hooks import Phase
from sim.kernel.messages import Event
from sim.kernel.registry import Config
from sim.sharding.shard_engine import ShardEngine
from sim.sharding.shard_plan import Piece
from sim.sharding.shard_run import ShardRun
from sim.worlds.meadow.model.energy_ledger import Ledger
from sim.worlds.meadow.phases.inputs import read_inputs
from sim.worlds.meadow.shards.assembly import assemble_events, assemble_ledger
from sim.worlds.meadow.shards.meadow_shard import MeadowPlan, StepOrder
from sim.worlds.meadow.simulation import Meadow


class ShardedMeadow(Meadow):
    """A meadow in shards.

    Attributes:
        shards: its run: the stripes, and how many times they were started again.
    """

    marks_writes = False  # The whole state is put together each tick; the recorder finds what has changed.

    def __init__(
        self, plain_config: Config, count: int, *, engine: ShardEngine | None = None, ledger: Ledger | None = None
    ) -> None:
        """Make a meadow of count shards at tick 0.

        engine: where the shards run; in this process by default. Raises ConfigError, and ShardsError if the rows of the
        meadow cannot be divided into so many shards. See Meadow.
        """
        super().__init__(plain_config, ledger=ledger)
        plan = MeadowPlan.of(plain_config, has_ledger=ledger is not None)
        self.shards = ShardRun(plan, count, self.state, engine)
        self.phases = (Phase("shards", self._advance),)
        self._pieces: Sequence[Piece] = ()

    def _advance(self, inputs: Any) -> None:
        read_inputs(self.config, inputs)  # Refused ones are refused before a shard has heard of them.
        log = self._context.event_log
        self._pieces = self.shards.step(StepOrder(inputs, wants_events=log.wanted))
        log.begin()
        if self._ledger is not None:
            assemble_ledger(self._ledger, self._context.tick, self._pieces)

    def after_restore(self) -> None:
        """See Meadow; the shards take their rows out of the restored state."""
        super().after_restore()
        self.shards.reload()
        self._pieces = ()

    def events(self) -> list[Event]:
        """See Meadow."""
        return assemble_events(self._pieces) + super().events()

    def close(self) -> None:
        """End the shards."""
        self.shards.close()
