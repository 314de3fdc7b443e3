"""The write contract of each phase of a meadow: the fields that it writes. ``replay contracts`` checks it."""

from __future__ import annotations

from sim.worlds.meadow.model.swarms import COLUMNS

_NEW_PLANTS = {"plants", "next_plant_id", "births", "biotope.occupant", "biotope.energy"}
_NEW_SWARMS = {"swarms", "next_swarm_id"}

WRITES: dict[str, frozenset[str]] = {
    "inputs": frozenset(
        {"tick", "parameters", "player_budget", "climate.drought_ticks", "climate.drought_percent", "biotope.wind"}
        | {"heads_lost"}  # A cull.
        | _NEW_PLANTS
        | _NEW_SWARMS
    ),
    "flow_field": frozenset({"biotope.flow"}),
    "lifecycle": frozenset({"deaths", "biotope.total", "biotope.front", "climate.drought_ticks"} | _NEW_PLANTS),
    "interaction": frozenset(
        {"plants.energy", "plants.loss_cause", "biotope.energy", "heads_born", "heads_lost"} | _NEW_SWARMS
    ),
    "sight": frozenset({"sight.last_seen", "sight.plants", "sight.food", "sight.others"}),
    "signalling": frozenset(
        {"substances", "next_substance_id", "biotope.toxins", "biotope.signals"}
        | {"plants.energy", "plants.loss_cause", "biotope.energy", "defence_cost"}  # Plants pay.
        | {"heads_lost", *(f"swarms.{column}" for column in COLUMNS)}  # Toxins kill; no swarm is added.
    ),
}
