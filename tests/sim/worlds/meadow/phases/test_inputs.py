"""Inputs: each kind, their canonical order, and invalid inputs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kernel.arithmetic.fixed_point import ONE
from sim.worlds.meadow import WORLD, Meadow

from sim_strategies import idle_flora, meadow_inputs, meadows, small_meadow

CONFIG = small_meadow(
    flora=[idle_flora("moss"), idle_flora("fern", base_energy=5)],
    herbivores=[{"name": "sheep", "consumption_rate": 0, "upkeep": 0, "energy_min": 2}],
    diet=[[True, False]],
    plants=[{"species": "moss", "x": 0, "y": 0}],
)


def test_plant_puts_a_seedling_on_a_free_cell() -> None:
    """The seedling has base energy and the current tick as its birth; on an occupied cell nothing happens."""
    meadow = Meadow(CONFIG)
    meadow.step(None)
    meadow.step([{"kind": "plant", "species": 1, "x": 5, "y": 4}, {"kind": "plant", "species": 1, "x": 0, "y": 0}])
    state = meadow.state

    assert state["plants.id"].tolist() == [1, 2]
    assert (state["plants.energy"][1], state["plants.species"][1], state["plants.last_reproduction"][1]) == (
        5 * ONE,
        1,
        2,
    )
    assert (state["plants.x"][1], state["plants.y"][1], state["biotope.occupant"][4, 5]) == (5, 4, 2)
    assert state["births"].tolist() == [0, 1]


def test_release_brings_a_swarm() -> None:
    """The swarm has energy_min for each head and acts in the same tick."""
    meadow = Meadow(CONFIG)
    meadow.step([{"kind": "release", "species": 0, "x": 0, "y": 0, "population": 9}])

    assert meadow.state["swarms.population"].tolist() == [9]
    assert meadow.state["swarms.energy"].tolist() == [18 * ONE]


def test_wind_and_drought_change_the_climate() -> None:
    """Wind stays; a drought counts down from its ticks and 0 ticks end it."""
    meadow = Meadow(CONFIG)
    meadow.step([{"kind": "wind", "east": -5, "south": 70_000}, {"kind": "drought", "ticks": 9, "percent": 60}])
    state = meadow.state
    assert [np.unique(part).tolist() for part in state["biotope.wind"]] == [[-5], [70_000]]
    assert (int(state["climate.drought_ticks"]), int(state["climate.drought_percent"])) == (8, 60)
    meadow.step([{"kind": "drought", "ticks": 0, "percent": 60}])

    assert (int(state["climate.drought_ticks"]), int(state["climate.drought_percent"])) == (0, 0)
    assert [np.unique(part).tolist() for part in state["biotope.wind"]] == [[-5], [70_000]]


@settings(deadline=None, max_examples=30)
@given(st.data())
@pytest.mark.seldom(0.15)
def test_any_order_of_one_ticks_inputs_gives_the_same_state(data: st.DataObject) -> None:
    """Inputs are sorted by kind and values first, so permuting them changes no byte."""
    plain = data.draw(meadows())
    inputs = data.draw(st.lists(meadow_inputs(plain), min_size=2, max_size=6))
    one, two = Meadow(plain), Meadow(plain)
    one.step(inputs)
    two.step(data.draw(st.permutations(inputs)))

    assert one.state.arena.tobytes() == two.state.arena.tobytes()


GOOD = {"kind": "plant", "species": 0, "x": 1, "y": 1}

KINDS = "plant, release, wind, gust, drought, cull, set, steer, split, spawn"

BAD: list[tuple[Any, str]] = [
    (5, f"expected an input of kind {KINDS}, got 5"),
    ({}, f"expected an input of kind {KINDS}, got {{}}"),
    ({"kind": "hail"}, f"expected an input of kind {KINDS}, got {{'kind': 'hail'}}"),
    ({"kind": []}, f"expected an input of kind {KINDS}, got {{'kind': []}}"),
    ({"kind": "wind", "east": 0}, "input {'kind': 'wind', 'east': 0}: expected the keys kind, east, south"),
    ({**GOOD, "z": 1}, f"input {({**GOOD, 'z': 1})!r}: expected the keys kind, species, x, y"),
    *(({**GOOD, "x": x}, f"input {({**GOOD, 'x': x})!r}: expected x as a whole number from 0 to 5") for x in (-1, 6, 1.0, True, "1", None)),
    ({**GOOD, "y": 5}, f"input {({**GOOD, 'y': 5})!r}: expected y as a whole number from 0 to 4"),
    ({**GOOD, "species": 2}, f"input {({**GOOD, 'species': 2})!r}: expected species as a whole number from 0 to 1"),
]  # fmt: skip

LIMITS: list[tuple[dict[str, Any], str, int, int]] = [
    ({"kind": "release", "species": 0, "x": 0, "y": 0, "population": 1}, "species", 0, 0),
    ({"kind": "release", "species": 0, "x": 0, "y": 0, "population": 1}, "population", 1, 1_000_000),
    ({"kind": "wind", "east": 0, "south": 0}, "east", -4_194_304, 4_194_304),
    ({"kind": "wind", "east": 0, "south": 0}, "south", -4_194_304, 4_194_304),
    ({"kind": "drought", "ticks": 0, "percent": 0}, "ticks", 0, 1 << 40),
    ({"kind": "drought", "ticks": 0, "percent": 0}, "percent", 0, 200),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=repr)
def test_an_invalid_input_changes_nothing(bad: Any, message: str) -> None:
    """ValueError states the expected value; neither the tick nor valid inputs of the same list are carried out."""
    meadow = Meadow(CONFIG)
    before = meadow.state.arena.tobytes()

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared
        meadow.step([GOOD, bad])
    assert str(caught.value) == message
    assert meadow.state.arena.tobytes() == before


@pytest.mark.parametrize(("item", "key", "low", "high"), LIMITS)
def test_the_limits_of_values(item: dict[str, Any], key: str, low: int, high: int) -> None:
    """Both limits are accepted; one less and one more are refused."""
    for value in (low, high):
        Meadow(CONFIG).step([{**item, key: value}])
    for value in (low - 1, high + 1, math.inf):
        with pytest.raises(ValueError, match=f"expected {key} as a whole number from {low} to {high}$"):
            Meadow(CONFIG).step([{**item, key: value}])


def test_numpy_integers_are_whole_numbers() -> None:
    """Items of arrays can be sent without a conversion."""
    one, two = Meadow(CONFIG), Meadow(CONFIG)
    one.step([GOOD])
    two.step([{"kind": "plant", **{key: np.int64(GOOD[key]) for key in ("species", "x", "y")}}])

    assert one.state.hash() == two.state.hash()


def test_the_schedule_of_a_scenario() -> None:
    """An input is sent at its tick and repeated at its interval until its last tick; decimals become fixed point."""
    plant = {"kind": "plant", "species": "fern", "x": 1, "y": 2}
    wind = {"kind": "wind", "east": 1.5, "south": -0.5}
    source = WORLD.inputs(
        {
            **CONFIG,
            "inputs": [
                {"tick": 3, **wind},
                {"tick": 2, "every": 3, "until": 9, **plant},
                {"tick": 9, "every": 1, **plant},
            ],
        }
    )
    sown = {"kind": "plant", "species": 1, "x": 1, "y": 2}

    assert source(3) == [{"kind": "wind", "east": 98_304, "south": -32_768}]
    assert [tick for tick in range(9) if sown in source(tick)] == [2, 5, 8]
    assert [len(source(tick)) for tick in (9, 10, 11, 500)] == [1, 1, 1, 1]
