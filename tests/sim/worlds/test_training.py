"""Training data of worlds, checked against the state: observations, actions, rewards, outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.registry import ConfigError, find_world
from sim.kernel.state import State
from sim.scenario.scenario_file import load_scenario
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.run.message_queues import read_buffers, write_buffers
from sim.worlds.meadow import WORLD, Meadow
from sim.worlds.meadow.players.view import look

from sim_strategies import idle_flora, small_meadow

SHEEP = {"name": "sheep", "consumption_rate": 1, "upkeep": 0, "energy_min": 2, "reproduction_divisor": 1000}


def herds() -> dict[str, Any]:
    """A meadow with two swarms of sheep in one cell (ids 1 and 2) and one elsewhere (3), and one of goats (4)."""
    places = [("sheep", 1, 1, 4), ("sheep", 1, 1, 9), ("sheep", 3, 1, 5), ("goat", 1, 2, 7)]
    return small_meadow(
        flora=[idle_flora("moss"), idle_flora("fern")],
        herbivores=[SHEEP, {**SHEEP, "name": "goat"}, {**SHEEP, "name": "deer"}],
        diet=[[True, True], [True, False], [True, True]],
        plants=[{"species": "moss", "x": 2, "y": 2}, {"species": "fern", "x": 3, "y": 1}],
        swarms=[{"species": name, "x": x, "y": y, "population": heads} for name, x, y, heads in places],
        players=[{"species": "sheep", "budget": 10}, {"species": "goat", "budget": 10}],
        substances=[{"name": "alarm", "kind": "signal"}, {"name": "resin", "kind": "toxin"}],
        triggers=[{"flora": "fern", "substance": "resin", "when": {"all": []}}],
        wind={"east": 0.5},
    )


def are_equal(left: Any, right: Any) -> bool:
    """Return True if two observations are equal byte for byte."""
    return {k: (v.dtype, v.shape, v.tobytes()) for k, v in left.items()} == {
        k: (v.dtype, v.shape, v.tobytes()) for k, v in right.items()
    }


@pytest.mark.parametrize("scenario", ["arms-race", "quiet-meadow", "two-phase-vote", "swarm"])
def test_observations_keep_their_form(scenario: str) -> None:
    """Names, dtypes and shapes are equal at every tick, except for the length of lists; a snapshot gives the same."""
    loaded = load_scenario(scenario)
    world, config = find_world(loaded.world.name), loaded.config
    assert world.agents is not None
    simulation, inputs_at = world.make(config), world.inputs(config)
    observers = []
    for name, make in world.observations.items():
        for agent in ("", *world.agents(config)):
            try:
                observers.append((name, agent, make(config, agent)))
            except ConfigError:
                assert not agent, (name, agent)  # Without an agent, there is no such observation.
    assert len(observers) >= (1 if scenario == "quiet-meadow" else 2)
    forms: dict[Any, set[Any]] = {}
    for tick in range(1, 31):
        simulation.step(inputs_at(tick))
        before = simulation.state.hash()
        snapshot = simulation.state.snapshot()
        for name, agent, observe in observers:
            seen = observe(simulation.state)
            assert are_equal(seen, observe(snapshot))
            form = {
                (key, value.dtype.str, value.ndim, value.shape if value.ndim != 1 else "")
                for key, value in seen.items()
            }
            forms.setdefault((name, agent), set()).add(frozenset(form))
            for value in seen.values():
                if isinstance(value, np.ndarray) and value.ndim:
                    value[...] = 1  # The arrays belong to the caller.
        assert simulation.state.hash() == before
    assert all(len(forms_seen) == 1 for forms_seen in forms.values())


def test_fog_is_the_observation_of_a_policy() -> None:
    """The observation "fog" of a player equals the result of look."""
    meadow = Meadow(herds())
    meadow.step(None)
    for player in meadow.config.players:
        seen = WORLD.observations["fog"](herds(), player.species)(meadow.state)
        assert are_equal(seen, look(meadow.state, meadow.config, player).arrays)


def test_layers_show_the_state() -> None:
    """Each map equals the sum of its entities or its field."""
    meadow = Meadow(herds())
    meadow.step(None)
    state = meadow.state
    seen = WORLD.observations["layers"](herds(), "")(state)
    assert are_equal(seen, WORLD.observations["layers"](herds(), "goat")(state))
    assert list(seen) == [
        *("tick", "plants", "plants.moss", "plants.fern", "energy", "flow", "wind.east", "wind.south"),
        *("signal.alarm", "toxin.resin", "heads.sheep", "herbivore_energy.sheep", "heads.goat"),
        *("herbivore_energy.goat", "heads.deer", "herbivore_energy.deer"),
    ]
    energy, heads, herd_energy = (np.zeros((5, 6), np.int64) for _ in range(3))
    for row in np.flatnonzero(state["plants.id"]).tolist():
        energy[state["plants.y"][row], state["plants.x"][row]] += state["plants.energy"][row]
    for row in np.flatnonzero(state["swarms.id"]).tolist():
        if state["swarms.species"][row] == 0:
            cell = state["swarms.y"][row], state["swarms.x"][row]
            heads[cell] += state["swarms.population"][row]
            herd_energy[cell] += state["swarms.energy"][row]
    front = int(state["biotope.front"])
    assert (seen["energy"] == energy).all()
    assert (seen["energy"] != seen["plants"]).any()  # Plants were eaten since the rebuild.
    assert (seen["heads.sheep"] == heads).all()
    assert (seen["herbivore_energy.sheep"] == herd_energy).all()
    assert (seen["plants"] == seen["plants.moss"] + seen["plants.fern"]).all()
    assert (seen["plants.fern"] == state["biotope.energy"][front, 1]).all()
    assert (seen["toxin.resin"] == state["biotope.toxins"][0]).all()
    assert seen["toxin.resin"].any()
    assert (seen["wind.east"] == ONE // 2).all()
    assert (int(seen["tick"]), int(seen["wind.south"].sum())) == (1, 0)


def steer(swarm: int, direction: int) -> dict[str, Any]:
    """An input that steers a swarm."""
    return {"kind": "steer", "swarm": swarm, "direction": direction}


def spawn(species: int, heads: int) -> dict[str, Any]:
    """An input that spawns heads in the cell (5, 4)."""
    return {"kind": "spawn", "species": species, "x": 5, "y": 4, "population": heads}


INPUTS = [
    steer(4, 1),
    {"kind": "wind", "east": 0, "south": 0},
    steer(1, 2),
    {"kind": "split", "swarm": 3},
    steer(2, 3),
    spawn(0, 2),
    spawn(1, 3),
    steer(5, 1),  # No swarm has this id before the tick.
    {"kind": "split", "swarm": 4},
    steer(2, 1),
    spawn(0, 3),
    {"kind": "release", "species": 0, "x": 0, "y": 0, "population": 2},
]


def test_actions_are_those_of_the_owner() -> None:
    """In a list, the owner is the species of the swarm before the tick; in a scenario's table, it is the role."""
    state = Meadow(herds()).state
    assert WORLD.actions is not None
    sheep, goat = (WORLD.actions(herds(), name) for name in ("sheep", "goat"))
    sheep_inputs = [INPUTS[index] for index in (2, 3, 4, 5, 9, 10)]
    assert sheep(INPUTS, state) == sheep_inputs
    assert goat(INPUTS, state.snapshot()) == [INPUTS[index] for index in (0, 6, 8)]
    assert [sheep(empty, state) for empty in (None, [], {})] == [[], [], []]

    by_role = {"sheep": [steer(4, 4)], "": [INPUTS[1], INPUTS[2], INPUTS[0]]}
    assert sheep(by_role, state) == [steer(4, 4), steer(1, 2)]
    assert goat(by_role, state) == [INPUTS[0]]


def test_inputs_as_maps() -> None:
    """Inputs lie in the cells before the tick; the larger of two swarms in a cell counts; heads are summed."""
    state = Meadow(herds()).state
    encode = WORLD.action_arrays["orders"](herds(), "sheep")
    maps = encode(INPUTS, state)
    assert {name: (array.dtype.str, array.shape) for name, array in maps.items()} == {
        "steer": ("|i1", (5, 6)),
        "split": ("|b1", (5, 6)),
        "spawn": ("<i8", (5, 6)),
    }
    expected = np.full((5, 6), -1)
    expected[1, 1] = 3  # Of swarm 2, with 9 heads: 3 comes after 1 in the sorted order, as in the step.
    assert maps["steer"].tolist() == expected.tolist()
    assert (np.argwhere(maps["split"]).tolist(), np.argwhere(maps["spawn"]).tolist()) == ([[1, 3]], [[4, 5]])
    assert maps["spawn"][4, 5] == 5
    alone = WORLD.action_arrays["steer"](herds(), "sheep")([steer(3, 0), steer(1, 4)], state)
    assert list(alone) == ["steer"]
    assert (alone["steer"][1, 3], alone["steer"][1, 1], int((alone["steer"] >= 0).sum())) == (0, 4, 2)

    wrong = [steer(2, 9), {"kind": "steer"}, {**spawn(0, 1), "x": 99}, "nonsense"]  # A scenario drops these.
    empty_maps = encode([], state)
    assert are_equal(encode({"sheep": wrong}, state), empty_maps)
    assert not empty_maps["split"].any()
    assert (empty_maps["steer"] == -1).all()


def test_the_direction_in_the_maps_is_that_of_the_step() -> None:
    """Of several inputs for one swarm, the maps and the phase "inputs" use the same one."""
    meadow = Meadow(herds())
    inputs = [steer(3, 2), steer(3, 1)]
    meadow.phases[0].run(inputs)
    row = int(np.flatnonzero(meadow.state["swarms.id"] == 3)[0])
    direction = WORLD.action_arrays["steer"](herds(), "sheep")(inputs, Meadow(herds()).state)["steer"][1, 3]
    assert meadow.state["swarms.steer"][row] == 1 + direction == 3


def test_rewards_and_outcome() -> None:
    """A reward is the gain of a player's swarms; the outcome is their size at the end."""
    meadow = Meadow(herds())
    before = meadow.state.snapshot()
    assert WORLD.outcome is not None
    assert WORLD.outcome(herds(), before) == {"sheep": 18.0, "goat": 7.0}
    meadow.step([{"kind": "cull", "species": 0, "x": 1, "y": 1, "radius": 0, "percent": 50}, spawn(1, 2)])
    after = meadow.state

    def energy(state: Any, species: int) -> float:
        mine = (state["swarms.species"] == species) & (state["swarms.id"] != 0)
        return int(state["swarms.energy"][mine].sum()) / ONE

    for species, name in enumerate(("sheep", "goat")):
        heads, gained = (WORLD.rewards[key](herds(), name)(before, after) for key in ("heads", "energy"))
        mine = (after["swarms.species"] == species) & (after["swarms.id"] != 0)
        assert heads == int(after["swarms.population"][mine].sum()) - {"sheep": 18, "goat": 7}[name]
        assert gained == energy(after, species) - energy(before, species)
    assert WORLD.rewards["heads"](herds(), "sheep")(before, after) == -6.0
    assert WORLD.outcome(load_scenario("quiet-meadow").config, before) == {}


@pytest.mark.parametrize("agent", ["", "deer", "wolf"])
def test_unknown_agents(agent: str) -> None:
    """One line lists the agents; without an agent there is no fog, no actions and no reward."""
    assert WORLD.agents is not None
    assert WORLD.actions is not None
    assert WORLD.agents(herds()) == ("sheep", "goat")
    makers = [WORLD.observations["fog"], WORLD.actions, *WORLD.action_arrays.values(), *WORLD.rewards.values()]
    for make in makers + ([WORLD.observations["layers"]] if agent else []):
        with pytest.raises(ConfigError) as caught:
            make(herds(), agent)
        unknown = f"{agent} has no player in this scenario; players: sheep, goat"
        assert str(caught.value) == (f"players: {unknown}" if agent else "expected the name of a player as agent")


# --- choreography


def vote() -> tuple[Any, Choreography]:
    """A shipped choreography and its configuration."""
    config = load_scenario("two-phase-vote").config
    return config, Choreography(config)


def test_a_role_sees_itself_and_its_queues() -> None:
    """The registers and the place of the role; its queues, according to the events of all rounds so far."""
    config, world = vote()
    observed = find_world("choreography").observations["role"]
    observers = {role: observed(config, role) for role in world.roles}
    waiting = dict.fromkeys(world.roles, 0)
    any_waiting = False
    for _ in range(40):
        world.step(None)
        for event in world.events():
            match event:
                case {"kind": "sent" | "chose", "to": to}:
                    waiting[to] += 1
                case {"kind": "received" | "offered", "role": role}:
                    waiting[role] -= 1
        for number, (role, observe) in enumerate(observers.items()):
            seen = observe(world.state)
            assert seen["waiting"].sum() == waiting[role]
            assert ((seen["next_label"] >= 0) == (seen["waiting"] > 0)).all()
            assert seen["registers"].tolist() == world.state["roles.registers"][number].tolist()
            assert (seen["place"], seen["status"]) == (
                world.state["roles.place"][number],
                world.state["roles.status"][number],
            )
            any_waiting |= bool(seen["waiting"].any())
    assert any_waiting


def test_a_role_sees_nothing_of_others() -> None:
    """All state of other roles and their queues is changed; the observation stays equal, byte for byte."""
    config, world = vote()
    for _ in range(9):
        world.step(None)
    role, number = world.roles[1], 1
    observe = find_world("choreography").observations["role"](config, role)
    expected = observe(world.state)
    state: State = world.state
    for name in ("status", "place", "registers", "counted", "choices"):
        field = state[f"roles.{name}"]
        kept = field[number].copy()
        field[...] += np.ones((), field.dtype)
        field[number] = kept
    state["scheduler.cursor"][...] += 1
    to_role = {place for (_, to), place in world._channels.items() if to == number}
    queues = [[[0, "forged", None]] if place not in to_role else None for place in range(len(world._channels))]
    mixed = [own if forged is None else forged for forged, own in zip(queues, read_buffers(state), strict=True)]
    write_buffers(state, mixed)
    assert are_equal(observe(state), expected)


def test_messages_are_encoded_by_label_and_numbers() -> None:
    """Labels by their alphabetical index, with one more for unknown labels; numbers in Q32.32."""
    config: dict[str, Any] = {
        "protocol": {
            "roles": ["Alice", "Bob"],
            "steps": [
                {"send": "zeta", "from": "Alice", "to": "Bob", "payload": "fixed", "constant": "1.5"},
                {"send": "alpha", "from": "Alice", "to": "Bob"},
            ],
        }
    }
    world = Choreography(config)
    observe = find_world("choreography").observations["role"](config, "Bob")
    seen = observe(world.state)
    assert (seen["waiting"].tolist(), seen["next_label"].tolist(), seen["next_payload"].tolist()) == ([0], [-1], [[0]])
    world.step({"order": ["Alice"]})
    seen = observe(world.state)
    assert (seen["waiting"].tolist(), seen["next_label"].tolist()) == ([1], [1])
    assert seen["next_payload"].tolist() == [[3 << 31]]
    write_buffers(world.state, [[[0, "forged", {"vector": [1 << 63, 7]}]]])
    seen = observe(world.state)
    assert (seen["next_label"].tolist(), seen["next_payload"].tolist()) == ([2], [[(1 << 63) - 1]])
    with pytest.raises(ConfigError, match=r"expected one of the roles Alice, Bob, got ''"):
        find_world("choreography").observations["role"](config, "")
