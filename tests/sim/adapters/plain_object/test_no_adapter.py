"""Two simulators without an adapter, recorded in the way that docs/adapt.md describes.

The results of steps and the complete archive or game are compared with those of the live run.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from recorder.conformance.contract_checks import FRESH, SAME_SEED, Subject, check_run
from recorder.testing import SimulationContract
from replayer.commands.main import main
from sim.adapters import adapt, fields

from project_paths import EXAMPLES

sys.path.insert(0, str(EXAMPLES))
SIMULATORS = {"rebound": ("record_rebound", "Probe"), "chess": ("record_chess", "Game")}
AHEAD = 25


def of(package: str) -> tuple[Any, Any]:
    """The class of a simulator and the source of its inputs."""
    pytest.importorskip(package)
    module, name = SIMULATORS[package]
    loaded = importlib.import_module(module)
    return getattr(loaded, name), loaded.random_inputs


def shown(simulation: Any, result: Any) -> bytes:
    """The visible result and state after a step."""
    return repr((result, sorted(simulation.save().items()))).encode()


def digest_of_continuations(path: str, module: str, name: str, ticks: list[int]) -> str:
    """Seek to each tick, continue from there with the inputs of the tape alone, and digest the visible states."""
    make = getattr(importlib.import_module(module), name)
    digest = hashlib.sha256()
    with replayer.open(path, world=make) as run:
        for tick in ticks:
            run.seek(tick)
            simulation = make()
            simulation.load(run.simulation.save())  # A second instance: the one of the run continues separately.
            for later in range(tick + 1, min(tick + AHEAD, run.last_tick) + 1):
                result = simulation.step(run.tape.frame(later).inputs)
                digest.update(shown(simulation, result))
    return digest.hexdigest()


def assert_continues(package: str, folder: Path, *, steps: int, loads: int) -> None:
    """Record, seek to random ticks and continue, here and in a second process."""
    make, random_inputs = of(package)
    seed = random.randrange(1 << 20)
    print("seed", seed)
    play, simulation, live = random_inputs(seed), make(), [b""]
    with recorder.Recorder(folder / "run.tape", simulation, keyframe_interval_ticks=97, durability="none") as tape:
        for _ in range(steps):
            result = tape.step(play())
            live.append(shown(simulation, result))
    ticks = sorted(random.Random(seed).sample(range(1, steps - 5), loads))
    expected_digest = hashlib.sha256()
    for tick in ticks:
        for one in live[tick + 1 : min(tick + AHEAD, steps) + 1]:
            expected_digest.update(one)

    assert len(set(live)) == steps + 1
    arguments = (str(folder / "run.tape"), *SIMULATORS[package], ticks)
    assert digest_of_continuations(*arguments) == expected_digest.hexdigest()
    with replayer.open(folder / "run.tape", world=make) as run:
        report = run.verify()
        assert (report.ok, report.verified_ticks) == (True, steps + 1)
    call = "module.digest_of_continuations(*json.loads(sys.argv[1]))"
    code = f"import json, sys; import test_no_adapter as module; print({call})"
    import_path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    finished = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "12", "PYTHONPATH": import_path},
    )
    assert finished.stdout.strip() == expected_digest.hexdigest(), finished.stderr


@pytest.mark.parametrize("package", SIMULATORS)
@pytest.mark.seldom(0.15)
def test_a_restored_simulation_continues_as_the_live_one_did(package: str, tmp_path: Path) -> None:
    """Results and the complete state are equal bit for bit."""
    assert_continues(package, tmp_path, steps=250, loads=6)


@pytest.mark.long
@pytest.mark.parametrize("package", SIMULATORS)
def test_a_restored_simulation_continues_as_a_long_live_run_did(package: str, tmp_path: Path) -> None:
    """2,000 steps, 50 ticks."""
    assert_continues(package, tmp_path, steps=2000, loads=50)


class Contract(SimulationContract):
    """The contract for one of the two simulators."""

    package = ""
    ticks = 40
    seeds = 2

    @pytest.fixture(autouse=True)
    def _needs_its_package(self) -> None:
        pytest.importorskip(self.package)

    def make(self) -> Any:
        return of(self.package)[0]()

    def inputs(self, simulation: Any, seed: int) -> Any:
        del simulation
        return of(self.package)[1](seed)


del Contract.__test__  # Only its subclasses are tests.


class TestProbe(Contract):
    package = "rebound"


class TestGame(Contract):
    package = "chess"


def test_an_archive_that_holds_more_than_the_state_is_found() -> None:
    """REBOUND's own archive holds times and addresses, so that no two instances have equal states."""
    make, random_inputs = of("rebound")

    class Raw(make):  # type: ignore[misc]  # A class that exists only if its package is installed.
        def save(self) -> dict[str, bytes]:
            return {"archive": self.sim.__reduce__()[1][0]}

    subject = Subject(Raw, lambda _, seed: random_inputs(seed))
    broken = {one.trial for one in check_run(subject, subject.live(1, 20))}
    assert broken >= {SAME_SEED, FRESH}


def test_the_commands_replay_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check, verify and seek, each with --sim, work as in docs/adapt.md."""
    make, random_inputs = of("rebound")
    play = random_inputs(3)
    with recorder.Recorder(tmp_path / "probe.tape", make()) as tape:
        for _ in range(120):
            tape.step(play())

    def replay(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        return capsys.readouterr().out

    tape_path = str(tmp_path / "probe.tape")
    assert "no hidden state seen in 60 ticks" in replay(
        "check", "record_rebound:Probe", "--inputs", tape_path, "--ticks", "60"
    )
    assert "all 121 ticks match the recording" in replay("verify", tape_path, "--sim", "record_rebound:Probe")
    sought = json.loads(replay("seek", tape_path, "--tick", "77", "--sim", "record_rebound:Probe", "--json"))
    assert (sought["tick"], sought["state_hash"]) == (77, f"{_hash_at(tmp_path / 'probe.tape', 77):016x}")


def _hash_at(path: Path, tick: int) -> int:
    with replayer.open(path) as run:
        return int(run.tape.state_hash(tick))


def test_a_board_by_pickle_is_as_exact(tmp_path: Path) -> None:
    """Without any code: all attributes of the object, and trust for those that need pickle."""
    make, random_inputs = of("chess")

    def trusted() -> Any:
        return adapt(Unsaved(make()), fields(), trust=True)

    play = random_inputs(5)
    with recorder.Recorder(tmp_path / "run.tape", trusted(), keyframe_interval_ticks=30) as tape:
        for _ in range(100):
            tape.step(play())
    with replayer.open(tmp_path / "run.tape", world=trusted) as run:
        assert run.verify().ok


class Unsaved:
    """A game without save and load."""

    def __init__(self, game: Any) -> None:
        self.board = game.board
        self._play = type(game).step
        self.games = 1

    def step(self, inputs: Any) -> Any:
        return self._play(self, inputs)
