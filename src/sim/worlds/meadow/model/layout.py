"""The fields of a meadow's state, and the enums of kinds and causes in them.

Positions are cells (x, y); grids are indexed [y, x], so that x is fastest in memory. The row order of the tables
has no meaning: a free row has id 0 and is all zeros, and the lowest free row is used first.
"""

from __future__ import annotations

import enum

from sim.kernel.schema import Field, Schema, Table
from sim.worlds.meadow.config.inputs import PARAMETERS
from sim.worlds.meadow.config.meadow import MeadowConfig


class LossCause(enum.IntEnum):
    """The cause of a plant's last loss of energy, which is its cause of death when it dies."""

    BACKGROUND = 0
    REPRODUCTION = 1
    LINK = 2
    DEFENCE = 3
    FEEDING = 4


class HeadLoss(enum.IntEnum):
    """The cause of death of heads of a swarm."""

    STARVATION = 0
    TOXIN = 1
    CULL = 2


class DrawPhase(enum.IntEnum):
    """The phase in the key of a random draw; each number has one purpose."""

    PLACEMENT = 0
    DISPERSAL = 1
    MOVEMENT = 2
    MITOSIS = 3
    BIRTH = 4


class Parameter(enum.IntEnum):
    """An index of the field parameters, in the order of PARAMETERS."""

    GROWTH = 0
    LINK_INTERVAL = 1
    LINK_COST = 2
    CARRYING_CAPACITY = 3
    EMISSION = 4
    SIGNAL_DECAY = 5


NEVER_SEEN = -1  # In sight.last_seen.

NEIGHBOURS = ((1, 0), (0, 1), (-1, 0), (0, -1))  # (dx, dy) of the four links of a plant; index + 2 is opposite.


def _counter(name: str, *shape: int) -> Field:
    return Field(name, "i8", shape, hot=True, counter=True)


def make_schema(config: MeadowConfig) -> Schema:
    """Make the schema of a meadow of this configuration."""
    height, width = config.grid.height, config.grid.width
    flora, herbivores = len(config.flora), len(config.herbivores)
    kinds = [substance.kind for substance in config.substances]
    maps = (len(config.players), height, width)
    sight = (
        Field("sight.last_seen", "i8", maps),  # The tick; NEVER_SEEN at first. The first axis is the player's index in
        Field("sight.plants", "i8", maps),  # the configuration. The other fields: the contents of the cell then.
        Field("sight.food", "i8", maps),
        Field("sight.others", "i8", maps),
    )
    counts_only = config.ids == "births"  # Counted ids are made of these.
    return Schema(
        Field("tick", "i8", hot=True),
        Field("seed", "u8"),
        Field("next_plant_id", "i8", hot=True, counter=counts_only),  # Counts births; see births.py.
        Field("next_swarm_id", "i8", hot=True, counter=counts_only),
        Field("next_substance_id", "i8", hot=True),
        _counter("births", flora),
        _counter("deaths", flora, len(LossCause)),  # By cause.
        _counter("defence_cost", flora),  # Paid so far.
        _counter("heads_born", herbivores),
        _counter("heads_lost", herbivores, len(HeadLoss)),  # By cause.
        Field("parameters", "i8", (len(PARAMETERS),)),
        Field("player_budget", "i8", (herbivores,), hot=True),
        Field("climate.drought_ticks", "i8"),  # Left.
        Field("climate.drought_percent", "i8"),  # Taken off growth; above 100 plants lose energy.
        Table(
            "plants",
            Field("energy", "i8", hot=True),
            Field("loss_cause", "u1", hot=True),
            Field("last_reproduction", "i8", hot=True),
            Field("id", "i8"),
            Field("species", "i4"),
            Field("x", "i4"),
            Field("y", "i4"),
            Field("links", "i8", (len(NEIGHBOURS),)),  # Ids of linked plants by direction; 0 is none.
            capacity=256,
        ),
        Table(
            "swarms",
            Field("energy", "i8", hot=True),
            Field("population", "i8", hot=True),
            Field("x", "i4", hot=True),
            Field("y", "i4", hot=True),
            Field("cooldown", "i4", hot=True),
            Field("repelled", "i4", hot=True),  # Ticks of random walk left.
            Field("steer", "u1", hot=True),  # A player's command, 0 if none: 1 + stay, east, south, west, north.
            Field("initial_population", "i8"),
            Field("id", "i8"),
            Field("species", "i4"),
            capacity=16,
        ),
        Table(
            "substances",
            Field("synthesis", "i8", hot=True),  # Ticks left.
            Field("aftereffect", "i8", hot=True),  # Ticks left.
            Field("active", "u1", hot=True),
            Field("id", "i8"),
            Field("owner", "i8"),  # Id of a plant.
            Field("substance", "i4"),  # Its index in the configuration.
            capacity=16,
        ),
        Field("biotope.front", "u1", hot=True),  # The side of the energy layers that phases read.
        Field("biotope.energy", "i8", (2, flora, height, width)),  # Both sides; plant energy by species.
        Field("biotope.total", "i8", (2, height, width)),  # Both sides; energy of all plants.
        Field("biotope.occupant", "i4", (height, width)),  # Row of the plant in a cell, plus 1; 0 is none.
        Field("biotope.flow", "i8", (height, width)),  # The attraction of swarms.
        Field("biotope.signals", "i8", (kinds.count("signal"), height, width)),  # Concentrations.
        Field("biotope.toxins", "i8", (kinds.count("toxin"), height, width)),
        Field("biotope.wind", "i8", (2, height, width)),  # East and south, cells a tick in fixed point.
        *(
            sight if config.players else ()
        ),  # Otherwise omitted: the schema of a meadow without players stays as before sight.
    )
