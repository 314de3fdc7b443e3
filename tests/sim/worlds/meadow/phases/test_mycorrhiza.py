"""Mycorrhizal links: which plants link, when, at what price."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.kernel.arithmetic.fixed_point import ONE
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.model.layout import LossCause

from sim_strategies import idle_flora, small_meadow


def row_of_plants(names: str, *, height: int = 1, **links: Any) -> Meadow:
    """Make a meadow from letters, line by line: m is moss, f is fern, a dot is a free cell."""
    species = {"m": "moss", "f": "fern"}
    width = len(names) // height
    plants = [{"species": species[n], "x": i % width, "y": i // width} for i, n in enumerate(names) if n != "."]
    return Meadow(
        small_meadow(
            grid={"width": width, "height": height},
            flora=[idle_flora("moss"), idle_flora("fern", survival_threshold=8)],
            plants=plants,
            links={"interval": 1, "cost": 1, **links},
        )
    )


def pairs(meadow: Meadow) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the linked cells (x, y), each pair once."""
    state = meadow.state
    cell = {
        int(i): (int(x), int(y))
        for i, x, y in zip(state["plants.id"], state["plants.x"], state["plants.y"], strict=True)
    }
    return {
        (min(cell[int(i)], cell[partner]), max(cell[int(i)], cell[partner]))
        for i, links in zip(state["plants.id"], state["plants.links"].tolist(), strict=True)
        for partner in links
        if partner
    }


def test_a_link_is_mutual_and_both_pay() -> None:
    """Each holds the other's id in the opposite direction and has paid the cost."""
    meadow = row_of_plants("mm")
    meadow.step(None)

    assert meadow.state["plants.links"][:2].tolist() == [[2, 0, 0, 0], [0, 0, 1, 0]]
    assert meadow.state["plants.energy"][:2].tolist() == [9 * ONE, 9 * ONE]
    assert meadow.state["plants.loss_cause"][:2].tolist() == [LossCause.LINK] * 2


def test_at_most_one_new_link_a_plant_a_pass() -> None:
    """Of five in a row two disjoint pairs link first, the rest in the next pass; then nothing changes."""
    meadow = row_of_plants("mmmmm")
    meadow.step(None)
    assert pairs(meadow) == {((0, 0), (1, 0)), ((2, 0), (3, 0))}
    meadow.step(None)
    assert pairs(meadow) == {((x, 0), (x + 1, 0)) for x in range(4)}
    energy = meadow.state["plants.energy"].tolist()
    meadow.step(None)
    assert meadow.state["plants.energy"].tolist() == energy


def test_right_comes_before_down() -> None:
    """In a block of four the pairs along x link first, then those along y."""
    meadow = row_of_plants("mmmm", height=2)
    meadow.step(None)
    assert pairs(meadow) == {((0, 0), (1, 0)), ((0, 1), (1, 1))}
    meadow.step(None)
    assert pairs(meadow) == {((0, 0), (1, 0)), ((0, 1), (1, 1)), ((0, 0), (0, 1)), ((1, 0), (1, 1))}


def test_the_interval_gates_passes() -> None:
    """Passes happen at each multiple of the interval."""
    meadow = row_of_plants("mmm", interval=3)
    seen = []
    for _ in range(7):
        meadow.step(None)
        seen.append(len(pairs(meadow)))

    assert seen == [0, 0, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(("between", "expected"), [(False, 0), (True, 1)])
def test_other_species_only_if_allowed(between: bool, expected: int) -> None:  # noqa: FBT001
    """Moss and fern link only with between_species."""
    meadow = row_of_plants("mf", between_species=between)
    meadow.step(None)

    assert len(pairs(meadow)) == expected


@pytest.mark.parametrize(("cost", "expected"), [(1.75, 1), (2, 0)])
def test_both_stay_above_their_own_threshold(cost: float, expected: int) -> None:
    """The fern (threshold 8) may not go down to 8; that the moss could pay more does not help."""
    meadow = row_of_plants("mf", between_species=True, cost=cost)
    meadow.step(None)

    assert len(pairs(meadow)) == expected
    if not expected:
        assert meadow.state["plants.energy"][:2].tolist() == [10 * ONE] * 2


@pytest.mark.parametrize(("names", "height"), [("m.m.m.m.m", 3), ("..mm..", 2), ("mmm", 3)])
def test_only_side_by_side(names: str, height: int) -> None:
    """Neither across a gap, nor diagonally, nor around the edge; one above the other in a single column is fine."""
    meadow = row_of_plants(names, height=height)
    for _ in range(3):
        meadow.step(None)

    assert pairs(meadow) == ({((0, 0), (0, 1)), ((0, 1), (0, 2))} if names == "mmm" else set())


def test_the_death_of_a_partner_ends_its_links() -> None:
    """Partners of a dead plant lose their links, and a new plant in the cell can link again."""
    meadow = row_of_plants("mm")
    meadow.step(None)
    meadow.state["plants.energy"][1] = 0
    meadow.step(None)
    assert not meadow.state["plants.links"].any()
    meadow.step([{"kind": "plant", "species": 0, "x": 1, "y": 0}])

    assert pairs(meadow) == {((0, 0), (1, 0))}
    assert sorted(meadow.state["plants.links"][np.flatnonzero(meadow.state["plants.id"])].max(axis=1).tolist()) == [
        1,
        3,
    ]
