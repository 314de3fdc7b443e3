"""The place of the life cycle in a tick, and the order of what it does: computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.kernel.arithmetic.fixed_point import ONE
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.model.layout import LossCause

from oracle.followed_meadow import defended
from sim_strategies import idle_flora, small_meadow

SHEEP = {"name": "sheep", "consumption_rate": 50, "upkeep": 0, "energy_min": 2, "reproduction_divisor": 1000}


def shared(flora: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The configuration of a meadow of one cell with a plant and a swarm of two sheep on it."""
    return small_meadow(
        grid={"width": 1, "height": 1},
        flora=[flora],
        herbivores=[SHEEP],
        diet=[[True]],
        plants=[{"species": "moss", "x": 0, "y": 0}],
        swarms=[{"species": "sheep", "x": 0, "y": 0, "population": 2}],
        **more,
    )


def energy(meadow: Meadow, identity: int = 1) -> float:
    """The energy of a plant, in units of 1.0."""
    return int(meadow.state["plants.energy"][meadow.state["plants.id"] == identity][0]) / ONE


def test_lifecycle_comes_after_the_flow_field_and_before_swarms_and_signals() -> None:
    """By the names of the phases, and by what they see: the flow has the energy of before, swarms that after growth."""
    growing = idle_flora("moss", growth_percent=10, survival_threshold=0)
    meadow = Meadow(shared(growing))
    assert [phase.name for phase in meadow.phases] == ["inputs", "flow_field", "lifecycle", "interaction", "signalling"]
    meadow.step(None)
    assert int(meadow.state["biotope.flow"][0, 0]) == 10 * ONE
    assert int(meadow.state["swarms.energy"][0]) == (2 * 2 + 11) * ONE  # Each sheep had 2; all 11 are eaten.
    dimmed = Meadow(shared({**growing, "camouflage": 0.5}))
    dimmed.step(None)
    assert int(dimmed.state["biotope.flow"][0, 0]) == 5 * ONE  # Before growth: 11 would give 5.5.


def test_what_dies_in_the_life_cycle_is_neither_eaten_nor_defends_itself() -> None:
    """Feeding and signalling see the plants that survived it."""
    plain = defended(shared(idle_flora("moss")), {"herbivore": "sheep", "heads": 1}, kind="toxin", lethality=1)
    defending = Meadow(plain)
    defending.step(None)
    assert not defending.state["swarms.id"].any()  # The living plant kills both.
    dying = Meadow(plain)
    dying.state["plants.energy"][0] = 3 * ONE  # Below the threshold of 4.
    dying.step(None)
    assert not dying.state["plants.id"].any()
    assert (int(dying.state["swarms.energy"][0]), int(dying.state["swarms.population"][0])) == (4 * ONE, 2)
    assert not dying.state["substances.id"].any()
    assert not dying.state["biotope.toxins"].any()


def pair(interval: int = 1, **flora: Any) -> Meadow:
    """Two plants side by side that may link, and no room for seeds to the east of them."""
    plants = [{"species": "moss", "x": x, "y": 0} for x in (0, 1)]
    links = {"interval": interval, "cost": 1}
    return Meadow(
        small_meadow(grid={"width": 3, "height": 1}, flora=[idle_flora("moss", **flora)], plants=plants, links=links)
    )


def test_reproduction_precedes_the_attempt_to_link() -> None:
    """A plant that has paid for a seed in this tick cannot pay for a link any more; without the seed it links."""
    assert pair_after_a_tick(seed_cost=6, reproduction_interval=1) == (False, 4.0)
    assert pair_after_a_tick(seed_cost=6) == (True, 9.0)


def pair_after_a_tick(**flora: Any) -> tuple[bool, float]:
    """If there is any link between the two, and the energy of the plant in the middle, after a tick with one seed."""
    meadow = pair(**flora, seed_distance_min=1, seed_distance_max=1)
    for seed in range(1, 200):
        meadow = Meadow({**meadow.origin.config, "seed": seed})
        meadow.step(None)
        if flora.get("reproduction_interval") != 1 or meadow.state["births"].any():
            break
    first_two = np.isin(meadow.state["plants.id"], (1, 2))
    return bool(meadow.state["plants.links"][first_two].any()), energy(meadow, 2)


def test_dead_plants_are_excluded_from_new_links() -> None:
    """A neighbour of a plant that dies in this pass gets no link and pays nothing."""
    meadow = pair()
    meadow.state["plants.energy"][0] = 3 * ONE
    meadow.step(None)
    assert (energy(meadow, 2), meadow.state["plants.links"].any()) == (10.0, False)
    assert meadow.state["deaths"][0].tolist() == [1, 0, 0, 0, 0]
    alive = pair()
    alive.step(None)
    assert (energy(alive, 1), energy(alive, 2)) == (9.0, 9.0)


def test_the_layer_is_rebuilt_once_after_all_updates_and_deaths() -> None:
    """After a pass with growth, a death and a link it shows the energies of the living, and 0 where one died."""
    meadow = pair(growth_percent=10)
    meadow.step([{"kind": "plant", "species": 0, "x": 2, "y": 0}])
    meadow.state["plants.energy"][0] = 2 * ONE
    meadow.step(None)
    front = int(meadow.state["biotope.front"])
    living = {int(x): int(value) for x, value, one in plants(meadow) if one}
    assert 0 not in living
    assert meadow.state["biotope.total"][front, 0].tolist() == [0, living[1], living[2]]


def plants(meadow: Meadow) -> list[tuple[int, int, int]]:
    """x, energy and id of each row."""
    columns = (meadow.state[f"plants.{name}"].tolist() for name in ("x", "energy", "id"))
    return list(zip(*columns, strict=True))


def test_the_cause_of_a_death_is_the_last_loss_of_energy() -> None:
    """In telemetry, by species: reproduction, a link, or nothing but the background."""
    for cause in (LossCause.BACKGROUND, LossCause.REPRODUCTION, LossCause.LINK):
        meadow = pair(interval=1_000)
        meadow.state["plants.energy"][0] = 3 * ONE
        meadow.state["plants.loss_cause"][0] = cause
        meadow.step(None)
        figures = meadow.telemetry()
        deaths = {name: count for name, count in figures.items() if name.startswith("deaths.moss.") and count}
        assert deaths == {f"deaths.moss.{cause.name.lower()}": 1}


def test_a_seed_lands_in_a_random_direction_at_a_random_distance_within_its_bounds() -> None:
    """Of 150 meadows, each with one parent: every whole distance and every octant occurs, and no other distance."""
    found = []
    for seed in range(150):
        flora = idle_flora("moss", reproduction_interval=1, seed_distance_min=2, seed_distance_max=4)
        parent = {"species": "moss", "x": 5, "y": 5}
        meadow = Meadow(small_meadow(seed=seed, grid={"width": 11, "height": 11}, flora=[flora], plants=[parent]))
        meadow.step(None)
        row = meadow.state["plants.id"] == 2
        assert row.any(), seed
        found.append((int(meadow.state["plants.x"][row][0]) - 5, int(meadow.state["plants.y"][row][0]) - 5))
    distances = [(x * x + y * y) ** 0.5 for x, y in found]
    assert all(1.5 <= distance < 4.5 for distance in distances)
    assert {int(distance + 0.5) for distance in distances} == {2, 3, 4}
    assert {(x > 0) - (x < 0) + 3 * ((y > 0) - (y < 0)) for x, y in found} >= {-4, -3, -2, -1, 1, 2, 3, 4}
    quadrants = [
        sum(1 for x, y in found if (x > 0) == right and (y > 0) == down) for right in (0, 1) for down in (0, 1)
    ]
    assert min(quadrants) > 15
