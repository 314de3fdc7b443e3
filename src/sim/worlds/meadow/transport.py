"""How signals spread: carried by the wind, blurred, decaying.

    upwind     new[y, x] = old[y - south, x - east], with the wind of cell (x, y), each part rounded to
               floor(wind + 1/2) cells; 0 if that is outside (semi-Lagrangian, one cell, no interpolation).
    blur       new[y, x] = floor(sum over dy, dx of w[dy] × w[dx] × old[y + dy, x + dx] / 16), w = (1, 2, 1), 0 outside.
    decay      new = floor(old × parameter signal_decay); what is below epsilon becomes 0.

Nothing is gained on the way: the wind gathers, so that a cell holds what one other held; blur and decay round down.
Units: concentrations and wind in 1/65536.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.fixed_point import ONE, PLACES
from sim.worlds.meadow.ground import Ground, Values
from sim.worlds.meadow.layout import Parameter


def spread_signals(ground: Ground, signals: Values) -> Values:
    """The layers after one tick: (signals, height, width) int64."""
    decay, epsilon = ground.parameter(Parameter.SIGNAL_DECAY), ground.config.signalling.epsilon
    spread = np.zeros_like(signals)
    sources = None
    for layer, old in enumerate(signals):
        if old.any():  # Most layers are empty for most of the time.
            sources = _sources(ground) if sources is None else sources
            new = (_blur(_carry(old, *sources)) * decay) >> PLACES
            spread[layer] = np.where(new < epsilon, 0, new)
    return spread


def _sources(ground: Ground) -> tuple[Values, Values]:
    """Row and column of the cell upwind of each cell."""
    east, south = (ground.state["biotope.wind"] + ONE // 2) >> PLACES
    y, x = np.indices(east.shape)
    return y - south, x - east


def _carry(old: Values, y: Values, x: Values) -> Values:
    height, width = old.shape
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    carried: Values = np.where(inside, old[np.where(inside, y, 0), np.where(inside, x, 0)], 0)
    return carried


def _blur(old: Values) -> Values:
    rows = np.zeros((old.shape[0] + 2, old.shape[1] + 2), np.int64)
    rows[1:-1, 1:-1] = old
    across = rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]
    blurred: Values = (across[:-2] + 2 * across[1:-1] + across[2:]) >> 4
    return blurred
