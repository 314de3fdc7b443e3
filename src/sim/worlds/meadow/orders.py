"""Phase inputs: what players and scenarios send, checked, sorted canonically and carried out.

An input is a dict with a kind and the keys of INPUT_KEYS:
    {"kind": "plant", "species": 0, "x": 3, "y": 4}                     a seedling, if the cell is free
    {"kind": "release", "species": 0, "x": 3, "y": 4, "population": 9}  a swarm with energy_min for each head
    {"kind": "wind", "east": 65536, "south": 0}                         cells a tick, in 1/65536
    {"kind": "drought", "ticks": 100, "percent": 60}                    so much less growth; 0 ticks ends one
All values are whole numbers. The inputs of one tick are sorted by kind and values, so that their order means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim.kernel.registry import InputSource
from sim.kernel.state import State
from sim.worlds.meadow.config import INPUT_KEYS, POPULATION_MAX, TICKS_MAX, MeadowConfig, ScheduledInput
from sim.worlds.meadow.interaction import add_swarm
from sim.worlds.meadow.plants import add_plants

WIND_MAX = 64 << 16  # 64 cells a tick; far more than any meadow needs.
DROUGHT_PERCENT_MAX = 200

_KINDS = list(INPUT_KEYS)


def run_inputs(state: State, config: MeadowConfig, inputs: Any) -> None:
    """The whole phase; the tick begins here. Raises ValueError for an input that cannot be; nothing has changed then."""
    checked = sorted(_check(config, item) for item in inputs or ())
    state.set("tick", 0, int(state["tick"]) + 1)
    for kind_index, *values in checked:
        match _KINDS[kind_index], values:
            case "plant", [species, x, y]:
                if state["biotope.occupant"][y, x] == 0:
                    _plant(state, config, species, x, y)
            case "release", [species, x, y, population]:
                energy = config.herbivores[species].energy_min * population
                add_swarm(state, species, x, y, population, energy)
            case "wind", [east, south]:
                state.set("climate.wind", slice(None), (east, south))
            case "drought", [ticks, percent]:
                state.set("climate.drought_ticks", 0, ticks)
                state.set("climate.drought_percent", 0, percent if ticks else 0)


def _plant(state: State, config: MeadowConfig, species: int, x: int, y: int) -> None:
    one = (np.array([value], dtype=np.int64) for value in (species, x, y, config.flora[species].base_energy))
    add_plants(state, *one)


def _check(config: MeadowConfig, item: Any) -> tuple[int, ...]:
    """An input as integers: the kind's number, then the values in the order of INPUT_KEYS."""
    if not isinstance(item, Mapping) or item.get("kind") not in _KINDS:
        raise ValueError(f"{item!r} is no input of a meadow; its kind is one of {', '.join(INPUT_KEYS)}")
    kind = item["kind"]
    if set(item) != {"kind", *INPUT_KEYS[kind]}:
        raise ValueError(f"input {item!r}: the keys kind, {', '.join(INPUT_KEYS[kind])} were expected")
    species_count = len(config.flora if kind == "plant" else config.herbivores)
    bounds = {
        "species": (0, species_count - 1),
        "x": (0, config.grid.width - 1),
        "y": (0, config.grid.height - 1),
        "population": (1, POPULATION_MAX),
        "east": (-WIND_MAX, WIND_MAX),
        "south": (-WIND_MAX, WIND_MAX),
        "ticks": (0, TICKS_MAX),
        "percent": (0, DROUGHT_PERCENT_MAX),
    }
    values = [item[key] for key in INPUT_KEYS[kind]]
    for key, value in zip(INPUT_KEYS[kind], values, strict=True):
        low, high = bounds[key]
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
            raise ValueError(f"input {item!r}: {key} is a whole number from {low} to {high}")
    return (_KINDS.index(kind), *map(int, values))


def schedule(config: MeadowConfig) -> InputSource:
    """What the scenario sends: from a tick to the inputs that lead to it."""
    prepared = [(item, _as_input(config, item)) for item in config.inputs]

    def inputs_at(tick: int) -> list[dict[str, Any]]:
        return [sent for item, sent in prepared if _is_due(item, tick)]

    return inputs_at


def _is_due(item: ScheduledInput, tick: int) -> bool:
    if tick < item.tick or (item.until is not None and tick > item.until):
        return False
    return tick == item.tick or (item.every is not None and (tick - item.tick) % item.every == 0)


def _as_input(config: MeadowConfig, item: ScheduledInput) -> dict[str, Any]:
    values = {key: getattr(item, key) for key in INPUT_KEYS[item.kind]}
    if "species" in values:
        find = config.flora_index if item.kind == "plant" else config.herbivore_index
        values["species"] = find(values["species"])
    return {"kind": item.kind, **values}
