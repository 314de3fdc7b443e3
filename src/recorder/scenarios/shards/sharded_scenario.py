"""A scenario whose world runs in shards, by an engine of the caller's choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from recorder.exit_codes import INCOMPLETE, UsageError
from sim.kernel.registry import Config
from sim.kernel.simulation import Simulation
from sim.scenario.scenario_file import Scenario
from sim.sharding import ShardEngine, ShardLostError, ShardsError
from sim.sharding.shard_run import RESTARTS_MAX


def in_shards(loaded: Scenario, count: int, make_engine: Callable[[], ShardEngine]) -> Scenario:
    """Return the scenario with its world in shards. make_engine: makes the engine of each simulation.

    Raises UsageError if the world does not run in shards; making it raises UsageError if there are too many.
    """
    make = loaded.world.in_shards
    if make is None:
        what = f"the world {loaded.world.name}" if loaded.world.name else "a simulation of --sim"
        raise UsageError(f"--shards {count}: {what} does not run in shards")

    def make_in_shards(config: Config) -> Simulation:
        try:
            return make(config, count, make_engine())
        except ShardsError as error:
            raise UsageError(f"--shards: {error}") from None

    return attrs.evolve(loaded, world=attrs.evolve(loaded.world, make=make_in_shards))


@contextmanager
def lost_shards_in_one_line() -> Iterator[None]:
    """Raise UsageError if shards were lost too often in one tick; it names the last one."""
    try:
        yield
    except ShardLostError as error:
        raise UsageError(
            f"--shards: {error}, after {RESTARTS_MAX} restarts of all shards in this tick", INCOMPLETE
        ) from None
