"""A scenario whose world runs in shards, each in a process of its own."""

from __future__ import annotations

import attrs

from recorder.exit_codes import UsageError
from sim.kernel.registry import Config
from sim.kernel.simulation import Simulation
from sim.scenario.scenario_file import Scenario
from sim.sharding import Engine, ShardsError


def in_shards(loaded: Scenario, count: int, engine: Engine) -> Scenario:
    """Return the scenario with its world in shards. Raises UsageError if the world does not run in so many."""
    make = loaded.world.in_shards
    if make is None:
        what = f"the world {loaded.world.name}" if loaded.world.name else "a simulation of --sim"
        raise UsageError(f"--shards {count}: {what} does not run in shards")

    def make_in_shards(config: Config) -> Simulation:
        try:
            return make(config, count, engine)
        except ShardsError as error:
            raise UsageError(f"--shards: {error}") from None

    return attrs.evolve(loaded, world=attrs.evolve(loaded.world, make=make_in_shards))
