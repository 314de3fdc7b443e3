"""Simulations as states with one step: the parts of a world. The recorder and the replayer are based on this."""

from sim.kernel.arithmetic.counter_rng import KeyedRandom, RandomStream
from sim.kernel.changes.row_changes import UnmarkedWriteError
from sim.kernel.hooks import Phase
from sim.kernel.registry import ConfigError, Origin, UnknownWorldError, World, find_world, world_names
from sim.kernel.schema import Blob, Field, Schema, Table
from sim.kernel.simulation import SavedSimulation, Simulation, run_phases
from sim.kernel.state import Snapshot, State

__all__ = [
    "Blob",
    "ConfigError",
    "Field",
    "KeyedRandom",
    "Origin",
    "Phase",
    "RandomStream",
    "SavedSimulation",
    "Schema",
    "Simulation",
    "Snapshot",
    "State",
    "Table",
    "UnknownWorldError",
    "UnmarkedWriteError",
    "World",
    "find_world",
    "run_phases",
    "world_names",
]


def __dir__() -> list[str]:
    modules = (name for name in ("adapters", "scenario", "worlds") if name in globals())
    return sorted([*__all__, *modules])  # Nothing internal, so that the tab key offers nothing internal.
