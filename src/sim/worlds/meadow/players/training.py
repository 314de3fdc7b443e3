"""What a meadow gives to training data: agents, observations, actions, rewards and outcome; see registry.World.

Agents are the players, by the names of their species.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.fixed_point import to_number
from sim.kernel.registry import Config, ConfigError, EncodeActions, Observe, Readable, ReadActions, Reward, Seen
from sim.worlds.meadow.config.meadow import MeadowConfig, read_config
from sim.worlds.meadow.model.table_rows import Rows, rows_by_id
from sim.worlds.meadow.phases.inputs import is_input
from sim.worlds.meadow.players.view import look

NO_ORDER = -1

Order = Mapping[str, Any]


def agents(config: Config) -> tuple[str, ...]:
    """The players' species, in the order of the configuration."""
    return tuple(player.species for player in read_config(config).players)


# --- observations


def observe_fog(config: Config, agent: str) -> Observe:
    """Observation "fog": what view.look gives the player, by the names of FogView."""
    known = read_config(config)
    player = known.player_of(_named(agent))
    return lambda state: look(state, known, player).arrays


def observe_layers(config: Config, agent: str) -> Observe:
    """Observation "layers": the meadow without fog, for nobody in particular or any player; (height, width) int64 maps.

    Energies, concentrations and winds count 1/65536. ``tick`` is a number. ``plants`` and ``plants.NAME`` are the energy
    of plants, and of those of a species, as of the last rebuild, which is what swarms perceive; ``energy`` is what the
    plants have at the end of the tick. ``flow``; ``wind.east`` and ``wind.south``; ``signal.NAME`` and ``toxin.NAME`` are
    concentrations of a substance; ``heads.NAME`` and ``herbivore_energy.NAME`` are of the swarms of a species.
    """
    known = read_config(config)
    if agent:
        known.player_of(agent)
    return lambda state: _layers(state, known)


def _layers(state: Readable, config: MeadowConfig) -> dict[str, Any]:
    front = int(state["biotope.front"])
    found: dict[str, Any] = {"tick": np.int64(state["tick"]), "plants": state["biotope.total"][front]}
    found |= {f"plants.{flora.name}": state["biotope.energy"][front, i] for i, flora in enumerate(config.flora)}
    found["energy"] = state["biotope.energy"][1 - front].sum(axis=0)  # The back is what has been written since.
    found |= {"flow": state["biotope.flow"]}
    found |= {f"wind.{name}": state["biotope.wind"][axis] for axis, name in enumerate(("east", "south"))}
    for substance, layer in zip(config.substances, config.layers, strict=True):
        found[f"{substance.kind}.{substance.name}"] = state[f"biotope.{substance.kind}s"][layer]
    rows = np.flatnonzero(state["swarms.id"])
    for index, herbivore in enumerate(config.herbivores):
        mine = rows[state["swarms.species"][rows] == index]
        cells = state["swarms.y"][mine], state["swarms.x"][mine]
        for name, column in (("heads", "population"), ("herbivore_energy", "energy")):
            layer_of_swarms = np.zeros_like(found["plants"])
            np.add.at(layer_of_swarms, cells, state[f"swarms.{column}"][mine])
            found[f"{name}.{herbivore.name}"] = layer_of_swarms
    return {name: value.copy() for name, value in found.items()}


# --- actions


def read_actions(config: Config, agent: str) -> ReadActions:
    """The orders of a player among the inputs of a tick, in the order in which they stand there, as a list.

    Inputs in a list do not say who sent them. Those to a swarm (steer, split) are of the player whose swarm it was before
    the tick; those to an id that nobody had then are nobody's. Those that put a swarm down are of the species' player.
    Where a scenario stands around the meadow, inputs by role say it: what stands under the player's own name, whatever
    it is, and what the list of nobody has for the player's swarms.
    """
    known = read_config(config)
    species = _species(known, agent)

    def read(inputs: Any, before: Readable) -> list[Order]:
        if isinstance(inputs, Mapping):
            return [*inputs.get(agent, ()), *_owned(inputs.get("", ()), before, species)]
        return _owned(inputs or (), before, species)

    return read


def encode_steer(config: Config, agent: str) -> EncodeActions:
    """Action array "steer": what encode_orders calls so, alone."""
    encode = encode_orders(config, agent)
    return lambda inputs, before: {"steer": encode(inputs, before)["steer"]}


def encode_orders(config: Config, agent: str) -> EncodeActions:
    """Action arrays "orders": a player's orders as maps (height, width), by the cells of the swarms before the tick.

    ``steer``, int8: the direction that the swarm in a cell is asked to take (0 stay, 1 east, 2 south, 3 west, 4 north),
    -1 where there is no order. Of several swarms with an order in a cell that with the most heads counts, of equal ones
    that with the lowest id. ``split``, bool: whether a swarm in the cell is to be divided. ``spawn``, int64: how many
    heads are to be put down in the cell. Orders count as they were sent, whether or not there was budget and sight for
    them; what is no valid input, which a scenario drops, does not count.
    """
    known = read_config(config)
    species = _species(known, agent)
    read = read_actions(config, agent)

    def encode(inputs: Any, before: Readable) -> Seen:
        shape = (known.grid.height, known.grid.width)
        steer = np.full(shape, NO_ORDER, np.int8)
        split, spawn = np.zeros(shape, np.bool_), np.zeros(shape, np.int64)
        orders = [order for order in read(inputs, before) if is_input(known, order)]
        directions: dict[int, int] = {}  # Of several orders to one swarm the largest counts, see inputs.py.
        for order in orders:
            if order["kind"] == "steer":
                directions[order["swarm"]] = max(order["direction"], directions.get(order["swarm"], 0))
            elif order["kind"] == "spawn" and order["species"] == species:
                spawn[order["y"], order["x"]] += order["population"]
        divided = {order["swarm"] for order in orders if order["kind"] == "split"}
        for swarm, x, y in _by_weight(before, species):
            if swarm in directions:
                steer[y, x] = directions[swarm]
            split[y, x] |= swarm in divided
        return {"steer": steer, "split": split, "spawn": spawn}

    return encode


def _by_weight(state: Readable, species: int) -> Iterable[tuple[int, int, int]]:
    """Id, x and y of the swarms of a species: those with few heads first, of equal ones those with high ids."""
    rows = _rows_of(state, species)[::-1]
    rows = rows[np.argsort(state["swarms.population"][rows], kind="stable")]
    columns = (state[f"swarms.{column}"][rows].tolist() for column in ("id", "x", "y"))
    return zip(*columns, strict=True)


def _owned(inputs: Iterable[Order], before: Readable, species: int) -> list[Order]:
    ids = frozenset(before["swarms.id"][_rows_of(before, species)].tolist())

    def is_owned(order: Order) -> bool:
        match order:
            case {"kind": "steer" | "split", "swarm": swarm}:
                return swarm in ids
            case {"kind": "spawn", "species": put_down}:
                return bool(put_down == species)
        return False

    return [order for order in inputs if is_owned(order)]


# --- rewards and outcome


def reward_of(column: str) -> Callable[[Config, str], Reward]:
    """Rewards "heads" and "energy": how much more of it (energy in units of 1.0) the player's swarms have afterwards."""

    def make(config: Config, agent: str) -> Reward:
        species = _species(read_config(config), agent)
        return lambda before, after: _worth(after, species, column) - _worth(before, species, column)

    return make


def outcome(config: Config, state: Readable) -> dict[str, float]:
    """A score for each player: its heads."""
    known = read_config(config)
    return {
        player.species: _worth(state, known.herbivore_index(player.species), "population") for player in known.players
    }


def _worth(state: Readable, species: int, column: str) -> float:
    amount = int(state[f"swarms.{column}"][_rows_of(state, species)].sum())
    return to_number(amount) if column == "energy" else float(amount)


def _rows_of(state: Readable, species: int) -> Rows:
    """Rows of the swarms of a species in ascending id."""
    rows = rows_by_id(state, "swarms")
    found: npt.NDArray[np.int64] = rows[state["swarms.species"][rows] == species]
    return found


def _species(config: MeadowConfig, agent: str) -> int:
    """The number of the species of a player. Raises ConfigError if there is no such player."""
    return config.herbivore_index(config.player_of(_named(agent)).species)


def _named(agent: str) -> str:
    if not agent:
        raise ConfigError("", "this is about a player: an agent is needed")
    return agent


OBSERVATIONS = {"fog": observe_fog, "layers": observe_layers}
ACTION_ARRAYS = {"steer": encode_steer, "orders": encode_orders}
REWARDS = {"heads": reward_of("population"), "energy": reward_of("energy")}
