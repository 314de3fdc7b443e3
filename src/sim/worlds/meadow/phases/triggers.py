"""Which plants' rules fire in a tick: the condition trees, judged for all plants of a species at once.

herbivore      at least heads heads of the species are in the plant's cell.
substance      the plant has the substance, and it is active.
signal         the signal's concentration in the plant's cell is at least concentration.
all, any, not  of other conditions; all of none holds, any of none does not.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from sim.worlds.meadow.config.conditions import Condition
from sim.worlds.meadow.model.context import PhaseContext, Values
from sim.worlds.meadow.model.plants import Stand
from sim.worlds.meadow.model.swarms import heads_by_plant

Mask = npt.NDArray[np.bool_]

NEVER = 1 << 30  # More than there are rules.


@attrs.frozen(eq=False)
class Firing:
    """What was triggered in a tick.

    Attributes:
        ids: of all plants, ascending: (plants,) int64.
        first_rule: by plant and substance, the first rule that fired, or NEVER: (plants, substances) int64.
        has: by plant and substance, whether it was begun before: (plants, substances) bool.
    """

    ids: Values
    first_rule: Values
    has: Mask

    def begun(self) -> tuple[Values, Values]:
        """Owner's id and number of each substance that begins, in the order of plants, then of rules."""
        plant, number = np.nonzero((self.first_rule < NEVER) & ~self.has)
        order = np.lexsort((self.first_rule[plant, number], plant))
        return self.ids[plant[order]], number[order]

    def is_triggered(self, owners: Values, numbers: Values) -> Mask:
        """For the substances of these living owners, of these numbers."""
        return self.first_rule[np.searchsorted(self.ids, owners), numbers] < NEVER


def fire_rules(context: PhaseContext, stand: Stand) -> Firing:
    """Judge all rules for all plants. No substance has a dead owner now."""
    state, config = context.state, context.config
    rows, ids, species = stand.rows, stand.ids, state["plants.species"][stand.rows]
    shape = (len(rows), len(config.substances))
    first_rule, has, active = np.full(shape, NEVER), np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    substances = np.flatnonzero(state["substances.id"] != 0)
    place = (np.searchsorted(ids, state["substances.owner"][substances]), state["substances.substance"][substances])
    has[place] = True
    active[place] = state["substances.active"][substances] != 0
    judge = _Judge(context, active)
    for index, trigger in enumerate(config.triggers):
        mine = np.flatnonzero(species == config.flora_index(trigger.flora))
        fired = mine[judge.holds(trigger.when, mine, rows[mine])]
        number = config.substance_index(trigger.substance)
        first_rule[fired, number] = np.minimum(first_rule[fired, number], index)
    return Firing(ids, first_rule, has)


class _Judge:
    """Judges conditions by the state as it is, looking each thing up once."""

    def __init__(self, context: PhaseContext, active: Mask) -> None:
        self._context = context
        self._active = active
        self._heads: dict[int, Values] = {}

    def holds(self, condition: Condition, places: Values, rows: Values) -> Mask:
        """Whether it holds for each of these plants: places among all plants in ascending id, rows of the table."""
        config, state = self._context.config, self._context.state
        match condition.kind:
            case "herbivore":
                assert condition.herbivore is not None
                species = config.herbivore_index(condition.herbivore)
                if species not in self._heads:
                    self._heads[species] = heads_by_plant(state, species)
                assert condition.heads is not None
                result: Mask = self._heads[species][rows] >= condition.heads
            case "substance":
                assert condition.substance is not None
                result = self._active[places, config.substance_index(condition.substance)]
            case "signal":
                assert condition.signal is not None
                assert condition.concentration is not None
                layer = config.layers[config.substance_index(condition.signal)]
                y, x = state["plants.y"][rows], state["plants.x"][rows]
                result = state["biotope.signals"][layer][y, x] >= condition.concentration
            case "not":
                result = ~self.holds(condition.parts[0], places, rows)
            case kind:
                parts = [self.holds(part, places, rows) for part in condition.parts]
                join = np.logical_and if kind == "all" else np.logical_or
                result = join.reduce(parts) if parts else np.full(len(rows), kind == "all")
        return result
