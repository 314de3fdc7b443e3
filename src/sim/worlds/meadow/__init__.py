"""The world ``meadow``: plants and herbivore swarms on a grid, in bit-exact arithmetic."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from sim.kernel.registry import Config, InputSource, World
from sim.worlds.meadow.config.meadow import PARAMETERS, read_config
from sim.worlds.meadow.phases.inputs import schedule
from sim.worlds.meadow.players import training
from sim.worlds.meadow.players.policies import play
from sim.worlds.meadow.simulation import WORLD_NAME, WORLD_VERSION, Meadow, layer, layers, picture, points, summarize

if TYPE_CHECKING:
    from sim.sharding.shard_engine import ShardEngine
    from sim.worlds.meadow.shards.meadow_shard import MeadowPlan
    from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow

# The modules of the shards are imported where they are used: they would be a twentieth of the start of a seek.


def _in_shards(config: Config, count: int, engine: ShardEngine | None) -> ShardedMeadow:
    from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow  # noqa: PLC0415 - see above

    return ShardedMeadow(config, count, engine=engine)


def _shard_plan(config: Config) -> MeadowPlan:
    from sim.worlds.meadow.shards.meadow_shard import MeadowPlan  # noqa: PLC0415 - see above

    return MeadowPlan.of(config)


def _inputs(config: Config) -> InputSource:
    return schedule(read_config(config))


WORLD = World(
    name=WORLD_NAME,
    version=WORLD_VERSION,
    make=Meadow,
    inputs=_inputs,
    summarize=summarize,
    picture=picture,
    layers=layers,
    layer=layer,
    in_shards=_in_shards,
    shard_plan=_shard_plan,
    parameters=PARAMETERS,
    points=points,
    play=play,
    tick_limit_reason="Z1",  # See termination.py.
    scenarios=files(__name__) / "scenarios",
    observations=training.OBSERVATIONS,
    agents=training.agents,
    actions=training.read_actions,
    action_arrays=training.ACTION_ARRAYS,
    rewards=training.REWARDS,
    outcome=training.outcome,
)

__all__ = ["WORLD", "Meadow"]


def __dir__() -> list[str]:
    return sorted(__all__)
