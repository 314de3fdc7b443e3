"""A simulation is tried before it is recorded: traps are found by name, sound programs are not accused."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import trapped_games as games

import recorder
from recorder.errors import RecordingWarning
from recorder.text import counted
from recorder.trial.own_simulation import player_of
from recorder.trial.processor_share import slower
from recorder.trial.trial import try_simulation
from recorder.trial.trial_report import TrialReport
from sim.adapters import NotCapturedError, adapt, fields
from sim.adapters.find_adapter import adapter_of
from sim.kernel.simulation import as_simulation
from sim.scenario.scenario_file import load_scenario

import small_worlds

BUDGET_MS = 4000.0  # Far more than needed: a busy machine must not change a result.

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="a trial needs Linux"),
    pytest.mark.filterwarnings("ignore:.*saw no step"),  # They record nothing.
    pytest.mark.tried,
]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times of a trial are those of a machine that does nothing else: messages name them."""
    monkeypatch.setattr("recorder.trial.trial.slower", lambda: 1.0)


def tried(subject: Any, *names: str, rng: str | tuple[str, ...] = (), **options: Any) -> TrialReport:
    """Try an object by its attributes, or by its own save and load."""
    simulation = adapt(subject, fields(*names, rng=rng)) if names else as_simulation(subject)
    return try_simulation(simulation, BUDGET_MS, player=player_of(simulation), **options)


@pytest.mark.parametrize(
    ("subject", "names", "cause"),
    [
        (games.UnsavedGenerator, ["x"], "UnsavedGenerator.sensor.noise (random generator)"),
        (games.GeneratorInClosure, ["x"], "GeneratorInClosure.read: noise (random generator)"),
        (games.Wrapped, [], "Wrapped.elapsed (attribute)"),
        (games.WarmStart, ["x"], "WarmStart._warm (attribute)"),
        (games.LastResult, ["x"], "LastResult._before (attribute)"),
        (games.ModuleCounter, ["x"], "module trapped_games: HITS (module global)"),
        (games.GlobalRandom, ["x"], "random (random generator)"),
        (games.ClassCounter, ["x"], "ClassCounter.ids (class attribute)"),
        (games.LoadLeaves, [], "LoadLeaves.seen (attribute)"),
        (games.StickyAction, [], "StickyAction._last (attribute)"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
@pytest.mark.share(0.22)
def test_what_a_restore_does_not_bring_back_is_named(subject: type, names: list[str], cause: str) -> None:
    """Traps 1, 2, 5, 6, 7, 11, 14 and 15: the one value that a step reads is named, and no other."""
    report = tried(subject(), *names)
    assert [finding.causes for finding in report.findings] == [(cause,)]
    assert f"a step reads {cause}, which a restore does not bring back" in report.line()


def test_a_view_that_a_load_cuts_is_named() -> None:
    """Trap 3: both names of the memory."""
    (finding,) = tried(games.CutView()).findings
    assert finding.causes == (
        "CutView.positions and CutView.first (shared memory in the live run, not after the load)",
    )


@pytest.mark.seldom(0.15)
def test_a_set_whose_order_a_step_uses_is_named() -> None:
    """Trap 4: its order depends on PYTHONHASHSEED. One that is only asked for membership is not named."""
    (finding,) = tried(games.SetOrder(), "x", "names").findings
    assert "SetOrder.names" in str(finding)
    assert not tried(games.Sound(), "x", "names", rng="rng").findings


class FixedOrder(small_worlds.Walkers):
    """Iterates over a set of texts that it keeps outside the state and never changes: each restore is exact."""

    def __init__(self) -> None:
        super().__init__()
        self.names = {"ann", "bob", "cleo", "dan", "eve", "fay"}

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        # Another sum for each order: with index * ord(...), one in about thirty orders gave the same.
        self.state["x"][0] += sum(7**index * ord(name[0]) for index, name in enumerate(self.names))


def test_the_order_of_a_set_is_tried_where_restores_are_exact() -> None:
    """In this process all runs are equal; under another PYTHONHASHSEED they would differ."""
    (finding,) = tried(FixedOrder()).findings
    assert finding.kind == "order"
    assert str(finding).startswith("a step depends on the order of FixedOrder.names, a set of texts")


@pytest.mark.parametrize("is_restored", [True, False], ids=["a restore shows it", "no restore shows it"])
@pytest.mark.seldom(0.15)
def test_a_set_of_objects_that_hash_by_their_addresses_is_named(*, is_restored: bool) -> None:
    """As in Crafter: by the path of the set. One that is only asked what it holds is not named."""
    game = games.Chunks()
    simulation = adapt(game, fields()) if is_restored else as_simulation(InPlace(game))
    (finding,) = try_simulation(simulation, BUDGET_MS).findings
    assert finding.kind == "order"
    found = re.fullmatch(r"a step depends on the order of (.*), a set of objects that hash by their (.*)", str(finding))
    assert found, finding
    assert ".chunks[(0, 0)]" in found[1]
    assert found[2].startswith("memory addresses (Creature): it may differ after each restore and in each run")
    assert not try_simulation(adapt(games.Asked(), fields()), BUDGET_MS).findings


class InPlace:
    """Saves and loads a game's numbers in place: its objects, and so the order of its sets, stay as they are."""

    def __init__(self, game: games.Chunks) -> None:
        self.game = game

    def step(self, inputs: Any) -> None:
        self.game.step(inputs)

    def save(self) -> dict[str, Any]:
        _, words, place, *_ = self.game.random.get_state()
        places = np.array([one.place for one in self.game.creatures])
        return {"places": places, "words": np.asarray(words), "place": np.int64(place)}

    def load(self, saved: dict[str, Any]) -> None:
        self.game.random.set_state(("MT19937", saved["words"], int(saved["place"])))
        for one, place in zip(self.game.creatures, saved["places"].tolist(), strict=True):
            one.place = place


def test_a_source_without_a_seed_is_told_from_hidden_state() -> None:
    """Trap 8: two runs without any restore differ, so nothing is said about what a restore lacks."""
    (finding,) = tried(games.Unseeded(), "x").findings
    assert (finding.kind, finding.causes) == ("again", ())
    assert "two runs from the present state with the same inputs differ: the state after step 1 differs" in str(finding)


class TakesZeroForNone(gymnasium.Env[Any, Any]):
    """As packages do that ask `if seed:` before they make a generator."""

    observation_space, action_space = gymnasium.spaces.Discrete(2**40), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        """Draw the place."""
        self.place = int(np.random.default_rng(seed or None).integers(2**40))
        return self.place, {}

    def step(self, action: Any) -> Any:
        """Stay."""
        return self.place, float(action), False, False, {}


def test_inputs_that_do_not_repeat_are_named(tmp_path: Path) -> None:
    """Here the first reset of the trial, whose seed the environment takes for none: other seeds are all right."""
    with pytest.warns(RecordingWarning, match=r"returned\[0\] \(its inputs: \{'reset': 0\}\)"):
        env = recorder.record(TakesZeroForNone(), tmp_path / "run.tape", quiet=True, trial_ms=BUDGET_MS)
    env.reset(seed=5)
    env.close()


def test_a_save_that_disturbs_the_run_is_found() -> None:
    """Trap 13."""
    (finding,) = tried(games.SaveDisturbs()).findings
    assert "it runs differently if it is saved at each step" in str(finding)


def test_a_clock_in_what_a_step_returns_is_not_compared() -> None:
    """The line names it; the simulation is not accused."""
    report = tried(games.Clock(), "x")
    assert not report.findings
    assert report.unstable == ("returned['took']",)
    assert report.line().endswith("(not compared, since two equal runs differ in it: returned['took'])")


@pytest.mark.parametrize("world", [small_worlds.Walkers, small_worlds.Herd])
@pytest.mark.seldom(0.15)
def test_sound_worlds_are_not_accused(world: type) -> None:
    """Several trajectories, and one line."""
    line = tried(world()).line()
    assert re.fullmatch(
        r"tried \d runs? of \d+ steps without inputs in \d\.\d+ s: restored and run again with the same states and results",
        line,
    ), line


@pytest.mark.parametrize("name", ["quiet-meadow", "ping-pong"])
@pytest.mark.seldom(0.15)
def test_worlds_that_ship_are_not_accused(name: str) -> None:
    """They are not tried by a Recorder, whose start they would slow; here they are."""
    scenario = load_scenario(name)
    simulation = scenario.world.make(scenario.config)
    report = try_simulation(simulation, BUDGET_MS, player=player_of(simulation))
    assert not report.findings
    assert report.not_tried is None


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["CartPole-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1", "Pendulum-v1"])
@pytest.mark.seldom(0.18)
def test_environments_are_not_accused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also with a wrapper that reports the time."""
    env = gymnasium.make(name)
    if name == "CartPole-v1":
        env = gymnasium.wrappers.RecordEpisodeStatistics(env)
    recorder.record(env, tmp_path / "run.tape", trial_ms=BUDGET_MS).close()
    assert "restored and run again with the same states and results" in capsys.readouterr().err


def test_a_simulation_that_needs_inputs_is_not_tried() -> None:
    """What they are is not known; with trial_inputs it is."""
    report = tried(games.NeedsInputs(), "x")
    assert report.line().startswith(
        "not tried: step 1 with the inputs None (trial_inputs(seed) would give others) raised TypeError"
    )


def test_a_crash_and_a_slow_step_are_reported_in_a_line() -> None:
    """The recording begins all the same."""
    assert tried(games.Dies(), "x").line() == "not tried: a copy of the process died with exit code 9"
    simulation = adapt(games.Spins(), fields("x"))
    begun_s = time.monotonic()
    report = try_simulation(simulation, 100)
    assert (
        report.line() == "not tried: its first steps were not over after 0.35 s; a larger trial_ms gives them more time"
    )
    assert time.monotonic() - begun_s < 5


@pytest.mark.seldom(0.15)
def test_on_a_busy_machine_a_trial_takes_longer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All its times are as many times as long as processes share a processor. That nothing was tried is told if quiet, too."""
    monkeypatch.setattr("recorder.trial.trial.slower", lambda: 4.0)
    spins = games.Spins()
    with pytest.warns(RecordingWarning, match="^not tried: its first steps were not over after 1.4 s"):
        recorder.record(spins, tmp_path / "run.tape", fields("x"), quiet=True, trial_ms=100).close()


@pytest.mark.parametrize(("runnable", "factor"), [(1, 1.0), (2, 1.0), (6, 3.0), (99, 8.0)])
def test_how_many_share_a_processor(
    runnable: int, factor: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The runnable processes over the processors that this one may use, within limits; one if that is not known."""
    (tmp_path / "loadavg").write_text(f"0.10 0.20 0.30 {runnable}/812 4711\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("recorder.trial.processor_share._LOADAVG", tmp_path / "loadavg")
    assert slower() == factor
    (tmp_path / "loadavg").write_text("nothing")
    assert slower() == 1.0


class Sleeps:
    """Each step takes a while."""

    def __init__(self, step_s: float) -> None:
        self.x, self.step_s = 0, step_s

    def step(self) -> None:
        select.select([], [], [], self.step_s)
        self.x += 1


@pytest.mark.seldom(0.15)
def test_of_slow_steps_fewer_are_tried() -> None:
    """So many that they can be repeated in the time that is left."""
    report = try_simulation(adapt(Sleeps(0.2)), 1000)
    assert report.is_tested
    assert not report.findings
    assert 1 <= report.steps <= 4
    assert f"tried 1 run of {counted(report.steps, 'step')} without inputs in " in report.line()


def test_what_could_not_be_repeated_does_not_count_as_tried() -> None:
    """The line says how much time a trial needs."""
    line = try_simulation(adapt(Sleeps(0.4)), 200).line()
    assert re.fullmatch(
        r"not tried: (1 step took 0\.\d+ s, which left no time to repeat that; trial_ms=1\d00 gives a trial enough"
        r"|its first steps were not over after 0.55 s; a larger trial_ms gives them more time"  # On a busy machine.
        r"|after 0.55 s a copy of the process was waiting: .*)",
        line,
    ), line


@pytest.mark.seldom(0.18)
def test_the_line_says_with_what_was_tried() -> None:
    """Calls without arguments, one input, or several."""

    class Counts:
        def __init__(self) -> None:
            self.x = 0

        def step(self, number: int | None = 1) -> None:
            self.x += number or 1

    for player, given in (
        (None, "without inputs"),
        (lambda *_: lambda: {"step()": [[], {}]}, "without arguments"),
        (lambda *_: lambda: 3, "with one input again and again"),
        (lambda *_: iter(range(10**6)).__next__, r"with \d+ different inputs"),
    ):
        line = try_simulation(adapt(Counts()), BUDGET_MS, player=player).line()
        assert re.match(rf"tried \d+ runs? of \d+ steps {given} in ", line), line


@pytest.mark.seldom(0.15)
def test_the_steps_of_an_object_are_tried_with_its_own_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of its trial_inputs; without it, a step that can be called without arguments is called so."""

    class Pushed(games.NeedsInputs):
        def trial_inputs(self, seed: int) -> Any:
            return lambda: {"push": seed + 1}

    class Counts:
        def __init__(self) -> None:
            self.x = 0

        def step(self, number: int = 1) -> None:
            self.x += number

    subjects: list[tuple[Any, Any]] = [(Pushed(), {"push": 1}), (Counts(), 1)]
    for subject, inputs in subjects:
        with recorder.record(subject, tmp_path / f"{type(subject).__name__}.tape", trial_ms=BUDGET_MS) as game:
            game.step(inputs)
        printed = capsys.readouterr().err
        assert "restored and run again with the same states and results" in printed
        assert ("; calls with arguments were not tried" in printed) is (subject is subjects[1][0])


def test_a_copy_that_waits_is_not_called_slow() -> None:
    """More time would not help: the thread that it waits for is not in the copy."""
    report = try_simulation(adapt(games.Hangs(), fields("x")), 100)
    assert report.line() == (
        "not tried: after 0.35 s a copy of the process was waiting: for time to pass, or for a thread or a device, "
        "which only the process itself has"
    )


@pytest.mark.seldom(0.15)
def test_nothing_of_a_trial_is_visible(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Files, prints, the object, the modules, the generators, the environment: as before."""
    subject = games.Writes(tmp_path)
    words = np.random.get_state(legacy=False)["state"]["key"].tolist()  # noqa: NPY002 - the global one, on purpose
    hits = games.HITS
    assert not tried(subject, "x").findings
    tried(games.ModuleCounter(), "x")
    assert subject.x == 0
    assert hits == games.HITS
    assert words == np.random.get_state(legacy=False)["state"]["key"].tolist()  # noqa: NPY002
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
    assert not any(child.is_dir() for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}").glob("children/*"))


def test_a_step_that_makes_folders_is_not_tried(tmp_path: Path) -> None:
    """It cannot be repeated without being visible."""
    report = tried(games.Writes(tmp_path, makes_folder=True), "x")
    assert report.line() == "not tried: the step writes files, which a trial must not do"
    assert not list(tmp_path.iterdir())


def test_record_refuses_by_name(tmp_path: Path) -> None:
    """Nothing is written; without the trial it is recorded."""
    message = r"a step reads UnsavedGenerator.sensor.noise \(random generator\), which a restore does not bring back"
    with pytest.raises(NotCapturedError, match=message):
        recorder.record(games.UnsavedGenerator(), tmp_path / "run.tape", fields("x"), quiet=True, trial_ms=BUDGET_MS)
    assert not list(tmp_path.iterdir())
    recorder.record(games.UnsavedGenerator(), tmp_path / "run.tape", fields("x"), quiet=True, trial_ms=0).close()


def test_a_recorder_warns_by_name(tmp_path: Path) -> None:
    """It records all the same: the simulation is the caller's own. Without a trial it is silent."""
    with pytest.warns(RecordingWarning, match=r"Wrapped: a step reads Wrapped\.elapsed \(attribute\), which a restore"):
        recorder.Recorder(tmp_path / "run.tape", games.Wrapped(), trial_ms=BUDGET_MS).close()
    recorder.Recorder(tmp_path / "silent.tape", games.Wrapped(), trial_ms=0).close()
    recorder.Recorder(tmp_path / "changes.tape", games.Wrapped(), mode="changes", trial_ms=BUDGET_MS).close()


@pytest.mark.seldom(0.15)
def test_the_trial_is_not_on_the_tape(tmp_path: Path) -> None:
    """The same bytes with and without it."""
    for name, budget_ms in (("with", BUDGET_MS), ("without", 0.0)):
        with recorder.Recorder(tmp_path / name, small_worlds.Walkers(), deterministic=True, trial_ms=budget_ms) as tape:
            for _ in range(20):
                tape.step()
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


@pytest.mark.parametrize(
    ("budget_ms", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (True, TypeError)]
)
def test_bad_budgets_are_refused(budget_ms: Any, error: type[Exception], tmp_path: Path) -> None:
    """The message names the option."""
    with pytest.raises(error, match=r"^trial_ms="):
        recorder.Recorder(tmp_path / "run.tape", small_worlds.Walkers(), trial_ms=budget_ms)


class RandomlyBuilt:
    """Trap 8: construction draws from a source without a seed."""

    def __init__(self) -> None:
        self.x = 0.0
        self.gain = np.random.default_rng().random()

    def step(self, _: Any) -> Any:
        self.x += self.gain


@pytest.mark.seldom(0.18)
def test_a_twin_that_is_built_differently_is_found() -> None:
    """The object itself is restored exactly; another one, as a replay makes it, is not."""

    def make() -> Any:
        return adapt(RandomlyBuilt(), fields("x"))

    (finding,) = try_simulation(make(), BUDGET_MS, make_twin=make).findings
    assert finding.kind == "twin"
    assert "restored into another instance, it does not run on as before" in str(finding)
    env = gymnasium.make("CartPole-v1")
    adapter, simulation = adapter_of(env), adapt(env)
    same = try_simulation(
        simulation,
        BUDGET_MS,
        player=adapter.player,
        make_twin=lambda: adapt(adapter.rebuild(simulation.adapter["subject"])),
    )
    assert not same.findings


def test_the_refusal_of_a_generator_of_the_process_says_what_to_keep(tmp_path: Path) -> None:
    """To save it would not help: the object has to draw from a generator of its own."""
    with pytest.raises(
        NotCapturedError, match=r"Draw from a generator that the recorded object keeps, such as random\.Random"
    ):
        recorder.record(games.GlobalRandom(), tmp_path / "run.tape", fields("x"), quiet=True, trial_ms=BUDGET_MS)
