"""Lifecycle in a stripe: seeds fly to the owners of their cells, who decide; all shards rank the winners for the ids.

Exchanges: seeds, links broken beyond the border, and one row of flow; then the winners. A tick with links has one more
for the first own row, and the wave: links are chosen in the order of (y, x), so each shard waits for the one to the north.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.sharding.shard_plan import Exchange
from sim.worlds.meadow.model.births import take_ids
from sim.worlds.meadow.model.context import Values
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.layers import rebuild_at
from sim.worlds.meadow.model.layout import Parameter
from sim.worlds.meadow.model.plants import add_plants, plant_cells, remove_plants
from sim.worlds.meadow.model.table_rows import in_order_of_id
from sim.worlds.meadow.phases.lifecycle import grow_all, pass_drought, pay_for_seeds, throw_seeds, win_cells
from sim.worlds.meadow.shards.stripe import Stripe
from sim.worlds.meadow.shards.stripe_links import grow_links

_BORDERS = ((1, 1), (3, -1))  # Directions of links that may lead to another stripe, with their dy.


def run_lifecycle(stripe: Stripe) -> Exchange:
    """Run the phase."""
    state, context, count = stripe.state, stripe.context, stripe.stripes.count
    dying, parents = (in_order_of_id(state, "plants", rows) for rows in grow_all(context))
    ids = state["plants.id"]
    context.event_log.plants_died(state, dying)  # Before its links are broken.
    seeds, broken = _throw(stripe, parents), _break_links(stripe, dying)
    to, broken_to = stripe.stripes.owner(seeds[3]), stripe.stripes.owner(broken[1])
    inbox = yield [
        (seeds[:, to == other], broken[:, broken_to == other], stripe.rows_for(other, state["biotope.flow"], 1))
        for other in range(count)
    ]
    for _, (x, y, direction), flow in inbox:
        state["plants.links"][state["biotope.occupant"][y - stripe.first, x] - 1, direction] = 0
        stripe.put_rows(state["biotope.flow"], flow)
    seeds = np.concatenate([part[0] for part in inbox], axis=1)
    seeds = seeds[:, np.argsort(seeds[0])]
    seeds = seeds[:, win_cells(state, dying, seeds[0], seeds[2], seeds[3] - stripe.first)]
    winners = np.sort(np.concatenate((yield [seeds[0]] * count)))  # Of all stripes.
    pay_for_seeds(context, parents[np.isin(ids[parents], winners)])
    context.note(Flow.DEAD_PLANTS, state["plants.energy"][dying])
    stripe.note_gone((1, 0), "plants", ids[dying])
    stripe.close_stage((1, 0))
    left = plant_cells(state, dying)
    remove_plants(state, dying)
    _sow(stripe, seeds, winners)
    if context.tick % context.parameter(Parameter.LINK_INTERVAL) == 0:
        yield from grow_links(stripe)
        stripe.close_stage((1, 2))
    rebuild_at(state, left)
    pass_drought(state)


def _throw(stripe: Stripe, parents: Values) -> Values:
    """Return id of the parent, species, x and y in the whole meadow of the seeds that land inside of it: (4, seeds)."""
    if not len(parents):
        return np.zeros((4, 0), np.int64)
    species, x, y = throw_seeds(stripe.context, parents)
    seeds = np.stack([stripe.state["plants.id"][parents], species, x, y + stripe.first])
    grid = stripe.config.grid
    inside: Values = seeds[:, (x >= 0) & (x < grid.width) & (seeds[3] >= 0) & (seeds[3] < grid.height)]
    return inside


def _break_links(stripe: Stripe, dying: Values) -> Values:
    """Break the links of dying plants to plants of other stripes; return x, y and direction of those: (3, links)."""
    links, parts = stripe.state["plants.links"], [np.zeros((3, 0), np.int64)]
    for direction, dy in _BORDERS:
        rows = dying[links[dying, direction] != 0]
        rows = rows[~stripe.owns(stripe.state["plants.y"][rows] + dy)]
        links[rows, direction] = 0
        x, y = (stripe.state[f"plants.{axis}"][rows].astype(np.int64) for axis in "xy")
        parts.append(np.stack([x, y + dy + stripe.first, np.full(len(rows), (direction + 2) % 4)]))
    return np.concatenate(parts, axis=1)


def _sow(stripe: Stripe, seeds: npt.NDArray[Any], winners: Values) -> None:
    """Add the seedlings of the own rows. seeds: as of _throw. winners: ids of the parents of all stripes, ascending."""
    state, context = stripe.state, stripe.context
    new = take_ids(context, "plants", winners)[np.searchsorted(winners, seeds[0])]
    mothers, species, x, y = seeds
    y = y - stripe.first
    energy = context.flora.base_energy[species]
    context.note(Flow.SEEDLINGS, energy)
    context.event_log.plants_born(new.tolist(), (species, x, y), mothers)
    add_plants(state, species, x, y, energy, ids=new)
    stripe.note_new((1, 1), "plants", new)
    stripe.close_stage((1, 1))
