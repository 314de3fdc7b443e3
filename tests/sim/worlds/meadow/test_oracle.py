"""A second meadow in plain Python must agree with the first in every field at every tick; and must itself be correct.

The numbers in the tests of the oracle were worked out by hand from docs/meadow-rules.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD
from sim.worlds.meadow.config.meadow import read_config

from oracle.followed_meadow import FollowedMeadow, deer, defended, first_difference, one_cell, state_of
from oracle.naive_meadow import NaiveMeadow
from oracle.naive_state import draw, pick
from sim_strategies import idle_flora, meadow_inputs, meadows, philox_block, small_meadow

ONE = 65_536
SWARMS_MAX = 100  # With more swarms the oracle is too slow: the run ends.
ALWAYS: dict[str, Any] = {"all": []}

Run = Callable[..., NaiveMeadow]


@pytest.fixture(params=[lambda plain: NaiveMeadow(read_config(plain)), FollowedMeadow], ids=["oracle", "both"])
def run(request: pytest.FixtureRequest) -> Run:
    """Makes an oracle after one tick per list of inputs; alone, and compared with the fast meadow."""

    def make(plain: dict[str, Any], *inputs: list[dict[str, Any]]) -> NaiveMeadow:
        naive: NaiveMeadow = request.param(plain)
        for sent in inputs:
            naive.step(sent)
        return naive

    return make


@pytest.mark.seldom(0.15)
@settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), st.sampled_from((20, 100, 300)))
def test_both_meadows_have_the_same_state_at_every_tick(data: st.DataObject, ticks: int) -> None:
    """Every field and the state hash after every tick."""
    plain = data.draw(meadows(swarms=data.draw(st.sampled_from((True,) * 5 + (False,)))))
    inputs = data.draw(st.lists(st.lists(meadow_inputs(plain), max_size=4), min_size=5, max_size=40))
    followed = FollowedMeadow(plain)
    while followed.tick < ticks and len(followed.living("swarms")) <= SWARMS_MAX:
        followed.step(inputs[followed.tick] if followed.tick < len(inputs) else [])


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize(
    "name", ["arms-race", *(pytest.param(name, marks=pytest.mark.long) for name in ("quiet-meadow", "boom-and-crash"))]
)
def test_the_shipped_scenarios_are_those_of_the_oracle(name: str) -> None:
    """Sixty ticks with their scheduled inputs: the golden hashes of test_exactness.py are correct, too."""
    config = load_scenario(name).config
    followed, inputs_at = FollowedMeadow(config), WORLD.inputs(config)
    for tick in range(1, 61):
        followed.step(inputs_at(tick))


# --- the comparison


def test_a_difference_is_named_by_tick_field_and_index(run: Run) -> None:
    """A different number and an additional row are named; equal states have no difference."""
    plain = small_meadow(plants=[{"species": "moss", "count": 3}], substances=[{"name": "musk", "kind": "signal"}])
    naive = run(plain, [], [])
    state = state_of(naive)
    assert first_difference(state, naive) is None

    state["biotope.signals"][0, 3, 4] = 7
    assert first_difference(state, naive) == "tick 2, biotope.signals[0, 3, 4]: 7 instead of 0"
    state.add_rows("plants", 1)
    assert first_difference(state, naive) == "tick 2, plants.energy: 4 rows instead of 3"


# --- the oracle: numbers and places


def test_words_become_numbers() -> None:
    """pick takes the high part of a product; draw finds the first weight whose sum passes it."""
    assert [pick(word, 5) for word in (0, 858_993_459, 858_993_460, 2**32 - 1)] == [0, 0, 1, 4]
    assert [draw(word, [1, 0, 3]) for word in (0, 2**30 - 1, 2**30, 2**32 - 1)] == [0, 0, 2, 2]


def test_words_are_keyed_by_seed_phase_entity_tick_and_block() -> None:
    """Numbers above 2**32 go where the rules say."""
    naive = NaiveMeadow(read_config(small_meadow(seed=5 + (6 << 32))))
    naive.tick = 7 + (8 << 32)
    entity = 9 + (10 << 32)

    words = [naive.word(2, entity, number, block=11) for number in range(4)]  # type: ignore[arg-type]
    assert tuple(words) == philox_block((11, 9, 7, 0x0208_000A), (5, 6))


def test_placement(run: Run) -> None:
    """Plants by species, y and x, the second one for a cell left out, then the scattered; swarms with population."""
    plants = [
        {"species": "fern", "x": 0, "y": 0},
        {"species": "moss", "x": 1, "y": 1},
        {"species": "moss", "x": 2, "y": 0},
        {"species": "moss", "x": 1, "y": 1},
        {"species": "moss", "count": 9},
        {"species": "fern", "count": 9},
    ]
    swarms = [
        {"species": "deer", "x": 0, "y": 1, "population": 3},
        {"species": "deer", "x": 2, "y": 0, "population": 5},
        {"species": "deer", "x": 0, "y": 1, "population": 2},
    ]
    plain = small_meadow(
        grid={"width": 3, "height": 2},
        flora=[idle_flora("moss"), idle_flora("fern")],
        **deer(diet=[[True, False]]),
        plants=plants,
        swarms=swarms,
    )
    naive = run(plain)

    found = [(plant["species"], plant["x"], plant["y"]) for plant in naive.living("plants")]
    assert found == [(0, 2, 0), (0, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 2, 1)]
    assert [(swarm["x"], swarm["population"]) for swarm in naive.living("swarms")] == [(2, 5), (0, 2), (0, 3)]
    assert (naive.births, naive.front, naive.flow) == ([0, 0], 1, [[0, 0, 0], [0, 0, 0]])
    assert naive.total == [[[10 * ONE] * 3] * 2] * 2


def test_more_scattered_swarms_than_cells_go_round(run: Run) -> None:
    """Seven in three cells: three in the cell of the smallest word, two in each other."""
    swarms = [{"species": "deer", "population": 1, "count": 6}, {"species": "deer", "population": 9, "count": 1}]
    naive = run(small_meadow(grid={"width": 3, "height": 1}, **deer(), swarms=swarms))
    words = [philox_block((16, number, 0, 0), (1, 0))[0] for number in range(3)]
    first = words.index(min(words))

    cells = [swarm["x"] for swarm in naive.living("swarms")]
    assert cells == sorted(cells)
    assert [cells.count(number) for number in range(3)] == [3 if number == first else 2 for number in range(3)]
    assert max(naive.living("swarms"), key=lambda swarm: swarm["population"])["x"] == first  # The seventh, k = 6.


# --- the oracle: flow, plants, links


def test_flow_of_two_plants(run: Run) -> None:
    """A cell's own and half the mean of its neighbours; what is camouflaged is multiplied, its neighbours are not."""
    plants = [{"species": "moss", "x": 0, "y": 0}, {"species": "fern", "x": 2, "y": 1}]
    flora = [idle_flora("moss"), idle_flora("fern", camouflage=0.3)]
    naive = run(small_meadow(grid={"width": 3, "height": 2}, flora=flora, plants=plants), [])

    assert naive.flow == [[655_360, 109_226, 163_840], [163_840, 109_226, 196_610]]


def test_growth_drought_and_death(run: Run) -> None:
    """25 % of 10 is gained; by 150 % drought half of that is lost until the plants die; dead plants leave no energy in the layers."""
    plain = small_meadow(
        flora=[idle_flora("moss", growth_percent=25, max_energy=12)],
        plants=[{"species": "moss", "x": 1, "y": 0}, {"species": "moss", "x": 2, "y": 0}],
        links={"interval": 1, "cost": 1},
    )
    naive = run(plain, [])
    assert [(one["energy"], one["links"]) for one in naive.living("plants")] == [
        (11 * ONE, [2, 0, 0, 0]),  # 12 at most, less the price of the link.
        (11 * ONE, [0, 0, 1, 0]),
    ]

    naive.step([{"kind": "drought", "ticks": 6, "percent": 150}, {"kind": "set", "parameter": 0, "value": 200 * ONE}])
    assert [one["energy"] for one in naive.living("plants")] == [17 * ONE // 2] * 2  # 11 − 2.5 · 2 · 0.5
    naive.step([])
    assert naive.living("plants")[0]["energy"] == 6 * ONE
    naive.step([])
    assert (naive.living("plants"), naive.deaths, naive.drought_ticks) == ([], [[2, 0, 0, 0, 0]], 3)
    assert naive.energy == [[[[0] * 6] * 5]] * 2


def test_one_seed(run: Run) -> None:
    """A ring of distance 1 has eight cells; wind of 0.5 to the east flies 0.625 cells, which is 1, and as far north."""
    plain = small_meadow(
        flora=[idle_flora("moss", reproduction_interval=2, seed_distance_max=1)],
        seed=2,
        plants=[{"species": "moss", "x": 2, "y": 2}],
        wind={"east": 0.5, "south": -0.5},
        dispersal={"flight_ticks": 1.25},
    )
    ring = [(-1, -1), (0, -1), (1, -1), (-1, 0), (1, 0), (-1, 1), (0, 1), (1, 1)]
    dx, dy = ring[philox_block((0, 1, 2, 1 << 24), (2, 0))[1] >> 29]
    naive = run(plain, [], [])

    parent, child = naive.living("plants")
    assert (parent["energy"], parent["last_reproduction"], parent["loss_cause"]) == (7 * ONE, 2, 1)
    assert (child["x"], child["y"]) == (2 + dx + 1, 2 + dy - 1)
    assert (child["energy"], child["last_reproduction"], child["loss_cause"]) == (10 * ONE, 2, 0)
    assert naive.births == [1]


def test_links_of_a_square(run: Run) -> None:
    """Each gets at most one link in a pass: the upper two east, so the lower two east; the next pass goes south."""
    cells = [{"species": "moss", "x": x, "y": y} for x in (0, 1) for y in (0, 1)]
    plain = small_meadow(plants=cells, links={"interval": 2, "cost": 2.75})

    links = [one["links"] for one in run(plain, [], []).living("plants")]
    assert links == [[2, 0, 0, 0], [0, 0, 1, 0], [4, 0, 0, 0], [0, 0, 3, 0]]
    naive = run(plain, *[[]] * 4)
    assert [one["links"] for one in naive.living("plants")] == [[2, 3, 0, 0], [0, 4, 1, 0], [4, 0, 0, 1], [0, 0, 3, 2]]
    assert [one["energy"] for one in naive.living("plants")] == [9 * ONE // 2] * 4  # The threshold is 4.


# --- the oracle: swarms


def test_a_swarm_eats_reproduces_and_divides(run: Run) -> None:
    """2 + 4 eaten is enough for 2 more heads at 2 each; 3 heads divide into 2 and 1. The back alone knows of the meal."""
    naive = run(one_cell(1, **deer(consumption_rate=4, split_population=3)), [])

    mother, daughter = naive.living("swarms")
    assert (mother["population"], mother["energy"], mother["initial_population"]) == (2, 3 * ONE, 1)
    assert (daughter["population"], daughter["energy"], daughter["initial_population"]) == (1, 3 * ONE, 1)
    assert naive.heads_born == [2]
    assert naive.living("plants")[0]["loss_cause"] == 4
    assert naive.front == 0
    assert [side[0] for side in naive.energy] == [[[10 * ONE]], [[6 * ONE]]]
    assert naive.total == [[[10 * ONE]]] * 2


def test_a_swarm_starves(run: Run) -> None:
    """3 heads with 6 that need 9: 3 are missing, which is 1.5 heads, rounded up."""
    naive = run(one_cell(3, **deer(upkeep=3)), [])
    assert [(one["population"], one["energy"]) for one in naive.living("swarms")] == [(1, 0)]
    assert naive.heads_lost == [[2, 0, 0]]

    naive.step([])
    assert (naive.living("swarms"), naive.rows["swarms"], naive.heads_lost) == ([], [None], [[3, 0, 0]])


def test_a_draw_goes_where_the_flow_is(run: Run) -> None:
    """Flow 10, 2.5 … : the swarm in the middle of a row goes east to the plant unless its word is very small."""
    plain = small_meadow(
        grid={"width": 3, "height": 1},
        **deer(velocity=3),
        plants=[{"species": "moss", "x": 2, "y": 0}],
        swarms=[{"species": "deer", "x": 1, "y": 0, "population": 1}],
    )
    word = philox_block((0, 1, 1, 2 << 24), (1, 0))[0]
    weights = [163_841, 655_361, 1]  # Here 10 / 4, east 10, west 0.
    mark = word * sum(weights) >> 32
    wanted = 1 if mark < weights[0] else 2 if mark < weights[0] + weights[1] else 0
    naive = run(plain, [])

    assert naive.flow == [[0, 163_840, 655_360]]
    assert [(one["x"], one["cooldown"]) for one in naive.living("swarms")] == [(wanted, 2)]


def test_a_steered_draw_is_biased(run: Run) -> None:
    """Without any flow all weights are 1, and 16 for the cell asked for, of which the last input speaks."""
    plain = small_meadow(grid={"width": 3, "height": 1}, **deer(velocity=2), players=[{"species": "deer"}])
    plain["swarms"] = [{"species": "deer", "x": 1, "y": 0, "population": 1}]
    mark = philox_block((0, 1, 1, 2 << 24), (1, 0))[0] * 18 >> 32
    wanted = 1 if mark < 1 else 2 if mark < 2 else 0
    steers = [{"kind": "steer", "swarm": 1, "direction": direction} for direction in (3, 0)]
    naive = run(plain, steers)
    assert [(one["x"], one["steer"]) for one in naive.living("swarms")] == [(wanted, 0)]

    naive.step(steers)  # It waits, and forgets what it was asked for.
    assert [(one["x"], one["steer"]) for one in naive.living("swarms")] == [(wanted, 0)]


def test_crowded_swarms_walk_and_taste_repels(run: Run) -> None:
    """Three heads where two have room walk for one tick, to their own cell here, and eat, which calms them."""
    crowded = run(one_cell(3, **deer(velocity=2), crowding={"carrying_capacity": 2}), [])
    assert [(one["repelled"], one["cooldown"]) for one in crowded.living("swarms")] == [(0, 1)]

    taste = run(one_cell(3, **deer(diet=[[False]]), crowding={"taste_ticks": 4}), [])
    assert [one["repelled"] for one in taste.living("swarms")] == [4]
    taste.step([])
    assert [one["repelled"] for one in taste.living("swarms")] == [4]


def test_cull_and_players(run: Run) -> None:
    """Half of 7 is 3 heads and 6 of 14 energy; splitting costs 2 of 3, which leaves nothing for a head at 2."""
    player = {"species": "deer", "budget": 3, "budget_max": 5, "income": 2, "spawn_cost": 2, "split_cost": 2}
    naive = run(
        one_cell(7, **deer(), players=[player]),
        [
            {"kind": "spawn", "species": 0, "x": 0, "y": 0, "population": 1},
            {"kind": "split", "swarm": 1},
            {"kind": "cull", "species": 0, "x": 0, "y": 0, "radius": 0, "percent": 50},
        ],
    )
    assert [(one["population"], one["energy"]) for one in naive.living("swarms")] == [(2, 4 * ONE), (2, 4 * ONE)]
    assert (naive.heads_lost, naive.budget) == ([[0, 0, 3]], [3 * ONE])
    naive.step([])
    naive.step([])
    assert naive.budget == [5 * ONE]


def test_a_million_heads_are_all_that_there_may_be(run: Run) -> None:
    """10 eaten would be 5 more heads; there is room for one, and a million divides."""
    naive = run(one_cell(999_999, **deer(consumption_rate=1, split_population=1_000_000)), [])
    assert [(one["population"], one["energy"]) for one in naive.living("swarms")] == [(500_000, 1_000_004 * ONE)] * 2
    assert naive.heads_born == [1]


def test_a_daughter_takes_room_at_once(run: Run) -> None:
    """The first of two swarms becomes 2 and 1 heads; with the second that is more than 3, which has to walk."""
    eater = deer(consumption_rate=8, velocity=2, split_population=3)
    for capacity, cooldown in ((3, 1), (4, 0)):
        naive = run(one_cell(1, 1, **eater, crowding={"carrying_capacity": capacity}), [])
        assert [one["population"] for one in naive.living("swarms")] == [2, 2, 1, 1]
        assert [one["cooldown"] for one in naive.living("swarms")] == [0, cooldown, 0, 0]


def test_players_pay_for_what_they_can_see(run: Run) -> None:
    """A split at 7; or heads at 2 each, two cells away but not farther, until the budget is gone. A gust is a square."""
    player = {"species": "deer", "budget": 10, "spawn_cost": 2, "split_cost": 7, "sight": 2, "bias": 16}
    plain = small_meadow(**deer(), players=[player])
    plain["swarms"] = [{"species": "deer", "x": 0, "y": 0, "population": 4}]
    far = {"kind": "spawn", "species": 0, "x": 0, "y": 3, "population": 1}  # Sorted first: what is put down sees, too.
    gust = {"kind": "gust", "x": 0, "y": 4, "radius": 1, "east": -7, "south": 9}
    spawn = {"kind": "spawn", "species": 0, "x": 2, "y": 2, "population": 2}
    split = {"kind": "split", "swarm": 1}
    naive = run(plain, [split, split, gust])
    assert [one["population"] for one in naive.living("swarms")] == [2, 2]
    assert naive.budget == [3 * ONE]
    assert naive.wind == [
        [[0] * 6] * 3 + [[-7, -7, 0, 0, 0, 0]] * 2,
        [[0] * 6] * 3 + [[9, 9, 0, 0, 0, 0]] * 2,
    ]

    naive = run(plain, [far, spawn, spawn, spawn])
    assert [(one["population"], one["energy"]) for one in naive.living("swarms")] == [(4, 8 * ONE), *[(2, 4 * ONE)] * 2]
    assert naive.budget == [2 * ONE]


# --- the oracle: defences


def test_a_signal_spreads(run: Run) -> None:
    """1 in one cell: 4, 2 and 1 sixteenths, half of it left, one cell to the east; 1/32 is not below epsilon."""
    plain = small_meadow(plants=[{"species": "moss", "x": 1, "y": 1}], wind={"east": 0.5})
    naive = run(defended(plain, ALWAYS, kind="signal"), [])

    wide = [0, 2048, 4096, 2048, 0, 0]
    assert naive.signals == [[wide, [0, 4096, 8192, 4096, 0, 0], wide, [0] * 6, [0] * 6]]
    plain["signalling"] = {"epsilon": 0.03126}
    narrow = [0, 0, 4096, 0, 0, 0]
    assert run(defended(plain, ALWAYS, kind="signal"), []).signals[0][:3] == [
        narrow,
        [0, 4096, 8192, 4096, 0, 0],
        narrow,
    ]


def test_a_signal_has_a_ceiling(run: Run) -> None:
    """1000 · 1000 is cut to 1024, of which a single cell keeps four sixteenths; an eighth of that is 32."""
    plain = {**one_cell(), "signalling": {"emission": 1000, "decay": 0.125}, "swarms": []}
    naive = run(defended(plain, ALWAYS, kind="signal", strength=1000), [], [])
    assert naive.signals == [[[32 * ONE]]]


def test_a_signal_goes_along_a_link(run: Run) -> None:
    """Of 3277, half (1638) goes to the neighbour; (4 · 1639 + 2 · 1638) // 16 and the mirror of it are both 614."""
    plants = [{"species": "moss", "x": 0, "y": 0}, {"species": "fern", "x": 1, "y": 0}]
    plain = small_meadow(
        grid={"width": 2, "height": 1},
        flora=[idle_flora("moss"), idle_flora("fern")],
        plants=plants,
        links={"interval": 1, "between_species": True},
        signalling={"emission": 0.5, "decay": 1, "epsilon": 0},
    )
    assert run(defended(plain, ALWAYS, kind="signal", strength=0.1), []).signals == [[[614, 614]]]
    plain["links"] = {"interval": 2}
    assert run(defended(plain, ALWAYS, kind="signal", strength=0.1), []).signals == [[[819, 409]]]


def test_a_toxin_kills_and_repels(run: Run) -> None:
    """Half lethal at half concentration: a quarter of 10 heads, rounded down; the flow knows of it a tick later."""
    plain = one_cell(10, **deer(diet=[[False]]), signalling={"emission": 0.5})
    when = {"herbivore": "deer", "heads": 10}
    naive = run(defended(plain, when, kind="toxin", lethality=0.5, repellence=3), [])

    assert [(one["population"], one["energy"], one["repelled"]) for one in naive.living("swarms")] == [(8, 16 * ONE, 3)]
    assert (naive.heads_lost, naive.toxins, naive.flow) == ([[0, 2, 0]], [[[ONE // 2]]], [[10 * ONE]])
    naive.step([])
    assert (naive.toxins, naive.flow) == ([[[0]]], [[19 * ONE // 2]])  # 8 heads trigger nothing: it is over at once.


def test_a_toxin_takes_no_more_energy_than_there_is(run: Run) -> None:
    """8 − 3 of upkeep is less than the 6 that three of four heads hold; what taste did to the rest stays longer."""
    plain = one_cell(4, **deer(diet=[[False]], upkeep=0.75), crowding={"taste_ticks": 4})
    naive = run(defended(plain, ALWAYS, kind="toxin", lethality=0.75, repellence=3), [])
    assert [(one["population"], one["energy"], one["repelled"]) for one in naive.living("swarms")] == [(1, 0, 4)]


def test_a_defence_costs_stops_and_kills(run: Run) -> None:
    """10 − 4 while triggered; 6 − 4 is below the threshold of 4: it stops; triggered again it takes the plant to 2."""
    plain = small_meadow(plants=[{"species": "moss", "x": 1, "y": 1}])
    plain = defended(plain, {"not": {"substance": "own"}}, kind="toxin", energy_cost=4, aftereffect_ticks=5)
    naive = run(plain, [])
    (own,) = naive.living("substances")
    assert (own["active"], own["aftereffect"], naive.living("plants")[0]["energy"]) == (1, 5, 6 * ONE)
    naive.step([])
    assert (naive.rows["substances"], naive.toxins[0][1][1], naive.living("plants")[0]["energy"]) == (
        [None],
        0,
        6 * ONE,
    )
    naive.step([])
    (own,) = naive.living("substances")
    assert (own["id"], len(naive.rows["substances"]), naive.living("plants")[0]["energy"]) == (2, 1, 2 * ONE)
    naive.step([])
    assert (naive.deaths, naive.defence_cost, naive.rows["substances"]) == ([[0, 0, 0, 1, 0]], [8 * ONE], [None])


def test_synthesis_takes_its_ticks_and_the_effect_lasts(run: Run) -> None:
    """Two triggered ticks to begin; when the swarm is gone, two ticks of aftereffect, then the end."""
    plain = one_cell(1, **deer())
    substance = {"kind": "toxin", "synthesis_ticks": 2, "aftereffect_ticks": 2}
    naive = run(defended(plain, {"herbivore": "deer", "heads": 1}, **substance))
    cull = {"kind": "cull", "species": 0, "x": 0, "y": 0, "radius": 0, "percent": 100}

    seen = []
    for tick in range(1, 7):
        naive.step([cull] if tick == 4 else [])
        seen += [(one["synthesis"], one["active"], one["aftereffect"]) for one in naive.living("substances")]
    assert seen == [(1, 0, 0), (0, 1, 2), (0, 1, 2), (0, 1, 1), (0, 1, 0)]


def test_the_first_reason_ends_a_run(run: Run) -> None:
    """None at first; Z6 and Z7 by their bounds; what is earlier in the list wins; the last tick before all."""
    bounds = {"flora_energy_max": 9, "population_max": 0}
    assert run(one_cell(1, **deer())).ended() is None
    assert run(one_cell(1, **deer(), termination=bounds)).ended() == "Z6"
    assert run(one_cell(1, **deer(), termination={**bounds, "flora_energy_max": 10})).ended() == "Z7"
    assert run(small_meadow(**deer())).ended() == "Z3"
    lists = {"flora_extinct": ["moss"], "herbivores_extinct": ["deer"], "all_herbivores": True}
    assert run(small_meadow(**deer(), termination=lists)).ended() == "Z2"
    assert run(small_meadow(**deer(), termination={**lists, "flora_extinct": [], "all_flora": False})).ended() == "Z4"
    assert run(small_meadow(**deer(), termination={"all_flora": False, "all_herbivores": True})).ended() == "Z5"
    assert run(small_meadow(**deer(), termination=lists, ticks=1), []).ended() == "Z1"
