"""Sight in a stripe: swarms of players see across borders, so their places go to the shards that they can see into."""

from __future__ import annotations

import numpy as np

from sim.worlds.meadow.model.context import Values
from sim.worlds.meadow.phases.sight import find_seen, remember_seen, seers_of
from sim.worlds.meadow.shards.stripe import Stripe


def seers_for(stripe: Stripe, other: int) -> Values:
    """Return the player's index, x, and y in the whole meadow, of the own swarms that see rows of a shard: (3, swarms)."""
    if not stripe.context.players:
        return np.zeros((3, 0), np.int64)
    number, x, y = seers_of(stripe.context)
    rows = y.astype(np.int64) + stripe.first
    distance = _distances(stripe, number)
    first, last = stripe.stripes.own(other)
    near = (rows + distance >= first) & (rows - distance < last)
    return np.stack([number, x, rows])[:, near]


def run_sight(stripe: Stripe, seers: Values) -> None:
    """Run the phase. seers: what all shards sent."""
    number, x, y = seers
    y = y - stripe.first
    distance = _distances(stripe, number)
    held = (y + distance >= 0) & (y - distance < stripe.context.config.grid.height)
    seen = find_seen(stripe.context, number[held], x[held], y[held])
    stripe.clear_halo(seen)
    remember_seen(stripe.context, seen)


def _distances(stripe: Stripe, number: Values) -> Values:
    return np.array([player.sight for player in stripe.context.players.values()], np.int64)[number]
