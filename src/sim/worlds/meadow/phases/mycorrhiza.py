"""Grow mycorrhizal links: pairs of neighbouring plants share roots, for a price that both pay.

Plants are handled in the order of (y, x). With one plant per cell this is a total order, equal to (y, x, species, id).
Each plant tries its forward neighbours, first (1, 0), then (0, 1). Two plants link if they are not linked yet, neither
has a new link in this pass, they are of one species (or links.between_species), and both stay above their
survival threshold after paying the parameter link_cost (loss cause link).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.worlds.meadow.model.context import PhaseContext
from sim.worlds.meadow.model.energy_ledger import Flow
from sim.worlds.meadow.model.layout import NEIGHBOURS, LossCause, Parameter
from sim.worlds.meadow.model.loops import find_pairs
from sim.worlds.meadow.model.numba_loops import CELLS_MIN, compiled_for
from sim.worlds.meadow.model.plants import link_plants
from sim.worlds.meadow.model.table_rows import set_rows


def grow_links(context: PhaseContext) -> None:
    """Grow links in one pass over all plants."""
    state, cost = context.state, context.parameter(Parameter.LINK_COST)
    pairs = possible_pairs(context, cost)
    taken: set[int] = set()  # Only tested for membership, never iterated: the order of the set has no effect.
    chosen: list[tuple[int, int, int]] = []
    for row, neighbour, direction in pairs:
        if row not in taken and neighbour not in taken:
            taken.update((row, neighbour))
            chosen.append((row, neighbour, direction))
    if not chosen:
        return
    link_plants(state, chosen)
    payers = np.array([row for pair in chosen for row in pair[:2]], dtype=np.int64)
    ids = state["plants.id"]
    context.event_log.linked(ids[payers[::2]], ids[payers[1::2]])
    pay_for_links(context, payers, cost)


def pay_for_links(context: PhaseContext, payers: npt.NDArray[np.int64], cost: int) -> None:
    """Let the plants in these rows pay for a link each."""
    state = context.state
    set_rows(state, "plants.energy", payers, state["plants.energy"][payers] - cost)
    set_rows(state, "plants.loss_cause", payers, LossCause.LINK)
    context.note(Flow.LINKS, cost * len(payers))


def can_pay_link(context: PhaseContext, cost: int) -> npt.NDArray[np.bool_]:
    """Return the mask of the rows of plants that stay above their survival threshold after paying."""
    able: npt.NDArray[np.bool_] = (
        context.state["plants.energy"] - cost > context.flora.survival_threshold[context.state["plants.species"]]
    )
    return able


def possible_pairs(context: PhaseContext, cost: int) -> list[tuple[int, int, int]]:
    """Return (row, row of the neighbour, direction) of all pairs that could link, in the order of the pass."""
    state, grid = context.state, context.config.grid
    occupant, links, species = state["biotope.occupant"], state["plants.links"], state["plants.species"]
    can_pay = can_pay_link(context, cost)
    compiled = compiled_for(occupant.size, CELLS_MIN, find_pairs)
    if compiled is not None:
        room = np.empty((3, 2 * len(species)), np.int64)
        count = compiled(occupant, links, species, can_pay, int(context.config.links.between_species), *room)
        return list(zip(*room[:, :count].tolist(), strict=True))
    y, x = np.nonzero(occupant)  # In the order of (y, x).
    rows = occupant[y, x] - 1
    candidates: list[tuple[npt.NDArray[np.int64], ...]] = []
    for direction, (dx, dy) in enumerate(NEIGHBOURS[:2]):
        inside = (x + dx < grid.width) & (y + dy < grid.height)
        neighbours = np.full(len(rows), -1)
        neighbours[inside] = occupant[y[inside] + dy, x[inside] + dx] - 1
        possible = (neighbours >= 0) & can_pay[rows] & can_pay[neighbours] & (links[rows, direction] == 0)
        if not context.config.links.between_species:
            possible &= species[rows] == species[neighbours]
        index = np.flatnonzero(possible)
        candidates.append((index * 2 + direction, rows[index], neighbours[index], np.full(len(index), direction)))
    turn, *columns = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
    order = np.argsort(turn, kind="stable")
    return list(zip(*(column[order].tolist() for column in columns), strict=True))
