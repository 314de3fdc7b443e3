"""The three levels: declared, written on the tape, honoured by seeks, and checked by the contract and replay check."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from recorder.conformance.contract_checks import FRESH, PROCESS, RECORDED, USED, Subject, check_run
from recorder.conformance.fresh_processes import check_process
from recorder.testing import SimulationContract
from replayer.commands.check_adapter import check_level, level_lines
from replayer.commands.main import main
from sim.kernel.exactness import Level, level_of

gymnasium = pytest.importorskip("gymnasium")

sys.path.insert(0, str(Path(__file__).parent))  # For --sim.
import environments as zoo  # noqa: E402

pytestmark = pytest.mark.share(0.18)


class Rounding:
    """Saves less precision than it steps with: every load rounds, always in the same way."""

    level = "canonical"

    def __init__(self) -> None:
        self.x = 0.1

    def step(self, inputs: Any) -> None:
        self.x = self.x * 1.01 + 1e-9 * int(inputs or 0)

    def save(self) -> dict[str, Any]:
        return {"x": np.float32(self.x)}

    def load(self, saved: Any) -> None:
        self.x = float(saved["x"])


class RoundingSaidToBeExact(Rounding):
    level = "exact"


class Disturbed(Rounding):
    """Saving changes it."""

    level = "exact"

    def save(self) -> dict[str, Any]:
        self.x += 1e-3
        return {"x": np.float64(self.x)}


class Leftover(Rounding):
    """A load keeps a value of a used instance."""

    level = "exact"

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def step(self, inputs: Any) -> None:
        self.seen += 1
        self.x += 1.0 if self.seen > 60 else 0.0

    def load(self, saved: Any) -> None:
        self.x, self.seen = float(saved["x"]), max(self.seen, int(saved["seen"]))

    def save(self) -> dict[str, Any]:
        return {"x": np.float64(self.x), "seen": np.int64(self.seen)}


def violations(make: Any, ticks: int = 60) -> set[str]:
    """The trials that a simulation fails on two seeds."""
    subject = Subject(make)
    return {one.trial for seed in range(2) for one in check_run(subject, subject.live(seed, ticks))}


def test_a_canonical_run_loads_at_keyframes_and_replays_exactly(tmp_path: Path) -> None:
    """The live run continues from the state that a replay starts from; seeks reach every tick, and it verifies."""
    live = Rounding()
    with recorder.Recorder(tmp_path / "run.tape", live, keyframe_interval_ticks=25) as tape:
        values = [live.x]  # The first keyframe was written and loaded.
        for tick in range(1, 131):
            tape.step(tick)
            values.append(live.x)
    plain = Rounding()
    for tick in range(1, 131):
        plain.step(tick)

    assert plain.x != live.x
    with replayer.open(tmp_path / "run.tape", world=Rounding) as run:
        assert run.tape.meta["level"] == "canonical"
        for tick in (0, 24, 25, 26, 99, 130, 51):
            run.seek(tick)
            assert run.simulation.x == values[tick]
        run.seek(20)
        for tick in range(21, 60):  # Over two keyframes by steps alone.
            run.step()
            assert run.simulation.x == values[tick]
        assert run.verify().ok


def test_a_canonical_recording_is_resumed(tmp_path: Path) -> None:
    """The ticks recorded after a resume replay, too."""
    with recorder.Recorder(tmp_path / "run.tape", Rounding(), keyframe_interval_ticks=25) as tape:
        for tick in range(40):
            tape.step(tick)
    with recorder.resume(tmp_path / "run.tape", Rounding()) as tape:
        for tick in range(40):
            tape.step(tick)
    with replayer.open(tmp_path / "run.tape", world=Rounding) as run:
        assert run.verify().ok
        assert run.verify().tick_count == 81


def test_without_its_loads_a_canonical_run_does_not_replay(tmp_path: Path) -> None:
    """The control: the same simulation, declared exact, diverges at the keyframes."""
    with recorder.Recorder(
        tmp_path / "run.tape", RoundingSaidToBeExact(), keyframe_interval_ticks=25, trial_ms=0
    ) as tape:
        for tick in range(130):
            tape.step(tick)
    with replayer.open(tmp_path / "run.tape", world=RoundingSaidToBeExact) as run:
        assert not run.verify().ok


def test_an_unknown_level_is_refused(tmp_path: Path) -> None:
    """The level is refused before anything is written."""

    class Perfect(Rounding):
        level = "perfect"

    with pytest.raises(ValueError, match=r"^level: expected one of exact, canonical, inputs_only, got 'perfect'$"):
        recorder.Recorder(tmp_path / "run.tape", Perfect())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("level", [3, np.arange(5.0), ["cave"]])
def test_a_level_that_is_no_text_is_a_value_of_the_game(tmp_path: Path, level: Any) -> None:
    """Games number their levels: nothing is declared by that."""

    class Cave(Rounding):
        pass

    game = Cave()
    game.level = level  # type: ignore[assignment]
    assert level_of(game) == Level.EXACT
    with recorder.Recorder(tmp_path / "run.tape", game, trial_ms=0) as tape:
        tape.step(1)


@pytest.mark.parametrize(
    ("make", "broken"),
    [
        (Rounding, set()),
        (RoundingSaidToBeExact, {FRESH, USED}),
        (Leftover, {USED}),
        (zoo.Drift, set()),
        (zoo.ForgetsItsRandomState, {FRESH, USED}),
        (lambda: zoo.Late(zoo.Drift()), set()),
    ],
)
def test_a_run_is_tried_in_every_way(make: Any, broken: set[str]) -> None:
    """Each defect fails the trials that it must fail, and a correct simulation fails none."""
    assert violations(make) == broken


def test_saving_must_not_change_a_run() -> None:
    """A save that changes the simulation is found by comparison with a run that is never saved."""
    assert violations(Disturbed) == {RECORDED}


@pytest.mark.seldom(0.15)
def test_a_second_process_has_a_different_hash_seed() -> None:
    """A dependence on the order of a set is found in the second process, and only there."""
    place = (str(Path(zoo.__file__)), "OrderOfASet")
    subject = Subject(zoo.OrderOfASet, None, place)
    runs = [subject.live(seed, 20) for seed in range(2)]

    found = [one for hash_seed in ("1", "3") for one in _in_process(subject, runs, hash_seed)]
    assert {one.trial for one in found} == {PROCESS}
    sound = Subject(zoo.Drift, None, (str(Path(zoo.__file__)), "Drift"))
    assert check_process(sound, [sound.live(0, 20)]) == []


def _in_process(subject: Subject, runs: Any, hash_seed: str) -> Any:
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = "0" if hash_seed == "1" else hash_seed
    try:
        return check_process(subject, runs)
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before


class TestDrift(SimulationContract):
    """A complete test of a simulation: it only defines make."""

    ticks = 50

    def make(self) -> Any:
        return zoo.Drift()


class TestRounding(SimulationContract):
    """A contract with user-defined inputs."""

    seeds = 2
    ticks = 50

    def make(self) -> Any:
        return Rounding()

    def inputs(self, simulation: Any, seed: int) -> Any:
        draws = np.random.default_rng(seed)
        return lambda: int(draws.integers(0, 9))


def test_a_contract_that_is_broken_fails() -> None:
    """Each test of the kit can fail."""

    class Broken(SimulationContract):
        seeds, ticks = 1, 40

        def make(self) -> Any:
            return zoo.ForgetsItsRandomState()

    with pytest.raises(AssertionError, match="save and load, seed 0, loaded at tick"):
        Broken().test_a_state_that_is_loaded_goes_on_as_the_run_did()


def test_the_cause_of_a_broken_level_is_named() -> None:
    """The random module, which is not part of the state, is proved to affect the run."""
    subject = Subject(zoo.ForgetsItsRandomState)
    report = check_level(subject, subject.simulation(), ticks=30, seeds=2)

    assert report.level is Level.EXACT
    assert not report.ok
    text = "\n".join(level_lines("environments:ForgetsItsRandomState", report))
    assert "random (random generator)" in text
    assert "proved" in text
    assert "save and load: differs for 2 of 2 seeds: the next steps read what is not saved" in text
    assert "same seed twice: the same" in text


class RoundingByChance(Rounding):
    """Declares itself canonical, although every load differs."""

    def load(self, saved: Any) -> None:
        self.x = float(saved["x"]) + float(np.random.default_rng().random())


@pytest.mark.seldom(0.15)
def test_check_holds_a_simulation_to_the_level_that_it_declares(capsys: pytest.CaptureFixture[str]) -> None:
    """A load of a canonical simulation changes what follows: this is not hidden state if it always does so equally."""
    for name, code, message in (
        ("Rounding", 0, "level canonical kept"),
        ("RoundingByChance", 1, "level canonical NOT kept"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["check", f"test_exactness:{name}", "--ticks", "20", "--seeds", "2"])
        assert ended.value.code == code
        assert message in capsys.readouterr().out


@pytest.mark.seldom(0.15)
def test_check_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 with a line for each trial; 1 with JSON for a broken level; 2 for a state that cannot be captured."""

    def check(*arguments: str) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["check", *arguments])
        return ended.value.code, *capsys.readouterr()

    code, out, _ = check("environments:Drift", "--ticks", "12", "--seeds", "2")
    assert code == 0
    assert out.splitlines()[0] == "environments:Drift: level exact kept on 2 seeds of 12 ticks"
    assert out.count(": the same") == 5

    code, out, _ = check("environments:ForgetsItsRandomState", "--ticks", "15", "--seeds", "1", "--json")
    assert code == 1
    facts = json.loads(out)
    assert facts["suspects"][0]["name"].startswith("random")
    assert {one["trial"] for one in facts["violations"]} == {FRESH, USED}

    code, _, errors = check("environments:Coroutine", "--ticks", "25", "--seeds", "1")
    assert code == 2
    assert "Coroutine.routine (generator)" in errors
    assert "Traceback" not in errors


@pytest.mark.long
def test_check_tries_eight_seeds_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "environments:Drift", "--ticks", "12"])
    assert "kept on 8 seeds of 12 ticks" in capsys.readouterr().out
