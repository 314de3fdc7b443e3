"""A tape of a wrapped environment: what the messages ask for, where the wrappers are missing or others are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from optional_packages import needs

import recorder
import replayer
from recorder.errors import SimulationFailedError
from replayer.commands.main import main

from oracle.command_lines import run

needs("gymnasium")

import gymnasium  # noqa: E402
from collected_environments import loop  # noqa: E402

FETCH = """
import gymnasium
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit


class Fetch(gymnasium.Env):
    observation_space = spaces.Discrete(100)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place += int(action)
        return self.place, 1.0, False, False, {}


def make():
    return TimeLimit(Fetch(), 10)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with an environment and the function that makes it with its wrapper."""
    (tmp_path / "fetch_of_test.py").write_text(FETCH)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "fetch_of_test"


def tape_of(env: Any, name: str) -> None:
    recorded = recorder.record(env, name, quiet=True)
    loop(recorded, 25, 1)
    recorded.close()


def test_the_hint_asks_for_the_wrappers_and_obeying_it_works(module: str, capsys: Any) -> None:
    made = __import__(module)
    tape_of(made.make(), "fetch.tape")

    assert run(main, "verify fetch.tape") == 2
    hint = capsys.readouterr().err
    assert "with its wrappers, outermost first: TimeLimit, Fetch; world=… in Python or --sim module:factory" in hint
    assert f"{module}:Fetch" not in hint

    assert run(main, f"verify fetch.tape --sim {module}:Fetch") == 2
    assert capsys.readouterr().err == (
        "error: tick 0: the tape was recorded from TimeLimit, Fetch, and what was given makes Fetch: give the function "
        "that makes it with its wrappers, outermost first\n"
    )
    assert run(main, f"verify fetch.tape --sim {module}:make") == 0


def test_a_registered_environment_needs_no_factory(module: str, capsys: Any) -> None:
    made = __import__(module)
    tape_of(gymnasium.make("CartPole-v1"), "cart.tape")

    assert run(main, f"verify cart.tape --sim {module}:make") == 2
    line = "leave --sim (world= in Python) out, the tape's CartPole-v1 is registered and made without it"
    error = capsys.readouterr().err
    assert line in error
    assert ".py" not in error
    with pytest.raises(SimulationFailedError, match=r"leave --sim \(world= in Python\) out"):
        replayer.open("cart.tape", world=made.make).seek(3)
    assert run(main, "verify cart.tape") == 0


def test_an_environment_that_its_module_registers_needs_a_function_that_makes_it_by_its_id(
    module: str, capsys: Any
) -> None:
    """A tape imports no module, so that no advice is to leave the function out: the module of the function registered it."""
    made = __import__(module)
    gymnasium.register("Fetch-v0", entry_point=f"{module}:Fetch")
    try:
        tape_of(gymnasium.make("Fetch-v0"), "fetch.tape")
        assert run(main, f"verify fetch.tape --sim {module}:Fetch") == 2
        error = capsys.readouterr().err
        assert "give a function that returns gymnasium.make('Fetch-v0'), with the wrappers around it, if any" in error
        assert "leave --sim" not in error
        made.by_id = lambda: gymnasium.make("Fetch-v0")  # type: ignore[attr-defined]
        assert run(main, f"verify fetch.tape --sim {module}:by_id") == 0
    finally:
        del gymnasium.registry["Fetch-v0"]


def test_of_two_tapes_the_registered_one_is_named(module: str, capsys: Any) -> None:
    needs("pyarrow")
    made = __import__(module)
    tape_of(gymnasium.make("CartPole-v1"), "cart.tape")
    tape_of(made.make(), "fetch.tape")

    assert run(main, f"extract fetch.tape cart.tape --sim {module}:make -o data -j 1") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: cart.tape: ")
    assert "the tape's CartPole-v1 is registered" in error
    assert not Path("data").exists()


def test_how_the_last_episode_ended_is_said(module: str, capsys: Any) -> None:
    """Over, or cut by the end of the recording."""
    made = __import__(module)
    for steps, said in (
        (10, "after an episode of 10 steps that was truncated"),
        (4, "in an episode that was not over, after 4 steps"),
    ):
        env = recorder.record(made.make(), f"{steps}.tape", quiet=True)
        env.reset(seed=1)
        for _ in range(steps):
            env.step(1)
        env.close()
        assert run(main, f"info {steps}.tape") == 0
        assert f"  ended: closed, {said}\n" in capsys.readouterr().out
