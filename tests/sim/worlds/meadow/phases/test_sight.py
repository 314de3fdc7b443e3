"""Fog of war: a view shows cells in sight, and remembered cells as last seen, and nothing else."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sim.kernel.arithmetic.fixed_point import ONE
from sim.kernel.changes.row_changes import MarkedChanges, ScannedChanges
from sim.worlds.meadow import Meadow
from sim.worlds.meadow.config.meadow import Player
from sim.worlds.meadow.players.view import FogView, look

from sim_strategies import idle_flora, meadow_inputs, meadows, small_meadow

MAPS = ("last_seen", "plants", "food", "others")
SWARMS_MAX = 60

Grid = npt.NDArray[Any]


@st.composite
def played_meadows(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a small meadow with at least one player."""
    plain = draw(meadows())
    assume(plain["players"])
    return plain


def view_bytes(view: FogView) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Return the dtypes, shapes and bytes of a view."""
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in view.arrays.items()}


def cells_in_sight(meadow: Meadow, player: Player) -> list[tuple[int, int]]:
    """Return (y, x) of the cells that the player sees, by a test of each cell and swarm."""
    state, config = meadow.state, meadow.config
    own = [
        (int(state["swarms.y"][row]), int(state["swarms.x"][row]))
        for row in range(state.count("swarms"))
        if state["swarms.id"][row] and config.herbivores[state["swarms.species"][row]].name == player.species
    ]
    return [
        (y, x)
        for y in range(config.grid.height)
        for x in range(config.grid.width)
        if any(abs(y - own_y) <= player.sight and abs(x - own_x) <= player.sight for own_y, own_x in own)
    ]


def truth_at(meadow: Meadow, player: Player, y: int, x: int) -> tuple[int, int, int]:
    """Return the contents of a cell now: energy of plants, energy of food, heads of others."""
    state, config = meadow.state, meadow.config
    species = config.herbivore_index(player.species)
    layers = state["biotope.energy"][int(state["biotope.front"]), :, y, x].tolist()
    food = sum(energy for energy, eaten in zip(layers, config.diet[species], strict=True) if eaten)
    others = sum(
        int(state["swarms.population"][row])
        for row in range(state.count("swarms"))
        if (state["swarms.y"][row], state["swarms.x"][row]) == (y, x) and state["swarms.species"][row] != species
    )
    return sum(layers), food, others


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), played_meadows(), st.integers(1, 40))
def test_a_view_shows_cells_as_they_were_last_seen(data: st.DataObject, plain: dict[str, Any], ticks: int) -> None:
    """Each cell of each map at each tick equals a diary of all cells ever in sight; others are -1 and 0."""
    inputs = data.draw(st.lists(st.lists(meadow_inputs(plain), max_size=3), max_size=20))
    meadow = Meadow(plain)
    diaries: list[dict[tuple[int, int], tuple[int, ...]]] = [{} for _ in meadow.config.players]
    for tick in range(ticks + 1):
        if tick:
            meadow.step(inputs[tick - 1] if tick <= len(inputs) else None)
        for player, diary in zip(meadow.config.players, diaries, strict=True):
            seen = cells_in_sight(meadow, player)
            diary |= {cell: (tick, *truth_at(meadow, player, *cell)) for cell in seen}
            view = look(meadow.state, meadow.config, player)
            assert np.argwhere(view.seen).tolist() == [list(cell) for cell in seen]
            for y, x in np.ndindex(view.seen.shape):
                found = tuple(int(getattr(view, name)[y, x]) for name in MAPS)
                assert found == diary.get((y, x), (-1, 0, 0, 0)), (tick, player.species, y, x)
        if meadow.state.count("swarms") > SWARMS_MAX:
            break


def brought_to_sight(data: st.DataObject, plain: dict[str, Any]) -> Meadow:
    """Make a meadow after some ticks and all but the last phase of the current tick."""
    inputs = data.draw(st.lists(st.lists(meadow_inputs(plain), max_size=3), min_size=1, max_size=15))
    meadow = Meadow(plain)
    for sent in inputs[:-1]:
        meadow.step(sent)
    assume(meadow.state.count("swarms") <= SWARMS_MAX)
    for phase in meadow.phases[:-1]:
        phase.run(inputs[-1])
    return meadow


def see(meadow: Meadow, player: Player) -> FogView:
    """Run the last phase and return the view."""
    meadow.phases[-1].run(None)
    return look(meadow.state, meadow.config, player)


def blur(meadow: Meadow, player: Player, random: np.random.Generator) -> None:
    """Randomise everything that the player may not know: all fields, except the cells in sight."""
    state, config = meadow.state, meadow.config
    number, species = config.players.index(player), config.herbivore_index(player.species)
    hidden = np.ones((config.grid.height, config.grid.width), np.bool_)
    for cell in cells_in_sight(meadow, player):
        hidden[cell] = False
    front, swarms = int(state["biotope.front"]), state["swarms.species"] != species
    for name in state:
        field = state[name]
        before = field.copy()
        field[...] = random.integers(0, np.iinfo(field.dtype).max, field.shape, field.dtype, endpoint=True)
        match name:
            case "tick" | "biotope.front":
                field[...] = before
            case "player_budget":
                field[species] = before[species]
            case "biotope.total":
                field[front] = np.where(hidden, field[front], before[front])
            case "biotope.energy":
                field[:, :] %= 1 << 48  # The sum over a cell must not overflow.
                eaten = np.flatnonzero(config.diet[species])
                field[front, eaten] = np.where(hidden, field[front, eaten], before[front, eaten])
            case _ if name.startswith("sight."):
                field[number] = before[number]
            case _ if name.startswith("swarms."):
                field[...] = before  # Swarms of other species are changed below.
    others = np.flatnonzero(swarms & (state["swarms.id"] != 0))
    away = np.argwhere(hidden)
    for row in others.tolist():
        state["swarms.energy"][row] = random.integers(
            0, 1 << 40
        )  # The energy of other species' swarms is never visible.
        state["swarms.cooldown"][row] = random.integers(0, 9)
        state["swarms.repelled"][row] = random.integers(0, 9)
        if hidden[state["swarms.y"][row], state["swarms.x"][row]]:
            state["swarms.population"][row] = random.integers(0, 1 << 20)
            state["swarms.y"][row], state["swarms.x"][row] = away[random.integers(len(away))]


@settings(deadline=None, max_examples=24, suppress_health_check=list(HealthCheck))
@given(st.data(), played_meadows(), st.integers(0, 2**32))
def test_nothing_out_of_sight_gets_into_a_view(data: st.DataObject, plain: dict[str, Any], seed: int) -> None:
    """Random values in everything out of sight do not change the view: plants, links, signals, swarms, maps, budgets."""
    meadow = brought_to_sight(data, plain)
    before = meadow.state.snapshot()
    for number, player in enumerate(meadow.config.players):
        expected = view_bytes(see(meadow, player))
        meadow.state.restore(before)
        blur(meadow, player, np.random.default_rng([seed, number]))
        assert (meadow.state["biotope.flow"] != before["biotope.flow"]).any()
        assert view_bytes(see(meadow, player)) == expected
        meadow.state.restore(before)


@settings(deadline=None, max_examples=24, suppress_health_check=list(HealthCheck))
@given(st.data(), played_meadows())
def test_what_is_in_sight_gets_into_a_view(data: st.DataObject, plain: dict[str, Any]) -> None:
    """A change of one visible value changes only its map, only in its cell."""
    meadow = brought_to_sight(data, plain)
    state, config = meadow.state, meadow.config
    player = data.draw(st.sampled_from(config.players))
    cells = cells_in_sight(meadow, player)
    assume(cells)
    y, x = data.draw(st.sampled_from(cells))
    species, front, before = config.herbivore_index(player.species), int(state["biotope.front"]), state.snapshot()
    plain_view = see(meadow, player)
    others = [row for row in np.flatnonzero(state["swarms.id"]).tolist() if state["swarms.species"][row] != species]
    eaten = np.flatnonzero(config.diet[species]).tolist()

    def changed() -> list[str]:
        """Return the names that differ from plain_view, only in the cell; then restore the state."""
        view = see(meadow, player)
        names = [name for name, array in view.arrays.items() if array.tobytes() != plain_view.arrays[name].tobytes()]
        for name in names:
            if view.arrays[name].ndim == 2:
                assert np.argwhere(view.arrays[name] != plain_view.arrays[name]).tolist() == [[y, x]]
        state.restore(before)
        return names

    state.restore(before)
    state["biotope.total"][front, y, x] += 1
    assert changed() == ["plants"]
    if eaten:
        state["biotope.energy"][front, eaten[0], y, x] += 1
        assert changed() == ["food"]
    for row in others:
        if (state["swarms.y"][row], state["swarms.x"][row]) == (y, x):
            state["swarms.population"][row] += 1
            assert changed() == ["others"]
    for row in np.flatnonzero(state["swarms.id"]).tolist():
        if row not in others and (state["swarms.y"][row], state["swarms.x"][row]) == (y, x):
            state["swarms.population"][row] += 1
            assert changed() == ["heads", "swarm_population"]
            state["swarms.energy"][row] += 1
            assert changed() == ["swarm_energy"]
    state["player_budget"][species] += 1
    assert changed() == ["budget"]


def test_memory_stays_without_swarms() -> None:
    """After the death of the only swarm the memory does not change, until a new swarm arrives."""
    plain = small_meadow(
        grid={"width": 9, "height": 9},
        flora=[idle_flora("moss")],
        herbivores=[{"name": "sheep", "consumption_rate": 0, "upkeep": 0, "energy_min": 2}],
        diet=[[True]],
        plants=[{"species": "moss", "x": 3, "y": 2}, {"species": "moss", "x": 8, "y": 8}],
        swarms=[{"species": "sheep", "x": 2, "y": 2, "population": 3}],
        players=[{"species": "sheep", "sight": 2}],
    )
    meadow = Meadow(plain)
    player = meadow.config.players[0]
    meadow.step([{"kind": "cull", "species": 0, "x": 2, "y": 2, "radius": 0, "percent": 100}])
    meadow.step([{"kind": "plant", "species": 0, "x": 1, "y": 1}, {"kind": "plant", "species": 0, "x": 7, "y": 7}])
    view = look(meadow.state, meadow.config, player)

    assert not view.seen.any()
    assert np.argwhere(view.last_seen == 0).tolist() == [[y, x] for y in range(5) for x in range(5)]
    assert (view.last_seen[5:] == -1).all()
    assert np.argwhere(view.plants).tolist() == [[2, 3]]
    assert (view.plants[2, 3], view.food[2, 3], view.swarm_id.tolist()) == (10 * ONE, 10 * ONE, [])

    meadow.step([{"kind": "release", "species": 0, "x": 8, "y": 8, "population": 1}])
    view = look(meadow.state, meadow.config, player)
    (x,), (y,) = view.swarm_x, view.swarm_y
    assert (view.last_seen[y, x], view.last_seen[1, 1]) == (3, 0)
    assert np.argwhere(view.plants).tolist() == [[2, 3], [7, 7], [8, 8]]  # The plant at (1, 1) was never seen.


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), played_meadows())
def test_only_rows_that_change_are_marked(data: st.DataObject, plain: dict[str, Any]) -> None:
    """The marked rows of the maps are those that a comparison of bytes finds."""
    inputs = data.draw(st.lists(st.lists(meadow_inputs(plain), max_size=3), min_size=1, max_size=15))
    meadow = Meadow(plain)
    marked, scanned = MarkedChanges(meadow.state), ScannedChanges(meadow.state)
    for sent in inputs:
        snapshot = meadow.state.snapshot()
        marked.reset(snapshot)
        scanned.reset(snapshot)
        layout = meadow.state.layout
        meadow.step(sent)
        if meadow.state.layout is not layout:
            continue  # A table has grown: everything counts as changed.
        marked_rows, scanned_rows = marked.changed_rows(), scanned.changed_rows()
        for name in MAPS:
            rows = (source.get(f"sight.{name}", np.zeros(0)).tolist() for source in (marked_rows, scanned_rows))
            assert next(rows) == next(rows), name


def test_a_meadow_without_players_has_none_of_it() -> None:
    """A meadow without players has neither the fields nor the phase."""
    plain = small_meadow(herbivores=[], diet=[])
    assert not [name for name in Meadow(plain).state if name.startswith("sight")]
    assert [phase.name for phase in Meadow(plain).phases][-1] == "signalling"


def test_the_arrays_of_a_view() -> None:
    """Maps have one shape, lists of swarms one length, and all have the documented dtypes."""
    plain = small_meadow(
        herbivores=[{"name": "sheep", "consumption_rate": 0, "upkeep": 0, "energy_min": 2}],
        diet=[[True]],
        swarms=[{"species": "sheep", "x": 2, "y": 2, "population": 3}] * 2,
        players=[{"species": "sheep", "budget": 3}],
    )
    meadow = Meadow(plain)
    view = look(meadow.state, meadow.config, meadow.config.players[0])
    assert list(view.arrays) == [field.name for field in attrs.fields(FogView)]
    assert {name: (array.dtype.str, array.shape) for name, array in view.arrays.items()} == {
        "tick": ("<i8", ()),
        "budget": ("<i8", ()),
        "seen": ("|b1", (5, 6)),
        **dict.fromkeys(["last_seen", "plants", "food", "others", "heads"], ("<i8", (5, 6))),
        **{f"swarm_{name}": ("<i8", (2,)) for name in ("id", "x", "y", "population", "energy", "cooldown", "repelled")},
    }
    snapshot = meadow.state.snapshot()
    assert view_bytes(look(snapshot, meadow.config, meadow.config.players[0])) == view_bytes(view)
    view.plants[...] = 7
    view.swarm_x[...] = 7
    assert meadow.state.hash() == snapshot.hash()
