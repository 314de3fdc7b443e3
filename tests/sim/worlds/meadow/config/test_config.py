"""Mistakes in a meadow's configuration, each with its error line."""

from __future__ import annotations

from typing import Any

import pytest

from sim import ConfigError
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.config.meadow import read_config

from sim_strategies import idle_flora, small_meadow

SHEEP = {"name": "sheep", "consumption_rate": 1, "upkeep": 0, "energy_min": 2}
TOP_KEYS = (
    "grid, flora, herbivores, diet, substances, triggers, links, dispersal, wind, crowding, signalling, players, "
    "termination, plants, swarms, inputs, ids, world, name, seed, ticks"
)
RELEASE = {"kind": "release", "tick": 1, "species": "sheep", "x": 0, "y": 0, "population": 1}


def flora(**changes: Any) -> dict[str, Any]:
    """Return a change of the only flora species."""
    return {"flora": [{**idle_flora("moss"), **changes}]}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"girth": 5}, f"girth: unknown key; known keys: {TOP_KEYS}"),
    ({"grid": {"width": 0, "height": 5}}, "grid.width: expected an integer from 1 to 4096, got 0"),
    ({"grid": {"width": 5, "height": 4097}}, "grid.height: expected an integer from 1 to 4096, got 4097"),
    ({"grid": {"width": 5}}, "grid.height: this key is missing"),
    ({"grid": 5}, "grid: expected a table, got 5"),
    ({"seed": -1}, "seed: expected an integer from 0 to 9223372036854775807, got -1"),
    ({"seed": 1.5}, "seed: expected an integer from 0 to 9223372036854775807, got 1.5"),
    ({"flora": []}, "flora: expected 1 to 16 species, got 0"),
    ({"flora": [idle_flora(f"f{i}") for i in range(17)]}, "flora: expected 1 to 16 species, got 17"),
    ({"flora": [idle_flora("a"), idle_flora("a")]}, "flora: two species have the same name"),
    (
        {"herbivores": [{**SHEEP, "name": f"h{i}"} for i in range(17)], "diet": [[True]] * 17},
        "herbivores: expected 0 to 16 species, got 17",
    ),
    (
        flora(max_energy=1_000_001),
        "flora[0].max_energy: expected a decimal number from 0 to 1000000, got 1000001",
    ),
    (flora(growth_percent="2"), "flora[0].growth_percent: expected a decimal number from 0 to 1000, got '2'"),
    (flora(name=5), "flora[0].name: expected text, got 5"),
    (flora(seed_distance_min=0), "flora[0].seed_distance_min: expected an integer from 1 to 64, got 0"),
    (flora(seed_distance_min=4), "flora[0].seed_distance_min: expected at most seed_distance_max"),
    (flora(base_energy=21), "flora[0].base_energy: expected a value from survival_threshold to max_energy"),
    (flora(base_energy=3.75), "flora[0].base_energy: expected a value from survival_threshold to max_energy"),
    (
        {"diet": [[True]]},
        "diet: expected 0 rows (herbivores) of 1 values (flora), got 1 rows of 1 values",
    ),
    (
        {"herbivores": [SHEEP], "diet": [[True, False]]},
        "diet: expected 1 rows (herbivores) of 1 values (flora), got 1 rows of 2 values",
    ),
    (
        {"herbivores": [SHEEP]},
        "diet: expected 1 rows (herbivores) of 1 values (flora), got 0 rows of no values",
    ),
    ({"herbivores": [SHEEP], "diet": [[1]]}, "diet[0][0]: expected true or false, got 1"),
    ({"links": {"interval": 0}}, "links.interval: expected an integer from 1 to 1099511627776, got 0"),
    ({"plants": [{"species": "oak", "count": 1}]}, "plants[0].species: expected one of moss, got 'oak'"),
    ({"plants": [{"species": "moss"}]}, "plants[0]: expected either x and y, or count"),
    ({"plants": [{"species": "moss", "x": 1}]}, "plants[0]: expected either x and y, or count"),
    ({"plants": [{"species": "moss", "y": 1, "count": 1}]}, "plants[0]: expected either x and y, or count"),
    (
        {"plants": [{"species": "moss", "x": 6, "y": 0}]},
        "plants[0].x: expected a whole number from 0 to 5, got 6",
    ),
    (
        {"plants": [{"species": "moss", "x": 0, "y": 5}]},
        "plants[0].y: expected a whole number from 0 to 4, got 5",
    ),
    (
        {"swarms": [{"species": "sheep", "x": 0, "y": 0, "population": 1}]},
        "swarms[0].species: expected one of no species, got 'sheep'",
    ),
    ({"inputs": [RELEASE]}, "inputs[0].species: expected one of no species, got 'sheep'"),
    (
        {"inputs": [{"kind": "hail", "tick": 1}]},
        "inputs[0].kind: expected one of plant, release, wind, gust, drought, cull, set, got 'hail'",
    ),
    (
        {"inputs": [{"kind": "wind", "tick": 1, "east": 1, "south": 1, "x": 1}]},
        "inputs[0].x: there is no such key for an input of kind wind",
    ),
    (
        {"inputs": [{"kind": "wind", "tick": 1, "east": 1}]},
        "inputs[0].south: this key is missing for an input of kind wind",
    ),
    (
        {"inputs": [{"kind": "wind", "tick": 0, "east": 1, "south": 1}]},
        "inputs[0].tick: expected an integer from 1 to 1099511627776, got 0",
    ),
    (
        {"herbivores": [SHEEP], "diet": [[True]], "inputs": [{**RELEASE, "x": 6}]},
        "inputs[0].x: expected a whole number from 0 to 5, got 6",
    ),
]


@pytest.mark.parametrize(
    ("changes", "message"), MISTAKES, ids=lambda value: value[:40] if isinstance(value, str) else ""
)
def test_each_mistake_gives_one_line(changes: dict[str, Any], message: str) -> None:
    """The line has the key path, the expected and the actual value; the world raises the same error."""
    for make in (read_config, Meadow):
        with pytest.raises(ConfigError) as caught:
            make(small_meadow(**changes))
        assert str(caught.value) == message


def test_a_missing_key_is_named() -> None:
    """A meadow without flora is refused."""
    with pytest.raises(ConfigError) as caught:
        read_config({"grid": {"width": 1, "height": 1}})
    assert str(caught.value) == "flora: this key is missing"


def test_the_limits_can_be_used() -> None:
    """Sixteen species of each kind, the greatest values, and no herbivores are accepted."""
    most = {"flora": [idle_flora(f"f{i}", max_energy=1_000_000, growth_percent=1000) for i in range(16)]}
    eaters = [{**SHEEP, "name": f"h{i}"} for i in range(16)]
    config = read_config(small_meadow(**most, herbivores=eaters, diet=[[True] * 16] * 16, seed=(1 << 63) - 1))

    assert (len(config.flora), len(config.herbivores), config.flora[0].max_energy) == (16, 16, 65_536_000_000)
    assert read_config(small_meadow()).herbivores == ()


def test_a_configuration_is_that_of_the_data_as_they_are_now() -> None:
    """Also if these were read before and changed since, by one digit or by one type."""
    plain = small_meadow()
    first = read_config(plain)
    plain["seed"] = first.seed + 1
    assert read_config(plain).seed == first.seed + 1
    plain["seed"] = float(first.seed + 1)
    with pytest.raises(ConfigError, match="seed: expected an integer"):
        read_config(plain)
    plain["seed"] = first.seed
    assert read_config(plain) == first
