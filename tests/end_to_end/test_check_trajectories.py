"""``replay check`` tries several trajectories of every kind of simulation, and compares what the steps return."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import recorder
from replayer.commands.main import main

from oracle.command_lines import run

MODULE = """
import random
import sys
import gymnasium
import numpy as np
from sim import Field, RandomStream, Schema, State
from sim.adapters import adapt, fields

class Walk:
    def __init__(self, seed=0):
        self.state = State(Schema(Field("x", "i8"), Field("rng", "u8", (4,))))
        RandomStream.seed(self.state["rng"], seed)
        self.rare = 0

    def step(self, inputs):
        drawn = int(RandomStream(self.state["rng"]).integers(0, 60, 1)[0])
        self.state["x"][()] += drawn
        return drawn

class OneSeedLeaks:                                 # a plain object; its default is another seed
    drawn = 0

    def __init__(self, seed=3):
        self.seed, self.x = seed, 0

    def step(self):
        OneSeedLeaks.drawn += 1
        self.x += OneSeedLeaks.drawn if self.seed == 5 else self.seed

class Unseeded(OneSeedLeaks):
    def __init__(self):
        super().__init__()

class RarelyLeaky(Walk):                            # which seeds show it is a matter of chance
    def step(self, inputs):
        if super().step(inputs) == 5:
            self.rare += 1
        self.state["x"][()] += self.rare

class Noisy(Walk):
    noise = np.random.default_rng(4)

    def step(self, inputs):
        return super().step(inputs) + self.noise.random()

class Driven(Walk):
    def trial_inputs(self, seed):
        return random.Random(seed).random

    def step(self, inputs):
        self.state["x"][()] += int(inputs * 100)

class Market:
    def __init__(self):
        self.last = 0

    def step(self, inputs):
        self.last = hash("corn") + inputs

class Called:
    def __init__(self):
        self.last = 0

    def step(self, inputs):
        self.last += inputs

    def add(self, number):
        self.last += number

class Stateful:                                     # its .state is its own affair
    def __init__(self):
        self.state = {"x": 0}

    def step(self, inputs):
        self.state["x"] += inputs

class Stamped:
    made = 0

    def __init__(self):
        Stamped.made += 1
        self.number, self.x = Stamped.made // 3, 0  # two instances that are made at once are equal

    def step(self, inputs):
        self.x += inputs

class Arguments:
    def __init__(self):
        self.x = 0

    def step(self, inputs=None):
        self.x += len(" ".join(sys.argv))

class Lucky:
    def __init__(self):
        self.number, self.x = random.SystemRandom().getrandbits(60), 0

    def step(self, inputs):
        self.x += self.number % 1000

class LuckyAndLeaky(Lucky):
    def step(self, inputs):
        self.x += random.SystemRandom().getrandbits(60)

class Sensor:
    def __init__(self):
        self.noise = np.random.default_rng(9)

class Game:
    def __init__(self):
        self.x, self.sensor = 0, Sensor()

    def step(self, inputs):
        self.x += 1
        return self.sensor.noise.random()

def game():
    return adapt(Game(), fields("x"))

class Counting(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Box(-1e6, 1e6, (1,)), gymnasium.spaces.Discrete(2)
    steps = 0                                       # of all environments

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = np.zeros(1, np.float32)
        return self.x.copy(), {}

    def step(self, action):
        Counting.steps += 1
        self.x += Counting.steps % 3
        return self.x.copy(), 0.0, bool(Counting.steps % 7 == 0), False, {}

class ByGlobal(gymnasium.Env):                      # a reset without a seed continues with the random module
    observation_space, action_space = gymnasium.spaces.Box(-1e6, 1e6, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            random.seed(seed)
        self.x, self.left = np.array([random.random()], np.float32), 3
        return self.x.copy(), {}

    def step(self, action):
        self.left -= 1
        return self.x.copy(), 0.0, self.left == 0, False, {}

def repeated():
    return adapt(ByGlobal(), level="inputs_only")
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder with a user's module of a name that no other test has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tried", raising=False)
    Path("tried.py").write_text(MODULE)


Replay = Callable[..., tuple[int, str]]


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    """Run the command: exit code and output."""

    def run_check(*words: str) -> tuple[int, str]:
        code = run(main, shlex.join(["check", *words]))
        return code, capsys.readouterr().out

    return run_check


@pytest.mark.seldom(0.4)
def test_a_factory_with_a_seed_has_a_trajectory_for_each(replay: Replay) -> None:
    """Also one whose simulation suggests its inputs."""
    for name in ("Walk", "Driven"):
        code, printed = replay(f"tried:{name}", "--ticks", "60", "--seeds", "4")
        assert code == 0
        assert "4 trajectories of 50 ticks, repeated, loaded and recorded: the same states and results" in printed


@pytest.mark.seldom(0.18)
def test_a_fault_that_one_run_does_not_show_is_found_by_others(replay: Replay) -> None:
    """The first run is too short to meet it."""
    code, printed = replay("tried:RarelyLeaky", "--ticks", "16", "--seeds", "20", "--json")
    facts = json.loads(printed)
    assert code == 1
    assert facts["ok"]
    assert not facts["trajectories"]["ok"]
    assert facts["trajectories"]["suspects"][0]["name"] == "RarelyLeaky.rare"


def test_a_run_with_the_inputs_of_a_tape_is_compared_in_a_fresh_process_too(replay: Replay) -> None:
    """Hashes of texts depend on the hash seed; within one process no restore shows it."""
    tried = importlib.import_module("tried")
    with recorder.record(tried.Market(), "run.tape", trial_ms=0, quiet=True) as game:
        for _ in range(8):
            game.step(1)
    code, printed = replay("tried:Market", "--inputs", "run.tape")
    assert code == 1
    assert printed.startswith(
        "tried:Market: NOT the same in each run: fresh process\n  no hidden state seen in 8 ticks"
    )
    assert "  next: replay explain run.tape --sim tried:Market looks for the line\n" in printed
    assert "record a run" not in printed
    assert "fresh process: differs for 1 of 1 run: possible: the order of sets" in printed


def test_a_run_that_another_process_cannot_make_is_said_not_to_be_compared(replay: Replay) -> None:
    """The tape has calls of another method, which are made by the tape's description alone."""
    tried = importlib.import_module("tried")
    with recorder.record(tried.Called(), "run.tape", step=["step", "add"], trial_ms=0, quiet=True) as game:
        for _ in range(8):
            game.step(1)
            game.add(2)
    code, printed = replay("tried:Called", "--inputs", "run.tape")
    assert code == 0
    assert "no run in a fresh process was compared: " in printed


def test_an_object_with_a_state_of_its_own_is_run_in_a_fresh_process(replay: Replay) -> None:
    """An attribute of this name makes no simulation of it."""
    tried = importlib.import_module("tried")
    with recorder.record(tried.Stateful(), "run.tape", trial_ms=0, quiet=True) as game:
        for _ in range(8):
            game.step(1)
    code, printed = replay("tried:Stateful", "--inputs", "run.tape")
    assert code == 0
    assert "1 trajectory of 8 ticks, repeated, loaded and recorded: the same states and results" in printed


def test_being_saved_is_not_blamed_for_an_instance_that_begins_otherwise(replay: Replay) -> None:
    """The one with a recorder differs before it was saved: its constructor counts the instances."""
    tried = importlib.import_module("tried")
    with recorder.record(tried.Stamped(), "run.tape", trial_ms=0, quiet=True) as game:
        for _ in range(8):
            game.step(1)
    code, printed = replay("tried:Stamped", "--inputs", "run.tape")
    assert code == 0
    assert (
        "  1 trajectory of 8 ticks from one start, repeated, loaded and recorded: the same states and results\n"
        in printed
    )
    assert "  further instances start differently: number: live " in printed
    assert "fresh processes start alike" in printed
    assert "being saved" not in printed


def test_what_only_this_process_has_is_no_agreement_with_fresh_ones(replay: Replay) -> None:
    """The fresh ones agree with each other: that is said, and not that they are the same as the run."""
    code, printed = replay("tried:Arguments", "--ticks", "8", "--seeds", "1")
    assert code == 1
    assert (
        "fresh process: differs for 1 of 1 run: possible: earlier instances in this process, the arguments of"
        in printed
    )
    assert re.search(
        r"state differs in another process at tick 1; [34] fresh processes agree with each other\n", printed
    )


def test_chance_in_a_constructor_does_not_touch_a_recording_of_what_it_made(replay: Replay) -> None:
    """The recording holds the start; no step draws. What a step reads besides it is found all the same."""
    tried = importlib.import_module("tried")
    for name in ("Lucky", "LuckyAndLeaky"):
        with recorder.record(getattr(tried, name)(), f"{name}.tape", trial_ms=0, quiet=True) as game:
            for _ in range(8):
                game.step(1)
    code, printed = replay("tried:Lucky", "--inputs", "Lucky.tape")
    assert code == 0
    assert printed.startswith("tried:Lucky: no hidden state seen in 8 ticks")
    assert "fresh processes start differently, too, and were not compared further" in printed
    assert "next: " not in printed
    code, printed = replay("tried:Lucky", "--ticks", "8", "--seeds", "1")  # Without a recording, it must begin alike.
    assert code == 1
    assert "same seed twice: differs for 1 of 1 run: two new instances differ at once; possible: " in printed
    code, printed = replay("tried:LuckyAndLeaky", "--inputs", "LuckyAndLeaky.tape")
    assert code == 1
    assert printed.startswith("tried:LuckyAndLeaky: READS RANDOM NUMBERS OF THE SYSTEM, first seen at tick 1\n")


@pytest.mark.seldom(0.4)
def test_what_steps_return_is_compared(replay: Replay) -> None:
    """The states are equal; the returned noise is not restored. Of worlds, and of objects with an adapter."""
    code, printed = replay("tried:Noisy", "--ticks", "20", "--seeds", "2")
    assert code == 1
    assert printed.startswith("tried:Noisy: NOT the same in each run: ")
    assert "\n  no hidden state seen in 20 ticks" in printed
    assert "returned other values than in the live run: returned" in printed
    code, printed = replay("tried:game", "--ticks", "20", "--seeds", "2")
    assert code == 1
    assert "save and load: differs for 2 of 2 runs: what a step returns is computed from a value that is not" in printed


def test_objects_are_made_with_each_seed(replay: Replay) -> None:
    """A plain object was always made with its default, and the line said that eight seeds were tried."""
    code, printed = replay("tried:OneSeedLeaks", "--ticks", "12", "--seeds", "5")
    assert (code, printed.splitlines()[0]) == (0, "tried:OneSeedLeaks: level exact kept on 5 seeds of 12 ticks")
    code, printed = replay("tried:OneSeedLeaks", "--ticks", "12", "--seeds", "6")
    assert (code, printed.splitlines()[0]) == (1, "tried:OneSeedLeaks: level exact NOT kept on 6 seeds of 12 ticks")
    assert ": exact" not in printed
    assert "differs for 1 of 6 seeds" in printed
    code, printed = replay("tried:Unseeded", "--ticks", "12", "--seeds", "2")
    assert (code, printed.splitlines()[0]) == (0, "tried:Unseeded: level exact kept on 2 runs of 12 ticks")


@pytest.mark.seldom(0.15)
def test_values_of_this_library_are_never_suspects(replay: Replay) -> None:
    """The environment's are named by its own class, not by the adapter's."""
    code, printed = replay("tried:Counting", "--ticks", "20", "--seeds", "2")
    assert code == 1
    suspects = [line.strip() for line in printed.partition("suspects")[2].splitlines()[1:]]
    assert any(line.startswith("Counting.steps (class attribute)") and "; proved" in line for line in suspects)
    assert not any("Simulation" in line or "_captured" in line for line in suspects)


@pytest.mark.seldom(0.4)
def test_each_reset_can_have_a_seed(replay: Replay) -> None:
    """What is exact with seeds only is found to be so."""
    code, printed = replay("tried:repeated", "--ticks", "20", "--seeds", "2")
    assert code == 1, printed
    code, printed = replay("tried:repeated", "--ticks", "20", "--seeds", "2", "--seed-resets")
    assert code == 0, printed
