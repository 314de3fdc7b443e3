"""Scripted players: policies that turn a player's view through fog into inputs.

    idle      sends nothing.
    random    steers every swarm in a random direction; rarely divides a swarm or spawns one.
    greedy    steers every swarm to the most food it knows of within a step, spawns swarms on the most food in sight,
              and divides large swarms.

Random draws are keyed by the scenario's seed, tick and swarm. So a policy has no state of its own and continues after a
resume without a difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sim.kernel.arithmetic.counter_rng import KeyedRandom, scale_words
from sim.kernel.registry import Config, ConfigError, PlayerSource
from sim.kernel.state import State
from sim.worlds.meadow.config.meadow import MeadowConfig, Player, read_config
from sim.worlds.meadow.model.layout import NEIGHBOURS
from sim.worlds.meadow.players.view import FogView, look

POLICY_PHASE = 200  # In the keys of random draws; far from the phases of the world itself.
RARE = 16  # A random player divides a swarm, or spawns one, once in this many draws.
SPAWN_POPULATION = 4

Inputs = list[dict[str, Any]]
Policy = Callable[[FogView, MeadowConfig, Player, int], Inputs]

_DIRECTIONS = ((0, 0), *NEIGHBOURS)


def play(config: Config, species: str, name: str) -> PlayerSource:
    """Make the player of a species with a policy. Raises ConfigError for an unknown player or policy."""
    meadow_config = read_config(config)
    player = meadow_config.player_of(species)
    if name not in POLICIES:
        raise ConfigError("", f"expected one of {', '.join(POLICIES)}, got {name!r}")
    policy = POLICIES[name]

    def inputs_at(tick: int, state: State) -> Inputs:
        return policy(look(state, meadow_config, player), meadow_config, player, tick)

    return inputs_at


def _idle(_view: FogView, _config: MeadowConfig, _player: Player, _tick: int) -> Inputs:
    return []


def _random(view: FogView, config: MeadowConfig, player: Player, tick: int) -> Inputs:
    words = KeyedRandom(config.seed).words(POLICY_PHASE, tick, view.swarm_id)
    directions = scale_words(words[:, 0], len(_DIRECTIONS)).tolist()
    lots = scale_words(words[:, 1], 2 * RARE).tolist()
    inputs: Inputs = []
    for index, (swarm, direction, lot) in enumerate(zip(view.swarm_id.tolist(), directions, lots, strict=True)):
        inputs.append({"kind": "steer", "swarm": swarm, "direction": direction})
        if lot == 0:
            inputs.append({"kind": "split", "swarm": swarm})
        elif lot == 1:
            x, y = int(view.swarm_x[index]), int(view.swarm_y[index])
            inputs.append(_spawn(config, player, x, y))
    return inputs


def _greedy(view: FogView, config: MeadowConfig, player: Player, _tick: int) -> Inputs:
    inputs: Inputs = []
    height, width = view.food.shape
    herbivore = config.herbivores[config.herbivore_index(player.species)]
    own = zip(view.swarm_id.tolist(), view.swarm_x.tolist(), view.swarm_y.tolist(), strict=True)
    for swarm, x, y in own:
        near = [(x + dx, y + dy) for dx, dy in _DIRECTIONS]
        food = [int(view.food[cy, cx]) if 0 <= cx < width and 0 <= cy < height else -1 for cx, cy in near]
        best = food.index(max(food))
        if best:  # A swarm in the best cell stays there without a command, as long as there is food.
            inputs.append({"kind": "steer", "swarm": swarm, "direction": best})
    budget = int(view.budget)
    large = view.swarm_id[view.swarm_population >= max(2, herbivore.split_population * 3 // 4)]
    for swarm in large.tolist():
        if budget >= player.split_cost:
            budget -= player.split_cost
            inputs.append({"kind": "split", "swarm": swarm})
    in_sight = np.where(view.seen, view.food, 0)  # A swarm can be spawned only in sight.
    if in_sight.any() and budget >= player.spawn_cost * SPAWN_POPULATION:
        y, x = np.unravel_index(int(in_sight.argmax()), in_sight.shape)
        inputs.append(_spawn(config, player, int(x), int(y)))
    return inputs


def _spawn(config: MeadowConfig, player: Player, x: int, y: int) -> dict[str, Any]:
    species = config.herbivore_index(player.species)
    return {"kind": "spawn", "species": species, "x": x, "y": y, "population": SPAWN_POPULATION}


POLICIES: dict[str, Policy] = {"idle": _idle, "random": _random, "greedy": _greedy}
