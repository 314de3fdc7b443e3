"""The view of a player of a herbivore species: what its swarms see now, and what they saw before."""

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
    """A player's view through fog at the end of a tick.

    Grids are (height, width). A cell out of sight shows its contents when it was last in sight; a cell that was never in
    sight shows 0. Energies are int64 in units of 1/65536, as in the state.

    Attributes:
        tick: the current tick, int64.
        budget: the energy that the player can spend, int64.
        seen: True for cells in sight now, bool.
        last_seen: the tick at which a cell was last in sight, int64: the current tick for cells in sight, -1 for cells
            never seen. The age of the contents is tick - last_seen.
        plants: energy of all plants as swarms perceive it, as of the last rebuild, int64.
        food: energy of the plants that the species eats, as of the last rebuild, int64.
        others: heads of other species, int64.
        heads: the player's heads, int64; they are always in sight.
        swarm_id, swarm_x, swarm_y, swarm_population, swarm_energy, swarm_cooldown, swarm_repelled: columns of the
            player's swarms in ascending id, (swarms,) int64.
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
        """The attributes by name."""
        return {field.name: getattr(self, field.name) for field in attrs.fields(FogView)}


def look(state: Readable, config: MeadowConfig, player: Player) -> FogView:
    """Return what the player sees and remembers at the end of the state's tick, in new arrays.

    Live policies and extractions from recordings use the same function. It reads only the player's maps, which phase
    sight writes, and the player's swarms: nothing else can leak into a view.
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
