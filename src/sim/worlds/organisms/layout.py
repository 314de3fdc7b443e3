"""The fields of the state: the organisms in the order of their ids, the seed bank, the pool and the statistics.

A row of ``organisms`` is a whole organism, with its entry in the registry: id, mother, generation, created_at, size and
taxonomy. Neither table ever grows, so that the layout is that of tick 0 at every tick.
"""

from __future__ import annotations

import enum

from sim.kernel.schema import Field, Schema, Table
from sim.worlds.organisms.config import OrganismsConfig
from sim.worlds.organisms.instructions import GENOME_MAX
from sim.worlds.organisms.taxonomy import RANKS


class Statistic(enum.IntEnum):
    """A figure counted from tick 0 on."""

    INSTRUCTIONS = 0
    COPIES = 1  # Operations copied.
    MUTATIONS = 2  # Copies that were replaced, left out or followed by a further operation.
    BIRTHS = 3  # By division.
    STARVED = 4
    REAPED = 5
    RESEEDED = 6  # From the seed bank.
    INJECTED = 7  # By an input.


class KeyPhase(enum.IntEnum):
    """The phase in the key of a random draw; each number has one purpose."""

    COPY = 0
    RESEED = 1


COLUMNS = (
    Field("energy", "i8", hot=True),
    Field("ip", "i4", hot=True),  # The index of the next instruction.
    Field("a", "i4", hot=True),  # Registers, 0 to 65535.
    Field("b", "i4", hot=True),
    Field("copied", "i8", hot=True),  # Operations copied since the last division.
    Field("age_in_instructions", "i8", hot=True),
    Field("error_count", "i8", hot=True),
    Field("child_size", "i4", hot=True),
    Field("child", "u1", (GENOME_MAX,), hot=True),  # The buffer; zeros after child_size.
    Field("max_energy", "i8", hot=True),  # The most that it ever had.
    Field("id", "i8"),
    Field("size", "i4"),
    Field("genome", "u1", (GENOME_MAX,)),  # Zeros after size.
    Field("created_at", "i8"),  # The tick.
    Field("mother", "i8"),  # Its id; 0 of one without a mother.
    Field("generation", "i8"),
    Field("taxonomy", "u4", (len(RANKS),)),
)
RUNNING = ("energy", "ip", "a", "b", "copied", "age_in_instructions", "error_count", "child_size", "child")


def make_schema(config: OrganismsConfig) -> Schema:
    """The schema of a world of this configuration."""
    return Schema(
        Field("tick", "i8", hot=True),
        Field("seed", "u8"),
        Field("next_id", "i8", hot=True),  # Ids count from 1 and are never used again.
        Field("pool", "i8", hot=True),  # Energy to eat.
        Field("statistics", "i8", (len(Statistic),), hot=True),
        Table("organisms", *COLUMNS, capacity=config.organisms_max),
        Table(
            "seed_bank",  # In the order of first births.
            Field("births", "i8", hot=True),  # The usage: how often this genome was born, in any way.
            Field("reseeded", "i8", hot=True),  # How often of these from the seed bank.
            Field("size", "i4"),
            Field("genome", "u1", (GENOME_MAX,)),
            Field("first", "i8"),  # The tick of its first birth.
            capacity=config.seed_bank_max,
        ),
    )
