"""The hash that identifies a scenario: of the world, its configuration, and the scenario's own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sim.kernel.hooks import HasScenario, hook
from sim.kernel.plain_data import encode_plain
from sim.kernel.registry import Origin
from sim.kernel.simulation import inner_of

HASH_BYTES = 8
# Keys that do not change the states of a run: names, the length of the run, its checkpoints.
_LEFT_OUT = ("name", "steps", "checkpoint_interval", "extensions")
_LEFT_OUT_OF_WORLD = ("name", "ticks")


def scenario_hash(source: Any) -> str:
    """The hexadecimal hash of a simulation with a scenario around it, or of a tape's META.

    Two runs with equal hashes and equal inputs go through the same states. Without a scenario, it is that of the world and
    its configuration alone.
    """
    if not isinstance(source, Mapping):
        with_scenario = hook(source, HasScenario)
        return scenario_hash_around(source, None if with_scenario is None else with_scenario.scenario)
    world = source.get("world")
    return _hash(world, None if world else source.get("simulation"), source.get("scenario"))


def scenario_hash_around(simulation: Any, scenario: Mapping[str, Any] | None) -> str:
    """The hash that a simulation would have with this scenario, as plain data, instead of its own."""
    simulation_class = type(inner_of(getattr(simulation, "inner", simulation)))
    if isinstance(simulation.origin, Origin):
        return _hash(simulation.origin.described(), None, scenario)
    return _hash(None, f"{simulation_class.__module__}.{simulation_class.__qualname__}", scenario)


def _hash(world: Any, name: str | None, scenario: Mapping[str, Any] | None) -> str:
    scenario = {key: value for key, value in (scenario or {}).items() if key not in _LEFT_OUT}
    if world:
        config = {key: value for key, value in world["config"].items() if key not in _LEFT_OUT_OF_WORLD}
        world = [world["name"], world["version"], _sorted(config)]
    return hashlib.blake2b(encode_plain([world, name, _sorted(scenario)]), digest_size=HASH_BYTES).hexdigest()


def _sorted(value: Any) -> Any:
    """Plain data with the keys of its tables sorted, at every depth."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value
