"""Phase interaction: swarms move, eat, pay for their upkeep, starve, multiply and divide.

For each swarm in ascending id:
    movement       when the cooldown has run out. In a cell with more heads than the parameter carrying_capacity the
                   swarm is repelled for at least one tick. Repelled: one of the five cells (here and the 4 neighbours
                   inside the meadow), drawn uniformly. Else, with food in its cell (a plant of its diet with energy) and
                   no player who steers it: it stays. Else one of the five cells, drawn with weight
                   1 + min(flow - least flow of the five, WEIGHT_MAX - 1), which a player's steering multiplies by the
                   bias. After a random walk or a draw it waits velocity - 1 ticks.
    feeding        only if it did not go elsewhere: from the plant in its cell, if that is in its diet,
                   min(floor(consumption_rate / velocity) × population, the plant's energy); loss cause feeding. A meal
                   ends a repulsion; a plant that is not in the diet repels for at least taste_ticks.
    upkeep         energy -= upkeep × population. A deficit costs ceil(deficit / energy_min) heads, and energy is 0.
                   A swarm without heads is removed when the phase is over.
    reproduction   floor(max(0, energy - population × energy_min) / price) new heads, where price =
                   floor(energy_min × reproduction_divisor); at most up to POPULATION_MAX.
    mitosis        from split_population on, half of heads and energy (rounded down) become a new swarm in one of the
                   five cells, drawn uniformly; it acts from the next tick on.
"""

from __future__ import annotations

import numpy as np

from sim.worlds.meadow.model import swarm_turn as swarming
from sim.worlds.meadow.model.births import in_order_of_birth, take_ids
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.layers import write_energy
from sim.worlds.meadow.model.layout import DrawPhase, HeadLoss, LossCause, Parameter
from sim.worlds.meadow.model.loops import gather_swarms
from sim.worlds.meadow.model.numba_loops import SWARMS_MIN, Loop, compiled_for
from sim.worlds.meadow.model.plants import plant_cells
from sim.worlds.meadow.model.swarm_turn import Land, swarm_loop
from sim.worlds.meadow.model.swarms import add_swarms, count_heads, new_swarm, remove_swarms_without_heads
from sim.worlds.meadow.model.table_rows import Rows, rows_by_id, set_rows, write_changed

DAUGHTER = [swarming.SPECIES, *range(swarming.DAUGHTER_X, swarming.SWARM_WIDTH)]


def run_interaction(context: PhaseContext) -> None:
    """Run the phase."""
    state = context.state
    rows = rows_by_id(state, "swarms")
    if not len(rows):
        return
    loop = swarm_loop(len(rows))
    columns, energy = swarm_columns(context, rows), state["plants.energy"].copy()
    acting = loop.hold(columns.T)
    loop.run(acting, loop.hold(context.kinds), land_of(context, energy, loop))
    results = np.asarray(acting).T
    write_results(context, rows, results, energy)
    mothers = np.flatnonzero(results[swarming.DAUGHTER_HEADS])
    mother_ids = state["swarms.id"][rows[mothers]]
    ids, mothers, mother_ids = in_order_of_birth(take_ids(context, "swarms", mother_ids), mothers, mother_ids)
    daughters = [new_swarm(*values) for values in results[DAUGHTER][:, mothers].T.tolist()]
    remove_swarms_without_heads(context, rows, HeadLoss.STARVATION)
    context.event_log.swarms_born("mitosis", daughters, ids.tolist(), mother_ids.tolist())
    add_swarms(state, daughters, ids)


def write_results(context: PhaseContext, rows: Rows, results: Values, energy: Values) -> None:
    """Write what the swarms of these rows, in ascending id, have done; those without heads stay in the table.

    results: (SWARM_WIDTH, swarms). energy: of the plants, after it.
    """
    state = context.state
    before = state["swarms.population"][rows]
    _write_grazed(context, results, energy)
    _count(context, results)
    context.event_log.interactions(state, rows, results)
    context.note(Flow.GRAZING, results[swarming.EATEN])
    context.note(Flow.UPKEEP, context.kinds[results[swarming.SPECIES], swarming.UPKEEP] * before)
    context.note(Flow.STARVATION, results[swarming.UNPAID])
    for column, values in zip(swarming.CHANGING, results, strict=False):
        set_rows(state, f"swarms.{column}", rows, values)


def swarm_columns(context: PhaseContext, rows: Rows) -> Values:
    """Return the rows of swarm_turn.py for these swarms, transposed: (SWARM_WIDTH, swarms) int64."""
    state = context.state
    names = (*swarming.CHANGING, "species")
    ids = state["swarms.id"][rows]
    split_words = context.first_words(DrawPhase.MITOSIS, ids)
    compiled = compiled_for(len(rows), SWARMS_MIN, gather_swarms)
    if compiled is not None:
        swarms, columns = (
            np.empty((len(rows), swarming.SWARM_WIDTH), np.int64),
            [state[f"swarms.{name}"] for name in names],
        )
        compiled(rows, *columns, context.first_words(DrawPhase.MOVEMENT, ids), split_words, swarms)
        return swarms.T
    result = np.zeros((swarming.SWARM_WIDTH, len(rows)), np.int64)
    for index, name in enumerate(names):
        result[index] = state[f"swarms.{name}"][rows]
    moving = np.flatnonzero(result[swarming.COOLDOWN] <= 0)  # The others need no random draw.
    result[swarming.MOVE_WORD, moving] = context.first_words(DrawPhase.MOVEMENT, ids[moving])
    result[swarming.SPLIT_WORD], result[swarming.EATEN_FROM] = split_words, swarming.NONE
    return result


def land_of(context: PhaseContext, energy: Values, loop: Loop) -> Land:
    """Return the land that swarms act on. energy: of the plants, which the loop writes."""
    state, grid, crowding = context.state, context.config.grid, context.config.crowding
    heads = count_heads(state, np.flatnonzero(state["swarms.id"] != 0), grid)
    return Land(
        grid.width,
        grid.height,
        context.parameter(Parameter.CARRYING_CAPACITY),
        crowding.taste_ticks,
        loop.view(heads.reshape(-1)),
        loop.view(state["biotope.flow"].reshape(-1)),
        loop.view(state["biotope.occupant"].reshape(-1)),
        loop.view(state["plants.species"]),
        loop.view(energy),
    )


def _write_grazed(context: PhaseContext, results: Values, energy: Values) -> None:
    """Take the eaten energy from the plants, in the table and on the layers' back side."""
    state = context.state
    rows = results[swarming.EATEN_FROM][results[swarming.EATEN] > 0]
    set_rows(state, "plants.energy", rows, energy[rows])
    set_rows(state, "plants.loss_cause", rows, LossCause.FEEDING)
    write_energy(state, *plant_cells(state, rows), energy[rows])


def _count(context: PhaseContext, results: Values) -> None:
    state = context.state
    lost, born = state["heads_lost"].copy(), state["heads_born"].copy()
    np.add.at(lost[:, HeadLoss.STARVATION], results[swarming.SPECIES], results[swarming.STARVED])
    np.add.at(born, results[swarming.SPECIES], results[swarming.BORN])
    write_changed(state, "heads_lost", lost)
    write_changed(state, "heads_born", born)
