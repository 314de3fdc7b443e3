"""Find a world by its name, through entry points, so that a tape can say which world it is of.

A tape holds a name, a version and a configuration; only what is installed under the entry point group ``sim.worlds``
can answer to the name. Nothing a tape says is imported or run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot, State

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "sim.worlds"

InputSource = Callable[[int], list[dict[str, Any]]]  # From a tick to the inputs that lead to it.
PlayerSource = Callable[[int, State], list[dict[str, Any]]]  # From a tick, and the state before it, to its inputs.
Config = Mapping[str, Any]
Readable = State | Snapshot  # Both give a field's array by its name, live rows only.
Seen = Mapping[str, "np.ndarray[Any, Any] | np.generic"]  # Arrays, or NumPy numbers, by name.
Observe = Callable[[Readable], Seen]
ReadActions = Callable[
    [Any, Readable], Any
]  # From a tick's inputs as recorded, and the state before it, to plain data.
EncodeActions = Callable[[Any, Readable], Seen]  # The same, as arrays.
Reward = Callable[[Readable, Readable], float]  # From a state and a later one.


class UnknownWorldError(LookupError):
    """No installed world has this name; the message lists those that are installed."""


class ConfigError(ValueError):
    """A scenario or configuration is wrong.

    Attributes:
        key: the place, for example ``flora[0].growth_percent``; empty if it is the whole.
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
    """How a simulation was made, so that it can be made again.

    Attributes:
        world: the registered name.
        version: of the world's step; it changes whenever the same inputs give other states.
        config: plain data (what a TOML file can hold).
    """

    world: str
    version: int
    config: Config

    def described(self) -> dict[str, Any]:
        """The same as plain data, as META holds it."""
        return {"name": self.world, "version": self.version, "config": dict(self.config)}


@attrs.frozen
class World:
    """A registered world: a named, versioned factory.

    Attributes:
        name: under which it is registered.
        version: see Origin.
        make: from a configuration to a simulation at tick 0; raises ConfigError.
        inputs: from a configuration to what its scenario sends at each tick; raises ConfigError.
        summarize: from a configuration and a snapshot to a few figures worth showing, by name.
        picture: from a snapshot to the layer that shows best as a map, (height, width); None if there is none.
        layers: from a configuration and a snapshot to all layers worth showing as maps, by name; None if there are none.
        points: from a configuration and a snapshot to where things are on these maps, by kind, (count, 2) float64: x to
            the right and y down, where cell (x, y) of a map spans x to x + 1 and y to y + 1; None if nothing has a place.
        play: from a configuration, a player's name and a policy's to what that player sends; raises ConfigError. None
            if the world has no players.
        tick_limit_reason: what the end of a run is called that has done the ticks it was to do.
        properties: functions that a scenario's properties may name, see sim.scenario.middleware.monitors.
        scenarios: the folder of the scenarios that ship with the world, as an importlib.resources path; or None.

    What follows is for training data; all of it may be missing. An agent is somebody who acts, by name; "" is nobody in
    particular. Functions made from a configuration and an agent raise ConfigError if there is no such agent, or if they
    are about agents and it is "". They read the states they are given, keep nothing between calls and return arrays of
    their own, so that a live run and a recording give the same bytes.
        observations: what can be seen of a state, by name. The names and dtypes of the arrays never change for one
            configuration and agent, and their shapes neither, except that a one-dimensional array may be of any length
            (as long as there are swarms, say).
        agents: from a configuration to who acts in its run.
        actions: from a configuration and an agent to what this agent sent: out of the inputs of a tick as they were
            recorded, and the state before that tick, the part of the agent, as plain data (of the same kind as the
            inputs: a list for a world whose inputs are lists).
        action_arrays: the same as arrays of fixed shape and dtype, of one tick, by name.
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
    """What is installed; read once, since that takes some 30 ms and does not change while a program runs."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - it brings half of the standard library along

    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def find_world(name: str) -> World:
    """The installed world of this name.

    Raises UnknownWorldError, with the names that are installed; TypeError if the entry point leads to no World.
    """
    for point in _points():
        if point.name == name:
            world = point.load()
            if not isinstance(world, World):
                raise TypeError(f"the entry point {name} leads to {type(world).__name__}, not to a World")
            return world
    raise UnknownWorldError(f"no world named {name!r} is installed; installed: {', '.join(world_names()) or 'none'}")
