"""When a run ends before its last tick: conditions Z2 to Z7, looked at after a tick is complete and recorded.

Z1, which comes first, is the scenario's ``ticks``. Whoever runs the meadow counts them, and may ask for more or fewer,
also when a run is gone on with: so it is the command that ends a run by Z1.
"""

from __future__ import annotations

from sim.kernel.arithmetic.fixed_point import to_number
from sim.kernel.state import State
from sim.worlds.meadow.config.meadow import MeadowConfig, Termination


def find_end(state: State, config: MeadowConfig) -> tuple[str, str] | None:
    """The first condition that holds, as its name ("Z2" to "Z7") and a sentence; None if none does.

    It is asked after each tick: only what the scenario wants to know is counted.
    """
    wanted = config.termination
    for name in wanted.flora_extinct:
        if not _lives(state, "plants", config.flora_index(name)):
            return "Z2", f"{name} is extinct"
    if wanted.all_flora and not state["plants.id"].any():
        return "Z3", "there are no plants left"
    for name in wanted.herbivores_extinct:
        if not _lives(state, "swarms", config.herbivore_index(name)):
            return "Z4", f"{name} is extinct"
    if wanted.all_herbivores and not state["swarms.id"].any():
        return "Z5", "there are no herbivores left"
    return _find_excess(state, wanted)


def _find_excess(state: State, wanted: Termination) -> tuple[str, str] | None:
    if wanted.flora_energy_max is not None:
        energy = int(state["plants.energy"].sum())
        if energy > wanted.flora_energy_max:
            bound = to_number(wanted.flora_energy_max)
            return "Z6", f"the plants have more energy than {bound:,.16g}: {to_number(energy):,.1f}"
    if wanted.population_max is not None:
        heads = int(state["swarms.population"].sum())
        if heads > wanted.population_max:
            return "Z7", f"there are more herbivores than {wanted.population_max:,}: {heads:,}"
    return None


def _lives(state: State, table: str, species: int) -> bool:
    return bool(((state[f"{table}.species"] == species) & (state[f"{table}.id"] != 0)).any())
