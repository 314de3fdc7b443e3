"""Phase inputs: check, sort and carry out the inputs of players and scenarios.

An input is a dict with a kind and the keys of INPUT_KEYS:
    {"kind": "plant", "species": 0, "x": 3, "y": 4}                     a seedling, if the cell is free
    {"kind": "release", "species": 0, "x": 3, "y": 4, "population": 9}  a swarm with energy_min for each head
    {"kind": "wind", "east": 65536, "south": 0}                         everywhere: cells a tick, in 1/65536
    {"kind": "gust", "x": 3, "y": 4, "radius": 2, "east": 0, "south": 65536}   in the cells at most radius away
    {"kind": "drought", "ticks": 100, "percent": 60}                    growth reduced by percent; 0 ticks ends a drought
    {"kind": "cull", "species": 0, "x": 3, "y": 4, "radius": 2, "percent": 50}  heads and energy of the swarms there
    {"kind": "set", "parameter": 0, "value": 6553600}                   index of PARAMETERS, value in its unit
and from players:
    {"kind": "steer", "swarm": 7, "direction": 1}                       0 stay, 1 east, 2 south, 3 west, 4 north
    {"kind": "split", "swarm": 7}                                       divide a swarm, for split_cost
    {"kind": "spawn", "species": 0, "x": 3, "y": 4, "population": 9}    in sight of a swarm, for spawn_cost a head
All values are integers. The inputs of one tick are sorted by kind and values: their order has no meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from sim.kernel.registry import InputSource
from sim.kernel.state import State
from sim.worlds.meadow.config.inputs import INPUT_KEYS, PARAMETERS, ScheduledInput, fixed_bounds
from sim.worlds.meadow.config.meadow import SIDE_CELLS_MAX, WIND_MAX, MeadowConfig
from sim.worlds.meadow.config.species import POPULATION_MAX, TICKS_MAX
from sim.worlds.meadow.model.births import reserve_ids, take_input_id
from sim.worlds.meadow.model.context import PhaseContext
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.layout import NEIGHBOURS, HeadLoss
from sim.worlds.meadow.model.plants import add_plants
from sim.worlds.meadow.model.swarms import divide_swarm, release_swarm, remove_swarms_without_heads
from sim.worlds.meadow.model.table_rows import Rows, rows_by_id

DROUGHT_PERCENT_MAX = 200
SWARM_ID_MAX = (1 << 48) - 1  # The limit of the keys of random numbers.

_KINDS = list(INPUT_KEYS)

NewId = Callable[[], int]  # Takes the id of what an input brings to life.


def run_inputs(context: PhaseContext, inputs: Any) -> None:
    """Run the phase, which begins the tick. Raises ValueError for an invalid input; the state is then unchanged."""
    state = context.state
    checked = read_inputs(context.config, inputs)
    state.set("tick", 0, context.tick + 1)
    context.event_log.begin()
    reserved = reserve_ids(context, checked)
    for number, (kind, values) in enumerate(checked):
        new_id = partial(take_input_id, context, "plants" if kind == "plant" else "swarms", reserved, number)
        match kind, values:
            case "plant", [species, x, y]:
                _plant(context, species, x, y, new_id)
            case "release", [species, x, y, population]:
                release_swarm(context, species, x, y, population, new_id())
            case "wind", [east, south]:
                blow(context, slice(None), slice(None), east, south)
            case "gust", [x, y, radius, east, south]:
                blow(context, around(y, radius), around(x, radius), east, south)
            case "drought", [ticks, percent]:
                set_drought(state, ticks, percent)
            case "cull", [species, x, y, radius, percent]:
                cull(context, swarms_near(context, species, x, y, radius), percent)
            case "set", [parameter, value]:
                state.set("parameters", parameter, value)
            case "steer", [swarm_id, direction]:
                steer(context, swarm_id, direction)
            case "split", [swarm_id]:
                _split(context, swarm_id, new_id)
            case "spawn", [species, x, y, population]:
                _spawn(context, species, x, y, population, new_id)
    pay_income(context)


def read_inputs(config: MeadowConfig, inputs: Any) -> list[tuple[str, list[int]]]:
    """Return the inputs of a tick in the order in which they are carried out: kind, and values in the order of INPUT_KEYS.

    Raises ValueError for an invalid one.
    """
    checked = sorted(_check(config, item) for item in inputs or ())
    return [(_KINDS[kind], values) for kind, *values in checked]


def pay_income(context: PhaseContext) -> None:
    """Let the players' budgets grow by their incomes, at the end of the phase."""
    for species, player in context.players.items():
        budget = int(context.state["player_budget"][species]) + player.income
        context.state.set("player_budget", species, min(budget, player.budget_max))


def set_drought(state: State, ticks: int, percent: int) -> None:
    """Begin a drought; 0 ticks end one."""
    state.set("climate.drought_ticks", 0, ticks)
    state.set("climate.drought_percent", 0, percent if ticks else 0)


def _plant(context: PhaseContext, species: int, x: int, y: int, new_id: NewId) -> None:
    if context.state["biotope.occupant"][y, x] == 0:
        energy = context.config.flora[species].base_energy
        seedling = [np.array([value], dtype=np.int64) for value in (species, x, y, energy)]
        ids = np.array([new_id()])
        context.event_log.plants_born(ids.tolist(), seedling[:3], None)
        add_plants(context.state, *seedling, ids=ids)
        context.note(Flow.PLACED_PLANTS, energy)


def around(centre: int, radius: int) -> slice:
    """Return the coordinates at most radius away from a centre."""
    return slice(max(0, centre - radius), centre + radius + 1)


def blow(context: PhaseContext, rows: slice, columns: slice, east: int, south: int) -> None:
    """Set the wind in these rows and columns of cells."""
    wind = context.state["biotope.wind"]
    cells = np.arange(wind[0].size).reshape(wind[0].shape)[rows, columns].reshape(-1)
    for axis, component in enumerate((east, south)):
        wind[axis, rows, columns] = component
        context.state.mark("biotope.wind", axis * wind[0].size + cells)


def swarms_near(context: PhaseContext, species: int, x: int, y: int, radius: int) -> Rows:
    """Return the rows of a species' swarms at most radius cells away, in x and in y, in ascending id."""
    state = context.state
    rows = rows_by_id(state, "swarms")
    near = (abs(state["swarms.x"][rows] - x) <= radius) & (abs(state["swarms.y"][rows] - y) <= radius)
    matching: Rows = rows[near & (state["swarms.species"][rows] == species)]
    return matching


def cull(context: PhaseContext, rows: Rows, percent: int) -> None:
    """Take a share of the heads of the swarms in these rows, which are in ascending id."""
    state = context.state
    heads, energy = state["swarms.population"][rows], state["swarms.energy"][rows]
    lost = heads * percent // 100
    # Divide before multiplying: energy times heads may exceed int64.
    taken = energy // heads * lost + energy % heads * lost // heads
    state.set("swarms.population", rows, heads - lost)
    state.set("swarms.energy", rows, energy - taken)
    context.note(Flow.CULL, taken)
    for row, count in zip(rows.tolist(), lost.tolist(), strict=True):
        index = int(state["swarms.species"][row]) * len(HeadLoss) + HeadLoss.CULL
        state["heads_lost"].reshape(-1)[index] += count
        state.mark("heads_lost", index)
    context.event_log.heads_lost(state, rows, lost, HeadLoss.CULL)
    remove_swarms_without_heads(context, rows, HeadLoss.CULL)


def steer(context: PhaseContext, swarm_id: int, direction: int) -> None:
    """Steer a swarm; nothing happens if the swarm is unknown or has no player."""
    row = _row_of_player(context, swarm_id)
    if row is not None:
        context.state.set("swarms.steer", row, 1 + direction)


def _split(context: PhaseContext, swarm_id: int, new_id: NewId) -> None:
    row, state = _row_of_player(context, swarm_id), context.state
    if row is None or state["swarms.population"][row] < 2:
        return
    species = int(state["swarms.species"][row])
    if pay(context, species, context.players[species].split_cost):
        divide_swarm(context, row, new_id())


def _row_of_player(context: PhaseContext, swarm_id: int) -> int | None:
    """The row of a swarm if its species has a player."""
    rows = np.flatnonzero(context.state["swarms.id"] == swarm_id)
    if not swarm_id or not len(rows) or int(context.state["swarms.species"][rows[0]]) not in context.players:
        return None
    return int(rows[0])


def _spawn(context: PhaseContext, species: int, x: int, y: int, population: int, new_id: NewId) -> None:
    player = context.players.get(species)
    if player is None or not len(swarms_near(context, species, x, y, player.sight)):
        return
    if pay(context, species, player.spawn_cost * population):
        release_swarm(context, species, x, y, population, new_id(), by="spawn")


def pay(context: PhaseContext, species: int, cost: int) -> bool:
    """Charge the budget of the player of a species; return False if it is too small."""
    budget = int(context.state["player_budget"][species])
    if budget < cost:
        return False
    context.state.set("player_budget", species, budget - cost)
    return True


def is_input(config: MeadowConfig, item: Any) -> bool:
    """Return True if run_inputs accepts the input."""
    try:
        _check(config, item)
    except ValueError:
        return False
    return True


def _check(config: MeadowConfig, item: Any) -> tuple[int, ...]:
    """Convert an input to integers: the index of its kind, then the values in the order of INPUT_KEYS."""
    if not isinstance(item, Mapping) or item.get("kind") not in _KINDS:
        raise ValueError(f"expected an input of kind {', '.join(INPUT_KEYS)}, got {item!r}")
    kind = item["kind"]
    if set(item) != {"kind", *INPUT_KEYS[kind]}:
        raise ValueError(f"input {item!r}: expected the keys kind, {', '.join(INPUT_KEYS[kind])}")
    values = []
    for key in INPUT_KEYS[kind]:
        value, (low, high) = item[key], _bounds(config, kind, key, item)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
            raise ValueError(f"input {item!r}: expected {key} as a whole number from {low} to {high}")
        values.append(int(value))
    return (_KINDS.index(kind), *values)


def _bounds(config: MeadowConfig, kind: str, key: str, item: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bounds of a value, both included."""
    match key:
        case "species":
            return 0, len(config.flora if kind == "plant" else config.herbivores) - 1
        case "x":
            return 0, config.grid.width - 1
        case "y":
            return 0, config.grid.height - 1
        case "east" | "south":
            return -WIND_MAX << 16, WIND_MAX << 16
        case "percent":
            return 0, DROUGHT_PERCENT_MAX if kind == "drought" else 100
        case "value":
            return fixed_bounds(list(PARAMETERS.values())[item["parameter"]])
    return {
        "population": (1, POPULATION_MAX),
        "radius": (0, SIDE_CELLS_MAX),
        "ticks": (0, TICKS_MAX),
        "parameter": (0, len(PARAMETERS) - 1),
        "swarm": (1, SWARM_ID_MAX),
        "direction": (0, len(NEIGHBOURS)),
    }[key]


def schedule(config: MeadowConfig) -> InputSource:
    """Make the input source of the scenario: it maps a tick to the inputs of the step that produces the tick."""
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
    if "parameter" in values:
        values |= {"parameter": list(PARAMETERS).index(values["parameter"]), "value": item.sent_value}
    return {"kind": item.kind, **values}
