"""Training pairs of tapes that hold episodes are refused: as one long episode they would be wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recorder
import replayer
from replayer.commands.main import main
from replayer.datasets.request import ExtractionError

from oracle.command_lines import assert_one_line, run

HERE = Path(__file__).stem
REFUSED = "recorded episodes, and pairs would join the last state before a reset to the first one after it"
REPLACED = "use the table transitions (the default; it takes no --observe, --reward, --action and --mode)"


def reward(_before: Any, after: Any) -> float:
    return float(after["result.reward"])


def act(inputs: Any) -> Any:
    return np.int64(inputs.get("<i8", 0))


def pole(path: Path, **settings: Any) -> Path:
    """Two episodes of CartPole, the first one to its end."""
    gymnasium = pytest.importorskip("gymnasium")
    env = recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, **settings)
    for seed, most in ((1, 500), (2, 3)):
        env.reset(seed=seed)
        for _ in range(most):
            _, _, terminated, truncated, _ = env.step(np.int64(0))
            if terminated or truncated:
                break
    env.close()
    return path


def no_reset(path: Path) -> Path:
    """An environment that was reset before it was recorded: no reset is on the tape, but the end of the episode is."""
    gymnasium = pytest.importorskip("gymnasium")
    inner = gymnasium.make("CartPole-v1")
    inner.reset(seed=1)
    env = recorder.record(inner, path, quiet=True)
    while not env.step(np.int64(0))[2]:
        pass
    env.close()
    return path


def game(path: Path) -> Path:
    """Two games of tic-tac-toe."""
    pytest.importorskip("pettingzoo")
    tictactoe = pytest.importorskip("pettingzoo.classic.tictactoe.tictactoe")
    env = recorder.record(tictactoe.env(), path, quiet=True)
    for seed in range(2):
        env.reset(seed=seed)
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else observation["action_mask"].argmax())
    env.close()
    return path


ENVIRONMENTS = {
    "gymnasium": pole,
    "inputs_only": lambda path: pole(path, level="inputs_only"),
    "no_reset": no_reset,
    "pettingzoo": game,
}


def pendulum() -> Any:
    mujoco = pytest.importorskip("mujoco")
    return mujoco.MjData(
        mujoco.MjModel.from_xml_string(
            '<mujoco><worldbody><body pos="0 0 1"><joint name="hinge" type="hinge" axis="0 1 0"/>'
            '<geom type="capsule" fromto="0 0 0 0 0 -.8" size=".05"/></body></worldbody>'
            '<actuator><motor joint="hinge"/></actuator></mujoco>'
        )
    )


@pytest.fixture(scope="module")
def swings(tmp_path_factory: Any) -> Path:
    """Two stretches of a pendulum: resets at ticks 1 and 7, tick 12 is the last one."""
    path: Path = tmp_path_factory.mktemp("swings") / "swings.tape"
    with recorder.record(pendulum(), path, quiet=True) as data:
        for _ in range(2):
            data.reset()
            for step in range(5):
                data.ctrl[:] = step
                data.step()
    return path


@pytest.fixture(autouse=True)
def own_functions(monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_pairs_of_an_environment_are_refused_by_every_reader(kind: str, tmp_path: Path) -> None:
    """Pairs are refused written or streamed, in each format, for ticks of one episode, too; no folder is left."""
    path = ENVIRONMENTS[kind](tmp_path / "run.tape")
    pairs: dict[str, Any] = {"tables": "pairs", "fields": "steps"}
    readers = [
        lambda: replayer.extract(path, tmp_path / "set", **pairs),
        lambda: replayer.extract(path, tmp_path / "set", **pairs, ranges=((1, 4),), stride=2),
        lambda: replayer.extract(path, tmp_path / "set", tables=("states", "pairs"), fields="steps"),
        lambda: replayer.extract(path, tmp_path / "set", rewards=f"{HERE}:reward", fields="steps"),
        lambda: replayer.extract(path, **pairs),
        lambda: replayer.samples(path, table="pairs", fields="steps"),
        lambda: replayer.samples([path], table="pairs", fields="steps", columns=("obs.*",), shuffle=False),
    ]
    for read in readers:
        with pytest.raises(ExtractionError) as caught:
            read()
        assert f"{path}: the adapter {kind if kind == 'pettingzoo' else 'gymnasium'} {REFUSED}" in str(caught.value)
        assert REPLACED in str(caught.value)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(("file_format", "needed"), [("arrow", "pyarrow"), ("zarr", "zarr"), ("minari", "minari")])
def test_pairs_of_an_environment_are_refused_in_each_format(file_format: str, needed: str, tmp_path: Path) -> None:
    """Minari's episodes, too: one for the complete tape would not be an episode of the environment."""
    pytest.importorskip(needed)
    path = pole(tmp_path / "run.tape")
    asked = {"fields": "steps", "rewards": f"{HERE}:reward", "actions": f"{HERE}:act"}
    with pytest.raises(ExtractionError, match=REFUSED):
        replayer.extract(path, tmp_path / "set", tables="pairs", file_format=file_format, **asked)


@pytest.mark.seldom(0.15)
def test_pairs_of_an_environment_are_refused_by_the_pytorch_data_set(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from replayer.datasets.stream.torch import TapeDataset

    path = pole(tmp_path / "run.tape")
    with pytest.raises(ExtractionError, match=REFUSED):
        TapeDataset(path, table="pairs", fields="steps")


@pytest.mark.seldom(0.15)
def test_the_command_refuses_in_one_line_with_exit_code_2(tmp_path: Path, capsys: Any) -> None:
    path = pole(tmp_path / "run.tape")
    capsys.readouterr()
    for rest in (
        "--table pairs --field steps",
        f"--format minari --field steps --reward {HERE}:reward --action {HERE}:act",
        f"--field steps --reward {HERE}:reward --mode inputs --ticks 2..5",
    ):
        assert run(main, f"extract {path} -o {tmp_path}/set -j 1 {rest}") == 2
        assert_one_line(capsys.readouterr(), f"error: {path}: the adapter gymnasium {REFUSED}")
    asked = f"extract {path} -o {tmp_path}/set --table pairs --field steps"
    finished = subprocess.run(
        [sys.executable, "-c", f"from replayer.commands.main import main; main({asked.split()})"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (finished.returncode, finished.stdout) == (2, "")
    assert REPLACED in finished.stderr


@pytest.mark.seldom(0.15)
def test_one_tape_of_an_environment_among_others_is_named(tmp_path: Path, swings: Path) -> None:
    path = pole(tmp_path / "run.tape")
    with pytest.raises(ExtractionError, match=f"{path}: the adapter gymnasium {REFUSED}"):
        replayer.extract([swings, path], tables="pairs", fields="steps", world=pendulum, ranges=((2, 5),))


def test_what_the_refusal_names_instead_holds_what_the_environment_returned(tmp_path: Path) -> None:
    """The states include the end of the episode, and the actions include its reset."""
    pytest.importorskip("pyarrow")
    path = pole(tmp_path / "run.tape")
    with replayer.open(path) as tape:
        first, second = tape.episodes
    line = "--table states --table actions --field result.reward --field result.terminated"
    assert run(main, f"extract {path} -o {tmp_path}/set -j 1 {line}") == 0
    made = replayer.Dataset(tmp_path / "set")
    states = made.table("states").numpy()
    assert np.flatnonzero(states["result.terminated"]).tolist() == [first.last_tick]
    assert states["result.reward"].sum() == first.steps + 3
    actions = made.table("actions").numpy()
    assert actions["tick"][actions["call"] == "reset"].tolist() == [first.first_tick, second.first_tick]


def test_pairs_across_a_reset_of_a_simulation_without_ends_are_refused(swings: Path, tmp_path: Path) -> None:
    """The ticks that the message suggests can be extracted, each pair one step."""
    pytest.importorskip("pyarrow")
    asked: dict[str, Any] = {"world": pendulum, "tables": "pairs", "fields": "data.qpos"}
    for ranges, first, last, reset in (((), 0, 12, 1), (((2, 7),), 2, 7, 7), (((1, 5), (6, 12)), 6, 12, 7)):
        with pytest.raises(ExtractionError) as caught:
            replayer.extract(swings, tmp_path / "set", **asked, ranges=ranges)
        assert str(caught.value) == (
            f"{swings}: training pairs from tick {first} to {last} would treat the reset at tick {reset} as a step: "
            "give --ticks of one episode, such as 1..6"
        )
    made = replayer.extract(swings, **asked, ranges=((1, 6), (7, 12)))
    pairs = made.table("pairs").numpy()
    assert pairs["tick"].tolist() == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    with replayer.open(swings, world=pendulum) as live:
        for row, tick in enumerate(pairs["tick"]):
            live.seek(int(tick))
            assert np.array_equal(pairs["obs.data.qpos"][row], live.state["data.qpos"])
