"""The world ``choreography``: roles that exchange messages according to a protocol."""

from importlib.resources import files
from typing import Any

from sim.kernel.registry import Config, InputSource, World
from sim.worlds.choreography import training
from sim.worlds.choreography.config import read_config
from sim.worlds.choreography.run.simulation import WORLD_NAME, WORLD_VERSION, Choreography, summarize


def _inputs(config: Config) -> InputSource:
    read_config(config)

    def nothing(_tick: int) -> list[dict[str, Any]]:
        return []

    return nothing


WORLD = World(
    name=WORLD_NAME,
    version=WORLD_VERSION,
    make=Choreography,
    inputs=_inputs,
    summarize=summarize,
    scenarios=files(__name__) / "scenarios",
    observations={"role": training.observe_role},
    agents=training.agents,
)

__all__ = ["WORLD", "Choreography"]
