"""Run a meadow in one process and in shards side by side, and compare everything at every tick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from recorder import Recorder
from recorder.scenarios.shards.shard_tapes import shard_tapes_beside
from sim.kernel.plain_data import encode_plain
from sim.scenario.scenario_file import load_scenario
from sim.sharding import ShardEngine, Stripes
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.model.energy_ledger import Ledger
from sim.worlds.meadow.shards.meadow_shard import MeadowPlan
from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow
from sim.worlds.meadow.shards.stripe import HALO


def record_in_shards(path: Path, name: str, count: int, ticks: int, seed: int | None = None) -> None:
    """Record a run of a shipped scenario in shards, with events, all in this process, with their tapes."""
    plain = load_scenario(name, seed=seed).config
    meadow, inputs_at = ShardedMeadow(plain, count), WORLD.inputs(plain)
    with Recorder(path, meadow, trial_ms=0, events=True) as tape, shard_tapes_beside(tape) as watch:
        assert watch is not None
        for tick in range(1, ticks + 1):
            tape.step(inputs_at(tick))
            watch(tick, encode_plain(inputs_at(tick)))


InputsAt = Callable[[int], Sequence[dict[str, Any]]]


@attrs.frozen
class CutPlan(MeadowPlan):
    """A plan with cuts of the test's choice."""

    cuts: tuple[int, ...] = ()

    def stripes(self, count: int) -> Stripes:
        """The cuts, whatever the count."""
        del count
        return Stripes(self.cuts, HALO)


class SideBySide:
    """One meadow in one process, and the same in shards; both with a ledger and events."""

    def __init__(
        self, plain: dict[str, Any], count: int, *, engine: ShardEngine | None = None, cuts: Sequence[int] | None = None
    ) -> None:
        self.ledgers = Ledger(), Ledger()
        self.one = Meadow(plain, ledger=self.ledgers[0])
        self.many = ShardedMeadow(plain, count if cuts is None else 1, engine=engine, ledger=self.ledgers[1])
        if cuts is not None:
            plan = MeadowPlan.of(plain, has_ledger=True)
            self.many.shards.stripes = Stripes(tuple(cuts), HALO)
            self.many.shards.plan = CutPlan(plan.encoded, True, tuple(cuts))
        self.one.events_wanted = self.many.events_wanted = True

    @property
    def tick(self) -> int:
        """The tick of both."""
        return int(self.one.state["tick"])

    def step(self, inputs: Any) -> None:
        """Advance both by one tick, and compare."""
        self.one.step(inputs)
        self.many.step(inputs)
        self.compare()

    def run(self, inputs_at: InputsAt, ticks: int) -> None:
        """Advance both by that many ticks."""
        for tick in range(self.tick + 1, self.tick + ticks + 1):
            self.step(inputs_at(tick))

    def compare(self) -> None:
        """The arena, with rows, ids, free rows and capacities, the hash, events, energies, figures and the end."""
        one, many, at = self.one, self.many, f"tick {self.tick}"
        if not np.array_equal(one.state.arena, many.state.arena):
            fields = [name for name in one.state if not np.array_equal(one.state[name], many.state[name])]
            raise AssertionError(f"{at}: {', '.join(fields) or 'capacities'} differ")
        assert one.state.hash() == many.state.hash(), at
        assert one.events() == many.events(), at
        assert self.ledgers[0].entries == self.ledgers[1].entries, at
        assert one.telemetry() == many.telemetry(), at
        assert one.ended() == many.ended(), at
