"""Growth, reproduction and death of plants; the layers that show their energy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sim.kernel.arithmetic.fixed_point import ONE
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.model.dispersal import ring, wind_shift
from sim.worlds.meadow.model.layers import rebuild, visible_energy, write_energy
from sim.worlds.meadow.model.layout import NEIGHBOURS, LossCause

from sim_strategies import idle_flora, meadows, small_meadow


def energies(meadow: Meadow) -> list[float]:
    """Return the energy of the living plants in ascending id, in units of 1.0."""
    ids = meadow.state["plants.id"]
    rows = np.flatnonzero(ids)
    return [int(energy) / ONE for energy in meadow.state["plants.energy"][rows[np.argsort(ids[rows])]]]


def one_plant(**flora: Any) -> Meadow:
    """A meadow with a single plant in the middle."""
    return Meadow(small_meadow(flora=[idle_flora("moss", **flora)], plants=[{"species": "moss", "x": 3, "y": 2}]))


def run(meadow: Meadow, ticks: int) -> None:
    """Step without inputs."""
    for _ in range(ticks):
        meadow.step(None)


def ensure_consistent(meadow: Meadow) -> None:
    """Check the invariants of plants.py, layers.py and layout.py on the state between two ticks."""
    state, config = meadow.state, meadow.config
    ids = state["plants.id"]
    living = np.flatnonzero(ids)
    assert len(set(ids[living].tolist())) == len(living)
    columns = ("energy", "loss_cause", "last_reproduction", "id", "species", "x", "y", "links")
    for table, names in (
        ("plants", columns),
        (
            "swarms",
            ("energy", "population", "x", "y", "cooldown", "repelled", "steer", "initial_population", "species"),
        ),
        ("substances", ("synthesis", "aftereffect", "active", "owner", "substance")),
    ):
        dead = state[f"{table}.id"] == 0
        assert not any(state[f"{table}.{column}"][dead].any() for column in names)
    occupant = np.zeros((config.grid.height, config.grid.width), np.int64)
    for row in living:
        occupant[state["plants.y"][row], state["plants.x"][row]] = row + 1
    assert np.array_equal(occupant, state["biotope.occupant"])
    assert np.count_nonzero(occupant) == len(living)
    by_id = {int(ids[row]): row for row in living}
    for row in living:
        for direction, partner in enumerate(state["plants.links"][row].tolist()):
            if partner:
                other = by_id[partner]
                assert state["plants.links"][other][(direction + 2) % 4] == ids[row]
                dx, dy = NEIGHBOURS[direction]
                assert state["plants.x"][other] - state["plants.x"][row] == dx
                assert state["plants.y"][other] - state["plants.y"][row] == dy
    energy = state["biotope.energy"]
    front = int(state["biotope.front"])
    holders = occupant > 0
    assert not energy[:, :, ~holders].any()
    assert np.array_equal(state["biotope.total"][0], state["biotope.total"][1])
    assert np.array_equal(state["biotope.total"][front], energy[front].sum(axis=0))
    assert all((state["plants.energy"][row] >= 0) for row in living)
    assert (state["swarms.population"][np.flatnonzero(state["swarms.id"])] > 0).all()
    assert set(state["substances.owner"][np.flatnonzero(state["substances.id"])].tolist()) <= by_id.keys()
    assert not state["biotope.toxins"][:, ~holders].any()


def test_growth_is_a_percentage_of_base_energy_and_capped() -> None:
    """Each tick adds base × rate / 100, up to max energy and never above, from the first tick on."""
    meadow = one_plant(growth_percent=25)
    seen = []
    for _ in range(6):
        run(meadow, 1)
        seen += energies(meadow)

    assert seen == [12.5, 15.0, 17.5, 20.0, 20.0, 20.0]


def test_growth_rounds_down() -> None:
    """The step is floor(base × rate / 100) in 1/65536."""
    meadow = one_plant(growth_percent=0.001)
    run(meadow, 1)

    assert meadow.state["plants.energy"][0] == 10 * ONE + (10 * ONE * round(0.001 * ONE)) // (100 * ONE)
    assert meadow.state["plants.energy"][0] == 10 * ONE + 6


def test_growth_never_depends_on_the_tick() -> None:
    """A plant born late grows like one that was there from the start."""
    meadow = one_plant(growth_percent=10)
    run(meadow, 5)
    meadow.step([{"kind": "plant", "species": 0, "x": 0, "y": 0}])

    assert energies(meadow) == [16.0, 11.0]


@pytest.mark.parametrize(("percent", "expected"), [(60, 11.0), (100, 10.0), (120, 9.5), (0, 12.5)])
def test_a_drought_takes_off_growth_for_its_ticks(percent: int, expected: float) -> None:
    """Growth shrinks by the percentage, below zero above 100, and is complete again after the last tick."""
    meadow = one_plant(growth_percent=25)
    meadow.step([{"kind": "drought", "ticks": 1, "percent": percent}])
    assert energies(meadow) == [expected]
    assert meadow.state["plants.loss_cause"][0] == LossCause.BACKGROUND

    run(meadow, 1)
    assert energies(meadow) == [expected + 2.5]


def test_reproduction_waits_its_interval() -> None:
    """The first seed falls after the interval; the seedling has base energy and this tick as its birth."""
    meadow = one_plant(reproduction_interval=3, growth_percent=10, seed_distance_max=1)
    run(meadow, 2)
    assert energies(meadow) == [12.0]
    run(meadow, 1)

    assert energies(meadow) == [10.0, 10.0]
    assert meadow.state["plants.last_reproduction"][:2].tolist() == [3, 3]
    assert meadow.state["plants.loss_cause"][0] == LossCause.REPRODUCTION
    assert meadow.state["births"].tolist() == [1]
    run(meadow, 2)
    assert len(energies(meadow)) == 2
    run(meadow, 1)
    assert len(energies(meadow)) > 2


@pytest.mark.parametrize(("seed_cost", "plants"), [(6, 2), (6.25, 1)])
def test_reproduction_never_crosses_the_threshold(seed_cost: float, plants: int) -> None:
    """A parent may go down to its survival threshold and not below."""
    meadow = one_plant(reproduction_interval=1, seed_cost=seed_cost, seed_distance_max=1)
    run(meadow, 1)

    assert len(energies(meadow)) == plants
    assert energies(meadow)[0] == (4.0 if plants == 2 else 10.0)


@pytest.mark.parametrize("outside", [True, False])
def test_failed_reproduction_costs_nothing(outside: bool) -> None:  # noqa: FBT001
    """A seed that falls outside or on a plant takes no energy and does not count as a reproduction."""
    spreading = idle_flora("moss", reproduction_interval=1, seed_distance_max=1)
    if outside:
        meadow = Meadow(
            {
                **small_meadow(flora=[spreading]),
                "grid": {"width": 1, "height": 1},
                "plants": [{"species": "moss", "count": 1}],
            }
        )
    else:
        rows = [{"species": name, "x": x, "y": 0} for x, name in enumerate(["wall", "moss", "wall"])]
        config = small_meadow(flora=[spreading, idle_flora("wall")], plants=rows)
        meadow = Meadow({**config, "grid": {"width": 3, "height": 1}})
    before = energies(meadow)
    run(meadow, 20)

    assert energies(meadow) == before
    assert not meadow.state["plants.last_reproduction"].any()
    assert not meadow.state["births"].any()


def test_death_below_the_threshold() -> None:
    """A plant at its threshold lives; below, it is removed from table, index and layers, and counted by cause."""
    meadow = one_plant(growth_percent=10, survival_threshold=8)
    meadow.step([{"kind": "drought", "ticks": 50, "percent": 200}])
    run(meadow, 1)
    assert energies(meadow) == [8.0]
    run(meadow, 1)

    assert energies(meadow) == []
    assert meadow.state["deaths"].tolist() == [[1, 0, 0, 0, 0]]
    assert not meadow.state["biotope.energy"].any()
    ensure_consistent(meadow)


@settings(deadline=None, max_examples=15)
@given(meadows())
@pytest.mark.seldom(0.15)
def test_the_state_is_consistent_at_every_tick(plain: dict[str, Any]) -> None:
    """Dead entities leave no trace, links are mutual between living neighbours, index and layers match the table."""
    meadow = Meadow(plain)
    ensure_consistent(meadow)
    for _ in range(40):
        meadow.step(None)
        ensure_consistent(meadow)


def test_energy_is_invisible_before_the_rebuild() -> None:
    """Writes go to the back side; the rebuild shows them, sums the species, and makes both sides equal."""
    config = small_meadow(flora=[idle_flora("moss"), idle_flora("fern")])
    state = Meadow(config).state
    write_energy(state, np.array([0, 1, 1]), np.array([2, 2, 0]), np.array([3, 3, 0]), np.array([5, 7, -9]))
    assert not visible_energy(state).any()
    assert not state["biotope.total"][int(state["biotope.front"])].any()
    rebuild(state)

    expected = np.zeros((2, 5, 6), np.int64)
    expected[0, 2, 3], expected[1, 2, 3] = 5, 7
    assert np.array_equal(visible_energy(state), expected)
    for side in (0, 1):
        assert np.array_equal(state["biotope.energy"][side], expected)
        assert np.array_equal(state["biotope.total"][side], expected.sum(axis=0))


def test_the_first_rings() -> None:
    """Ring r holds the cells whose distance rounds to r, in the order of (dy, dx)."""
    assert ring(1) == ((-1, -1), (0, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (0, 1), (1, 1))
    for distance in range(1, 12):
        span = range(-14, 15)
        rounded = [(x, y) for y in span for x in span if int((x * x + y * y) ** 0.5 + 0.5) == distance]
        assert list(ring(distance)) == rounded


@pytest.mark.parametrize(
    ("wind", "flight_ticks", "cells"),
    [
        (0, 1, 0),
        (ONE // 2 - 1, 1, 0),
        (ONE // 2, 1, 1),
        (-ONE // 2, 1, 0),
        (-ONE // 2 - 1, 1, -1),
        (ONE, 1.5, 2),
        (-ONE, 1.5, -1),
        (64 * ONE, 1000, 64_000),
        (ONE, 0, 0),
    ],
)
def test_wind_shifts_by_whole_cells(wind: int, flight_ticks: float, cells: int) -> None:
    """Wind × flight time rounds to the nearest cell, halves up, on each axis."""
    meadow = Meadow(small_meadow(dispersal={"flight_ticks": flight_ticks}))
    meadow.step([{"kind": "wind", "east": wind, "south": 3 * ONE}])

    cell = np.array([2])
    east, south = wind_shift(meadow.state, cell, cell, meadow.config.dispersal.flight_ticks)
    assert (east.tolist(), south.tolist()) == ([cells], [math.floor(3 * flight_ticks + 0.5)])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("east", "south", "shift"), [(1, -2, (1, -2)), (64, -64, (2, -2)), (-3, 2, (-2, 2))])
def test_wind_carries_at_most_the_seed_distance(seed: int, east: int, south: int, shift: tuple[int, int]) -> None:
    """A seed lands at its cell without wind, shifted by at most seed_distance_max on each axis."""
    config = small_meadow(
        grid={"width": 9, "height": 9},
        seed=seed,
        flora=[idle_flora("moss", reproduction_interval=1, seed_distance_max=2)],
        plants=[{"species": "moss", "x": 4, "y": 4}],
        dispersal={"flight_ticks": 1},
    )
    windy, calm = Meadow(config), Meadow(config)
    windy.step([{"kind": "wind", "east": east * ONE, "south": south * ONE}])
    calm.step(None)
    expected = (int(calm.state["plants.x"][1]) + shift[0], int(calm.state["plants.y"][1]) + shift[1])

    if expected == (4, 4):
        assert windy.state.count("plants") == 1
    else:
        assert (int(windy.state["plants.x"][1]), int(windy.state["plants.y"][1])) == expected
