"""The Mesa adapter: models are restored completely, in place; random construction is reported."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # Another process finds this module there, too.
from continuation import Case, assert_continues
from optional_packages import LazyModule, needs

import recorder
import replayer
from recorder.conformance.contract_checks import Subject, check_run
from recorder.testing import SimulationContract
from replayer.commands.check_adapter import check_level, level_lines
from replayer.playback.make_simulation import UnfitSimulationError
from replayer.report.report_text import print_report
from sim.adapters import CapturedWarning, NotCapturedError, adapt
from sim.adapters.capture.values import encode_value
from sim.kernel.simulation import restore

needs("mesa", "networkx")
models = LazyModule("mesa_models")

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::RuntimeWarning"
)


def example(name: str, module: str, *arguments: Any, **settings: Any) -> Any:
    """An example model of Mesa, without Mesa's warnings about experimental features."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(importlib.import_module(f"mesa.examples.{module}.model"), name)(*arguments, **settings)


def wolves(seed: int = 1) -> Any:
    """The model of wolves and sheep with its simulator, which has events."""
    from mesa.experimental.devs import ABMSimulator

    simulator = ABMSimulator()
    return example("WolfSheep", "advanced.wolf_sheep", 8, 8, 20, 10, seed=seed, simulator=simulator)


def boids() -> Any:
    """The model of boids, whose space holds a view of its own array."""
    return example("BoidFlockers", "basic.boid_flockers", 15, seed=1)


def wealth() -> Any:
    """The simplest example model."""
    return example("BoltzmannWealth", "basic.boltzmann_wealth_model", 10, 4, 4, seed=1)


def segregation() -> Any:
    """The model of segregation, in which all agents come to rest."""
    return example("Schelling", "basic.schelling", 10, 10, homophily=0.7, seed=1)


def trusted(model: Any) -> Any:
    """The model as a simulation."""
    return adapt(model, trust=True)


def game_of_life(width: int = 12) -> Any:
    """The game of life: its grid makes a generator without a seed, which no step uses."""
    model = example("ConwaysGameOfLife", "basic.conways_game_of_life", width, width, seed=3)
    model.grid.random.seed(0)
    return model


def shown(simulation: Any) -> bytes:
    """The visible state of a model: id, class, position and numbers of every agent; the next random numbers."""
    model = simulation.model
    seen = []
    for agent in model.agents:
        numbers = [
            (name, value)
            for name, value in sorted(vars(agent).items())
            if isinstance(value, int | float | str | np.ndarray | np.generic)
        ]
        cell = getattr(agent, "cell", None)
        place = cell.coordinate if cell is not None else np.array(getattr(agent, "position", 0))
        seen.append((agent.unique_id, type(agent).__name__, place, tuple(numbers)))
    layers = getattr(getattr(model, "grid", None), "_mesa_property_layers", {})
    return encode_value(
        [
            [model.steps, seen, [np.array(one.data) for one in layers.values()]],
            [model.random.getstate()[1][-1], model.rng.bit_generator.state["state"]["state"]],
        ]
    )


CASES = {
    "meadow": Case(lambda: trusted(models.Meadow()), shown),
    "wolves": Case(lambda: trusted(wolves()), shown),
    "boids": Case(lambda: trusted(boids()), shown),
    "wealth": Case(lambda: trusted(wealth()), shown),
    "life": Case(lambda: trusted(game_of_life()), shown),
    "segregation": Case(lambda: trusted(segregation()), shown),
    "sugar": Case(
        lambda: trusted(example("SugarscapeG1mt", "advanced.sugarscape_g1mt", initial_population=20, seed=1)), shown
    ),
}


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize(
    "name", ["wolves", *(pytest.param(name, marks=pytest.mark.long) for name in ("meadow", "boids"))]
)
def test_a_restored_model_continues_as_the_live_one_did(name: str, tmp_path: Path) -> None:
    """From random ticks, here and in a fresh process, agents, positions and states are equal bit for bit."""
    assert_continues("test_mesa", name, tmp_path, steps=25, loads=2)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_restored_at_fifty_ticks_of_two_thousand_it_continues_as_the_live_one_did(name: str, tmp_path: Path) -> None:
    """The long version for each model; shorter for models that come to rest, and for Sugarscape, which is slow."""
    steps = {"life": 100, "segregation": 100, "sugar": 200}.get(name, 2000)
    assert_continues("test_mesa", name, tmp_path, steps=steps, loads=50)


class TestMeadow(SimulationContract):
    ticks = 10
    seeds = 3

    def make(self) -> Any:
        return trusted(models.Meadow())


@pytest.mark.long
class TestWealth(SimulationContract):
    ticks = 60

    def make(self) -> Any:
        return trusted(wealth())


@pytest.mark.long
class TestWolves(SimulationContract):
    ticks = 60

    def make(self) -> Any:
        return trusted(wolves())


@pytest.mark.long
class TestBoids(SimulationContract):
    ticks = 60

    def make(self) -> Any:
        return trusted(boids())


@pytest.mark.long
class TestLife(SimulationContract):
    ticks = 30

    def make(self) -> Any:
        return trusted(game_of_life())


@pytest.mark.long
class TestSegregation(SimulationContract):
    ticks = 40

    def make(self) -> Any:
        return trusted(segregation())


def test_one_line_records_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The recorded run equals the run without a recorder; the first line names the data that is not saved."""
    alone = wolves(4)
    alone.simulator.run_for(40)
    made = wolves(4)
    with recorder.record(made, tmp_path / "run.tape", trust=True, keyframe_interval_ticks=7) as model:
        model.run_for(40)
        assert model.steps == 40

    ids = [[agent.unique_id for agent in one.agents] for one in (alone, made)]
    assert ids[0] == ids[1]
    assert alone.datacollector.model_vars == made.datacollector.model_vars
    line = capsys.readouterr().err.replace("exact, untested", "exact in the steps tried")
    assert (
        "WolfSheep: exact in the steps tried: WolfSheep, grid captured; a restore leaves WolfSheep._user_step, WolfSheep.datacollector, WolfSheep.step as they are; "
        in line
    )
    assert "what datacollector gathers is output" in line


def test_ids_are_readable_without_the_package(tmp_path: Path) -> None:
    """Numbers of steps, ids and classes of agents are plain fields, readable without pickle."""
    with recorder.record(models.Meadow(), tmp_path / "run.tape", trust=True, quiet=True) as model:
        for _ in range(5):
            model.step()
        ids = [agent.unique_id for agent in model.agents]
    with replayer.open(tmp_path / "run.tape") as run:
        run.seek(0)
        assert run.state["agents.id"].tolist() == list(range(1, 13))
        assert run.state.blob("classes") == b"Walker"
        with pytest.raises(Exception, match=r"the tape does not state how to make its .*Meadow: "):
            run.seek(3)
    with replayer.open(tmp_path / "run.tape", world=lambda: trusted(models.Meadow())) as run:
        run.seek(5)
        assert run.state["agents.id"].tolist() == ids
        assert run.verify().ok


def test_trust_is_required(tmp_path: Path) -> None:
    """Without trust nothing is pickled or unpickled."""
    with pytest.raises(NotCapturedError, match=r"agents of Meadow can be saved by pickle alone.*pass trust=True"):
        recorder.record(models.Meadow(), tmp_path / "run.tape")
    with recorder.record(models.Meadow(), tmp_path / "run.tape", trust=True, quiet=True) as model:
        model.step()
    with (
        pytest.raises(UnfitSimulationError, match="pass trust=True"),
        replayer.open(tmp_path / "run.tape", world=models.Meadow) as run,
    ):
        run.seek(1)


def test_views_layers_and_functions_are_the_objects_own_after_a_load() -> None:
    """Shared memory is shared again, and neighbours see new agents."""
    live = trusted(models.Meadow())
    for _ in range(6):
        live.step(None)
    other = trusted(models.Meadow())
    grass, grow = other.model.grid.grass, other.model.grow
    restore(other, live.state.snapshot())
    model = other.model

    assert model.grid.grass is grass
    assert model.grow is grow
    assert np.array_equal(model.grid.grass.data, live.model.grid.grass.data)
    first = next(agent for agent in model.agents if agent.unique_id <= 12 and agent.direction.base is not None)
    assert np.shares_memory(first.direction, model.directions)
    assert next(iter(model.grid.all_cells)).random is model.random
    assert first in list(first.cell.neighborhood.cells[0].neighborhood.agents)
    first.cell.grass = 2.5
    assert model.grid.grass.data[first.cell.coordinate] == 2.5


def test_a_missing_counter_of_ids_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mesa counts agents' ids at a class; without that counter new agents have different ids."""
    monkeypatch.setattr("sim.adapters.mesa.adapter._set_next_agent_id", lambda *_: None)
    subject = Subject(lambda: trusted(models.Meadow()))
    found = check_run(subject, subject.live(0, 40))

    assert {one.trial for one in found} <= {"save and load", "used instance"}
    assert any("next_agent_id" in one.fields for one in found)


def test_arguments_and_new_seeds_are_inputs(tmp_path: Path) -> None:
    """The arguments of a step, and a new seed between steps, are recorded as inputs."""
    with recorder.record(models.Meadow(), tmp_path / "run.tape", trust=True, quiet=True) as model:
        model.step(growth=0.25)
        model.reset_randomizer(99)
        model.step()
        drawn = model.random.getstate()
    with replayer.open(tmp_path / "run.tape", world=lambda: trusted(models.Meadow())) as run:
        assert run.verify().ok
        assert [run.tape.frame(tick).inputs for tick in (1, 2, 3)] == [
            {"arguments": {"growth": 0.25}},
            {"seed": 99},
            None,
        ]
        run.seek(3)
        assert run.simulation.model.random.getstate() == drawn


@pytest.mark.seldom(0.4)
def test_a_model_with_random_construction_is_reported() -> None:
    """VirusOnNetwork draws its network without a seed: replay check reports this; a load is still exact."""
    subject = Subject(lambda: trusted(example("VirusOnNetwork", "basic.virus_on_network", num_nodes=12, seed=1)))
    report = check_level(subject, subject.simulation(), 12, 8)
    text = "\n".join(level_lines("virus", report))

    assert not report.ok
    assert (
        "same seed twice: differs for 8 of 8 seeds: two new instances differ at once; possible: a source without a seed"
        in text
    )
    assert "state differs from the live run at tick 0: topology, model" in text
    assert "save and load: the same" in text
    assert "used instance: the same" in text


def make_steps(simulation: Any, steps: int) -> None:
    """Step the simulation this number of times."""
    for _ in range(steps):
        simulation.step(None)


def test_a_network_that_changes_is_noticed_and_saved() -> None:
    """The change is noticed after at most 256 steps, with a warning, and saved from then on."""
    live = trusted(models.Rewiring())
    with pytest.warns(CapturedWarning, match="cells' connections were assumed to be constant and have changed"):
        make_steps(live, 260)
    other = trusted(models.Rewiring())
    restore(other, live.state.snapshot())
    for _ in range(20):
        live.step(None)
        other.step(None)
        assert other.state.hash() == live.state.hash()


def test_a_different_model_is_refused() -> None:
    """A model with different cells is refused in one sentence."""
    live = trusted(game_of_life(8))
    with pytest.raises(NotCapturedError, match=r"^the cells of the model differ from those of the recorded model: "):
        restore(trusted(game_of_life(9)), live.state.snapshot())
    with pytest.raises(
        ValueError,
        match=r"^level: expected 'exact', the only level of a Mesa model, which has no reset .*, got 'inputs_only'$",
    ):
        adapt(models.Meadow(), trust=True, level="inputs_only")


def test_other_versions_of_mesa_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mesa's own objects are captured, and they change from version to version."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: "3.5.1")
    with pytest.raises(NotCapturedError, match=r"^expected Mesa 3\.3, .*, got Mesa 3\.5\.1: pip install"):
        trusted(models.Meadow())


def test_a_value_that_cannot_be_pickled_is_named() -> None:
    """A running Python generator cannot be pickled."""
    model = models.Meadow()
    model.story = (number for number in range(3))
    with pytest.raises(
        NotCapturedError, match="the model of Meadow cannot be pickled: cannot pickle 'generator' object"
    ):
        trusted(model)


def test_iterators_that_a_step_has_used_up_are_saved_alike_in_a_restored_model() -> None:
    """Epstein's citizens in jail keep one; a restored one had other bytes, and every later tick was a desync."""
    module = importlib.import_module("mesa.examples.advanced.epstein_civil_violence.model")
    live, restored = (adapt(module.EpsteinCivilViolence(width=16, height=16, seed=3), trust=True) for _ in range(2))
    for _ in range(10):
        live.step(None)
    restore(restored, live.state.snapshot())
    for _ in range(4):
        live.step(None)
        restored.step(None)
        assert restored.state.hash() == live.state.hash()


def unrest() -> Any:
    """A model whose agents keep the collections of cells that their cells keep, and so share them."""
    return example("EpsteinCivilViolence", "advanced.epstein_civil_violence", 8, 8, max_iters=100, seed=3)


def shared(model: Any) -> list[int]:
    """For each agent the first one that keeps the same collection."""
    kept = [id(agent.neighborhood) for agent in model.agents]
    return [kept.index(one) for one in kept]


def test_collections_of_cells_are_shared_after_a_load_as_they_were() -> None:
    """Also with those that later steps ask the cells for; and a collection that only the model keeps stays one."""
    live, fresh = trusted(unrest()), trusted(unrest())
    for model in (live.model, fresh.model):
        model.corner = model.also_corner = model.grid.all_cells.select(lambda cell: sum(cell.coordinate) < 3)
        model.everywhere = model.grid.all_cells
    for _ in range(5):
        live.step(None)
    restore(fresh, live.state.snapshot())
    for _ in range(5):
        assert shared(fresh.model) == shared(live.model)
        assert len(set(shared(live.model))) < len(live.model.agents)
        assert fresh.model.corner is fresh.model.also_corner
        assert fresh.model.everywhere is fresh.model.grid.all_cells
        assert fresh.value_difference(live) is None
        live.step(None)
        fresh.step(None)
        assert fresh.state.hash() == live.state.hash()


def connect_elsewhere() -> None:
    """A cell of an unrelated model is connected: Mesa then forgets the neighbourhoods of all models in the process."""
    grid = models.Homesteads(2).grid
    first = grid[(0, 0)]
    before = first.neighborhood
    first.connect(grid[(4, 4)], (9, 9))
    assert first.neighborhood is not before


def test_another_model_that_connects_cells_does_not_change_the_state() -> None:
    """Mesa's cache of neighbourhoods is one for all models. What is shared comes back as it was without the other."""
    alone, beside = (trusted(models.Homesteads()) for _ in range(2))
    for step in range(8):
        if step in (0, 3, 4):  # Some agents ask again after steps 2 and 5.
            connect_elsewhere()
        alone.step(None)
        beside.step(None)
        assert alone.state.hash() == beside.state.hash(), step
    restored = trusted(models.Homesteads())
    restore(restored, beside.state.snapshot())
    assert 1 < len(set(shared(restored.model))) < len(restored.model.agents)
    assert all(agent.neighborhood is agent.home.get_neighborhood(2) for agent in restored.model.agents)
    connect_elsewhere()
    for _ in range(4):
        for one in (alone, beside, restored):
            one.step(None)
        assert alone.state.hash() == beside.state.hash() == restored.state.hash()


def test_verify_does_not_accuse_a_model_beside_another_one(tmp_path: Path) -> None:
    """It said DESYNC of a model that is deterministic, because a cell of another one was connected in between."""
    options = {"trust": True, "quiet": True, "trial_ms": 0, "keyframe_interval_ticks": 3}
    with recorder.record(models.Homesteads(asks_again=False), tmp_path / "run.tape", **options) as model:
        for step in range(10):
            if step == 4:
                connect_elsewhere()
            model.step()
    report = replayer.verify_tape(tmp_path / "run.tape", lambda: trusted(models.Homesteads(asks_again=False)))
    assert report.ok, report


def test_verify_sees_a_collection_that_comes_back_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is planted: each collection is saved by its cells alone. States and their hashes are then the same."""
    from sim.adapters.mesa import encode

    def by_content(pickler: Any, collection: Any) -> Any:
        cells = tuple(pickler._cell_numbers[id(cell)] for cell in collection)
        return pickler._by_content((encode.COLLECTION, pickler._by_id[id(collection.random)], cells))

    monkeypatch.setattr(encode._GraphPickler, "_collection", by_content)
    options = {"trust": True, "quiet": True, "trial_ms": 0, "keyframe_interval_ticks": 3}
    with recorder.record(unrest(), tmp_path / "run.tape", **options) as model:
        for _ in range(6):
            model.step()
    report = replayer.verify_tape(tmp_path / "run.tape", lambda: trusted(unrest()))
    assert not report.ok
    assert report.first_bad is None
    (wrong, *_) = report.wrong_keyframes
    assert re.search(r"agents\[\d+\]\.neighborhood", str(wrong)), wrong


@pytest.mark.parametrize("changes", [True, False])
def test_verify_names_the_first_value_that_differs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    changes: bool,
) -> None:
    """In place of bytes of the pickled model."""
    step, added = models.Meadow.step, 0

    def counted(model: Any) -> None:
        step(model)
        model.counts = {"steps": [model.steps + added * (model.steps >= 6)]}

    monkeypatch.setattr(models.Meadow, "step", counted)
    options = {"trust": True, "quiet": True, "trial_ms": 0, "keyframe_interval_ticks": 4}
    with recorder.record(models.Meadow(), tmp_path / "run.tape", **options) as model:
        model.run_for(12)
    added = 100 * changes
    report = replayer.verify_tape(tmp_path / "run.tape", lambda: trusted(models.Meadow()))
    assert report.first_bad == (6 if changes else None)
    print_report(tmp_path / "run.tape", report)
    printed = capsys.readouterr().out
    assert ("the first value that differs: model.counts['steps'][0]: recorded 8, replayed 108" in printed) == changes
    assert not re.search(r"\[\d+\] recorded \d+, replayed \d+", printed)


def ids_in_sets(model: Any) -> Any:
    """The numbers of the agents in the sets of a village, without their order."""

    def numbers(members: Any) -> list[int]:
        return sorted(one.unique_id for one in members)

    return [
        [numbers(model.agents), numbers(model.former), numbers(model.council)],
        [[numbers(one.friends), numbers(one.party)] for one in (*model.agents, *sorted(model.former, key=id_of))],
    ]


def id_of(agent: Any) -> int:
    """The number of an agent."""
    return agent.unique_id  # type: ignore[no-any-return]


def verified(make: Any, path: Path) -> Any:
    """The report of verify for a recorded run of a model."""
    with recorder.record(make(), path, trust=True, quiet=True, trial_ms=0, keyframe_interval_ticks=3) as model:
        for _ in range(9):
            model.step()
    return replayer.verify_tape(path, lambda: trusted(make()))


def test_a_set_of_agents_whose_order_nobody_uses_makes_no_difference(tmp_path: Path) -> None:
    """Agents in sets, also those that have left the model, were written in the order of their addresses: verify said DESYNC."""
    live, second, kept = (trusted(models.Village()) for _ in range(3))
    assert live.state.hash() == second.state.hash()
    for _ in range(6):
        live.step(None)
    restore(kept, live.state.snapshot())
    kept._pack()
    assert kept.state.hash() == live.state.hash()
    model = kept.model
    assert len(model.former) == 3
    assert ids_in_sets(model) == ids_in_sets(live.model)
    assert all(one.council is model.council for one in (*model.agents, *model.former)), "the same set"
    assert all(one in one.party for one in (*model.agents, *model.former)), "the same agents"
    for _ in range(12):
        live.step(None)
        kept.step(None)
        assert kept.state.hash() == live.state.hash()
    report = verified(models.Village, tmp_path / "run.tape")
    assert report.ok, report


def test_agents_with_equal_contents_are_written_by_their_numbers(tmp_path: Path) -> None:
    """The order of those that only one set holds is no other one after a restore."""
    live, kept = trusted(models.Crowd()), trusted(models.Crowd())
    assert live.state.hash() == kept.state.hash()
    restore(kept, live.state.snapshot())
    kept._pack()
    assert kept.state.hash() == live.state.hash()
    report = verified(models.Crowd, tmp_path / "run.tape")
    assert report.ok, report


def test_a_set_is_filled_before_anything_reads_it_during_a_restore(tmp_path: Path) -> None:
    """A constructor that counts a set counted none where sets were filled last."""
    live, kept = trusted(models.Dock()), trusted(models.Dock())
    for _ in range(3):
        live.step(None)
    restore(kept, live.state.snapshot())
    model = kept.model
    assert [one.count for one in model.tallies] == [3, 3, 1]
    assert model.tallies[0].members is model.crew == {*model.agents}
    assert model.moods == {models.Mood.HAPPY}, "recorded, though a member of an enumeration is no plain text"
    assert verified(models.Dock, tmp_path / "run.tape").ok


def test_sets_of_one_agent_and_of_other_objects_have_the_bytes_of_earlier_tapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their order is the same in each run, or not decided by numbers: earlier tapes stay right."""
    from sim.adapters.mesa import encode

    def dock() -> Any:
        model = models.Dock()
        model.crew, model.tallies = set(), []
        return model

    with_order, of_crew = trusted(dock()).state.hash(), trusted(models.Dock()).state.hash()
    monkeypatch.setattr(encode._GraphPickler, "_agents_in", lambda *_: None)
    assert trusted(dock()).state.hash() == with_order
    assert trusted(models.Dock()).state.hash() != of_crew
