"""A meadow in shards is the meadow of one process: arena, events, ledger and figures at every tick."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharded_runs import SideBySide

from sim.kernel.simulation import restore
from sim.scenario.scenario_file import load_scenario
from sim.sharding import Exchange, Lockstep, ShardsError
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.shards import stripe_interaction, stripe_lifecycle, stripe_links, stripe_signalling
from sim.worlds.meadow.shards.sharded_meadow import ShardedMeadow
from sim.worlds.meadow.shards.stripe import Stripe

from sim_strategies import meadow_inputs, meadows, small_meadow

FEW_TICKS = 12


def scenario(name: str, **changes: Any) -> dict[str, Any]:
    """The configuration of a shipped scenario, to be changed."""
    return copy.deepcopy(load_scenario(name).config) | changes


def crowded(name: str, seed: int, capacity: int, count: int) -> dict[str, Any]:
    """A scenario in which many small swarms meet, with links at every tick."""
    plain = scenario(name, seed=seed)
    plain["crowding"]["carrying_capacity"] = capacity
    plain["links"]["interval"] = 1
    for kind in plain["herbivores"]:
        kind |= {"split_population": 4, "upkeep": 0.02}
    plain["swarms"] = [{"species": one["name"], "population": 3, "count": count} for one in plain["herbivores"]]
    return plain


@pytest.mark.sample(3)
@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("name", ["arms-race", "boom-and-crash", "quiet-meadow"])
@pytest.mark.seldom(0.18)
def test_the_shipped_scenarios_in_one_to_seven_shards(name: str, count: int) -> None:
    """From some tick on; tools/campaigns/sharded_runs.py runs all of each."""
    plain = scenario(name)
    inputs_at, first = WORLD.inputs(plain), random.Random(f"{name} {count}").choice((0, 40, 90))
    run = SideBySide(plain, count)
    begun = Meadow(plain)
    for tick in range(1, first + 1):
        begun.step(inputs_at(tick))
    for meadow in (run.one, run.many):
        restore(meadow, begun.state.snapshot())
    run.run(inputs_at, FEW_TICKS)


@pytest.mark.seldom(0.1)
def test_the_large_scenario() -> None:
    """512 × 512 cells, and loops that numba compiles."""
    plain = scenario("large")
    SideBySide(plain, 2).run(WORLD.inputs(plain), 3)


@pytest.mark.seldom(0.15)
def test_players_of_a_shipped_scenario() -> None:
    """Greedy and random policies see the whole state."""
    plain = scenario("arms-race")
    assert WORLD.play is not None
    players = [WORLD.play(plain, "caterpillar", "greedy"), WORLD.play(plain, "beetle", "random")]
    run = SideBySide(plain, 3)
    commands = 0
    for tick in range(1, 13):
        inputs = [one for player in players for one in player(tick, run.one.state)]
        commands += len(inputs)
        run.step(inputs)
    assert commands > 20


@pytest.mark.seldom(0.15)
@settings(deadline=None, max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.data(), st.integers(1, 40))
def test_any_meadow_with_any_inputs_and_any_cuts(data: st.DataObject, ticks: int) -> None:
    """Players, defences, wind, droughts; stripes of any height from the halo on."""
    plain = data.draw(meadows(height_max=14))
    height = plain["grid"]["height"]
    cuts = [0]
    while height - cuts[-1] >= 4 and data.draw(st.sampled_from((True, True, True, False))):
        cuts.append(data.draw(st.integers(cuts[-1] + 2, height - 2)))
    run = SideBySide(plain, 1, cuts=[*cuts, height])
    while run.tick < ticks and len(run.one.state["swarms.id"]) <= 200:
        run.step(data.draw(st.lists(meadow_inputs(plain), max_size=4)))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("seed", "capacity", "swarms"), [(1, 4, 1500), (2, 7, 2500), (3, 10, 3500), (4, 6, 4000)])
def test_chains_of_swarms_across_borders_take_more_than_two_rounds(seed: int, capacity: int, swarms: int) -> None:
    """A tick without links has three exchanges, and one a round of the interaction."""
    plain = crowded("boom-and-crash", seed, capacity, swarms) | {"links": {"interval": 1000}}
    engine = Lockstep()
    run = SideBySide(plain, 13, engine=engine)
    most = 0
    for _ in range(3):
        run.step(None)
        most = max(most, engine.exchanges)
    assert most >= 3 + 3


def two_rounds(stripe: Stripe, turns: Any) -> Exchange:
    """What would be right if no chain crossed more than one border."""
    inbox = yield [(True, *message) for message in stripe_interaction._addressed(stripe, turns.outgoing)]
    turns.act_again(np.concatenate([part[1] for part in inbox], axis=1))
    inbox = yield [(True, *message) for message in stripe_interaction._addressed(stripe, turns.outgoing)]
    return inbox


def no_rounds(stripe: Stripe, turns: Any) -> Exchange:
    """What would be right if no swarm cared for the heads of other shards."""
    inbox = yield [(True, *message) for message in stripe_interaction._addressed(stripe, turns.outgoing)]
    return inbox


def no_exchange_of_ids(stripe: Stripe, first_id: int, begun: list[Any]) -> None:
    """Ids of substances shard by shard, from the south."""
    before = sum(len(owners) for owners in begun[stripe.number + 1 :])
    ids = {first_id + place: first_id + before + place for place in range(len(begun[stripe.number]))}
    column = stripe.state["substances.id"]
    fresh = np.flatnonzero(column >= first_id)
    column[fresh] = [ids[one] for one in column[fresh].tolist()]
    stripe.renumber_substances(ids)
    stripe.state.set("next_substance_id", 0, first_id + sum(map(len, begun)))


def unsorted_winners(state: Any, dying: Any, parent_ids: Any, x: Any, y: Any) -> Any:
    """Seeds take cells that are not free."""
    del state, dying
    _, first = np.unique(y * 1000 + x, return_index=True)
    return np.sort(first) if len(parent_ids) else first


def chains() -> SideBySide:
    """Chains of swarms across borders."""
    return SideBySide(crowded("boom-and-crash", 4, 6, 4000) | {"links": {"interval": 1000}}, 13)


def many_links() -> SideBySide:
    """Plants that spread and link at each tick, until swarms and a drought kill many of them."""
    plain = scenario("boom-and-crash")
    plain["links"] = {"interval": 1, "cost": 0.1}
    return SideBySide(plain, 13)


def many_defences() -> SideBySide:
    """Plants that link, and defend themselves against many swarms."""
    plain = scenario("arms-race")
    plain["links"] = {"interval": 1, "cost": 0.1, "between_species": True}
    plain["swarms"] = [{**one, "count": 80} for one in plain["swarms"]]
    return SideBySide(plain, 12)


BROKEN = {
    "two rounds": (chains, stripe_interaction, "_settle", two_rounds),
    "no rounds": (chains, stripe_interaction, "_settle", no_rounds),
    "ids of substances by shard": (many_defences, stripe_signalling, "_number_substances", no_exchange_of_ids),
    "no look at the cell of a seed": (many_links, stripe_lifecycle, "win_cells", unsorted_winners),
    "no links broken beyond": (many_links, stripe_lifecycle, "_break_links", lambda *_: np.zeros((3, 0), np.int64)),
    "no roots beyond the border": (many_defences, stripe_signalling, "_shares", lambda *_: []),
    "no wave of links": (many_links, stripe_links, "_first_row", lambda *_: np.zeros((3, 56), np.int64)),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.seldom(0.15)
def test_a_broken_merge_is_noticed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests of this module would notice it."""
    world, module, name, replacement = BROKEN[what]
    monkeypatch.setattr(module, name, replacement)
    run = world()
    with pytest.raises((AssertionError, RuntimeError, IndexError, ValueError)):
        run.run(WORLD.inputs(run.one.origin.config), 60)


def test_a_halo_of_rows_that_is_not_sent_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow field, the totals and the signals of others."""
    monkeypatch.setattr(Stripe, "put_rows", lambda *_: None)
    plain = crowded("boom-and-crash", 4, 6, 700)
    with pytest.raises(AssertionError, match="differ"):
        SideBySide(plain, 3).run(WORLD.inputs(plain), 20)


def test_too_many_shards_are_refused() -> None:
    """A stripe holds at least its halo; one line says what is possible."""
    with pytest.raises(ShardsError, match=r"3 shards do not divide a world of 5 rows.* at most 2$"):
        ShardedMeadow(small_meadow(), 3)
    with pytest.raises(ShardsError, match="expected at least 1 shard, got 0"):
        ShardedMeadow(small_meadow(), 0)
    assert ShardedMeadow(small_meadow(), 2).shards.stripes.cuts == (0, 2, 5)


def test_refused_inputs_change_nothing() -> None:
    """As in one process: the next step goes on from the same state."""
    run = SideBySide(small_meadow(plants=[{"species": "moss", "x": 1, "y": 1}]), 2)
    run.step(None)
    for meadow in (run.one, run.many):
        with pytest.raises(ValueError, match="expected species as a whole number"):
            meadow.step([{"kind": "plant", "species": 7, "x": 0, "y": 0}])
    run.compare()
    run.step([{"kind": "plant", "species": 0, "x": 0, "y": 0}])


def test_a_restored_state_reaches_the_shards() -> None:
    """Back to an earlier tick, and on with other inputs."""
    plain = scenario("boom-and-crash")
    run = SideBySide(plain, 3)
    run.run(lambda _: [], 5)
    snapshot = run.one.state.snapshot()
    run.run(lambda _: [], 3)
    for meadow in (run.one, run.many):
        restore(meadow, snapshot)
    run.compare()
    run.run(lambda _: [{"kind": "wind", "east": 0, "south": 99_000}], 3)


def test_events_are_collected_only_if_they_are_wanted() -> None:
    """As in one process."""
    meadow = ShardedMeadow(small_meadow(plants=[{"species": "moss", "x": 1, "y": 1}]), 2)
    meadow.step([{"kind": "plant", "species": 0, "x": 0, "y": 0}])
    with pytest.raises(RuntimeError, match="events_wanted"):
        meadow.events()
    meadow.events_wanted = True
    meadow.step([{"kind": "plant", "species": 0, "x": 1, "y": 0}])
    assert [event["plant"] for event in meadow.events()] == [3]
