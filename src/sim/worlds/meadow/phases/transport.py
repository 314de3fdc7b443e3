"""The spread of signals: carried by the wind, blurred, decayed.

    upwind     new[y, x] = old[y - south, x - east], with the wind of cell (x, y), each part rounded to
               floor(wind + 1/2) cells; 0 if that is outside (semi-Lagrangian, one cell, no interpolation).
    blur       new[y, x] = floor(sum over dy, dx of w[dy] × w[dx] × old[y + dy, x + dx] / 16), w = (1, 2, 1), 0 outside.
    decay      new = floor(old × parameter signal_decay); values below epsilon become 0.

No step raises the largest concentration: the wind copies the value of one other cell; blur and decay round down.
Units: concentrations and wind in 1/65536.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sim.kernel.arithmetic.fixed_point import ONE, PLACES
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.layout import Parameter
from sim.worlds.meadow.model.loops import carry_row, list_nonzero, spread_signal
from sim.worlds.meadow.model.numba_loops import CELLS_MIN, compiled_for
from sim.worlds.meadow.model.table_rows import mark_changed, write_changed


def spread_signals(context: PhaseContext, signals: Values) -> None:
    """Set the layers of the state to these after one tick. signals: (signals, height, width) int64."""
    decay, epsilon = context.parameter(Parameter.SIGNAL_DECAY), context.config.signalling.epsilon
    wind, field = context.state["biotope.wind"], context.state["biotope.signals"]
    find = compiled_for(field[0].size, CELLS_MIN, list_nonzero)
    if find is None:
        new = np.zeros_like(signals)
        for layer, old in enumerate(signals):
            if old.any():  # Most layers are empty for most of the time.
                spread(old, wind, decay, epsilon, new[layer])
        write_changed(context.state, "biotope.signals", new)
        return
    differs, count, one = np.empty(signals.shape, np.bool_), 0, np.empty(1, np.int64)
    for layer, old in enumerate(signals):
        if find(old.reshape(-1), 1, one) or find(field[layer].reshape(-1), 1, one):
            count += spread(old, wind, decay, epsilon, field[layer], differs[layer])
        else:
            differs[layer] = False
    mark_changed(context.state, "biotope.signals", differs.reshape(-1), count)


def spread(
    old: Values, wind: Values, decay: int, epsilon: int, new: Values, differs: npt.NDArray[np.bool_] | None = None
) -> int:
    """Spread one layer: (height, width) int64; return how many cells of new changed, if that is asked.

    wind: (2, height, width). new: receives the result. differs: receives a flag for each cell that changes.
    """
    compiled = compiled_for(old.size, CELLS_MIN, spread_signal, carry_row)
    if compiled is None:
        left = _blur(_carry(old, wind))
        left *= decay
        left >>= PLACES
        np.multiply(left, left >= epsilon, out=new)
        return 0
    width = old.shape[1]
    room = [np.zeros(size, np.int64) for size in (width + 2, width, width, width)]
    flags = np.empty(old.shape, np.bool_) if differs is None else differs
    count: int = compiled(old, wind, decay, epsilon, *room, new, flags)
    return count


def _carry(old: Values, wind: Values) -> Values:
    height, width = old.shape
    east, south = (wind + ONE // 2) >> PLACES
    y, x = np.arange(height)[:, None] - south, np.arange(width) - east
    outside = (y < 0) | (y >= height) | (x < 0) | (x >= width)
    sources = y * width + x
    sources[outside] = 0
    carried: Values = old.reshape(-1)[sources]
    carried[outside] = 0
    return carried


def _blur(old: Values) -> Values:
    """Blur a layer. The cells are flattened as in flow_field.py; the first and the last column are corrected afterwards."""
    line, width = old.reshape(-1), old.shape[1]
    across = line + line
    across[1:] += line[:-1]
    across[:-1] += line[1:]
    across.reshape(old.shape)[1:, 0] -= old[:-1, -1]
    across.reshape(old.shape)[:-1, -1] -= old[1:, 0]
    blurred = across + across
    blurred[width:] += across[:-width]
    blurred[:-width] += across[width:]
    blurred >>= 4
    return blurred.reshape(old.shape)
