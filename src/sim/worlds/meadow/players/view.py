"""What a player of a herbivore species may know: what its swarms see now, and what they saw before."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from sim.kernel.registry import Readable, Seen
from sim.worlds.meadow.config.meadow import MeadowConfig, Player
from sim.worlds.meadow.model.table_rows import rows_by_id

Grid = npt.NDArray[np.int64]

_SWARM_COLUMNS = ("id", "x", "y", "population", "energy", "cooldown", "repelled")


@attrs.frozen(eq=False)
class FogView:
    """A view through fog, as of the end of a tick.

    Grids are (height, width). Cells that are not in sight show what was there when they last were, cells that never
    were show 0. Energies are int64 in 1/65536 units, as everything in a state.

    Attributes:
        tick: the present one, int64.
        budget: what the player can spend, int64.
        seen: which cells are in sight now, bool.
        last_seen: the tick at which a cell was last in sight, int64: the present tick for those that are, -1 for those
            that never were. How long ago that is, is tick - last_seen.
        plants: energy of all plants as swarms perceive it (that of the last rebuild), int64.
        food: the same of the plants that the species eats, int64.
        others: heads of other species, int64.
        heads: own heads, int64; they are always in sight.
        swarm_id, swarm_x, swarm_y, swarm_population, swarm_energy, swarm_cooldown, swarm_repelled: of the own swarms in
            ascending id, int64, as many as there are.
    """

    tick: np.int64
    budget: np.int64
    seen: npt.NDArray[np.bool_]
    last_seen: Grid
    plants: Grid
    food: Grid
    others: Grid
    heads: Grid
    swarm_id: Grid
    swarm_x: Grid
    swarm_y: Grid
    swarm_population: Grid
    swarm_energy: Grid
    swarm_cooldown: Grid
    swarm_repelled: Grid

    @property
    def arrays(self) -> Seen:
        """All of it by name."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(FogView)}


def look(state: Readable, config: MeadowConfig, player: Player) -> FogView:
    """What the player sees and remembers at the end of the state's tick; in arrays of its own.

    The same function serves live policies and what is cut out of recordings. It reads the player's own maps, which
    phase sight writes, and the player's own swarms: nothing else can get into a view.
    """
    species, number = config.herbivore_index(player.species), config.players.index(player)
    rows = rows_by_id(state, "swarms")
    mine = rows[state["swarms.species"][rows] == species]
    swarms = {f"swarm_{name}": state[f"swarms.{name}"][mine].astype(np.int64) for name in _SWARM_COLUMNS}
    maps = {name: state[f"sight.{name}"][number].copy() for name in ("last_seen", "plants", "food", "others")}
    heads = np.zeros_like(maps["plants"])
    np.add.at(heads, (swarms["swarm_y"], swarms["swarm_x"]), swarms["swarm_population"])
    tick = np.int64(state["tick"])
    return FogView(
        tick=tick,
        budget=np.int64(state["player_budget"][species]),
        seen=maps["last_seen"] == tick,
        heads=heads,
        **maps,
        **swarms,
    )
