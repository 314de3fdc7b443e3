"""The signalling of a naive meadow, plant by plant and cell by cell; written from docs/meadow-rules.md alone."""

from __future__ import annotations

from sim.worlds.meadow.config.conditions import Condition
from sim.worlds.meadow.config.meadow import MeadowConfig
from sim.worlds.meadow.model.layout import HeadLoss, LossCause

from oracle.naive_state import ONE, Entity, Grid, NaiveState

CONCENTRATION_MAX = 1024 * ONE
BLUR = {-1: 1, 0: 2, 1: 1}


def signalling(meadow: NaiveState) -> None:
    """Defences begin, act, cost and end; signals spread and toxins kill."""
    for substance in meadow.living("substances"):
        if meadow.find("plants", substance["owner"]) is None:
            meadow.leave("substances", substance)
    triggered = _trigger(meadow)
    _synthesize(meadow, triggered)
    _pay_upkeep(meadow, triggered)
    _emit(meadow)
    _poison(meadow)
    meadow.signals = [_spread(meadow, layer) for layer in meadow.signals]


def _layer_of(config: MeadowConfig, number: int) -> int:
    """Return the index of a substance's layer among those of its kind."""
    kind = config.substances[number].kind
    return sum(1 for substance in config.substances[:number] if substance.kind == kind)


def _substance_of(meadow: NaiveState, plant: Entity, number: int) -> Entity | None:
    """Return the plant's substance of this number, or None."""
    for one in meadow.rows["substances"]:
        if one is not None and (one["owner"], one["substance"]) == (plant["id"], number):
            return one
    return None


def _holds(meadow: NaiveState, condition: Condition, plant: Entity) -> bool:
    config, x, y = meadow.config, plant["x"], plant["y"]
    if condition.herbivore is not None:
        return meadow.heads_at(x, y, config.herbivore_index(condition.herbivore)) >= (condition.heads or 0)
    if condition.substance is not None:
        own = _substance_of(meadow, plant, config.substance_index(condition.substance))
        return own is not None and own["active"] == 1
    if condition.signal is not None:
        layer = meadow.signals[_layer_of(config, config.substance_index(condition.signal))]
        return layer[y][x] >= (condition.concentration or 0)
    if condition.not_ is not None:
        return not _holds(meadow, condition.not_, plant)
    if condition.all is not None:
        return all(_holds(meadow, part, plant) for part in condition.all)
    return any(_holds(meadow, part, plant) for part in condition.any or ())


def _trigger(meadow: NaiveState) -> list[int]:
    """Begin substances that are triggered for the first time; return the ids of all triggered substances."""
    config = meadow.config
    triggers = [  # All conditions are judged before the first substance begins.
        (plant, config.substance_index(rule.substance))
        for plant in meadow.living("plants")
        for rule in config.triggers
        if config.flora_index(rule.flora) == plant["species"] and _holds(meadow, rule.when, plant)
    ]
    triggered: list[int] = []
    for plant, number in triggers:
        own = _substance_of(meadow, plant, number)
        if own is None:
            ticks = config.substances[number].synthesis_ticks
            new = {"owner": plant["id"], "substance": number, "synthesis": ticks, "active": 0, "aftereffect": 0}
            own = meadow.enter("substances", new)
        triggered.append(own["id"])
    return triggered


def _synthesize(meadow: NaiveState, triggered: list[int]) -> None:
    for one in meadow.living("substances"):
        made = meadow.config.substances[one["substance"]]
        if one["active"] == 0:
            if one["id"] in triggered:
                if one["synthesis"] > 0:
                    one["synthesis"] -= 1
                if one["synthesis"] == 0:
                    one["active"] = 1
                    one["aftereffect"] = made.aftereffect_ticks
        elif one["id"] in triggered:
            one["aftereffect"] = made.aftereffect_ticks
        elif not made.irreversible:
            if one["aftereffect"] == 0:
                meadow.leave("substances", one)
            else:
                one["aftereffect"] -= 1


def _pay_upkeep(meadow: NaiveState, triggered: list[int]) -> None:
    for one in meadow.living("substances"):
        if one["active"] == 0:
            continue
        made = meadow.config.substances[one["substance"]]
        owner = meadow.find("plants", one["owner"])
        assert owner is not None, "those without owners have left"
        if one["id"] in triggered or made.irreversible:
            paid = min(made.energy_cost, owner["energy"])
        elif owner["energy"] - made.energy_cost < meadow.config.flora[owner["species"]].survival_threshold:
            meadow.leave("substances", one)
            continue
        else:
            paid = made.energy_cost
        owner["energy"] -= paid
        meadow.defence_cost[owner["species"]] += paid
        if paid > 0:
            owner["loss_cause"] = LossCause.DEFENCE
        meadow.write_energy(owner)


def _emit(meadow: NaiveState) -> None:
    meadow.toxins = [meadow.grid() for _ in meadow.toxins]
    for one in meadow.living("substances"):
        if one["active"] == 0:
            continue
        made, layer = meadow.config.substances[one["substance"]], _layer_of(meadow.config, one["substance"])
        owner = meadow.find("plants", one["owner"])
        assert owner is not None, "those without owners have left"
        amount = meadow.parameters["emission"] * made.strength // ONE
        if made.kind == "toxin":
            meadow.toxins[layer][owner["y"]][owner["x"]] = min(amount, ONE)
            continue
        linked = [meadow.find("plants", link) for link in owner["links"] if link]
        share = amount // (len(linked) + 1)
        for neighbour in linked:
            assert neighbour is not None, "links to dead plants are gone"
            _add(meadow.signals[layer], neighbour, share)
        _add(meadow.signals[layer], owner, amount - len(linked) * share)


def _add(layer: Grid, plant: Entity, amount: int) -> None:
    layer[plant["y"]][plant["x"]] = min(layer[plant["y"]][plant["x"]] + amount, CONCENTRATION_MAX)


def _poison(meadow: NaiveState) -> None:
    for swarm in meadow.living("swarms"):
        energy_min = meadow.config.herbivores[swarm["species"]].energy_min
        for number, made in enumerate(meadow.config.substances):
            if made.kind != "toxin":
                continue
            concentration = meadow.toxins[_layer_of(meadow.config, number)][swarm["y"]][swarm["x"]]
            if concentration == 0 or swarm["population"] == 0:
                continue
            if made.lethality > 0:
                casualties = made.lethality * concentration * swarm["population"] // (ONE * ONE)
                casualties = min(casualties, swarm["population"])
                swarm["population"] -= casualties
                swarm["energy"] -= min(swarm["energy"], casualties * energy_min)
                meadow.heads_lost[swarm["species"]][HeadLoss.TOXIN] += casualties
            if made.repellence > 0:
                swarm["repelled"] = max(swarm["repelled"], made.repellence)
    for swarm in meadow.living("swarms"):
        if swarm["population"] == 0:
            meadow.leave("swarms", swarm)


def _spread(meadow: NaiveState, old: Grid) -> Grid:
    """Return the layer after wind, diffusion and decay."""
    east, south = meadow.wind
    blown, new = meadow.grid(), meadow.grid()
    for x, y in meadow.cells():
        from_x = x - (east[y][x] + ONE // 2) // ONE
        from_y = y - (south[y][x] + ONE // 2) // ONE
        if meadow.inside(from_x, from_y):
            blown[y][x] = old[from_y][from_x]
    for x, y in meadow.cells():
        total = 0
        for dy, weight_y in BLUR.items():
            for dx, weight_x in BLUR.items():
                if meadow.inside(x + dx, y + dy):
                    total += weight_y * weight_x * blown[y + dy][x + dx]
        left = total // 16 * meadow.parameters["signal_decay"] // ONE
        new[y][x] = left if left >= meadow.config.signalling.epsilon else 0
    return new
