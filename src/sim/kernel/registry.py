"""Find a world by its name, through entry points, so that a tape can name its world.

A tape holds a name, a version and a configuration. The name is looked up only among the worlds of this package and the
entry points of the group ``sim.worlds`` that are installed. Nothing that a tape names is imported or run otherwise.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot, State
from sim.near_names import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "sim.worlds"
OWN_WORLDS = frozenset(("choreography", "meadow", "organisms"))  # Packages in sim.worlds; the names are theirs.

InputSource = Callable[[int], list[dict[str, Any]]]  # From a tick to the inputs that lead to it.
PlayerSource = Callable[[int, State], list[dict[str, Any]]]  # From a tick, and the state before it, to its inputs.
Config = Mapping[str, Any]
Readable = State | Snapshot  # Both give a field's array by its name, live rows only.
Seen = Mapping[str, "np.ndarray[Any, Any] | np.generic"]  # Arrays, or NumPy numbers, by name.
Observe = Callable[[Readable], Seen]
ReadActions = Callable[
    [Any, Readable], Any
]  # From a tick's inputs as recorded, and the state before it, to plain data.
EncodeActions = Callable[[Any, Readable], Seen]  # From the same arguments to arrays.
Reward = Callable[[Readable, Readable], float]  # From a state and a later one.


class UnknownWorldError(LookupError):
    """No installed world has this name; the message lists those that are installed."""


class ConfigError(ValueError):
    """A scenario or configuration is wrong.

    Attributes:
        key: the key path, for example ``flora[0].growth_percent``; empty for the configuration as a whole.
        problem: what was expected and what was found.
    """

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key = key
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}" if self.key else self.problem


@attrs.frozen
class Origin:
    """The factory and arguments of a simulation, so that it can be built again.

    Attributes:
        world: the registered name.
        version: of the world's step; it changes whenever the same inputs give different states.
        config: plain data (what a TOML file can hold).
    """

    world: str
    version: int
    config: Config

    def described(self) -> dict[str, Any]:
        """The origin as plain data, as META holds it."""
        return {"name": self.world, "version": self.version, "config": dict(self.config)}


@attrs.frozen
class World:
    """A registered world: a named, versioned factory.

    Attributes:
        name: the name under which it is registered.
        version: see Origin.
        make: from a configuration to a simulation at tick 0; raises ConfigError.
        inputs: from a configuration to the source of the inputs of each tick; raises ConfigError.
        summarize: from a configuration and a snapshot to a few figures worth showing, by name.
        picture: from a snapshot to the layer that is best shown as a map, (height, width); None if there is none.
        layers: from a configuration and a snapshot to all layers worth showing as maps, by name; None if there are
            none.
        points: from a configuration and a snapshot to the positions of things on these maps, by kind, (count, 2) or
            (count, 3) float64: x to the right and y down, where cell (x, y) of a map spans x to x + 1 and y to y + 1,
            and the size of each thing, 0 or more, if it has one; None if nothing has a position.
        play: from a configuration and the names of a player and a policy to the source of that player's inputs; raises
            ConfigError. None if the world has no players.
        tick_limit_reason: the name of the end of a run that has reached its number of ticks.
        properties: functions that a scenario's properties may name, see sim.scenario.middleware.monitors.
        scenarios: the folder of the scenarios that ship with the world, as an importlib.resources path; or None.
        layer: one of the layers by its name, so that the others need not be made for it; None makes all of them.
        in_shards: from a configuration, a number of shards and an engine (see sim.sharding) to the same simulation, whose
            steps are made by shards; raises ShardsError, and what make raises. None if the world does not run in shards.
        shard_plan: from a configuration to a sim.sharding.PartedPlan, for tapes of shards; or None.
        parameters: keys that a configuration may leave out, so that a branch can set them.

    The remaining members are for training data; each of them is optional. An agent acts in the world and has a name; ""
    stands for no agent in particular. Functions made from a configuration and an agent raise ConfigError if there is no
    such agent, or if they need an agent and it is "". They read the states that they receive, keep nothing between
    calls and return new arrays, so that a live run and a recording give the same bytes.
        observations: functions that observe a state, by name. The names and dtypes of the arrays never change for one
            configuration and agent. Their shapes do not change either, except that a one-dimensional array may be of
            any length (the number of swarms, for example).
        agents: from a configuration to the names of the agents in its run.
        actions: from a configuration and an agent to a function that selects the actions of this agent from the
            recorded inputs of a tick and the state before it, as plain data (of the same kind as the inputs: a list for
            a world whose inputs are lists).
        action_arrays: the actions of one tick as arrays of fixed shape and dtype, by name.
        rewards: from a state at a tick and one later to a number, by name.
        outcome: from a configuration and the last state of a run to a score for each agent; the highest wins, equal
            ones draw.
    """

    name: str
    version: int
    make: Callable[[Config], Simulation]
    inputs: Callable[[Config], InputSource]
    summarize: Callable[[Config, Snapshot], Mapping[str, str]]
    picture: Callable[[Snapshot], npt.NDArray[Any]] | None = None
    layers: Callable[[Config, Snapshot], Mapping[str, npt.NDArray[Any]]] | None = None
    points: Callable[[Config, Snapshot], Mapping[str, npt.NDArray[np.float64]]] | None = None
    play: Callable[[Config, str, str], PlayerSource] | None = None
    tick_limit_reason: str = "ticks"
    properties: Mapping[str, Callable[[Any], str | None]] = attrs.field(factory=dict)
    scenarios: Any = None
    layer: Callable[[Config, Snapshot, str], npt.NDArray[Any]] | None = attrs.field(default=None, kw_only=True)
    in_shards: Callable[[Config, int, Any], Simulation] | None = attrs.field(default=None, kw_only=True)
    shard_plan: Callable[[Config], Any] | None = attrs.field(default=None, kw_only=True)
    parameters: Sequence[str] = attrs.field(default=(), kw_only=True)
    observations: Mapping[str, Callable[[Config, str], Observe]] = attrs.field(factory=dict)
    agents: Callable[[Config], Sequence[str]] | None = None
    actions: Callable[[Config, str], ReadActions] | None = None
    action_arrays: Mapping[str, Callable[[Config, str], EncodeActions]] = attrs.field(factory=dict)
    rewards: Mapping[str, Callable[[Config, str], Reward]] = attrs.field(factory=dict)
    outcome: Callable[[Config, Readable], Mapping[str, float]] | None = None


def world_names() -> list[str]:
    """The names of all installed worlds, sorted."""
    return sorted({point.name for point in _points()})


@functools.cache
def _points() -> tuple[EntryPoint, ...]:
    """The installed entry points; read once, since that takes some 30 ms and they do not change during a program."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - it brings half of the standard library along

    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def find_world(name: str) -> World:
    """The installed world of this name.

    Raises UnknownWorldError, with the names that are installed; TypeError if the entry point is not a World.
    """
    if name in OWN_WORLDS:  # Found without the list of all that is installed, which takes longer than a short seek.
        own: World = importlib.import_module(f"sim.worlds.{name}").WORLD
        return own
    for point in _points():
        if point.name == name:
            world = point.load()
            if not isinstance(world, World):
                raise TypeError(f"entry point {name}: expected a World, got {type(world).__name__}")
            return world
    names = world_names()
    raise UnknownWorldError(
        f"no world named {name!r} is installed; installed: {', '.join(names) or 'none'}{did_you_mean(name, names)}"
    )
