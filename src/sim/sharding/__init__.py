"""Worlds in shards: stripes of rows, each a state of its own, that exchange messages and together give the same states."""

from sim.sharding.engine import Engine, Lockstep, ShardLostError
from sim.sharding.shard_plan import Exchange, PartedPlan, Piece, Shard, ShardPlan
from sim.sharding.shard_run import ShardRun
from sim.sharding.stripes import ShardsError, Stripes

__all__ = [
    "Engine",
    "Exchange",
    "Lockstep",
    "PartedPlan",
    "Piece",
    "Shard",
    "ShardLostError",
    "ShardPlan",
    "ShardRun",
    "ShardsError",
    "Stripes",
]
