"""Grow mycorrhizal links: pairs of neighbouring plants share roots, for a price that both pay.

Plants are taken in the order of (y, x); with one plant a cell that is a total order, the same as (y, x, species, id).
Each looks at its forward neighbours, first (1, 0), then (0, 1). Two plants link if they are not linked yet, neither
has a new link in this pass, they are of one species (or links.between_species), and both stay at or above their
survival threshold after paying links.cost (loss cause link).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.kernel.state import State
from sim.worlds.meadow.config import MeadowConfig
from sim.worlds.meadow.layout import NEIGHBOURS, LossCause
from sim.worlds.meadow.plants import link_plants


def grow_links(state: State, config: MeadowConfig, survival_threshold: npt.NDArray[np.int64]) -> None:
    """One pass over all plants. survival_threshold: by species, (species,) int64."""
    pairs = _possible_pairs(state, config, survival_threshold)
    taken: set[int] = set()  # Only asked for membership; never iterated, so that its order means nothing.
    chosen: list[tuple[int, int, int]] = []
    for row, neighbour, direction in pairs:
        if row not in taken and neighbour not in taken:
            taken.update((row, neighbour))
            chosen.append((row, neighbour, direction))
    if not chosen:
        return
    link_plants(state, chosen)
    payers = np.array([row for pair in chosen for row in pair[:2]], dtype=np.int64)
    state.set("plants.energy", payers, state["plants.energy"][payers] - config.links.cost)
    state.set("plants.loss_cause", payers, LossCause.LINK)


def _possible_pairs(
    state: State, config: MeadowConfig, survival_threshold: npt.NDArray[np.int64]
) -> list[tuple[int, int, int]]:
    """(row, row of the neighbour, direction) of all pairs that could link, in the order in which they may."""
    occupant, links, species = state["biotope.occupant"], state["plants.links"], state["plants.species"]
    can_pay = state["plants.energy"] - config.links.cost >= survival_threshold[species]
    y, x = np.nonzero(occupant)  # In the order of (y, x).
    rows = occupant[y, x] - 1
    found: list[tuple[npt.NDArray[np.int64], ...]] = []
    for direction, (dx, dy) in enumerate(NEIGHBOURS[:2]):
        inside = (x + dx < config.grid.width) & (y + dy < config.grid.height)
        neighbours = np.full(len(rows), -1)
        neighbours[inside] = occupant[y[inside] + dy, x[inside] + dx] - 1
        possible = (neighbours >= 0) & can_pay[rows] & can_pay[neighbours] & (links[rows, direction] == 0)
        if not config.links.between_species:
            possible &= species[rows] == species[neighbours]
        place = np.flatnonzero(possible)
        found.append((place * 2 + direction, rows[place], neighbours[place], np.full(len(place), direction)))
    turn, *columns = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(turn, kind="stable")
    return list(zip(*(column[order].tolist() for column in columns), strict=True))
