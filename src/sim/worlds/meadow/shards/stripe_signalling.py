"""Signalling in a stripe, and the exchange that ends a tick: what roots bring to others, signals, toxins, energies.

Substances that begin get ids by the rank of their owners and rules among those of all stripes, which the exchange tells.
Until then they have ids for the time being, in the same order.

Signals come from as far as the wind carries them, so no halo is high enough for them: they spread in an array of their
own, with as many rows of others as the strongest wind of the meadow needs.
"""

from __future__ import annotations

import numpy as np

from sim.kernel.arithmetic.fixed_point import ONE
from sim.sharding.shard_plan import Exchange, Messages
from sim.sharding.stripes import RowsOfOthers
from sim.worlds.meadow.config.conditions import CONCENTRATION_MAX
from sim.worlds.meadow.model.context import Values
from sim.worlds.meadow.model.layout import Parameter
from sim.worlds.meadow.model.plants import Stand
from sim.worlds.meadow.model.table_rows import write_changed
from sim.worlds.meadow.phases import signalling
from sim.worlds.meadow.phases.transport import spread
from sim.worlds.meadow.phases.triggers import fire_rules
from sim.worlds.meadow.shards.stripe import Stripe
from sim.worlds.meadow.shards.stripe_sight import run_sight, seers_for


def run_signalling(stripe: Stripe) -> Exchange:
    """Run the phases signalling and sight."""
    state, count = stripe.state, stripe.stripes.count
    first_id, begun, emitted = int(state["next_substance_id"]), np.zeros(0, np.int64), state["biotope.signals"]
    if stripe.config.substances:
        begun, emitted = _defend(stripe)
    own, shares = emitted.copy(), _shares(stripe, emitted)
    stripe.clear_halo(own)
    reach = 1 + stripe.south_max if own.any() else 0  # The blur adds a row.
    total = state["biotope.total"][int(state["biotope.front"])]
    inbox = yield [
        {
            "total": stripe.rows_for(other, total, 1),
            "toxins": stripe.rows_for(other, state["biotope.toxins"], 1),
            "signals": stripe.rows_for(other, own, reach),
            "shares": shares,
            "begun": begun,
            "seers": seers_for(stripe, other),
        }
        for other in range(count)
    ]
    for part in inbox:
        for side in (0, 1):
            stripe.put_rows(state["biotope.total"][side], part["total"])
        stripe.put_rows(state["biotope.toxins"], part["toxins"])
    _number_substances(stripe, first_id, [part["begun"] for part in inbox])
    if own.size:
        write_changed(state, "biotope.signals", _spread(stripe, own, inbox))
    stripe.close_phase("signalling")
    if stripe.context.players:
        run_sight(stripe, np.concatenate([part["seers"] for part in inbox], axis=1))
        stripe.close_phase("sight")


def _defend(stripe: Stripe) -> tuple[Values, Values]:
    """Run the phase up to the spread of signals; return the owners of new substances, and the signals with emissions.

    Emissions of roots beyond the border are in the halo.
    """
    context, state = stripe.context, stripe.state
    stand = Stand.of(state, context.defended)
    left = stripe.ids("substances")
    signalling.remove_orphans(context, stand)
    left = _note_gone(stripe, 0, left)
    firing = fire_rules(context, stand)
    begun = firing.begun()[0]
    signalling.begin_substances(context, firing)
    new = np.setdiff1d(stripe.ids("substances"), left)
    stripe.note_new((3, 1), "substances", new)
    stripe.close_stage((3, 1))
    triggered = signalling.advance(context, firing)
    left = _note_gone(stripe, 2, np.union1d(left, new))
    paying = signalling.pay_upkeep(context, triggered, stand)
    _note_gone(stripe, 3, left)
    signals = signalling.emit(context, paying, stand)
    if state["biotope.toxins"].size:
        swarms = stripe.ids("swarms")
        signalling.poison(context)
        stripe.note_gone((3, 4), "swarms", np.setdiff1d(swarms, stripe.ids("swarms")))
        stripe.close_stage((3, 4))
    return begun, signals


def _note_gone(stripe: Stripe, moment: int, before: Values) -> Values:
    """Note which substances have gone since there were those; return the ids that are left."""
    left = stripe.ids("substances")
    stripe.note_gone((3, moment), "substances", np.setdiff1d(before, left))
    stripe.close_stage((3, moment))
    return left


def _number_substances(stripe: Stripe, first_id: int, begun: list[Values]) -> None:
    """Give the substances that began their ids. begun: the owners, for each shard; an owner is of one shard alone."""
    places = [
        (owner, shard, place) for shard, owners in enumerate(begun) for place, owner in enumerate(owners.tolist())
    ]
    ids = {
        first_id + place: first_id + rank
        for rank, (_, shard, place) in enumerate(sorted(places))
        if shard == stripe.number
    }
    column = stripe.state["substances.id"]
    fresh = np.flatnonzero(column >= first_id)
    column[fresh] = [ids[one] for one in column[fresh].tolist()]
    stripe.renumber_substances(ids)
    stripe.state.set("next_substance_id", 0, first_id + len(places))


def _shares(stripe: Stripe, emitted: Values) -> RowsOfOthers:
    """Return what the roots of own plants bring to the rows next to the own ones: the row in the whole meadow, values."""
    rows = [row for row in (stripe.top - 1, stripe.bottom) if 0 <= row < emitted.shape[1]]
    return [(row + stripe.first, emitted[:, row : row + 1].copy()) for row in rows if emitted[:, row].any()]


def _spread(stripe: Stripe, own: Values, inbox: Messages) -> Values:
    """Let the signals spread; return them in the own rows, 0 in the halo. own: the layers with the own emissions."""
    context, (first, last) = stripe.context, stripe.stripes.own(stripe.number)
    reach = 1 + stripe.south_max
    lowest, end = max(0, first - reach), min(stripe.config.grid.height, last + reach)
    old = np.zeros((own.shape[0], end - lowest, own.shape[2]), np.int64)
    old[:, first - lowest : last - lowest] = own[:, stripe.top : stripe.bottom]
    for part in inbox:
        for start, values in part["signals"] + part["shares"]:
            if lowest <= start < end:
                old[:, start - lowest : start - lowest + values.shape[1]] += values
    np.minimum(old, CONCENTRATION_MAX * ONE, out=old)
    wind = np.zeros((2, *old.shape[1:]), np.int64)  # Outside of the rows that are held nothing is computed from it.
    held = stripe.stripes.held(stripe.number)
    start, stop = max(lowest, held[0]), min(end, held[1])
    wind[:, start - lowest : stop - lowest] = stripe.state["biotope.wind"][:, start - held[0] : stop - held[0]]
    new, spreading = np.zeros_like(own), np.zeros_like(old[0])
    for layer, values in enumerate(old):
        if values.any():
            decay, epsilon = context.parameter(Parameter.SIGNAL_DECAY), context.config.signalling.epsilon
            spread(values, wind, decay, epsilon, spreading)
            new[layer, stripe.top : stripe.bottom] = spreading[first - lowest : last - lowest]
    return new
