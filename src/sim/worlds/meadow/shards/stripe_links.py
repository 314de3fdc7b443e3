"""Links in a stripe: one greedy pass over the whole meadow in the order of (y, x), as a wave from north to south.

A pair is chosen if neither of it has a new link, so that the choice in one row depends on all rows before it. A shard
waits for the plants of its first row that the shard to the north has taken, goes through its own pairs, and passes on
which plants of the next shard's first row it has taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sim.sharding.shard_plan import Exchange
from sim.worlds.meadow.model.layout import Parameter
from sim.worlds.meadow.model.plants import link_plants
from sim.worlds.meadow.phases.mycorrhiza import can_pay_link, pay_for_links, possible_pairs
from sim.worlds.meadow.shards.stripe import Stripe

SOUTH, NORTH = 1, 3  # Directions of links.

Taken = list[tuple[int, int]]  # x of a plant in the first row of a shard, and the id of the plant to the north of it.
Pair = tuple[
    int, int, int, int, int
]  # y, x and direction, in the order of the pass; row; row of the other, see _pairs.


def grow_links(stripe: Stripe) -> Exchange:
    """Grow links in one pass over all stripes."""
    number, count = stripe.number, stripe.stripes.count
    cost = stripe.context.parameter(Parameter.LINK_COST)
    able = can_pay_link(stripe.context, cost)
    inbox = yield [_first_row(stripe, able) if other == number - 1 else None for other in range(count)]
    below = inbox[number + 1] if number + 1 < count else None
    pairs = _pairs(stripe, cost, able, below)
    taken: Taken = []
    for turn in range(count):
        outbox: list[Any] = [None] * count
        if turn == number:
            over = _choose(stripe, pairs, cost, taken, below)
            if number + 1 < count:
                outbox[number + 1] = over
        if turn + 1 < count:
            inbox = yield outbox
            if turn + 1 == number:
                taken = inbox[turn]


def _first_row(stripe: Stripe, able: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return id, species and whether it can pay of the plants in the first own row: (3, width); 0 without a plant."""
    state = stripe.state
    rows = state["biotope.occupant"][stripe.top] - 1
    plants = np.zeros((3, len(rows)), np.int64)
    x = np.flatnonzero(rows >= 0)
    plants[:, x] = state["plants.id"][rows[x]], state["plants.species"][rows[x]], able[rows[x]]
    return plants


def _pairs(stripe: Stripe, cost: int, able: npt.NDArray[np.bool_], below: npt.NDArray[np.int64] | None) -> list[Pair]:
    """Return the pairs that could link, in the order of the pass; a plant at x of the next shard is -1 - x."""
    state = stripe.state
    y, x, species = (state[f"plants.{column}"] for column in ("y", "x", "species"))
    pairs = [
        (int(y[row]), int(x[row]), direction, row, other)
        for row, other, direction in possible_pairs(stripe.context, cost)
    ]
    if below is not None:
        above = state["biotope.occupant"][stripe.bottom - 1] - 1
        columns = np.flatnonzero((above >= 0) & (below[0] != 0) & (below[2] != 0))
        rows = above[columns]
        possible = able[rows] & (state["plants.links"][rows, SOUTH] == 0)
        if not stripe.config.links.between_species:
            possible &= species[rows] == below[1][columns]
        last = stripe.bottom - 1
        pairs += [
            (last, column, SOUTH, row, -1 - column)
            for column, row in zip(columns[possible].tolist(), rows[possible].tolist(), strict=True)
        ]
        pairs.sort()
    return pairs


def _choose(
    stripe: Stripe, pairs: list[Pair], cost: int, from_north: Taken, below: npt.NDArray[np.int64] | None
) -> Taken:
    """Link the pairs of the own rows, also with plants of the shards next to it; return those of the next shard."""
    state, over = stripe.state, list[tuple[int, int]]()
    first_row = state["biotope.occupant"][stripe.top] - 1
    northern = [(int(first_row[x]), partner) for x, partner in from_north]
    taken, inside, southern = {row for row, _ in northern}, [], []
    for _, x, direction, row, other in pairs:
        if row not in taken and other not in taken:
            taken.update((row, other))
            if other >= 0:
                inside.append((row, other, direction))
            else:
                assert below is not None
                southern.append((row, int(below[0][x])))
                over.append((x, int(state["plants.id"][row])))
    link_plants(state, inside)
    links = state["plants.links"]
    for rows, direction in ((northern, NORTH), (southern, SOUTH)):
        for row, partner in rows:
            links[row, direction] = partner
    payers = [row for pair in inside for row in pair[:2]] + [row for row, _ in northern + southern]
    pay_for_links(stripe.context, np.array(payers, np.int64), cost)
    _note(stripe, inside, southern)
    return over


def _note(stripe: Stripe, inside: list[tuple[int, int, int]], southern: list[tuple[int, int]]) -> None:
    """Note the links as events; a link across the border is noted by the shard to the north of it."""
    ids = stripe.state["plants.id"]
    first = [int(ids[row]) for row, _, _ in inside] + [int(ids[row]) for row, _ in southern]
    second = [int(ids[other]) for _, other, _ in inside] + [partner for _, partner in southern]
    if first:
        stripe.context.event_log.linked(np.array(first), np.array(second))
