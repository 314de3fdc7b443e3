"""Ids from births: what one more birth changes in a branch, and ids that two births would share."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from sharded_runs import SideBySide

from sim.kernel.simulation import restore
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.model import births

from sim_strategies import idle_flora, small_meadow

FORK, TICKS = 40, 50


def arms_race(ids: str) -> dict[str, Any]:
    """The scenario with small swarms: animals and plants are born at most ticks."""
    plain = copy.deepcopy(load_scenario("arms-race").config) | {"ids": ids, "seed": 5}
    for kind in plain["herbivores"]:
        kind["split_population"] = 6
    return plain


def two_ways(plain: dict[str, Any]) -> tuple[Meadow, Meadow]:
    """Two meadows with the state of one at tick FORK."""
    one, two, inputs_at = Meadow(plain), Meadow(plain), WORLD.inputs(plain)
    for tick in range(1, FORK + 1):
        one.step(inputs_at(tick))
    restore(two, one.state.snapshot())
    return one, two


def differing_rows(one: Meadow, two: Meadow) -> dict[str, int]:
    """The number of values of each field that differ; a row that only one table has counts as a free one, of zeros."""
    counts = {}
    for name in one.state:
        values = [meadow.state[name] for meadow in (one, two)]
        if values[0].ndim:
            longest = max(len(value) for value in values)
            values = [np.concatenate([v, np.zeros((longest - len(v), *v.shape[1:]), v.dtype)]) for v in values]
        counts[name] = int(np.count_nonzero(values[0] != values[1]))
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize("counter", ["next_swarm_id", "next_plant_id"])
def test_a_counter_that_is_one_ahead_changes_no_other_row(counter: str) -> None:
    """Counted ids shift all later draws with it; ids from births do not."""
    found = {}
    for ids in ("counted", "births"):
        one, two = two_ways(arms_race(ids))
        two.state.set(counter, 0, int(two.state[counter]) + 1)
        inputs_at, born = WORLD.inputs(one.origin.config), int(one.state[counter])
        for tick in range(FORK + 1, FORK + TICKS + 1):
            one.step(inputs_at(tick))
            two.step(inputs_at(tick))
        assert int(one.state[counter]) > born
        found[ids] = differing_rows(one, two)
    assert found["births"] == {counter: 1}
    assert sum(found["counted"].values()) > 20


def test_one_more_swarm_changes_only_what_it_touches() -> None:
    """A swarm in an empty corner, for a tick: every other entity is born with the same id, and has the same values."""
    one, two = two_ways(arms_race("births"))
    inputs_at = WORLD.inputs(one.origin.config)
    here = {"species": 0, "x": 0, "y": 0}
    for tick in range(FORK + 1, FORK + TICKS + 1):
        extra = {
            FORK + 1: [{"kind": "release", **here, "population": 1}],
            FORK + 2: [{"kind": "cull", **here, "radius": 2, "percent": 100}],
        }
        one.step(inputs_at(tick))
        two.step([*inputs_at(tick), *extra.get(tick, [])])
    seen = {"sight.last_seen", "sight.plants", "sight.food", "sight.others"}  # The players remember what it saw.
    assert set(differing_rows(one, two)) <= {"next_swarm_id", "heads_lost"} | seen
    assert int(two.state["next_swarm_id"]) == int(one.state["next_swarm_id"]) + 1


def test_an_id_states_its_tick_and_its_way() -> None:
    """A seedling by an input and a seed of it, read from the bits."""
    flora = idle_flora("moss") | {"base_energy": 9, "max_energy": 90, "growth_percent": 100, "seed_distance_max": 1}
    flora |= {"reproduction_interval": 1, "seed_cost": 1, "survival_threshold": 1, "seed_distance_min": 1}
    meadow = Meadow(small_meadow(ids="births", flora=[flora], plants=[]))
    meadow.step([{"kind": "plant", "species": 0, "x": 1, "y": 1}])
    for _ in range(20):
        meadow.step(None)
    ids = sorted(meadow.state["plants.id"][meadow.state["plants.id"] != 0].tolist())
    parts = [(one >> 24, one >> 22 & 3) for one in ids]
    assert parts[0] == (1, 1)
    assert len(ids) > 2
    assert all(2 <= tick <= 21 and way == 3 for tick, way in parts[1:])


def test_a_number_that_is_taken_gives_the_next_free_one() -> None:
    """The first keeps it; the search goes on from 0 after the last."""
    last = (1 << 22) - 1
    assert births.distinct(np.array([7, 5, 7, 7, 8, last, last, 5])).tolist() == [7, 5, 8, 9, 10, last, 0, 6]
    assert births.distinct(np.array([3, 1, 2])).tolist() == [3, 1, 2]


@pytest.mark.parametrize(("bits", "commands"), [(5, 0), (8, 1)])
def test_shards_give_ids_from_births_as_one_process_does(
    bits: int, commands: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few bits instead of 22, many births of a tick draw the same number; equal inputs do always."""
    monkeypatch.setattr(births, "NUMBER_BITS", bits)
    plain = arms_race("births")
    plain["players"] = [{"species": plain["herbivores"][0]["name"], "budget": 900, "split_cost": 0, "spawn_cost": 0}]
    run, replaced = SideBySide(plain, 3), 0
    original = births.distinct

    def counted(numbers: Any) -> Any:
        nonlocal replaced
        found = original(numbers)
        replaced += int((found != numbers).sum())
        return found

    monkeypatch.setattr(births, "distinct", counted)
    for tick in range(1, 16):
        inputs = [{"kind": "release", "species": 0, "x": 3, "y": y, "population": 9} for y in (2, 2, 30)] * commands
        swarms = run.one.state["swarms.id"][run.one.state["swarms.species"] == 0]
        named = [int(one) for one in swarms[swarms != 0][:3]]
        inputs += [{"kind": "split", "swarm": one} for one in named for _ in range(2)] * commands
        inputs += [{"kind": "spawn", "species": 0, "x": 4, "y": 2, "population": 2}] * 2 * commands
        run.step(inputs if tick % 2 else None)
    assert replaced > 0


def test_ids_from_births_end_where_their_bits_do() -> None:
    """The tick of an id has 24 bits: the step that would need more is refused."""
    meadow = Meadow(small_meadow(ids="births"))
    meadow.state.set("tick", 0, births.TICK_LIMIT - 2)
    plant = [{"kind": "plant", "species": 0, "x": 2, "y": 0}]
    meadow.step([{**plant[0], "x": 1}])
    assert int(meadow.state["plants.id"].max()) >> 24 == births.TICK_LIMIT - 1
    with pytest.raises(ValueError, match=r'ids = "births" reach to tick 16,777,215, got a birth at tick 16,777,216'):
        meadow.step(plant)


def test_more_births_than_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for a free number would not end. As many as there are get all of them."""
    monkeypatch.setattr(births, "NUMBER_BITS", 1)
    plants = [{"kind": "plant", "species": 0, "x": x, "y": 0} for x in range(3)]
    with pytest.raises(ValueError, match=r'ids = "births" have 2 numbers in a tick, got 3 births'):
        Meadow(small_meadow(ids="births")).step(plants)
    keys = np.arange(2, dtype=np.int64)
    ids = births.birth_ids(Meadow(small_meadow(ids="births"))._context, births.Way.OFFSPRING, keys)
    assert sorted(int(one) & 1 for one in ids) == [0, 1]
