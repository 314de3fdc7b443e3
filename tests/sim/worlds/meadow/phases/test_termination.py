"""Termination: each condition alone, their order, and the bounds themselves."""

from __future__ import annotations

from typing import Any

import pytest

from sim.worlds.meadow import Meadow

from sim_strategies import idle_flora, small_meadow

SHEEP = {"name": "sheep", "consumption_rate": 0, "upkeep": 0, "energy_min": 2}
GOAT = {**SHEEP, "name": "goat"}
PLANTS = [{"species": "moss", "x": 0, "y": 0}, {"species": "fern", "x": 1, "y": 0}]
SWARMS = [{"species": "sheep", "x": 0, "y": 0, "population": 3}, {"species": "goat", "x": 1, "y": 1, "population": 4}]


def ended(termination: dict[str, Any], *, plants: Any = PLANTS, swarms: Any = SWARMS) -> Any:
    """Run a meadow of two plants (energy 10 each) and two swarms (3 and 4 heads) for one tick; return its end."""
    meadow = Meadow(
        small_meadow(
            flora=[idle_flora("moss"), idle_flora("fern")],
            herbivores=[SHEEP, GOAT],
            diet=[[True, True], [True, True]],
            plants=plants,
            swarms=swarms,
            termination={"all_flora": False, **termination},
        )
    )
    meadow.step(None)
    return meadow.ended()


@pytest.mark.parametrize(
    ("termination", "changes", "reason"),
    [
        ({"flora_extinct": ["moss", "fern"]}, {"plants": PLANTS[:1]}, ("Z2", "fern is extinct")),
        ({"all_flora": True}, {"plants": []}, ("Z3", "there are no plants left")),
        ({"herbivores_extinct": ["goat"]}, {"swarms": SWARMS[:1]}, ("Z4", "goat is extinct")),
        ({"all_herbivores": True}, {"swarms": []}, ("Z5", "there are no herbivores left")),
        ({"flora_energy_max": 19.5}, {}, ("Z6", "the plants have more energy than 19.5: 20.0")),
        ({"population_max": 6}, {}, ("Z7", "there are more herbivores than 6: 7")),
    ],
    ids=[f"Z{number}" for number in range(2, 8)],
)
def test_each_condition_alone(termination: dict[str, Any], changes: dict[str, Any], reason: tuple[str, str]) -> None:
    """The condition ends the run; it does not if it is disabled, or if the species is alive."""
    assert ended(termination, **changes) == reason
    assert ended({}, **changes) is None
    if reason[0] not in ("Z6", "Z7"):
        assert ended(termination) is None


def test_bounds_may_be_reached() -> None:
    """A run ends above a bound, not at the bound."""
    assert ended({"flora_energy_max": 20, "population_max": 7}) is None


def test_the_first_that_holds_is_the_reason() -> None:
    """Z2 to Z7 have priority in this order."""
    steps = [
        ("flora_extinct", ["moss"]),
        ("all_flora", True),
        ("herbivores_extinct", ["sheep"]),
        ("all_herbivores", True),
    ]
    termination = dict(steps)
    found = []
    for key, _ in steps:
        found.append(ended(termination, plants=[], swarms=[]))
        del termination[key]
    both = {"flora_energy_max": 1, "population_max": 1}
    found.append(ended(both))
    assert [reason and reason[0] for reason in found] == ["Z2", "Z3", "Z4", "Z5", "Z6"]
