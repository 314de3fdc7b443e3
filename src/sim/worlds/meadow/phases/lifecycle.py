"""Phase lifecycle: growth, reproduction, death of plants, and the growth of mycorrhizal links.

For each plant in ascending id:
    growth         energy = min(energy + step, max_energy), where step = floor(base_energy × growth_percent / 100),
                   then floor(step × parameter growth / 100) and, in a drought,
                   floor(step × (100 - drought_percent) / 100); never below 0. A plant that loses energy here gets
                   the loss cause background.
    reproduction   if tick - last_reproduction >= reproduction_interval and energy - seed_cost >= survival_threshold:
                   dispersal.py picks a cell. Outside or occupied: nothing happens, at no cost. Else a seedling with
                   base_energy is born there, the parent pays seed_cost (loss cause reproduction), and both have
                   reproduced at this tick.
    death          energy < survival_threshold: the plant leaves table, index and layers; its cell is free for the seed
                   of a plant with a higher id in the same tick.
Then, at each multiple of the parameter link_interval, mycorrhiza.py; then the energy layers are rebuilt.

The passes below do this for all plants at once. The result is that of handling plant by plant, because a plant's
death depends on its own growth alone (a reproduction that would kill is not tried): all deaths are known before any
seed falls.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.state import State
from sim.worlds.meadow.model.births import in_order_of_birth, take_ids
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.dispersal import wind_shift
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.layers import rebuild_at
from sim.worlds.meadow.model.layout import DrawPhase, LossCause, Parameter
from sim.worlds.meadow.model.loops import grow_plants
from sim.worlds.meadow.model.numba_loops import PLANTS_MIN, compiled_for
from sim.worlds.meadow.model.plants import add_plants, plant_cells, remove_plants
from sim.worlds.meadow.model.table_rows import in_order_of_id, set_rows
from sim.worlds.meadow.phases.mycorrhiza import grow_links


def run_lifecycle(context: PhaseContext) -> None:
    """Run the phase."""
    state = context.state
    dying, parents = (in_order_of_id(state, "plants", rows) for rows in grow_all(context))
    mothers, *seedlings = _reproduce(context, dying, parents)
    context.note(Flow.DEAD_PLANTS, state["plants.energy"][dying])
    context.event_log.plants_died(state, dying)
    left = plant_cells(state, dying)
    remove_plants(state, dying)
    context.note(Flow.SEEDLINGS, seedlings[-1])
    ids, mothers, *seedlings = in_order_of_birth(take_ids(context, "plants", mothers), mothers, *seedlings)
    context.event_log.plants_born(ids.tolist(), seedlings[:3], mothers)
    add_plants(state, *seedlings, ids=ids)
    if context.tick % context.parameter(Parameter.LINK_INTERVAL) == 0:
        grow_links(context)
    rebuild_at(state, left)
    pass_drought(state)


def grow_all(context: PhaseContext) -> tuple[Values, Values]:
    """Grow all plants; return the rows of those that die of it, and of those that try to reproduce."""
    state, flora = context.state, context.flora
    growth = context.parameter(Parameter.GROWTH)  # As Python integers: the product may exceed int64.
    step = np.array([species_step * growth // (100 * ONE) for species_step in flora.growth.tolist()], np.int64)
    if state["climate.drought_ticks"] > 0:
        step = step * (100 - int(state["climate.drought_percent"])) // 100
    energy, species, ids, last = (state[f"plants.{name}"] for name in ("energy", "species", "id", "last_reproduction"))
    bounds = (flora.max_energy, flora.survival_threshold, flora.seed_cost, flora.reproduction_interval)
    before = energy.copy() if context.ledger is not None else energy
    changed, dying, parents, losers = grow(energy, species, ids, last, context.tick, step, *bounds)
    state.mark("plants.energy", changed)
    set_rows(state, "plants.loss_cause", losers, LossCause.BACKGROUND)
    if context.ledger is not None:
        gained = energy[changed] - before[changed]
        context.note(Flow.GROWTH, np.maximum(gained, 0))
        context.note(Flow.DROUGHT, np.maximum(-gained, 0))
    return dying, parents


def grow(
    energy: Values, species: Values, ids: Values, last: Values, tick: int, step: Values, *bounds: Values
) -> tuple[Values, ...]:
    """Grow the plants of a table; return the rows of those that changed, that die, that try to reproduce, that lost energy.

    energy, species, ids, last: columns; energy is written; last is the tick of the last reproduction. Free rows stay.
    step, bounds: by species: the growth; maximum energy, survival threshold, seed cost, reproduction interval.
    """
    compiled = compiled_for(len(energy), PLANTS_MIN, grow_plants)
    if compiled is not None:
        room = np.empty((4, len(energy)), np.int64)
        counts = compiled(energy, species, ids, last, tick, step, *bounds, *room)
        return tuple(rows[:count] for rows, count in zip(room, counts, strict=True))
    energy_max, threshold, seed_cost, interval = bounds
    living = ids != 0
    grown = energy + step[species]
    np.clip(grown, 0, energy_max[species], out=grown)
    changed = np.flatnonzero((grown != energy) & living)
    losers = changed[grown[changed] < energy[changed]]
    energy[changed] = grown[changed]
    least = threshold[species]
    may = (tick - last >= interval[species]) & living
    if may.any():
        may &= energy - seed_cost[species] >= least
    return changed, np.flatnonzero((energy < least) & living), np.flatnonzero(may), losers


def _reproduce(context: PhaseContext, dying: Values, parents: Values) -> tuple[Values, ...]:
    """Let parents pay; return the parents' ids in their order, and species, x, y and energy of the seedlings.

    dying: rows of the plants that die in this tick. parents: rows of the plants that try, in ascending id.
    """
    state, flora, grid = context.state, context.flora, context.config.grid
    if not len(parents):
        return (parents,) * 5
    ids = state["plants.id"]
    species, x, y = throw_seeds(context, parents)
    inside = np.flatnonzero((x >= 0) & (x < grid.width) & (y >= 0) & (y < grid.height))
    won = inside[win_cells(state, dying, ids[parents[inside]], x[inside], y[inside])]
    parents, species, x, y = (values[won] for values in (parents, species, x, y))
    pay_for_seeds(context, parents)
    return ids[parents], species.astype(np.int64), x, y, flora.base_energy[species]


def throw_seeds(context: PhaseContext, parents: Values) -> tuple[Values, Values, Values]:
    """Draw the cell where the seed of each parent lands, inside or outside of the grid; return species, x and y."""
    state, flora = context.state, context.flora
    species = state["plants.species"][parents]
    words = context.random.words(DrawPhase.DISPERSAL, context.tick, state["plants.id"][parents])
    offsets = flora.rings.pick(words, flora.seed_distance_min[species], flora.seed_distance_max[species])
    bound = flora.seed_distance_max[species]
    x, y = state["plants.x"][parents], state["plants.y"][parents]
    east, south = wind_shift(state, x, y, context.config.dispersal.flight_ticks)
    return species, x + offsets[:, 0] + np.clip(east, -bound, bound), y + offsets[:, 1] + np.clip(south, -bound, bound)


def win_cells(state: State, dying: Values, parent_ids: Values, x: Values, y: Values) -> Values:
    """Return the indices, ascending, of the seeds that get their cell. parent_ids: ascending. x, y: inside of the grid.

    dying: rows of the plants that die in this tick.
    """
    # A cell is free for a seed if it has no plant, or a plant that dies before the parent's turn.
    gone_at = np.full(state.count("plants") + 1, np.iinfo(np.int64).max)  # By row + 1: the id of the plant that dies.
    gone_at[dying + 1] = state["plants.id"][dying]
    gone_at[0] = -1
    free = np.flatnonzero(gone_at[state["biotope.occupant"][y, x]] < parent_ids)
    # Of several seeds for one cell the first parent's takes it; unique gives the first index of each cell.
    _, first = np.unique(y[free] * state["biotope.occupant"].shape[1] + x[free], return_index=True)
    first.sort()
    won: Values = free[first]
    return won


def pay_for_seeds(context: PhaseContext, parents: Values) -> None:
    """Let the parents in these rows pay for the seeds that got a cell."""
    state = context.state
    cost = context.flora.seed_cost[state["plants.species"][parents]]
    set_rows(state, "plants.energy", parents, state["plants.energy"][parents] - cost)
    set_rows(state, "plants.loss_cause", parents, LossCause.REPRODUCTION)
    set_rows(state, "plants.last_reproduction", parents, context.tick)
    context.note(Flow.SEEDS, cost)


def pass_drought(state: State) -> None:
    """Let a drought have one tick less."""
    left = int(state["climate.drought_ticks"])
    if left > 0:
        state.set("climate.drought_ticks", 0, left - 1)
