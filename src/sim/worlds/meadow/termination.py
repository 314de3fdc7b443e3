"""When a run ends before its last tick: conditions Z2 to Z7, looked at after a tick is complete and recorded.

Z1, which comes first, is the scenario's ``ticks``. Whoever runs the meadow counts them, and may ask for more or fewer,
also when a run is gone on with: so it is the command that ends a run by Z1.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.fixed_point import to_number
from sim.kernel.state import State
from sim.worlds.meadow.config import MeadowConfig


def find_end(state: State, config: MeadowConfig) -> tuple[str, str] | None:
    """The first condition that holds, as its name ("Z2" to "Z7") and a sentence; None if none does."""
    wanted = config.termination
    flora = _living_species(state, "plants")
    herbivores = _living_species(state, "swarms")
    energy, heads = int(state["plants.energy"].sum()), int(state["swarms.population"].sum())
    gone = [name for name in wanted.flora_extinct if config.flora_index(name) not in flora]
    eaten = [name for name in wanted.herbivores_extinct if config.herbivore_index(name) not in herbivores]
    if gone:
        return "Z2", f"{gone[0]} is extinct"
    if wanted.all_flora and not flora:
        return "Z3", "there are no plants left"
    if eaten:
        return "Z4", f"{eaten[0]} is extinct"
    if wanted.all_herbivores and not herbivores:
        return "Z5", "there are no herbivores left"
    if wanted.flora_energy_max is not None and energy > wanted.flora_energy_max:
        bound = to_number(wanted.flora_energy_max)
        return "Z6", f"the plants have more energy than {bound:,.16g}: {to_number(energy):,.1f}"
    if wanted.population_max is not None and heads > wanted.population_max:
        return "Z7", f"there are more herbivores than {wanted.population_max:,}: {heads:,}"
    return None


def _living_species(state: State, table: str) -> set[int]:
    species = state[f"{table}.species"][state[f"{table}.id"] != 0]
    return set(np.unique(species).tolist())  # Only asked for membership.
