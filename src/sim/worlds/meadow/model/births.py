"""Ids of new plants and swarms: counted, or from the birth, as the configuration says.

A counted id is the next number. One more birth then shifts the ids of all later ones, and with them their random draws.
An id from the birth depends on nothing but the tick, the mother, and other births of this tick that drew the same number:
    bits 24 to 47   the tick
    bits 22, 23     the way: 1 an input, 2 a swarm that a player splits, 3 dispersal and mitosis
    bits 0 to 21    the upper bits of the random word of (BIRTH, tick, mother, block way); for an input, of its species
                    and cell instead of a mother. If an earlier one in the list has that number, the next one that is free,
                    and 0 follows upon the last.
The list is that of all mothers in ascending id, or of the inputs of the tick in their order. So shards know it as well.
The entities of tick 0 are counted in both cases.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sim.worlds.meadow.model.context import PhaseContext
from sim.worlds.meadow.model.layout import DrawPhase
from sim.worlds.meadow.model.table_rows import Rows

WAY_BITS, NUMBER_BITS, WORD_BITS = 2, 22, 32
TICK_LIMIT = 1 << 24  # Ids have 48 bits, as the keys of random numbers do.

InputIds = Mapping[int, int]  # By the number of an input in its tick: the id of what it may bring to life.


class Way(enum.IntEnum):
    """The way in which an entity came to be."""

    INPUT = 1
    SPLIT = 2
    OFFSPRING = 3


def take_ids(context: PhaseContext, table: str, mothers: Rows) -> Rows:
    """Return the id of the child of each mother, and count the births. mothers: ids of all in this tick, ascending."""
    first = _count(context, table, len(mothers))
    if context.config.ids == "counted":
        return np.arange(first, first + len(mothers))
    return birth_ids(context, Way.OFFSPRING, mothers)


def take_input_id(context: PhaseContext, table: str, reserved: InputIds, number: int) -> int:
    """Return the id of what an input brings to life, and count the birth. reserved: of all inputs of the tick."""
    first = _count(context, table, 1)
    return reserved.get(number, first)


def reserve_ids(context: PhaseContext, inputs: Sequence[tuple[str, Sequence[int]]]) -> InputIds:
    """Return the ids of what the inputs of a tick may bring to life; none where ids are counted.

    inputs: as read_inputs returns them. The tick of the state is the one that the step produces.
    """
    if context.config.ids == "counted":
        return {}
    reserved: dict[int, int] = {}
    for way, kinds in ((Way.INPUT, ("plant",)), (Way.INPUT, ("release", "spawn")), (Way.SPLIT, ("split",))):
        numbers = [number for number, (kind, _) in enumerate(inputs) if kind in kinds]
        if numbers:
            keys = [_key(inputs[number][1]) for number in numbers]
            reserved |= zip(numbers, birth_ids(context, way, np.array(keys, np.int64)).tolist(), strict=True)
    return reserved


def birth_ids(context: PhaseContext, way: Way, keys: Rows) -> Rows:
    """Return the ids of births of one way, in the order of their keys.

    Raises ValueError at tick TICK_LIMIT, and for more births than a tick has numbers.

    keys: the mothers, or species and cells of inputs as integers below 2**48.
    """
    if not len(keys):
        return keys
    if context.tick >= TICK_LIMIT:
        raise ValueError(f'ids = "births" reach to tick {TICK_LIMIT - 1:,}, got a birth at tick {context.tick:,}')
    if len(keys) > 1 << NUMBER_BITS:  # The search for a free number would not end.
        raise ValueError(f'ids = "births" have {1 << NUMBER_BITS:,} numbers in a tick, got {len(keys):,} births')
    words = context.random.words(DrawPhase.BIRTH, context.tick, keys, block=int(way))[:, 0]
    numbers = distinct((words >> np.uint64(WORD_BITS - NUMBER_BITS)).astype(np.int64))
    ids: Rows = (context.tick << (WAY_BITS + NUMBER_BITS)) + (int(way) << NUMBER_BITS) + numbers
    return ids


def distinct(numbers: Rows) -> Rows:
    """Replace each number that an earlier one has by the next free one; 0 follows upon the last of NUMBER_BITS bits."""
    if len(np.unique(numbers)) == len(numbers):
        return numbers
    taken: dict[int, None] = {}
    for number in numbers.tolist():
        while number in taken:
            number = (number + 1) % (1 << NUMBER_BITS)  # noqa: PLW2901 It looks for a free one.
        taken[number] = None
    return np.array(list(taken), np.int64)


def _key(values: Sequence[int]) -> int:
    """The species and the cell of an input, each below 2**16; or the swarm of a split."""
    if len(values) == 1:
        return values[0]
    species, x, y = values[:3]
    return species << 32 | y << 16 | x


def _count(context: PhaseContext, table: str, births: int) -> int:
    """Count births; return the number of the first of them."""
    counter = f"next_{table[:-1]}_id"
    first = int(context.state[counter])
    if births:
        context.state.set(counter, 0, first + births)
    return first


def in_order_of_birth(ids: Rows, *columns: Any) -> tuple[Any, ...]:
    """Return ids in ascending order, and the columns, (n,) each, in the same one."""
    if (ids[1:] > ids[:-1]).all():
        return ids, *columns
    order = np.argsort(ids)
    return ids[order], *(column[order] for column in columns)
