"""The complete meadow: independence of the scenario's order and of rows, marks, snapshots, placement, figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.changes.row_changes import AuditedChanges
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow

from sim_strategies import idle_flora, meadow_inputs, meadows, small_meadow


@settings(deadline=None, max_examples=10)
@given(st.data())
def test_the_order_in_a_scenario_means_nothing(data: st.DataObject) -> None:
    """Permuting the lists of plants and swarms changes no byte, at tick 0 and later."""
    plain = data.draw(meadows())
    mixed = {**plain, **{key: data.draw(st.permutations(plain[key])) for key in ("plants", "swarms")}}
    one, two = Meadow(plain), Meadow(mixed)
    for _ in range(10):
        assert one.state.arena.tobytes() == two.state.arena.tobytes()
        one.step(None)
        two.step(None)


@pytest.mark.seldom(0.15)
@settings(deadline=None, max_examples=10)
@given(st.data())
def test_the_order_of_rows_means_nothing(data: st.DataObject) -> None:
    """Entities behave the same in different rows of their tables, also if they are moved during a run."""
    plain = data.draw(meadows())
    one, two = Meadow(plain), Meadow(plain)
    for _ in range(data.draw(st.integers(0, 20))):
        one.step(None)
        two.step(None)
    for table in ("plants", "swarms", "substances"):
        order = np.array(data.draw(st.permutations(range(two.state.count(table)))), dtype=np.int64)
        for name in two.state:
            if name.startswith(f"{table}."):
                two.state[name][:] = two.state[name][order]
    two.state["biotope.occupant"][:] = 0
    living = np.flatnonzero(two.state["plants.id"])
    two.state["biotope.occupant"][two.state["plants.y"][living], two.state["plants.x"][living]] = living + 1
    for _ in range(30):
        one.step(None)
        two.step(None)
        for table in ("plants", "swarms", "substances"):
            columns = [name for name in one.state if name.startswith(f"{table}.")]
            lives = [
                sorted(
                    row for row in zip(*(s[name].tolist() for name in columns), strict=True) if any(map(np.any, row))
                )
                for s in (one.state, two.state)
            ]
            assert lives[0] == lives[1]


@pytest.mark.seldom(0.15)
@settings(deadline=None, max_examples=10)
@given(st.data())
def test_every_write_is_marked(data: st.DataObject) -> None:
    """The audit finds no unmarked write after any tick, with all kinds of inputs and across changes of layout."""
    plain = data.draw(meadows())
    inputs = data.draw(st.dictionaries(st.integers(1, 60), st.lists(meadow_inputs(plain), max_size=3), max_size=8))
    meadow = Meadow(plain)
    audit = AuditedChanges(meadow.state)
    for tick in range(1, 61):
        audit.reset(meadow.state.snapshot())
        meadow.step(inputs.get(tick))
        audit.changed_rows()
    assert Meadow.marks_writes


def test_every_write_is_marked_while_tables_grow() -> None:
    """Two hundred ticks in which plants outgrow their table and swarms divide past theirs, against one baseline a tick."""
    spreading = idle_flora("moss", reproduction_interval=5, growth_percent=30, seed_cost=2)
    sheep = {"name": "sheep", "consumption_rate": 2, "upkeep": 0.5, "energy_min": 1, "split_population": 4}
    config = small_meadow(
        grid={"width": 24, "height": 20},
        flora=[spreading],
        herbivores=[sheep],
        diet=[[True]],
        plants=[{"species": "moss", "count": 100}],
        links={"interval": 4, "cost": 1},
    )
    meadow = Meadow(config)
    audit = AuditedChanges(meadow.state)
    for tick in range(1, 201):
        if tick % 7:
            audit.reset(meadow.state.snapshot())
        meadow.step([{"kind": "release", "species": 0, "x": 5, "y": 5, "population": 8}] if tick == 60 else [])
        audit.changed_rows()

    assert meadow.state.layout.capacities["plants"] > 256
    assert meadow.state.layout.capacities["swarms"] > 16
    assert meadow.state["deaths"].sum() > 0


def test_there_is_no_float_in_the_state() -> None:
    """All fields are integers or booleans, so every machine computes the same state."""
    state = Meadow(load_scenario("quiet-meadow").config).state

    assert {state[name].dtype.kind for name in state} <= set("iub")


@settings(deadline=None, max_examples=10)
@given(meadows(), st.integers(1, 20))
def test_a_snapshot_restores_a_used_meadow(plain: dict[str, Any], tick: int) -> None:
    """A used meadow continues from a snapshot like the original: it has no hidden state."""
    one, used = Meadow(plain), Meadow(plain)
    for _ in range(tick):
        one.step(None)
    saved = one.state.snapshot()
    for _ in range(15):
        one.step(None)
        used.step([{"kind": "wind", "east": 3 << 16, "south": 0}])
    used.state.restore(saved)
    for _ in range(15):
        used.step(None)

    assert used.state.hash() == one.state.hash()


@pytest.mark.parametrize("count", [1, 29, 30, 31])
def test_scattered_plants_get_different_cells(count: int) -> None:
    """Plants fill at most all cells, one per cell, at different cells for a different seed; none counts as a birth."""
    configs = [small_meadow(plants=[{"species": "moss", "count": count}], seed=seed) for seed in (1, 1, 2)]
    one, same, other = (Meadow(config).state for config in configs)

    assert one.count("plants") == np.count_nonzero(one["biotope.occupant"]) == min(count, 30)
    assert one.hash() == same.hash() != other.hash()
    assert not one["births"].any()
    if count == 1:
        assert not np.array_equal(one["biotope.occupant"], other["biotope.occupant"])


def test_of_two_plants_for_one_cell_the_first_species_stays() -> None:
    """Placed plants win over scattered ones, and the species that comes first in the scenario over later ones."""
    places = [{"species": name, "x": 2, "y": 3} for name in ("fern", "moss", "moss")]
    config = small_meadow(
        flora=[idle_flora("moss"), idle_flora("fern")], plants=[{"species": "fern", "count": 30}, *places]
    )
    state = Meadow(config).state

    assert state.count("plants") == 30
    assert state["plants.species"][state["biotope.occupant"][3, 2] - 1] == 0
    assert state["plants.species"].sum() == 29


def test_figures_and_picture() -> None:
    """The summary names each species with counts and energy; the picture is the visible energy."""
    config = small_meadow(
        herbivores=[{"name": "sheep", "consumption_rate": 1, "upkeep": 0, "energy_min": 2}],
        diet=[[True]],
        plants=[{"species": "moss", "x": 1, "y": 2}, {"species": "moss", "x": 5, "y": 4}],
        swarms=[{"species": "sheep", "x": 0, "y": 0, "population": 1_200}],
    )
    meadow = Meadow(config)
    assert WORLD.summarize(config, meadow.state.snapshot()) == {
        "moss": "2 plants, energy 20.0",
        "sheep": "1,200 heads in 1 swarm",
        "born so far": "0 plants",
        "died so far": "0 plants",
    }
    meadow.state["plants.energy"][0] = 0
    meadow.step([{"kind": "drought", "ticks": 4, "percent": 50}])
    figures = WORLD.summarize(config, meadow.state.snapshot())
    assert (figures["died so far"], figures["drought"]) == ("1 plant (1 background)", "3 ticks left")

    assert WORLD.picture is not None
    picture = WORLD.picture(meadow.state.snapshot())
    assert (picture.shape, picture.dtype, picture[4, 5], picture.sum()) == ((5, 6), np.int64, 10 * ONE, 10 * ONE)
