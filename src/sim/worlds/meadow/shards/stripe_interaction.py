"""Interaction in a stripe: swarms act in the order of ids, also across borders, in rounds until nothing changes.

What a swarm does depends on the heads in its own cell at its turn, which swarms with smaller ids may have changed, also
those of other stripes. Each shard lets its own swarms act, and sends what they put into cells of others, with their ids.
A shard that receives something new puts it into the cells at the turns of those ids, and acts again if one of its
deciding cells is touched. When no shard has changed what it sends, the turn of each swarm is the one of a single process:
it depends on smaller ids alone, so that there is only one such outcome, and each round settles at least the next id.
"""

from __future__ import annotations

from collections.abc import Generator

import attrs
import numpy as np

from sim.sharding.shard_plan import Exchange, Messages
from sim.worlds.meadow.model import swarm_turn as swarming
from sim.worlds.meadow.model.births import take_ids
from sim.worlds.meadow.model.context import Values
from sim.worlds.meadow.model.layout import HeadLoss
from sim.worlds.meadow.model.swarm_turn import SWARM_WIDTH, swarm_loop
from sim.worlds.meadow.model.swarms import COLUMNS, new_swarm, remove_swarms_without_heads
from sim.worlds.meadow.model.table_rows import Rows, add_entities, clear_rows, rows_by_id
from sim.worlds.meadow.phases.interaction import DAUGHTER, land_of, swarm_columns, write_results
from sim.worlds.meadow.shards.stripe import Stripe

# Places where a swarm can put heads: itself, and its daughter.
_PUTS = (
    (swarming.X, swarming.Y, swarming.POPULATION),
    (swarming.DAUGHTER_X, swarming.DAUGHTER_Y, swarming.DAUGHTER_HEADS),
)


@attrs.frozen(eq=False)
class _Outgoing:
    """What the own swarms do beyond the border.

    Attributes:
        puts: id, x, y in the whole meadow, and heads that are put into cells of others, in the order of ids: (4, puts).
        mothers: ids of all own swarms that divide, ascending.
        leaving: the columns of swarms that have gone to others, in the order of COLUMNS: (columns, swarms).
        daughters: id of the mother, then the columns of DAUGHTER, of those born in rows of others: (6, daughters).
    """

    puts: Values
    mothers: Values
    leaving: Values
    daughters: Values

    def is_like(self, other: _Outgoing) -> bool:
        """Return True if others would receive the same."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ("puts", "mothers"))


def run_interaction(stripe: Stripe) -> Exchange:
    """Run the phase."""
    context, state = stripe.context, stripe.state
    if not stripe.config.herbivores:
        return
    rows = rows_by_id(state, "swarms")
    turns = _Turns(stripe, rows)
    inbox = yield from _settle(stripe, turns)
    write_results(context, rows, turns.results, turns.energy)
    stripe.close_stage((2, 0))
    gone = rows[~stripe.owns(state["swarms.y"][rows]) & (state["swarms.population"][rows] > 0)]
    starved = rows[state["swarms.population"][rows] == 0]
    stripe.note_gone((2, 0), "swarms", state["swarms.id"][starved])
    clear_rows(state, "swarms", COLUMNS, gone)  # Others have them now.
    remove_swarms_without_heads(context, starved, HeadLoss.STARVATION)
    stripe.close_stage((2, 1))
    _receive(stripe, inbox)
    own = turns.results[:, stripe.owns(turns.results[swarming.DAUGHTER_Y])]
    own_ids = turns.ids[stripe.owns(turns.results[swarming.DAUGHTER_Y])]
    divided = own[swarming.DAUGHTER_HEADS] > 0
    born = np.concatenate([own_ids[None, divided], own[DAUGHTER][:, divided]])
    _add_daughters(stripe, born, inbox)


def _settle(stripe: Stripe, turns: _Turns) -> Generator[Messages, Messages, Messages]:
    """Exchange what crosses borders until it changes no more; return the last messages.

    Each round makes the next crossing in the order of ids final, so there are at most as many rounds as crossings, and
    one. It takes two nearly always.
    """
    changed, rounds, crossings_max = True, 0, 2 + 2 * int(stripe.state["next_swarm_id"])
    while True:
        inbox = yield [(changed, *message) for message in _addressed(stripe, turns.outgoing)]
        rounds += 1
        if not any(part[0] for part in inbox):
            return inbox
        if rounds > crossings_max:
            raise RuntimeError(f"tick {stripe.context.tick}: what swarms do across borders does not settle")
        puts = np.concatenate([part[1] for part in inbox], axis=1)
        changed = turns.act_again(puts)


def _addressed(stripe: Stripe, outgoing: _Outgoing) -> Messages:
    """Return the message of what goes out for each shard."""
    leaving_y, daughter_y = outgoing.leaving[COLUMNS.index("y")], outgoing.daughters[3]
    puts, leaving, daughters = (stripe.stripes.owner(rows) for rows in (outgoing.puts[2], leaving_y, daughter_y))
    return [
        (
            outgoing.puts[:, puts == other],
            outgoing.mothers,
            outgoing.leaving[:, leaving == other],
            outgoing.daughters[:, daughters == other],
        )
        for other in range(stripe.stripes.count)
    ]


class _Turns:
    """The turns of the own swarms, with what others put into the own cells.

    Attributes:
        ids: of the swarms, ascending.
        results, energy: what they did, and the energy of the plants after it; see write_results.
        outgoing: what of it goes to others.
    """

    def __init__(self, stripe: Stripe, rows: Rows) -> None:
        self._stripe, self._rows = stripe, rows
        self.ids = stripe.state["swarms.id"][rows]
        self._columns = swarm_columns(stripe.context, rows)
        self._loop = swarm_loop(len(rows))
        self._width = stripe.config.grid.width
        # Only a swarm that may move, and is not repelled, asks how many heads are in its cell.
        asks = (self._columns[swarming.COOLDOWN] <= 0) & (self._columns[swarming.REPELLED] == 0)
        self._deciding = (self._columns[swarming.Y] * self._width + self._columns[swarming.X])[asks]
        self._puts = np.zeros((3, 0), np.int64)  # Of others: id, own cell, heads.
        self._act()

    def act_again(self, puts: Values) -> bool:
        """Let the swarms act with what others put, as _Outgoing.puts; return True if something else goes out now."""
        cells = (puts[2] - self._stripe.first) * self._width + puts[1]
        puts = np.stack([puts[0], cells, puts[3]])[:, np.lexsort((cells, puts[0]))]
        if np.array_equal(puts, self._puts):
            return False
        touched = np.isin(self._deciding, np.union1d(puts[1], self._puts[1])).any()
        self._puts = puts
        if not touched:
            return False
        before = self.outgoing
        self._act()
        return not self.outgoing.is_like(before)

    def _act(self) -> None:
        context, loop, count = self._stripe.context, self._loop, len(self.ids)
        acting, energy = loop.hold(self._columns.T.copy()), context.state["plants.energy"].copy()
        kinds, land = loop.hold(context.kinds), land_of(context, energy, loop)
        done = 0
        for turn, (_, cell, heads) in zip(np.searchsorted(self.ids, self._puts[0]), self._puts.T.tolist(), strict=True):
            if turn > done:
                loop.run(acting[done:turn], kinds, land)
                done = int(turn)
            land.heads[cell] += heads
        if done < count:
            loop.run(acting[done:], kinds, land)
        self.energy = energy
        self.results = np.asarray(acting, np.int64).reshape(count, SWARM_WIDTH).T
        self.outgoing = self._find_outgoing()

    def _find_outgoing(self) -> _Outgoing:
        stripe, results, ids = self._stripe, self.results, self.ids
        parts = []
        for x, y, heads in _PUTS:
            out = np.flatnonzero(~stripe.owns(results[y]) & (results[heads] > 0))
            parts.append(np.stack([ids[out], results[x][out], results[y][out] + stripe.first, results[heads][out]]))
        puts = np.concatenate(parts, axis=1)
        out = np.flatnonzero(~stripe.owns(results[swarming.Y]) & (results[swarming.POPULATION] > 0))
        columns = dict(zip(swarming.CHANGING, results[:, out], strict=False))
        rest = {name: stripe.state[f"swarms.{name}"][self._rows[out]] for name in COLUMNS if name not in columns}
        columns["y"] = columns["y"] + stripe.first
        leaving = np.stack([(columns | rest)[name].astype(np.int64) for name in COLUMNS])
        away = np.flatnonzero(~stripe.owns(results[swarming.DAUGHTER_Y]) & (results[swarming.DAUGHTER_HEADS] > 0))
        daughters = np.concatenate([ids[None, away], results[DAUGHTER][:, away]])
        daughters[3] += stripe.first
        mothers = ids[results[swarming.DAUGHTER_HEADS] > 0]
        return _Outgoing(puts[:, np.argsort(puts[0], kind="stable")], mothers, leaving, daughters)


def _receive(stripe: Stripe, inbox: Messages) -> None:
    """Take over the swarms that have come from others."""
    come = dict(zip(COLUMNS, np.concatenate([part[3] for part in inbox], axis=1), strict=True))
    ids = come.pop("id")
    if len(ids):
        come["y"] = come["y"] - stripe.first
        add_entities(stripe.state, "swarms", "next_swarm_id", come, len(ids), ids)


def _add_daughters(stripe: Stripe, own: Values, inbox: Messages) -> None:
    """Add the daughters in the own rows; ids are handed out in the order of all mothers. own: of own mothers."""
    from_others = np.concatenate([part[4] for part in inbox], axis=1)
    from_others[3] -= stripe.first
    born = np.concatenate([own, from_others], axis=1)
    born = born[:, np.argsort(born[0])]
    mothers = np.sort(np.concatenate([part[2] for part in inbox]))
    ids = take_ids(stripe.context, "swarms", mothers)[np.searchsorted(mothers, born[0])]
    daughters = [new_swarm(*values) for values in born[1:].T.tolist()]
    stripe.context.event_log.swarms_born("mitosis", daughters, ids.tolist(), born[0].tolist())
    if daughters:
        columns = dict(zip(("species", "x", "y", "population", "energy"), born[1:], strict=True))
        columns["initial_population"] = born[4]
        add_entities(stripe.state, "swarms", "next_swarm_id", columns, len(ids), ids)
    stripe.note_new((2, 1), "swarms", ids)
    stripe.close_stage((2, 2))
