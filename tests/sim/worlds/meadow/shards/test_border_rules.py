"""Each rule of the meadow that reaches beyond its own cell, at the border of stripes; docs/meadow-rules.md has the table.

Each test shows that the rule acted across the border, and that all states, events and sums are those of one process.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from sharded_runs import SideBySide

from sim.worlds.meadow.shards.stripe import HALO

from oracle.followed_meadow import deer, defended
from sim_strategies import idle_flora, small_meadow

pytestmark = pytest.mark.share(0.22)

ALWAYS: dict[str, Any] = {"all": []}
ONE = 65_536


def moss(*cells: tuple[int, int]) -> list[dict[str, Any]]:
    """Plants at these (x, y)."""
    return [{"species": "moss", "x": x, "y": y} for x, y in cells]


def herd(x: int, y: int, population: int) -> dict[str, Any]:
    """A swarm."""
    return {"species": "deer", "x": x, "y": y, "population": population}


def tall(height: int = 4, width: int = 1, **changes: Any) -> dict[str, Any]:
    """A meadow of some rows in which nothing happens by itself."""
    return small_meadow(grid={"width": width, "height": height}, termination={"all_flora": False}, **changes)


def column(height: int, width: int = 1) -> list[tuple[int, int]]:
    """All cells."""
    return [(x, y) for y in range(height) for x in range(width)]


def events_of(run: SideBySide, kind: str) -> list[dict[str, Any]]:
    """The events of one kind of the last step."""
    return [event for event in run.many.events() if event["kind"] == kind]


def test_the_flow_field_needs_a_row_of_energies_and_toxins() -> None:
    """A plant attracts in the next row, which another shard owns; a toxin repels there."""
    plain = defended(tall(plants=moss((0, 1))), ALWAYS, kind="toxin", strength=4)
    run = SideBySide(plain, 2)
    run.step(None)
    assert run.many.state["biotope.flow"][2, 0] > 0
    run.step(None)
    assert run.many.state["biotope.flow"][2, 0] < 10 * ONE // 4


@pytest.mark.seldom(0.15)
def test_seeds_fly_to_the_owner_of_the_cell_and_pay_only_if_they_get_it() -> None:
    """In both directions; ids are ranks among the parents of all shards."""
    flora = idle_flora("moss", growth_percent=30, reproduction_interval=1, seed_distance_max=3)
    crossings, both = set(), 0
    for seed in range(6):
        run = SideBySide(tall(8, 2, flora=[flora], plants=moss((0, 3), (1, 4)), seed=seed), 4)
        rows: dict[int, int] = {1: 3, 2: 4}
        for _ in range(12):
            run.step(None)
            born = events_of(run, "plant_born")
            rows |= {event["plant"]: event["y"] for event in born}
            shards = [(rows[event["mother"]] // 2, event["y"] // 2) for event in born]
            crossings |= {(there > here) - (there < here) for here, there in shards}
            both += len({there for _, there in shards}) > 1
            assert [event["mother"] for event in born] == sorted(event["mother"] for event in born)
    assert crossings == {-1, 0, 1}
    assert both


def test_the_wind_carries_seeds_over_a_whole_shard() -> None:
    """As far as seed_distance_max twice: further than a stripe is high."""
    flora = idle_flora("moss", growth_percent=30, reproduction_interval=1, seed_distance_min=3, seed_distance_max=3)
    plain = tall(12, 7, flora=[flora], plants=moss((3, 1)), wind={"south": 2}, dispersal={"flight_ticks": 2})
    run = SideBySide(plain, 6)
    run.run(lambda _: [], 8)
    assert run.many.state["plants.y"].max() >= 6


def test_a_cell_is_free_for_the_seed_of_a_higher_id_than_that_of_the_plant_that_dies() -> None:
    """Its owner decides, also for a parent of another shard."""
    flora = [
        idle_flora("moss", growth_percent=60, reproduction_interval=1, seed_distance_max=2),
        idle_flora("fern", base_energy=4.5, growth_percent=10),
    ]
    ferns = [{"species": "fern", "x": x, "y": y} for x in range(4) for y in (1, 2)]
    taken_over = 0
    for seed in range(8):
        plants = [*moss((1, 0), (2, 3)), *ferns]
        run = SideBySide(tall(4, 4, flora=flora, plants=plants, seed=seed), 2)
        rows = {1: 0, 2: 3}
        for tick in range(1, 6):
            run.step([{"kind": "drought", "ticks": 9, "percent": 150}] if tick == 1 else None)
            left = {(event["x"], event["y"]) for event in events_of(run, "plant_died")}
            born = events_of(run, "plant_born")
            rows |= {event["plant"]: event["y"] for event in born}
            over = [event for event in born if (event["x"], event["y"]) in left]
            taken_over += sum(rows.get(event["mother"], event["y"]) // 2 != event["y"] // 2 for event in over)
    assert taken_over


def test_links_are_one_wave_from_north_to_south() -> None:
    """In a column of seven the pairs are rows 0 and 1, 2 and 3, 4 and 5, wherever the borders are."""
    plain = tall(7, plants=moss(*column(7)), links={"interval": 1, "cost": 1})
    for cuts in ((0, 3, 5, 7), (0, 2, 5, 7), (0, 3, 7)):
        run = SideBySide(plain, 1, cuts=cuts)
        run.step(None)
        assert [(event["plant"], event["other"]) for event in events_of(run, "linked")] == [(1, 2), (3, 4), (5, 6)]
        run.step(None)
        assert [(event["plant"], event["other"]) for event in events_of(run, "linked")] == [(2, 3), (4, 5), (6, 7)]


def test_links_to_plants_that_die_are_broken_beyond_the_border() -> None:
    """Also if both die in one tick: then the event comes once."""
    flora = [idle_flora("moss"), idle_flora("fern", base_energy=7, growth_percent=1)]
    plants = [*moss((0, 1), (1, 2)), *({"species": "fern", "x": x, "y": 2 - x} for x in (0, 1))]
    plants += [{"species": "fern", "x": 2, "y": y} for y in (1, 2)]
    plain = tall(4, 3, flora=flora, plants=plants, links={"interval": 5, "cost": 2, "between_species": True})
    run = SideBySide(plain, 2)
    unlinked = []
    for tick in range(1, 40):
        run.step([{"kind": "drought", "ticks": 39, "percent": 200}] if tick == 6 else None)
        unlinked += events_of(run, "unlinked")
    assert len(unlinked) >= 3


def test_swarms_move_to_another_shard_by_its_flow() -> None:
    """A plant in the next row attracts a swarm; it feeds there from the next tick on."""
    run = SideBySide(tall(4, plants=moss((0, 2)), swarms=[herd(0, 1, 3)], **deer(consumption_rate=1)), 2)
    fed = []
    for _ in range(6):
        run.step(None)
        fed += events_of(run, "fed")
    assert run.many.state["swarms.y"][0] == 2
    assert fed


def test_heads_that_others_put_into_a_cell_crowd_it_at_their_turn() -> None:
    """Swarms of both shards want to the two middle rows, which hold few heads."""
    herds = [herd(x, y, 2) for x in range(4) for y in (0, 1, 2, 3)]
    plain = tall(4, 4, plants=moss((1, 1), (1, 2)), swarms=herds, crowding={"carrying_capacity": 3}, **deer())
    run = SideBySide(plain, 2)
    places = []
    for _ in range(25):
        places.append(run.many.state["swarms.y"] // 2)
        run.step(None)
    assert any((earlier != later).any() for earlier, later in pairwise(places))


def test_daughters_are_born_in_other_shards_with_the_ranks_of_their_mothers() -> None:
    """Some are two rows from where their mother began the tick, which is as far as the halo reaches."""
    herds = [herd(x, y, 4) for x in range(4) for y in (1, 2)]
    kind = deer(split_population=4, upkeep=0)
    farthest, both = 0, 0
    for seed in range(8):
        run = SideBySide(tall(6, 4, seed=seed, plants=moss((0, 0), (3, 5)), swarms=herds, **kind), 3)
        state = run.one.state
        began = dict(zip(state["swarms.id"].tolist(), state["swarms.y"].tolist(), strict=True))
        run.step(None)
        born = events_of(run, "swarm_born")
        both += len({event["y"] // 2 for event in born}) > 1
        farthest = max([farthest, *(abs(event["y"] - began[event["mother"]]) for event in born)])
    assert farthest == HALO
    assert both


def test_substances_get_ids_in_the_order_of_plants_of_all_shards() -> None:
    """Plants of both shards begin in one tick, and ids are those of one process."""
    run = SideBySide(defended(tall(plants=moss(*column(4))), ALWAYS, kind="signal", synthesis_ticks=1), 2)
    run.step(None)
    assert [(event["defence"], event["plant"]) for event in events_of(run, "substance_begun")] == [
        (number, number) for number in (1, 2, 3, 4)
    ]


def test_roots_bring_signals_across_the_border() -> None:
    """Half of what the plant of row 1 gives off is in the cell of its partner in row 2."""
    plain = tall(4, 1, plants=moss((0, 1), (0, 2)), links={"interval": 1, "cost": 1})
    when = {"herbivore": "deer", "heads": 1}
    run = SideBySide(defended(plain | deer() | {"swarms": [herd(0, 1, 1)]}, when, kind="signal", strength=8), 2)
    for _ in range(3):
        run.step(None)
        assert run.many.state["substances.owner"].tolist() == [1]
    assert run.many.state["biotope.signals"][0, 2, 0] > 0


def test_the_wind_carries_signals_over_whole_shards() -> None:
    """Five rows in a tick, while a stripe has two: also a wind that only an input brings."""
    when = {"herbivore": "deer", "heads": 1}
    plain = tall(12, 2, plants=moss((0, 1), (1, 10)), swarms=[herd(0, 1, 1), herd(1, 10, 1)], **deer())
    run = SideBySide(defended(plain, when, kind="signal", strength=1000), 6)
    run.step([{"kind": "wind", "east": 0, "south": 5 * ONE}])
    assert run.many.state["biotope.signals"][0, 6, 0] > 0
    run.step([{"kind": "gust", "x": 1, "y": 4, "radius": 1, "east": 0, "south": -6 * ONE}])
    assert run.many.state["biotope.signals"][0, 4, 1] > 0
    run.run(lambda _: [], 5)


def with_player(plain: dict[str, Any], **player: Any) -> dict[str, Any]:
    """The meadow with a player of the deer."""
    return plain | {"players": [{"species": "deer", "budget": 9, "spawn_cost": 1, "split_cost": 1, **player}]}


def test_players_see_across_borders() -> None:
    """Three rows away, in a shard that has no swarm at all."""
    run = SideBySide(with_player(tall(8, 2, plants=moss((0, 4)), swarms=[herd(0, 1, 1)], **deer()), sight=3), 4)
    run.step(None)
    assert run.many.state["sight.plants"][0, 4, 0] > 0
    assert run.many.state["sight.last_seen"][0, 5, 0] < 1


def test_commands_of_players_are_one_sequence() -> None:
    """Budgets are charged in the sorted order; a daughter of this tick can divide, too; a spawn needs sight now."""
    herds = [herd(1, 1, 9), herd(1, 6, 9)]
    plain = with_player(tall(8, 3, plants=moss((0, 0)), swarms=herds, **deer()), budget=7, budget_max=7, sight=1)
    splits = [{"kind": "split", "swarm": swarm} for swarm in (1, 2, 3, 4, 9)]
    spawns = [
        {"kind": "spawn", "species": 0, "x": x, "y": y, "population": 1} for x, y in ((1, 2), (2, 3), (2, 4), (2, 7))
    ]
    run = SideBySide(plain, 4)
    run.step([*splits, *spawns, {"kind": "steer", "swarm": 2, "direction": 2}])
    born = events_of(run, "swarm_born")
    assert [event["swarm"] for event in born] == list(range(3, 3 + len(born)))
    assert {event["by"] for event in born} == {"split", "spawn"}
    assert run.many.state["player_budget"][0] == 0
    run.run(lambda _: [*splits, *spawns], 3)


def test_a_plant_of_an_input_takes_an_id_only_if_its_cell_is_free() -> None:
    """The owner knows, and all count."""
    run = SideBySide(tall(4, 2, plants=moss((0, 0), (0, 3))), 2)
    cells = ((0, 0), (1, 0), (1, 0), (0, 3), (1, 3), (1, 1))
    run.step([{"kind": "plant", "species": 0, "x": x, "y": y} for x, y in cells])
    assert [(event["plant"], event["x"], event["y"]) for event in events_of(run, "plant_born")] == [
        (3, 1, 0), (4, 1, 1), (5, 1, 3),
    ]  # fmt: skip


def test_releases_culls_and_gusts_reach_over_borders() -> None:
    """Each shard does its part of the square; a culled swarm is removed, and its row is used again."""
    run = SideBySide(tall(6, 2, swarms=[herd(0, y, 1 + y) for y in range(6)], **deer()), 3)
    run.step(
        [
            {"kind": "cull", "species": 0, "x": 0, "y": 2, "radius": 1, "percent": 100},
            {"kind": "gust", "x": 0, "y": 3, "radius": 1, "east": 3, "south": 7},
            {"kind": "release", "species": 0, "x": 1, "y": 5, "population": 2},
            {"kind": "release", "species": 0, "x": 1, "y": 0, "population": 2},
        ]
    )
    assert len(events_of(run, "swarm_died")) == 3
    assert run.many.state["biotope.wind"][1, :, 0].tolist() == [0, 0, 7, 7, 7, 0]
    run.run(lambda tick: [{"kind": "release", "species": 0, "x": 0, "y": tick % 6, "population": 1}], 5)


@pytest.mark.parametrize(
    "termination",
    [{"flora_extinct": ["moss"]}, {"all_flora": True}, {"herbivores_extinct": ["deer"]}, {"all_herbivores": True},
     {"flora_energy_max": 25}, {"population_max": 3}],
)  # fmt: skip
def test_a_run_ends_by_what_all_shards_have(termination: dict[str, Any]) -> None:
    """No shard alone knows: it ends at the tick of one process, and its last event says so."""
    eats = deer(consumption_rate=1, upkeep=0.75, energy_min=1)
    plain = tall(4, plants=moss((0, 0), (0, 3)), swarms=[herd(0, 0, 1), herd(0, 3, 1)], **eats)
    flora = idle_flora("moss", growth_percent=20) if "energy" in str(termination) else idle_flora("moss")
    run = SideBySide(plain | {"termination": {"all_flora": False} | termination, "flora": [flora]}, 2)
    for _ in range(80):
        run.step([{"kind": "release", "species": 0, "x": 0, "y": 2, "population": 1}] if run.tick == 2 else None)
        if run.many.ended() is not None:
            break
    assert events_of(run, "ended")
