"""record(): what a kill costs, what type checkers see, and one name for the recorded object."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer

from project_paths import ROOT
from small_worlds import Saved, Walkers

GAME = '''
import random

class Game:
    """A plain object."""

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.score = 0

    def advance(self, order: str, *, times: int = 1) -> int:
        self.score += sum(self.random.randrange(6) for _ in range(times))
        return self.score
'''


def python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.seldom(0.15)
def test_a_kill_loses_no_step_that_returned(tmp_path: Path) -> None:
    """By default, as with Recorder."""
    (tmp_path / "game.py").write_text(GAME)
    killed = python(
        tmp_path,
        "import os, recorder, signal\n"
        "from game import Game\n"
        "game = recorder.record(Game(), 'run.tape', step='advance', quiet=True)\n"
        "for turn in range(457):\n"
        "    print(turn + 1, game.advance('go', times=2), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    tick, score = map(int, killed.stdout.splitlines()[-1].split())
    with replayer.Timeline(tmp_path / "run.tape") as run:
        assert run.last_tick == tick == 457
    check = python(
        tmp_path,
        "import replayer\n"
        "from game import Game\n"
        "run = replayer.Timeline('run.tape', world=Game)\n"
        "run.seek(-1)\n"
        "print(run.subject.score, run.verify().status)\n",
    )
    assert check.stdout.split()[0] == str(score), check.stderr


USE = """
from typing import reveal_type

import recorder, replayer
from game import Game

game = recorder.record(Game(), "run.tape", step="advance", durability="none", quiet=True)
reveal_type(game)
reveal_type(game.advance("go", times=2))
with recorder.tape_of(game) as tape:
    reveal_type(tape)
    game.seed = 3
    game.advance(1)
run = replayer.open("run.tape", world=Game)
reveal_type(run.subject)
with run.fork() as fork:
    reveal_type(fork.fork().subject)
reveal_type(replayer.open("run.tape").subject)
def length_of(timeline: replayer.Timeline) -> int:
    return len(timeline)
print(length_of(run))
"""
EXPECTED = [
    'use.py:8: note: Revealed type is "game.Game"',
    'use.py:9: note: Revealed type is "int"',
    'use.py:11: note: Revealed type is "recorder.session.recorder.Recorder"',
    'use.py:12: error: "Game" has no attribute "seed"  [attr-defined]',
    'use.py:13: error: Argument 1 to "advance" of "Game" has incompatible type "int"; expected "str"  [arg-type]',
    'use.py:15: note: Revealed type is "game.Game"',
    'use.py:17: note: Revealed type is "game.Game"',
    'use.py:18: note: Revealed type is "Any"',
]


@pytest.mark.seldom(0.15)
def test_a_type_checker_sees_the_object(tmp_path: Path) -> None:
    """Its methods with their parameters, and what it does not have; the recorder by tape_of."""
    pytest.importorskip("mypy")
    (tmp_path / "game.py").write_text(GAME)
    (tmp_path / "use.py").write_text(USE)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary", "use.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout.replace("builtins.", "").splitlines() == EXPECTED, checked.stderr


@pytest.mark.parametrize("make", [Walkers, Saved])
def test_a_simulation_of_your_own_has_the_same_name(make: Any, tmp_path: Path) -> None:
    """Live it stood behind an arena of ours."""
    simulation = make()
    with recorder.Recorder(tmp_path / "run.tape", simulation) as tape:
        assert tape.subject is simulation
        tape.step([] if make is Walkers else 1)
    with replayer.Timeline(tmp_path / "run.tape", world=make) as run:
        run.seek(1)
        assert type(run.subject) is make


def adapted(package: str) -> tuple[Any, Any]:
    """A factory of an object of a package, and what makes one tick of it."""
    pytest.importorskip(package)
    if package == "gymnasium":
        import gymnasium

        return lambda: gymnasium.make("CartPole-v1"), lambda env: env.reset(seed=1)
    if package == "pettingzoo":
        from pettingzoo.classic.tictactoe import tictactoe

        return tictactoe.env, lambda env: env.reset(seed=1)
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    )
    return lambda: mujoco.MjData(model), lambda data: data.step()


@pytest.mark.parametrize("package", ["gymnasium", "pettingzoo", "mujoco"])
def test_the_objects_of_packages_have_it(package: str, tmp_path: Path) -> None:
    make, tick = adapted(package)
    subject = make()
    recorded = recorder.record(subject, tmp_path / "run.tape", quiet=True, level="exact")
    assert recorded.subject is subject
    assert recorder.tape_of(recorded).subject is subject
    tick(recorded)
    recorded.tape.close()
    with replayer.Timeline(tmp_path / "run.tape", world=make) as run:
        run.seek(1)
        assert type(run.subject) is type(subject)
        tick_again = run.subject.step if package == "gymnasium" else None
        assert tick_again is None or len(tick_again(0)) == 5


def test_assignments_to_mujoco_data_reach_the_data(tmp_path: Path) -> None:
    """They are inputs of its next tick; they once ended at the proxy."""
    make, _ = adapted("mujoco")
    data = make()
    with recorder.record(data, tmp_path / "run.tape", quiet=True) as recorded:
        recorded.time = 7.0
        assert data.time == 7.0
        recorded.step()
    with replayer.Timeline(tmp_path / "run.tape", world=make) as run:
        assert run.verify().ok
        run.seek(1)
        assert run.subject.time == data.time
