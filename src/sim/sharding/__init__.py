"""Worlds in shards: stripes of rows, each a state of its own, that exchange messages and together give the same states."""

from sim.sharding.shard_engine import Lockstep, ShardEngine, ShardLostError
from sim.sharding.shard_plan import Exchange, PartedPlan, Piece, Shard, ShardPlan
from sim.sharding.shard_run import ShardRun
from sim.sharding.stripes import ShardsError, Stripes

__all__ = [
    "Exchange",
    "Lockstep",
    "PartedPlan",
    "Piece",
    "Shard",
    "ShardEngine",
    "ShardLostError",
    "ShardPlan",
    "ShardRun",
    "ShardsError",
    "Stripes",
]
