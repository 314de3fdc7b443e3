"""Phase flow_field: where swarms are drawn to; a short-range map of influence, not an equilibrium.

    base = visible plant energy in sum - sum of the toxin layers (those of the tick before)
    flow = base + floor(sum of base over the neighbours / (2 × number of neighbours)); base alone without neighbours

That is one pass of spreading over the 4 neighbours with decay 1/2. Then camouflage: at the cells of plants whose
species has a camouflage c below 1, flow = floor(flow × c). It guides; the energy stays.
Units: 1/65536 energy; a toxin's concentration counts like energy.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.arithmetic.fixed_point import ONE, PLACES
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.loops import spread_at_edge, spread_over
from sim.worlds.meadow.model.numba_loops import CELLS_MIN, compiled_for
from sim.worlds.meadow.model.plants import plant_cells
from sim.worlds.meadow.model.table_rows import write_changed


def run_flow_field(context: PhaseContext) -> None:
    """The whole phase."""
    state = context.state
    flow = spread(state["biotope.total"][int(state["biotope.front"])], state["biotope.toxins"])
    hidden = context.flora.camouflage < ONE
    if hidden.any():
        rows = np.flatnonzero(hidden[state["plants.species"]] & (state["plants.id"] != 0))
        species, y, x = plant_cells(state, rows)
        flow[y, x] = (flow[y, x] * context.flora.camouflage[species]) >> PLACES
    write_changed(state, "biotope.flow", flow)


def spread(energy: Values, toxins: Values) -> Values:
    """The field without camouflage: (height, width) int64. energy: (height, width). toxins: (layers, height, width).

    All cells are in one line, whose parts NumPy adds three times as fast as parts of a grid. What a line gets wrong, the
    neighbours of the cells in the first and last column, is put right afterwards, as are the edges' fewer neighbours.
    """
    compiled = compiled_for(energy.size, CELLS_MIN, spread_over, spread_at_edge)
    if compiled is not None:
        base, flow = np.empty(energy.shape, np.int64), np.empty(energy.shape, np.int64)
        compiled(energy, toxins, base, flow)
        return flow
    base = energy.copy()
    for layer in toxins:
        base -= layer
    line, (_, width) = base.reshape(-1), energy.shape
    near = np.zeros_like(line)
    near[width:] += line[:-width]
    near[:-width] += line[width:]
    near[1:] += line[:-1]
    near[:-1] += line[1:]
    near >>= 3  # The sum of four neighbours // (2 × 4).
    near += line
    flow = near.reshape(base.shape)
    _spread_at_edges(flow, base)
    _spread_at_edges(flow.T, base.T)
    return flow


def _spread_at_edges(flow: Values, base: Values) -> None:
    """The first and the last column."""
    height, width = base.shape
    for x in (0, width - 1):
        sides = [base[:, side] for side in (x - 1, x + 1) if 0 <= side < width]
        near, count = np.zeros(height, np.int64), np.full(height, len(sides))
        for here, there in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            near[here] += base[there, x]
            count[here] += 1
        for side in sides:
            near += side
        flow[:, x] = base[:, x] + near // np.maximum(2 * count, 1)
