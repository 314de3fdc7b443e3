"""Phase flow_field: the attraction of swarms; a short-range influence map, not an equilibrium.

    base = visible energy of all plants - sum of the toxin layers of the previous tick
    flow = base + floor(sum of base over the neighbours / (2 × number of neighbours)); base alone without neighbours

That is one pass of spreading over the 4 neighbours with decay 1/2. Then camouflage: at the cells of plants whose
species has a camouflage c below 1, flow = floor(flow × c). The flow only guides: the plants keep their energy.
Units: 1/65536 energy; a toxin's concentration counts like energy.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.arithmetic.fixed_point import ONE, PLACES
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.loops import hide_plants, spread_at_edge, spread_over, take_over
from sim.worlds.meadow.model.numba_loops import CELLS_MIN, compiled_for
from sim.worlds.meadow.model.plants import plant_cells
from sim.worlds.meadow.model.table_rows import mark_changed, write_changed


def run_flow_field(context: PhaseContext) -> None:
    """Run the phase."""
    state, camouflage = context.state, context.flora.camouflage
    cells = state["biotope.flow"].size
    hide = compiled_for(cells, CELLS_MIN, hide_plants)
    take = compiled_for(cells, CELLS_MIN, take_over)
    flow = spread(state["biotope.total"][int(state["biotope.front"])], state["biotope.toxins"])
    hidden = camouflage < ONE
    if hide is not None and take is not None:
        if hidden.any():
            hide(*(state[f"plants.{name}"] for name in ("id", "species", "y", "x")), camouflage, flow)
        differs = np.empty(cells, np.bool_)
        count = take(flow.reshape(-1), state["biotope.flow"].reshape(-1), differs)
        mark_changed(state, "biotope.flow", differs, count)
        return
    if hidden.any():
        rows = np.flatnonzero(hidden[state["plants.species"]] & (state["plants.id"] != 0))
        species, y, x = plant_cells(state, rows)
        flow[y, x] = (flow[y, x] * camouflage[species]) >> PLACES
    write_changed(state, "biotope.flow", flow)


def spread(energy: Values, toxins: Values) -> Values:
    """Compute the field without camouflage: (height, width) int64. energy: (height, width). toxins: (layers, height, width).

    The cells are flattened: NumPy adds slices of a line three times as fast as slices of a grid. Flattening gives wrong
    neighbours to the first and last column; the edges are corrected afterwards.
    """
    compiled = compiled_for(energy.size, CELLS_MIN, spread_over, spread_at_edge)
    if compiled is not None:
        flow = np.empty(energy.shape, np.int64)
        compiled(energy, toxins, *np.zeros((3, energy.shape[1]), np.int64), flow)
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
    """Compute the flow of the first and the last column."""
    height, width = base.shape
    for x in (0, width - 1):
        columns = [base[:, column] for column in (x - 1, x + 1) if 0 <= column < width]
        near, count = np.zeros(height, np.int64), np.full(height, len(columns))
        for cells, neighbours in ((slice(1, None), slice(None, -1)), (slice(None, -1), slice(1, None))):
            near[cells] += base[neighbours, x]
            count[cells] += 1
        for column_values in columns:
            near += column_values
        flow[:, x] = base[:, x] + near // np.maximum(2 * count, 1)
