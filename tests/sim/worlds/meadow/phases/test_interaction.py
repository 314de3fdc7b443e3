"""Swarms: the ledger of feeding, upkeep, offspring and division."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from sim.kernel.arithmetic.fixed_point import ONE
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.model.layout import LossCause

from sim_strategies import idle_flora, meadows, small_meadow


def grazing(*, diet: bool = True, population: int = 2, **herbivore: Any) -> Meadow:
    """Make a meadow of one cell, with one swarm on one plant with energy 10."""
    sheep = {"name": "sheep", "consumption_rate": 1, "upkeep": 0, "energy_min": 2, "reproduction_divisor": 1000}
    return Meadow(
        small_meadow(
            grid={"width": 1, "height": 1},
            flora=[idle_flora("moss", survival_threshold=0)],
            herbivores=[{**sheep, **herbivore}],
            diet=[[diet]],
            plants=[{"species": "moss", "x": 0, "y": 0}],
            swarms=[{"species": "sheep", "x": 0, "y": 0, "population": population}],
        )
    )


def figures(meadow: Meadow) -> tuple[float, float, int]:
    """Return energy of the plant, energy of the swarm, and heads."""
    state = meadow.state
    return (
        int(state["plants.energy"][0]) / ONE,
        int(state["swarms.energy"][0]) / ONE,
        int(state["swarms.population"][0]),
    )


@settings(deadline=None, max_examples=15)
@given(meadows())
def test_what_plants_lose_swarms_gain(plain: dict[str, Any]) -> None:
    """Without upkeep the phase only moves energy, exact to the last unit, also across divisions."""
    meadow = Meadow({**plain, "herbivores": [{**herbivore, "upkeep": 0} for herbivore in plain["herbivores"]]})
    place = [phase.name for phase in meadow.phases].index("interaction")
    before, interaction = meadow.phases[:place], meadow.phases[place]
    for _ in range(30):
        for phase in before:
            phase.run(None)
        plants, swarms = (int(meadow.state[f"{table}.energy"].sum()) for table in ("plants", "swarms"))
        interaction.run(None)
        after = [int(meadow.state[f"{table}.energy"].sum()) for table in ("plants", "swarms")]
        assert sum(after) == plants + swarms
        assert after[0] <= plants


def test_a_meal_is_bounded_by_appetite_and_by_the_plant() -> None:
    """A swarm eats rate × heads per tick, at most the plant's energy."""
    meadow = grazing(population=4)
    seen = []
    for _ in range(4):
        meadow.step(None)
        seen.append(figures(meadow))

    assert seen == [(6, 12, 4), (2, 16, 4), (0, 18, 4), (0, 18, 4)]
    assert meadow.state["plants.loss_cause"][0] == LossCause.FEEDING


def test_velocity_divides_the_meal() -> None:
    """A slow herbivore eats floor(rate / velocity) per head and tick."""
    meadow = grazing(velocity=4)
    meadow.step(None)

    assert figures(meadow) == (9.5, 4.5, 2)


def test_the_diet_gates_feeding() -> None:
    """A plant outside the diet is not eaten."""
    meadow = grazing(diet=False)
    meadow.step(None)

    assert figures(meadow) == (10, 4, 2)


def test_a_deficit_costs_heads() -> None:
    """ceil(deficit / energy_min) heads die and energy is 0; without heads the swarm is removed and its row cleared."""
    meadow = grazing(diet=False, population=4, upkeep=3)
    meadow.step(None)
    assert figures(meadow) == (10, 0, 2)
    meadow.step(None)

    assert meadow.state["swarms.id"].tolist() == [0] * meadow.state.count("swarms")
    assert figures(meadow) == (10, 0, 0)


@pytest.mark.parametrize(("divisor", "heads"), [(1, 3), (1.25, 2)])
def test_surplus_becomes_heads(divisor: float, heads: int) -> None:
    """Energy above what the heads hold buys offspring at energy_min × divisor; the energy stays in the swarm."""
    meadow = grazing(reproduction_divisor=divisor)
    meadow.step(None)

    assert figures(meadow) == (8, 6, heads)


def test_a_large_swarm_divides() -> None:
    """At split_population half of heads and energy, rounded down, make a new swarm with the next id."""
    meadow = grazing(population=5, split_population=5)
    meadow.step(None)
    state = meadow.state

    assert state["swarms.population"].tolist() == [3, 2]
    assert state["swarms.energy"].tolist() == [7.5 * ONE, 7.5 * ONE]
    assert (state["swarms.id"].tolist(), int(state["next_swarm_id"])) == ([1, 2], 3)


def test_a_moved_swarm_does_not_eat() -> None:
    """A swarm that went to a food cell eats there from the next tick on, and waits velocity - 1 ticks to move."""
    config = small_meadow(
        grid={"width": 2, "height": 1},
        herbivores=[{"name": "sheep", "consumption_rate": 1, "upkeep": 0, "energy_min": 2, "velocity": 3}],
        diet=[[True]],
        plants=[{"species": "moss", "x": 1, "y": 0}],
        swarms=[{"species": "sheep", "x": 0, "y": 0, "population": 1}],
    )
    meadow = Meadow(config)
    meadow.step(None)
    state = meadow.state

    assert (state["swarms.x"].tolist(), state["swarms.cooldown"].tolist()) == ([1], [2])
    assert state["plants.energy"][0] == 10 * ONE
    meadow.step(None)
    assert state["plants.energy"][0] == 10 * ONE - ONE // 3
    assert state["swarms.cooldown"].tolist() == [1]
