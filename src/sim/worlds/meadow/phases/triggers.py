"""Find the rules that fire in a tick: evaluate condition trees for all plants of a species at once.

herbivore      at least heads heads of the species are in the plant's cell.
substance      the plant has the substance, and it is active.
signal         the signal's concentration in the plant's cell is at least concentration.
all, any, not  combine other conditions; an empty ``all`` holds, an empty ``any`` does not.
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
    """The substances that are triggered in a tick.

    Attributes:
        ids: ids of all plants, ascending: (plants,) int64.
        first_rule: the first rule that fired, or NEVER: (plants, substances) int64.
        has: True if the plant had the substance before: (plants, substances) bool.
    """

    ids: Values
    first_rule: Values
    has: Mask

    def begun(self) -> tuple[Values, Values]:
        """Return owner id and substance index of each substance that begins, in the order of plants, then of rules."""
        begun = np.flatnonzero((self.first_rule < NEVER) & ~self.has)
        plant, number = np.divmod(begun, self.has.shape[1])  # As np.nonzero, which takes five times as long.
        order = np.lexsort((self.first_rule[plant, number], plant))
        return self.ids[plant[order]], number[order]

    def is_triggered(self, owners: Values, numbers: Values) -> Mask:
        """Return the mask of triggered substances. owners: ids of living plants. numbers: substance indices."""
        return self.first_rule[np.searchsorted(self.ids, owners), numbers] < NEVER


def fire_rules(context: PhaseContext, stand: Stand) -> Firing:
    """Evaluate all rules for all plants. Requires that no substance has a dead owner."""
    state, config = context.state, context.config
    rows, ids, species = stand.rows, stand.ids, state["plants.species"][stand.rows]
    shape = (len(rows), len(config.substances))
    first_rule, has, active = np.full(shape, NEVER), np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    substances = np.flatnonzero(state["substances.id"] != 0)
    index = (np.searchsorted(ids, state["substances.owner"][substances]), state["substances.substance"][substances])
    has[index] = True
    active[index] = state["substances.active"][substances] != 0
    evaluator = _ConditionEvaluator(context, active)
    for rule, trigger in enumerate(config.triggers):
        mine = np.flatnonzero(species == config.flora_index(trigger.flora))
        fired = mine[evaluator.holds(trigger.when, mine, rows[mine])]
        number = config.substance_index(trigger.substance)
        first_rule[fired, number] = np.minimum(first_rule[fired, number], rule)
    return Firing(ids, first_rule, has)


class _ConditionEvaluator:
    """Evaluates conditions on the current state; head counts are computed once per species."""

    def __init__(self, context: PhaseContext, active: Mask) -> None:
        self._context = context
        self._active = active
        self._heads: dict[int, Values] = {}

    def holds(self, condition: Condition, places: Values, rows: Values) -> Mask:
        """Return the mask of plants for which it holds. places: indices in ascending id. rows: rows of the table."""
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
                result = ~self.holds(condition.children[0], places, rows)
            case kind:
                masks = [self.holds(child, places, rows) for child in condition.children]
                join = np.logical_and if kind == "all" else np.logical_or
                result = join.reduce(masks) if masks else np.full(len(rows), kind == "all")
        return result
