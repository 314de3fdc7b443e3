"""The world ``organisms``: self-copying programs in bounded memory, with a seed bank and a taxonomy."""

from importlib.resources import files

from sim.kernel.registry import Config, InputSource, World
from sim.worlds.organisms.config import read_config
from sim.worlds.organisms.inputs import schedule
from sim.worlds.organisms.simulation import WORLD_NAME, WORLD_VERSION, Organisms, layers, picture, summarize


def _inputs(config: Config) -> InputSource:
    return schedule(read_config(config))


WORLD = World(
    name=WORLD_NAME,
    version=WORLD_VERSION,
    make=Organisms,
    inputs=_inputs,
    summarize=summarize,
    picture=picture,
    layers=layers,
    scenarios=files(__name__) / "scenarios",
)

__all__ = ["WORLD", "Organisms"]
