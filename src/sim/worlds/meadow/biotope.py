"""The double-buffered layers: phases read the front side, write the back side, and a rebuild swaps them.

A write to plant energy becomes visible only by the rebuild. Both sides are equal after it, so that the next writes
start from what everybody sees. Negative energy is written as zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.kernel.state import State

Layer = npt.NDArray[np.int64]


def visible_energy(state: State) -> Layer:
    """Plant energy by species as of the last rebuild: (species, height, width) int64, 1/65536 units."""
    layer: Layer = state["biotope.energy"][int(state["biotope.front"])]
    return layer


def write_energy(state: State, species: Any, y: Any, x: Any, energy: Any) -> None:
    """Write the energy of plants of these species at these cells to the back side."""
    back = 1 - int(state["biotope.front"])
    layers = state["biotope.energy"]
    layers[back, species, y, x] = np.maximum(energy, 0)
    _, species_count, height, width = layers.shape
    state.mark("biotope.energy", np.atleast_1d(((back * species_count + species) * height + y) * width + x))


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
