"""Training data of a meadow: agents, observations, actions, rewards and outcome; see registry.World.

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

NO_DIRECTION = -1

Input = Mapping[str, Any]


def agents(config: Config) -> tuple[str, ...]:
    """Return the players' species, in the order of the configuration."""
    return tuple(player.species for player in read_config(config).players)


# --- observations


def observe_fog(config: Config, agent: str) -> Observe:
    """Make the observation "fog": the arrays of view.look for the player, by the names of FogView."""
    meadow_config = read_config(config)
    player = meadow_config.player_of(_require_agent(agent))
    return lambda state: look(state, meadow_config, player).arrays


def observe_layers(config: Config, agent: str) -> Observe:
    """Make the observation "layers": the meadow without fog, with or without a player; (height, width) int64 maps.

    Energies, concentrations and winds are in units of 1/65536. ``tick`` is a number. ``plants`` and ``plants.NAME`` are
    the energy of all plants and of a species as of the last rebuild, as swarms perceive it; ``energy`` is the energy of
    all plants at the end of the tick. ``flow`` is the flow field; ``wind.east`` and ``wind.south`` are the wind;
    ``signal.NAME`` and ``toxin.NAME`` are concentrations of a substance; ``heads.NAME`` and ``herbivore_energy.NAME``
    are heads and energy of the swarms of a species.
    """
    meadow_config = read_config(config)
    if agent:
        meadow_config.player_of(agent)
    return lambda state: _layers(state, meadow_config)


def _layers(state: Readable, config: MeadowConfig) -> dict[str, Any]:
    front = int(state["biotope.front"])
    maps: dict[str, Any] = {"tick": np.int64(state["tick"]), "plants": state["biotope.total"][front]}
    maps |= {f"plants.{flora.name}": state["biotope.energy"][front, i] for i, flora in enumerate(config.flora)}
    maps["energy"] = state["biotope.energy"][1 - front].sum(axis=0)  # The back side has the writes since the rebuild.
    maps |= {"flow": state["biotope.flow"]}
    maps |= {f"wind.{name}": state["biotope.wind"][axis] for axis, name in enumerate(("east", "south"))}
    for substance, layer in zip(config.substances, config.layers, strict=True):
        maps[f"{substance.kind}.{substance.name}"] = state[f"biotope.{substance.kind}s"][layer]
    rows = np.flatnonzero(state["swarms.id"])
    for index, herbivore in enumerate(config.herbivores):
        mine = rows[state["swarms.species"][rows] == index]
        cells = state["swarms.y"][mine], state["swarms.x"][mine]
        for name, column in (("heads", "population"), ("herbivore_energy", "energy")):
            layer_of_swarms = np.zeros_like(maps["plants"])
            np.add.at(layer_of_swarms, cells, state[f"swarms.{column}"][mine])
            maps[f"{name}.{herbivore.name}"] = layer_of_swarms
    return {name: value.copy() for name, value in maps.items()}


# --- actions


def read_actions(config: Config, agent: str) -> ReadActions:
    """Make the reader of a player's inputs among those of a tick: a list in their order.

    A plain list does not name the sender. A command to a swarm (steer, split) belongs to the player who had the swarm
    before the tick; a command to an unknown swarm belongs to no player. A spawn belongs to the player of its species.
    In a wrapped scenario the inputs are grouped by role: the player has everything under its own name, plus the commands
    for its swarms under the empty name.
    """
    species = _species(read_config(config), agent)

    def read(inputs: Any, before: Readable) -> list[Input]:
        if isinstance(inputs, Mapping):
            return [*inputs.get(agent, ()), *_owned(inputs.get("", ()), before, species)]
        return _owned(inputs or (), before, species)

    return read


def encode_steer(config: Config, agent: str) -> EncodeActions:
    """Make the encoder of the action array "steer": only the array of that name of encode_orders."""
    encode = encode_orders(config, agent)
    return lambda inputs, before: {"steer": encode(inputs, before)["steer"]}


def encode_orders(config: Config, agent: str) -> EncodeActions:
    """Make the encoder of the action arrays "orders": a player's inputs as (height, width) maps.

    Commands are placed at the cells of their swarms before the tick. ``steer``, int8: the direction of a steer command
    (0 stay, 1 east, 2 south, 3 west, 4 north), -1 without one. If several swarms in a cell have one, the swarm with the
    most heads counts, then the lowest id. ``split``, bool: True if a swarm in the cell is to be divided. ``spawn``,
    int64: heads to be spawned in the cell. Inputs count as sent, even if budget or sight did not allow them; invalid
    inputs, which a scenario drops, do not count.
    """
    meadow_config = read_config(config)
    species = _species(meadow_config, agent)
    read = read_actions(config, agent)

    def encode(inputs: Any, before: Readable) -> Seen:
        shape = (meadow_config.grid.height, meadow_config.grid.width)
        steer = np.full(shape, NO_DIRECTION, np.int8)
        split, spawn = np.zeros(shape, np.bool_), np.zeros(shape, np.int64)
        items = [item for item in read(inputs, before) if is_input(meadow_config, item)]
        directions: dict[int, int] = {}  # Inputs are sorted: of several commands to a swarm the largest is the last.
        for item in items:
            if item["kind"] == "steer":
                directions[item["swarm"]] = max(item["direction"], directions.get(item["swarm"], 0))
            elif item["kind"] == "spawn" and item["species"] == species:
                spawn[item["y"], item["x"]] += item["population"]
        divided = {item["swarm"] for item in items if item["kind"] == "split"}
        for swarm, x, y in _by_weight(before, species):
            if swarm in directions:
                steer[y, x] = directions[swarm]
            split[y, x] |= swarm in divided
        return {"steer": steer, "split": split, "spawn": spawn}

    return encode


def _by_weight(state: Readable, species: int) -> Iterable[tuple[int, int, int]]:
    """Return id, x and y of the swarms of a species, by ascending heads, then by descending id."""
    rows = _rows_of(state, species)[::-1]
    rows = rows[np.argsort(state["swarms.population"][rows], kind="stable")]
    columns = (state[f"swarms.{column}"][rows].tolist() for column in ("id", "x", "y"))
    return zip(*columns, strict=True)


def _owned(inputs: Iterable[Input], before: Readable, species: int) -> list[Input]:
    ids = frozenset(before["swarms.id"][_rows_of(before, species)].tolist())

    def is_owned(item: Input) -> bool:
        match item:
            case {"kind": "steer" | "split", "swarm": swarm}:
                return swarm in ids
            case {"kind": "spawn", "species": spawned_species}:
                return bool(spawned_species == species)
        return False

    return [item for item in inputs if is_owned(item)]


# --- rewards and outcome


def reward_of(column: str) -> Callable[[Config, str], Reward]:
    """Make the reward "heads" or "energy": the gain of the player's swarms in the tick (energy in units of 1.0)."""

    def make(config: Config, agent: str) -> Reward:
        species = _species(read_config(config), agent)
        return lambda before, after: _total(after, species, column) - _total(before, species, column)

    return make


def outcome(config: Config, state: Readable) -> dict[str, float]:
    """Return the score of each player: its heads."""
    meadow_config = read_config(config)
    return {
        player.species: _total(state, meadow_config.herbivore_index(player.species), "population")
        for player in meadow_config.players
    }


def _total(state: Readable, species: int, column: str) -> float:
    amount = int(state[f"swarms.{column}"][_rows_of(state, species)].sum())
    return to_number(amount) if column == "energy" else float(amount)


def _rows_of(state: Readable, species: int) -> Rows:
    """Return the rows of the swarms of a species in ascending id."""
    rows = rows_by_id(state, "swarms")
    matching: npt.NDArray[np.int64] = rows[state["swarms.species"][rows] == species]
    return matching


def _species(config: MeadowConfig, agent: str) -> int:
    """Return the index of a player's species. Raises ConfigError for an unknown player."""
    return config.herbivore_index(config.player_of(_require_agent(agent)).species)


def _require_agent(agent: str) -> str:
    if not agent:
        raise ConfigError("", "expected the name of a player as agent")
    return agent


OBSERVATIONS = {"fog": observe_fog, "layers": observe_layers}
ACTION_ARRAYS = {"steer": encode_steer, "orders": encode_orders}
REWARDS = {"heads": reward_of("population"), "energy": reward_of("energy")}
