"""Conditions Z2 to Z7, which end a run before its last tick; checked after a tick is complete and recorded.

Z1 has priority: the scenario's ``ticks``. The command that runs the meadow counts them, and accepts more or fewer, also
when it resumes a run. So the command ends a run by Z1.
"""

from __future__ import annotations

from sim.kernel.arithmetic.fixed_point import to_number
from sim.kernel.state import State
from sim.worlds.meadow.config.meadow import MeadowConfig, Termination


def find_end(state: State, config: MeadowConfig) -> tuple[str, str] | None:
    """Return the first condition that holds, as its name ("Z2" to "Z7") and a sentence; None if none does.

    It runs after each tick, so it counts only what the scenario's conditions need.
    """
    conditions = config.termination
    for name in conditions.flora_extinct:
        if not _lives(state, "plants", config.flora_index(name)):
            return "Z2", f"{name} is extinct"
    if conditions.all_flora and not state["plants.id"].any():
        return "Z3", "there are no plants left"
    for name in conditions.herbivores_extinct:
        if not _lives(state, "swarms", config.herbivore_index(name)):
            return "Z4", f"{name} is extinct"
    if conditions.all_herbivores and not state["swarms.id"].any():
        return "Z5", "there are no herbivores left"
    return _find_excess(state, conditions)


def _find_excess(state: State, conditions: Termination) -> tuple[str, str] | None:
    if conditions.flora_energy_max is not None:
        energy = int(state["plants.energy"].sum())
        if energy > conditions.flora_energy_max:
            bound = to_number(conditions.flora_energy_max)
            return "Z6", f"the plants have more energy than {bound:,.16g}: {to_number(energy):,.1f}"
    if conditions.population_max is not None:
        heads = int(state["swarms.population"].sum())
        if heads > conditions.population_max:
            return "Z7", f"there are more herbivores than {conditions.population_max:,}: {heads:,}"
    return None


def _lives(state: State, table: str, species: int) -> bool:
    return bool(((state[f"{table}.species"] == species) & (state[f"{table}.id"] != 0)).any())
