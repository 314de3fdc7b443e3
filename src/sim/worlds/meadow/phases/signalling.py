"""Phase signalling: plants begin defences, pay for them, emit substances; toxins act on swarms; signals spread.

    orphans        substances whose owner is dead are removed.
    triggers       for each plant in ascending id and each rule of its species, in the order of the configuration: if the
                   condition holds (see triggers.py), the plant's substance is triggered in this tick. If the plant does
                   not have it, it begins, with synthesis_ticks left.
    synthesis      triggered and inactive: synthesis falls by 1 to 0; at 0 it becomes active, with aftereffect_ticks.
    aftereffect    active before: triggered: aftereffect = aftereffect_ticks; else, unless irreversible: removed at 0,
                   else aftereffect falls by 1.
    upkeep         active, in ascending id: triggered or irreversible: the plant pays min(energy_cost, its energy); else
                   it pays energy_cost, unless it would fall below its survival threshold: then the substance is
                   removed. Loss cause defence. A plant below its threshold dies in its next lifecycle.
    emission       amount = floor(parameter emission × strength). A toxin: its layer, rebuilt each tick, holds amount at
                   the plant, at most 1. A signal: floor(amount / (links + 1)) for each linked neighbour's cell, the rest
                   for its own; a concentration stays at most CONCENTRATION_MAX.
    toxins         for each swarm and each toxin of concentration c in its cell: floor(lethality × c × population) heads
                   die, and the swarm loses energy_min for each, at most its energy; it is repelled for at least
                   repellence ticks. A swarm without heads is removed.
    signals        spread by the rules in transport.py.

Units: 1/65536 for energy and concentrations, whole ticks and heads. Everything is judged by the state at the start of the
phase, so the order of plants decides only ids.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.fixed_point import ONE, PLACES, multiply
from sim.kernel.state import State
from sim.worlds.meadow.config.conditions import CONCENTRATION_MAX
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.event_log import ACTIVE, BEGUN, ENDED
from sim.worlds.meadow.model.layers import write_energy
from sim.worlds.meadow.model.layout import NEIGHBOURS, HeadLoss, LossCause, Parameter
from sim.worlds.meadow.model.loops import list_nonzero
from sim.worlds.meadow.model.numba_loops import CELLS_MIN, compiled_for
from sim.worlds.meadow.model.plants import Stand, plant_cells
from sim.worlds.meadow.model.swarms import remove_swarms_without_heads
from sim.worlds.meadow.model.table_rows import (
    add_entities,
    clear_rows,
    in_order_of_id,
    rows_by_id,
    set_rows,
    write_changed,
)
from sim.worlds.meadow.phases.transport import spread_signals
from sim.worlds.meadow.phases.triggers import Firing, fire_rules

COLUMNS = ("synthesis", "aftereffect", "active", "id", "owner", "substance")


def run_signalling(context: PhaseContext) -> None:
    """Run the phase."""
    state = context.state
    if not context.config.substances:
        return
    stand = Stand.of(state, context.defended)  # No other plant has a substance.
    remove_orphans(context, stand)
    firing = fire_rules(context, stand)
    begin_substances(context, firing)
    triggered = advance(context, firing)
    paying = pay_upkeep(context, triggered, stand)
    signals = emit(context, paying, stand)
    if state["biotope.toxins"].size:
        poison(context)
    if signals.size:
        spread_signals(context, signals)


def remove_orphans(context: PhaseContext, stand: Stand) -> None:
    """Remove the substances whose owner is not in the stand."""
    rows = rows_by_id(context.state, "substances")
    orphans = rows[stand.find(context.state["substances.owner"][rows]) < 0]
    context.event_log.substances(ENDED, context.state, orphans, "owner_died")
    clear_rows(context.state, "substances", COLUMNS, orphans)


def begin_substances(context: PhaseContext, firing: Firing) -> None:
    """Begin the substances that are triggered and that their owners do not have."""
    owners, numbers = firing.begun()
    synthesis = np.array([substance.synthesis_ticks for substance in context.config.substances], np.int64)
    columns = {"synthesis": synthesis[numbers], "owner": owners, "substance": numbers}
    if len(owners):
        rows = add_entities(context.state, "substances", "next_substance_id", columns, len(owners))
        context.event_log.substances(BEGUN, context.state, rows)


def advance(context: PhaseContext, firing: Firing) -> npt.NDArray[np.bool_]:
    """Advance synthesis and aftereffect; return the mask of triggered rows: (rows of the table,) bool."""
    state, substances = context.state, context.config.substances
    rows = rows_by_id(state, "substances")
    number = state["substances.substance"][rows]
    triggered = firing.is_triggered(state["substances.owner"][rows], number)
    was_active = state["substances.active"][rows] != 0
    aftereffect_ticks = np.array([substance.aftereffect_ticks for substance in substances], np.int64)[number]
    irreversible = np.array([substance.irreversible for substance in substances])[number]
    synthesis = state["substances.synthesis"][rows]
    synthesis = np.where(triggered & ~was_active, np.maximum(synthesis - 1, 0), synthesis)
    activated = triggered & ~was_active & (synthesis == 0)
    left = state["substances.aftereffect"][rows]
    fading = was_active & ~triggered & ~irreversible
    removed = fading & (left == 0)
    left = np.where(activated | (was_active & triggered), aftereffect_ticks, left - (fading & ~removed))
    set_rows(state, "substances.synthesis", rows, synthesis)
    set_rows(state, "substances.aftereffect", rows, left)
    set_rows(state, "substances.active", rows, was_active | activated)
    by_row = np.zeros(state.count("substances"), np.bool_)
    by_row[rows] = triggered
    context.event_log.substances(ACTIVE, state, rows[activated])
    context.event_log.substances(ENDED, state, rows[removed], "faded")
    clear_rows(state, "substances", COLUMNS, rows[removed])
    return by_row


def pay_upkeep(context: PhaseContext, triggered: npt.NDArray[np.bool_], stand: Stand) -> Values:
    """Let owners pay for active substances; return the rows of the substances that emit, in ascending id."""
    state, substances = context.state, context.config.substances
    rows = rows_by_id(state, "substances")
    rows = rows[state["substances.active"][rows] != 0]
    plants = stand.find(state["substances.owner"][rows])
    number = state["substances.substance"][rows]
    cost = np.array([substance.energy_cost for substance in substances], np.int64)[number]
    must = triggered[rows] | np.array([substance.irreversible for substance in substances])[number]
    threshold = context.flora.survival_threshold[state["plants.species"][plants]]
    emits = np.ones(len(rows), np.bool_)
    for turn in _turns(plants):  # Each plant at most once per turn, its substances in ascending id.
        energy = state["plants.energy"][plants[turn]]
        can = must[turn] | (energy - cost[turn] >= threshold[turn])
        paid = np.where(can, np.minimum(cost[turn], energy), 0)
        emits[turn] = can
        payers = plants[turn][paid > 0]
        set_rows(state, "plants.energy", payers, (energy - paid)[paid > 0])
        set_rows(state, "plants.loss_cause", payers, LossCause.DEFENCE)
        by_flora = state["defence_cost"].copy()
        np.add.at(by_flora, state["plants.species"][payers], paid[paid > 0])
        write_changed(state, "defence_cost", by_flora)
        write_energy(state, *plant_cells(state, payers), state["plants.energy"][payers])
        context.note(Flow.DEFENCE, paid)
    context.event_log.substances(ENDED, state, rows[~emits], "unpaid")
    clear_rows(state, "substances", COLUMNS, rows[~emits])
    emitting: Values = rows[emits]
    return emitting


def _turns(plants: Values) -> list[Values]:
    """Split the indices of plants into turns: no plant occurs twice in one turn, its first index is in the first turn."""
    order = np.argsort(plants, kind="stable")
    ordered = plants[order]
    first = np.searchsorted(ordered, ordered)  # The start of the run of equal plants.
    rank = np.empty(len(plants), np.int64)
    rank[order] = np.arange(len(plants)) - first
    return [np.flatnonzero(rank == turn) for turn in range(int(rank.max(initial=-1)) + 1)]


def emit(context: PhaseContext, rows: Values, stand: Stand) -> Values:
    """Rebuild the toxin layers; return the signal layers with the emissions added: (signals, height, width) int64."""
    state, config = context.state, context.config
    emission = context.parameter(Parameter.EMISSION)
    toxins: list[tuple[Values, int]] = []  # For each layer: cells, and their concentration.
    signals = state["biotope.signals"].copy()
    number, plants = state["substances.substance"][rows], stand.find(state["substances.owner"][rows])
    for index, (substance, layer) in enumerate(zip(config.substances, config.layers, strict=True)):
        owners = plants[number == index]
        _, y, x = plant_cells(state, owners)
        amount = multiply(emission, substance.strength)
        if substance.kind == "toxin":
            toxins.append((y.astype(np.int64) * config.grid.width + x, min(amount, ONE)))
            continue
        linked = state["plants.links"][owners] != 0
        count = linked.sum(axis=1)
        share = amount // (count + 1)
        np.add.at(signals[layer], (y, x), amount - count * share)
        touched = [(y, x)]
        for direction, (dx, dy) in enumerate(NEIGHBOURS):
            with_link = linked[:, direction]
            touched.append((y[with_link] + dy, x[with_link] + dx))
            np.add.at(signals[layer], touched[-1], share[with_link])
        for cells in touched:
            signals[layer][cells] = np.minimum(signals[layer][cells], CONCENTRATION_MAX * ONE)
    _rebuild_toxins(state, toxins)
    return signals


def _rebuild_toxins(state: State, emitted: list[tuple[Values, int]]) -> None:
    """Set the toxin layers to these concentrations and zero elsewhere, touching only the few cells that have or had any."""
    for layer, (cells, amount) in enumerate(emitted):
        toxins = state["biotope.toxins"][layer].reshape(-1)
        before = _nonzero(toxins)
        touched = np.concatenate([before, cells])
        old = toxins[touched]
        toxins[before] = 0
        toxins[cells] = amount
        state.mark("biotope.toxins", touched[toxins[touched] != old] + layer * toxins.size)


def _nonzero(layer: Values) -> Values:
    """Return the cells of a flattened layer that are not 0."""
    compiled = compiled_for(layer.size, CELLS_MIN, list_nonzero)
    if compiled is None:
        return np.flatnonzero(layer)
    places = np.empty(layer.size, np.int64)
    return places[: compiled(layer, layer.size, places)]


def poison(context: PhaseContext) -> None:
    """Let toxins kill and repel."""
    state, config = context.state, context.config
    rows = np.flatnonzero(state["swarms.id"])
    is_there = state["biotope.toxins"][:, state["swarms.y"][rows], state["swarms.x"][rows]].any(axis=0)
    rows = in_order_of_id(state, "swarms", rows[is_there | (state["swarms.population"][rows] == 0)])
    if not len(rows):
        return
    species = state["swarms.species"][rows]
    cells = (state["swarms.y"][rows], state["swarms.x"][rows])
    energy_min = np.array([herbivore.energy_min for herbivore in config.herbivores], np.int64)[species]
    heads, energy = state["swarms.population"][rows], state["swarms.energy"][rows]
    repelled, before = state["swarms.repelled"][rows].astype(np.int64), heads.sum()
    killed = np.zeros_like(heads)
    for substance, layer in zip(config.substances, config.layers, strict=True):
        if substance.kind == "toxin":
            concentration = np.where(heads > 0, state["biotope.toxins"][layer][cells], 0)
            casualties = np.minimum((substance.lethality * concentration * heads) >> 2 * PLACES, heads)
            lost = np.minimum(energy, casualties * energy_min)
            heads, energy, killed = heads - casualties, energy - lost, killed + casualties
            repelled = np.where(concentration > 0, np.maximum(repelled, substance.repellence), repelled)
            context.note(Flow.POISON, lost)
    if heads.sum() != before:
        energy_left = energy[heads == 0]
        context.note(Flow.POISON, energy_left)
        set_rows(state, "swarms.population", rows, heads)
        set_rows(state, "swarms.energy", rows, np.where(heads == 0, 0, energy))
        lost_heads = state["heads_lost"].copy()
        np.add.at(lost_heads[:, HeadLoss.TOXIN], species, killed)
        write_changed(state, "heads_lost", lost_heads)
        context.event_log.heads_lost(state, rows, killed, HeadLoss.TOXIN)
    set_rows(state, "swarms.repelled", rows, repelled)
    remove_swarms_without_heads(context, rows, HeadLoss.TOXIN)
