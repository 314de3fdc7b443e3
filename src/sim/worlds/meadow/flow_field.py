"""Phase flow_field: where swarms are drawn to; a short-range map of influence, not an equilibrium.

    base = visible plant energy in sum - sum of the toxin layers (those of the tick before)
    flow = base + floor(sum of base over the neighbours / (2 × number of neighbours)); base alone without neighbours

That is one pass of spreading over the 4 neighbours with decay 1/2. Then camouflage: at the cells of plants whose
species has a camouflage c below 1, flow = floor(flow × c). It guides; the energy stays.
Units: 1/65536 energy; a toxin's concentration counts like energy.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.fixed_point import ONE, PLACES
from sim.worlds.meadow.ground import Ground
from sim.worlds.meadow.tables import write_changed


def run_flow_field(ground: Ground) -> None:
    """The whole phase."""
    state = ground.state
    base = state["biotope.total"][int(state["biotope.front"])] - state["biotope.toxins"].sum(axis=0)
    near, count = np.zeros_like(base), np.zeros_like(base)
    for here, there in (
        ((slice(None), slice(None, -1)), (slice(None), slice(1, None))),
        ((slice(None, -1), slice(None)), (slice(1, None), slice(None))),
    ):
        near[here] += base[there]
        near[there] += base[here]
        count[here] += 1
        count[there] += 1
    flow = base + near // np.maximum(2 * count, 1)
    hidden = ground.flora.camouflage < ONE
    if hidden.any():
        rows = np.flatnonzero(state["plants.id"])
        rows = rows[hidden[state["plants.species"][rows]]]
        y, x = state["plants.y"][rows], state["plants.x"][rows]
        flow[y, x] = (flow[y, x] * ground.flora.camouflage[state["plants.species"][rows]]) >> PLACES
    write_changed(state, "biotope.flow", flow)
