"""Players: their commands, costs, view and policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.registry import ConfigError
from sim.scenario.scenario_file import load_scenario
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.config.meadow import read_config
from sim.worlds.meadow.players.view import look

from sim_strategies import idle_flora, small_meadow

SHEEP = {"name": "sheep", "consumption_rate": 1, "upkeep": 0, "energy_min": 2, "reproduction_divisor": 1000}
PLAYER = {"species": "sheep", "budget": 10, "income": 0.5, "spawn_cost": 1, "split_cost": 3, "sight": 2}


def played(player: dict[str, Any] | None = None, **changes: Any) -> Meadow:
    """Make a 9 × 9 meadow with a swarm of 8 sheep in its middle, and a swarm of goats, without a player, in a corner."""
    return Meadow(config_of(player, **changes))


def config_of(player: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return the configuration of that meadow."""
    return small_meadow(
        grid={"width": 9, "height": 9},
        flora=[idle_flora("moss")],
        herbivores=[SHEEP, {**SHEEP, "name": "goat"}],
        diet=[[True], [True]],
        swarms=[
            {"species": "sheep", "x": 4, "y": 4, "population": 8},
            {"species": "goat", "x": 0, "y": 0, "population": 8},
        ],
        players=[{**PLAYER, **(player or {})}],
        **changes,
    )


def swarms(meadow: Meadow) -> list[tuple[int, ...]]:
    """Return species, x, y and heads of the swarms, by id."""
    state = meadow.state
    rows = np.flatnonzero(state["swarms.id"])
    return [
        tuple(int(state[f"swarms.{column}"][row]) for column in ("species", "x", "y", "population")) for row in rows
    ]


@pytest.mark.parametrize(("direction", "cell"), [(0, (4, 4)), (1, (5, 4)), (2, (4, 5)), (3, (3, 4)), (4, (4, 3))])
@pytest.mark.seldom(0.15)
def test_a_steered_swarm_mostly_follows(direction: int, cell: tuple[int, int]) -> None:
    """With bias 16 and no flow, the probability is 16 in 20: for 60 seeds more than half, but not all."""
    there = 0
    for seed in range(60):
        meadow = played(seed=seed)
        meadow.step([{"kind": "steer", "swarm": 1, "direction": direction}])
        there += swarms(meadow)[0][1:3] == cell
        assert not meadow.state["swarms.steer"].any()
    assert 36 <= there < 60


def test_split_costs_and_divides_at_once() -> None:
    """Half of heads and energy; the budget pays, then grows by the income; without budget nothing happens."""
    meadow = played()
    meadow.phases[0].run([{"kind": "split", "swarm": 1}])
    assert [swarm[3] for swarm in swarms(meadow)] == [4, 8, 4]
    assert meadow.state["swarms.energy"].tolist()[:3] == [8 * ONE, 16 * ONE, 8 * ONE]
    assert meadow.state["player_budget"].tolist() == [int(7.5 * ONE), 0]
    for _ in range(4):
        meadow.phases[0].run([{"kind": "split", "swarm": 1}])
    assert [swarm[3] for swarm in swarms(meadow)] == [1, 8, 4, 2, 1]  # 4 → 2 → 1; one head cannot be divided.
    meadow = played({"budget": 2.5})
    meadow.phases[0].run([{"kind": "split", "swarm": 1}])
    assert len(swarms(meadow)) == 2


@pytest.mark.parametrize(("x", "y", "population", "spawned"), [(6, 2, 3, 3), (7, 4, 3, 0), (4, 4, 11, 0)])
def test_spawn_needs_sight_and_budget(x: int, y: int, population: int, spawned: int) -> None:
    """A spawn needs a swarm of the species at most two cells away in x and in y, and 1 per head."""
    meadow = played()
    meadow.phases[0].run([{"kind": "spawn", "species": 0, "x": x, "y": y, "population": population}])
    assert swarms(meadow)[2:] == ([(0, x, y, spawned)] if spawned else [])
    assert meadow.state["player_budget"][0] == int((10 - spawned + 0.5) * ONE)


def test_commands_to_others_do_nothing() -> None:
    """Commands to a species without a player, and to an unknown id, change nothing."""
    meadow, other = played(), played()
    meadow.step(
        [
            {"kind": "steer", "swarm": 2, "direction": 1},
            {"kind": "split", "swarm": 2},
            {"kind": "split", "swarm": 99},
            {"kind": "spawn", "species": 1, "x": 0, "y": 0, "population": 1},
        ]
    )
    other.step([])
    assert meadow.state.arena.tobytes() == other.state.arena.tobytes()


def test_income_stops_at_the_most() -> None:
    """The budget never exceeds budget_max."""
    meadow = played({"budget_max": 10.75})
    meadow.step(None)
    assert meadow.state["player_budget"][0] == int(10.5 * ONE)
    meadow.step(None)
    assert meadow.state["player_budget"][0] == int(10.75 * ONE)


def test_fog_hides_what_is_out_of_sight() -> None:
    """Cells at most two away in x and in y from the swarm show their contents; others are 0."""
    plants = [{"species": "moss", "x": 6, "y": 6}, {"species": "moss", "x": 7, "y": 4}]
    plain = config_of(plants=plants)
    config, meadow = read_config(plain), Meadow(plain)
    view = look(meadow.state, config, config.players[0])
    expected = np.zeros((9, 9), bool)
    expected[2:7, 2:7] = True
    assert (view.seen == expected).all()
    assert (view.plants[6, 6], view.plants[4, 7], view.food[6, 6]) == (10 * ONE, 0, 10 * ONE)
    assert (view.heads[4, 4], view.others.sum()) == (8, 0)
    assert (view.swarm_id.tolist(), view.swarm_population.tolist(), view.budget) == ([1], [8], 10 * ONE)


@pytest.mark.parametrize("policy", ["idle", "random", "greedy"])
def test_a_policy_sends_valid_inputs_and_depends_on_the_view_alone(policy: str) -> None:
    """Over 60 ticks of the arms race; the same state gives the same inputs, from a new player, too."""
    config = load_scenario("arms-race").config
    assert WORLD.play is not None
    meadow, inputs_at, player = Meadow(config), WORLD.inputs(config), WORLD.play(config, "caterpillar", policy)
    kinds: set[str] = set()
    for tick in range(1, 61):
        sent = player(tick, meadow.state)
        assert sent == WORLD.play(config, "caterpillar", policy)(tick, meadow.state)
        kinds |= {item["kind"] for item in sent}
        meadow.step([*inputs_at(tick), *sent])
    assert kinds == {"idle": set(), "random": {"steer", "split", "spawn"}, "greedy": kinds}[policy]
    assert (policy == "greedy") <= ({"steer", "spawn"} <= kinds)


def test_a_greedy_swarm_goes_to_the_food() -> None:
    """The policy steers to the cell with the most food of the five."""
    config = config_of(plants=[{"species": "moss", "x": 4, "y": 5}])
    assert WORLD.play is not None
    meadow = Meadow(config)
    assert WORLD.play(config, "sheep", "greedy")(1, meadow.state)[0] == {"kind": "steer", "swarm": 1, "direction": 2}


@pytest.mark.parametrize(
    ("species", "policy", "message"),
    [
        ("goat", "idle", "players: goat has no player in this scenario; players: sheep"),
        ("sheep", "clever", "expected one of idle, random, greedy, got 'clever'"),
    ],
)
def test_unknown_players_and_policies(species: str, policy: str, message: str) -> None:
    """One line lists the known ones."""
    assert WORLD.play is not None
    with pytest.raises(ConfigError) as caught:
        WORLD.play(config_of(), species, policy)
    assert str(caught.value) == message
