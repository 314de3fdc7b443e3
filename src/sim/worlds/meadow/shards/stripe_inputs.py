"""Inputs in a stripe: all shards get all inputs of a tick, in the same order, and each carries out what is in its rows.

Two kinds need an exchange, in those ticks only. A plant is born if its cell is free, which its owner knows, and its id
counts for all. What a player commands depends on budgets, which all shards keep, and on swarms as they are at its turn:
so owners send the swarms that are named, and say which spawns they have in sight; then all work through the commands.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import attrs
import numpy as np

from sim.sharding.shard_plan import Exchange, Messages
from sim.worlds.meadow.model.births import InputIds, reserve_ids, take_input_id
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.plants import add_plants
from sim.worlds.meadow.model.swarms import COLUMNS, Swarm, add_swarms, draw_daughter_cell, new_swarm
from sim.worlds.meadow.phases.inputs import around, blow, cull, pay, pay_income, set_drought, steer, swarms_near
from sim.worlds.meadow.shards.stripe import Stripe, round_cells

ReadInputs = Sequence[tuple[str, list[int]]]  # As read_inputs returns them: kind and values.

_COMMANDS = ("split", "spawn")


def run_inputs(stripe: Stripe, inputs: ReadInputs) -> Exchange:
    """Run the phase."""
    context = stripe.context
    stripe.state.set("tick", 0, context.tick + 1)
    fitting = yield from _find_fitting(stripe, inputs)
    reserved = reserve_ids(context, inputs)
    for number, (kind, values) in enumerate(inputs):
        match kind, values:
            case "plant", [species, x, y] if number in fitting:
                _plant(stripe, number, species, x, y, take_input_id(context, "plants", reserved, number))
            case "release", [species, x, y, population]:
                new = take_input_id(context, "swarms", reserved, number)
                _release(stripe, number, species, x, y, population, new)
            case "wind", [east, south]:
                blow(context, slice(None), slice(None), east, south)
                stripe.south_max = round_cells(south)
            case "gust", [x, y, radius, east, south]:
                first, end = (max(0, row - stripe.first) for row in (y - radius, y + radius + 1))
                blow(context, slice(first, end), around(x, radius), east, south)
                stripe.south_max = max(stripe.south_max, round_cells(south))
            case "drought", [ticks, percent]:
                set_drought(stripe.state, ticks, percent)
            case "cull", [species, x, y, radius, percent]:
                before = stripe.ids("swarms")
                cull(context, swarms_near(context, species, x, y - stripe.first, radius), percent)
                stripe.note_gone((0, number), "swarms", np.setdiff1d(before, stripe.ids("swarms")))
                stripe.close_stage((0, number))
            case "set", [parameter, value]:
                stripe.state.set("parameters", parameter, value)
            case "steer", [swarm, direction]:
                steer(context, swarm, direction)
    if any(kind in _COMMANDS for kind, _ in inputs):
        yield from _run_commands(stripe, inputs, reserved)
    pay_income(context)


def _find_fitting(stripe: Stripe, inputs: ReadInputs) -> Generator[Messages, Messages, set[int]]:
    """Return the numbers of the inputs whose plants find a free cell: the owners of the cells tell all."""
    plants = [(number, values[1], values[2]) for number, (kind, values) in enumerate(inputs) if kind == "plant"]
    if not plants:
        return set()
    fitting: dict[tuple[int, int], int] = {}  # By cell: of two plants for one, the first comes.
    for number, x, y in plants:
        if stripe.stripes.owner(y) == stripe.number and not stripe.state["biotope.occupant"][y - stripe.first, x]:
            fitting.setdefault((x, y), number)
    inbox = yield [sorted(fitting.values())] * stripe.stripes.count
    return {number for numbers in inbox for number in numbers}


def _plant(stripe: Stripe, number: int, species: int, x: int, y: int, new: int) -> None:
    if stripe.stripes.owner(y) == stripe.number:
        energy = stripe.config.flora[species].base_energy
        seedling = [np.array([value], np.int64) for value in (species, x, y - stripe.first, energy)]
        stripe.context.event_log.plants_born([new], seedling[:3], None)
        add_plants(stripe.state, *seedling, ids=np.array([new]))
        stripe.context.note(Flow.PLACED_PLANTS, energy)
        stripe.note_new((0, number), "plants", np.array([new]))
        stripe.close_stage((0, number))


def _release(stripe: Stripe, number: int, species: int, x: int, y: int, population: int, new: int) -> None:
    swarm = new_swarm(species, x, y, population, stripe.config.herbivores[species].energy_min * population)
    if stripe.stripes.owner(y) == stripe.number:
        _announce(stripe, number, swarm, "release", new, None)
        _add(stripe, swarm, new)


def _announce(stripe: Stripe, number: int, swarm: Swarm, by: str, new: int, mother: int | None) -> None:
    """Note the birth of a swarm in the own rows. swarm: its y counts in the whole meadow."""
    stripe.context.event_log.swarms_born(by, [attrs.evolve(swarm, y=swarm.y - stripe.first)], [new], [mother])
    if mother is None:
        stripe.context.note(Flow.PLACED_SWARMS, swarm.energy)
    stripe.note_new((0, number), "swarms", np.array([new]))
    stripe.close_stage((0, number))


def _add(stripe: Stripe, swarm: Swarm, new: int) -> None:
    add_swarms(stripe.state, [attrs.evolve(swarm, y=swarm.y - stripe.first)], np.array([new]))


def _run_commands(stripe: Stripe, inputs: ReadInputs, reserved: InputIds) -> Exchange:
    state, players = stripe.state, stripe.context.players
    named = {values[0] for kind, values in inputs if kind == "split"}
    rows = [row for row in np.flatnonzero(state["swarms.id"]).tolist() if int(state["swarms.id"][row]) in named]
    own = {int(state["swarms.id"][row]): row for row in rows}
    records = [[int(state[f"swarms.{column}"][row]) for column in COLUMNS] for row in rows]
    seen = [
        number
        for number, (kind, values) in enumerate(inputs)
        if kind == "spawn" and values[0] in players and _sees(stripe, *values[:3])
    ]
    for record in records:
        record[COLUMNS.index("y")] += stripe.first
    inbox = yield [(records, seen)] * stripe.stripes.count
    swarms = {record[COLUMNS.index("id")]: Swarm(*record) for part in inbox for record in part[0]}
    seen_by_any = {number for part in inbox for number in part[1]}
    born = _work_through(stripe, inputs, swarms, seen_by_any, reserved)
    for swarm_id, row in own.items():
        state.set("swarms.population", row, swarms[swarm_id].population)
        state.set("swarms.energy", row, swarms[swarm_id].energy)
    for swarm_id, swarm in born.items():
        if stripe.stripes.owner(swarm.y) == stripe.number:
            _add(stripe, swarm, swarm_id)


def _sees(stripe: Stripe, species: int, x: int, y: int) -> bool:
    """Return True if an own swarm of the species has the cell in sight."""
    player = stripe.context.players[species]
    return len(swarms_near(stripe.context, species, x, y - stripe.first, player.sight)) > 0


def _work_through(
    stripe: Stripe, inputs: ReadInputs, swarms: dict[int, Swarm], seen: set[int], reserved: InputIds
) -> dict[int, Swarm]:
    """Carry out the commands one after the other, the same in all shards; return the new swarms by id.

    swarms: those that are named, by id; they are changed. seen: spawns that swarms had in sight before the commands.
    """
    context, born = stripe.context, dict[int, Swarm]()
    for number, (kind, values) in enumerate(inputs):
        swarm: Swarm | None = None
        mother: int | None = None
        if kind == "split" and values[0] in swarms:
            mother = values[0]
            swarm = _split(stripe, mother, swarms[mother])
        elif kind == "spawn" and (player := context.players.get(values[0])) is not None:
            species, x, y, population = values
            near = (
                one.species == species and max(abs(one.x - x), abs(one.y - y)) <= player.sight for one in born.values()
            )
            if (number in seen or any(near)) and pay(context, species, player.spawn_cost * population):
                energy = stripe.config.herbivores[species].energy_min * population
                swarm = new_swarm(species, x, y, population, energy)
        if swarm is not None:
            new = take_input_id(context, "swarms", reserved, number)
            born[new] = swarms[new] = swarm
            if stripe.stripes.owner(swarm.y) == stripe.number:
                _announce(stripe, number, swarm, kind, new, mother)
    return born


def _split(stripe: Stripe, swarm_id: int, swarm: Swarm) -> Swarm | None:
    """Let a player divide a swarm, which is changed; return the daughter, or None if that cannot be."""
    player = stripe.context.players.get(swarm.species)
    if player is None or swarm.population < 2 or not pay(stripe.context, swarm.species, player.split_cost):
        return None
    x, y = draw_daughter_cell(stripe.context, stripe.config.grid, swarm_id, swarm.x, swarm.y)
    daughter = new_swarm(swarm.species, x, y, swarm.population // 2, swarm.energy // 2)
    swarm.population -= daughter.population
    swarm.energy -= daughter.energy
    return daughter
