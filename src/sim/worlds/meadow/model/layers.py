"""The double-buffered layers: phases read the front side, write the back side, and a rebuild swaps them.

A write to plant energy becomes visible only by the rebuild. Both sides are equal after it, so that the next writes
start from the visible values. Negative energy is written as zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.state import State
from sim.worlds.meadow.model.loops import publish_plants
from sim.worlds.meadow.model.numba_loops import PLANTS_MIN, compiled_for

Layer = npt.NDArray[np.int64]
PlantCells = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]  # Species, y and x of plants.


def visible_energy(state: State) -> Layer:
    """Return plant energy by species as of the last rebuild: (species, height, width) int64, 1/65536 units."""
    layer: Layer = state["biotope.energy"][int(state["biotope.front"])]
    return layer


def write_energy(state: State, species: Any, y: Any, x: Any, energy: Any) -> None:
    """Write the energy of plants of these species at these cells to the back side."""
    back = 1 - int(state["biotope.front"])
    layers = state["biotope.energy"]
    _, species_count, height, width = layers.shape
    numbers = np.atleast_1d(((back * species_count + species.astype(np.int64)) * height + y) * width + x)
    layers.reshape(-1)[numbers] = np.maximum(energy, 0)
    state.mark("biotope.energy", numbers)


def rebuild_at(state: State, left: PlantCells) -> None:
    """Write the energies of all plants to the back side, and rebuild.

    left: cells of plants that were removed since the last rebuild; zeros are written there. Cells without a plant, then
    and now, were not written: both sides are equal there, so they are skipped.
    """
    front = int(state["biotope.front"])
    (seen, written), (seen_sums, sums) = (
        (state[name][front].reshape(-1), state[name][1 - front].reshape(-1))
        for name in ("biotope.energy", "biotope.total")
    )
    species, y, x = left
    cells = y.astype(np.int64) * state["biotope.total"].shape[2] + x
    layers = (written, seen, sums, seen_sums)
    # Removed plants come first, since a seedling of the same species may stand in such a cell.
    for rewritten, shown, changed_cells in (
        _publish(species * sums.size + cells, cells, np.zeros(len(cells), np.int64), *layers),
        publish(state, *layers),
    ):
        for name, numbers, side, size in (
            ("biotope.energy", rewritten, 1 - front, seen.size),
            ("biotope.energy", shown, front, seen.size),
            ("biotope.total", changed_cells, 0, sums.size),
            ("biotope.total", changed_cells, 1, sums.size),
        ):
            state.mark(name, numbers + size if side else numbers)
    state["biotope.front"][()] = 1 - front
    state.mark("biotope.front")


def publish(state: State, *layers: Layer) -> tuple[Layer, Layer, Layer]:
    """Write the energies of all plants to the back side, copy what differs to the front, and correct both sides' sums.

    layers: the species' layers and their sum, back and front, flattened: written, seen, sums, seen_sums.
    Returns the flat indices that changed on the back and on the front, and the cells whose sums changed.
    """
    occupant, size = state["biotope.occupant"].reshape(-1), layers[2].size
    species, energy = state["plants.species"], state["plants.energy"]
    compiled = compiled_for(len(energy), PLANTS_MIN, publish_plants)
    if compiled is None:
        cells = np.flatnonzero(occupant)
        rows = occupant[cells] - 1
        return _publish(species[rows] * size + cells, cells, np.maximum(energy[rows], 0), *layers)
    room = len(energy) + 1
    places, results = np.empty((2, room), np.int32), [np.empty(room, np.int64) for _ in range(3)]
    rewritten, shown = compiled(occupant, species, energy, *layers, *places, *results)
    return results[0][:rewritten], results[1][:shown], results[2][:shown]


def _publish(
    numbers: Layer, cells: Layer, values: Layer, written: Layer, seen: Layer, sums: Layer, seen_sums: Layer
) -> tuple[Layer, Layer, Layer]:
    rewritten = numbers[written[numbers] != values]
    written[numbers] = values
    before = seen[numbers]
    changed = np.flatnonzero(values != before)
    numbers, cells, values = numbers[changed], cells[changed], values[changed]
    seen[numbers] = values
    seen_sums[cells] += values - before[changed]
    sums[cells] = seen_sums[cells]
    return rewritten, numbers, cells


def rebuild(state: State) -> None:
    """Sum the back side over the species, make it the front, and copy it to the new back side."""
    energy, total = state["biotope.energy"], state["biotope.total"]
    old_front = int(state["biotope.front"])
    back = 1 - old_front
    np.sum(energy[back], axis=0, out=total[back])
    changed_cells = np.flatnonzero(energy[old_front].reshape(-1) != energy[back].reshape(-1))
    changed_sums = np.flatnonzero(total[old_front].reshape(-1) != total[back].reshape(-1))
    energy[old_front].reshape(-1)[changed_cells] = energy[back].reshape(-1)[changed_cells]
    total[old_front].reshape(-1)[changed_sums] = total[back].reshape(-1)[changed_sums]
    state["biotope.front"][()] = back
    for name, numbers in (("biotope.energy", changed_cells), ("biotope.total", changed_sums)):
        side = state[name][0].size
        state.mark(name, numbers)
        state.mark(name, numbers + side)
    state.mark("biotope.front")
