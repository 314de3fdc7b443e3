"""Episodes: found by their resets, sought by episode and step; T actions, T + 1 observations, always."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import recorder
import replayer
from replayer.cli import main

gymnasium = pytest.importorskip("gymnasium")


SEEDS = [3, None, 8]


def record_episodes(path: Path, *, last_closed: bool = True) -> list[dict[str, Any]]:
    """Three episodes, the last one cut short; what the live run knows of them."""
    env = recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, keyframe_interval_ticks=20)
    truth = []
    for number, seed in enumerate(SEEDS):
        observation, _ = env.reset(seed=seed)
        one: dict[str, Any] = {"observations": [observation.tolist()], "total": 0.0, "over": False}
        for step in range(4 if number == 2 else 500):
            observation, reward, terminated, truncated, _ = env.step(step % 2)
            one["observations"].append(observation.tolist())
            one["total"] += reward
            one["over"] = terminated or truncated
            if one["over"]:
                break
        truth.append(one)
    if last_closed:
        env.close()
    else:
        env.tape.close()  # And not the environment, which alone knows the episode.
    return truth


def test_episodes_have_their_ticks_seeds_returns_and_observations(tmp_path: Path) -> None:
    """Compared with what the live run had at each of its steps."""
    truth = record_episodes(tmp_path / "run.tape")
    with replayer.open(tmp_path / "run.tape") as run:
        assert [one.seed for one in run.episodes] == SEEDS
        assert run.episodes[0].first_tick == 1
        for episode, known in zip(run.episodes, truth, strict=True):
            assert episode.steps + 1 == len(known["observations"])
            assert (episode.total, episode.over) == (known["total"], known["over"])
            for step in (0, 1, episode.steps, -1):
                run.seek(episode=episode.index, step=step)
                assert run.simulation.last.observation.tolist() == known["observations"][step]
        run.seek(episode=-1)
        assert run.tick == run.episodes[2].first_tick


def test_the_return_of_an_episode_that_nobody_ended_is_unknown(tmp_path: Path) -> None:
    """A recording that ends without the environment says nothing about its last episode, and invents nothing."""
    record_episodes(tmp_path / "run.tape", last_closed=False)
    with replayer.open(tmp_path / "run.tape") as run:
        assert [one.total is None for one in run.episodes] == [False, False, True]


def test_an_environment_that_resets_itself_has_episodes(tmp_path: Path) -> None:
    """With Gymnasium's Autoreset the step after the end is the next episode's reset."""
    make = lambda: gymnasium.wrappers.Autoreset(gymnasium.make("CartPole-v1"))  # noqa: E731
    env = recorder.record(make(), tmp_path / "run.tape", quiet=True)
    env.reset(seed=1)
    overs, totals, total = 0, [], 0.0
    for step in range(120):
        _, reward, terminated, truncated, _ = env.step(step % 3 % 2)
        total += reward
        if terminated or truncated:
            overs += 1
            totals.append(total)
            total = 0.0
    env.close()
    with replayer.open(tmp_path / "run.tape", world=make) as run:
        assert run.verify().ok
        assert [one.total for one in run.episodes[:overs]] == totals
        assert sum(one.steps + 1 for one in run.episodes) == 121


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"episode": 3}, replayer.MissingTickError, "there is no episode 3: the tape has episodes 0 to 2"),
        ({"episode": 2, "step": 5}, replayer.MissingTickError, "episode 2 has steps 0 to 4"),
        ({"tick": 1, "episode": 1}, TypeError, "not both"),
        ({"step": 1}, TypeError, "a tick, or an episode and a step"),
        ({}, TypeError, "a tick, or an episode and a step"),
    ],
)
def test_mistakes_say_what_there_is(arguments: Any, error: Any, said: str, tmp_path: Path) -> None:
    """In one line."""
    record_episodes(tmp_path / "run.tape")
    with replayer.open(tmp_path / "run.tape") as run, pytest.raises(error, match=said):
        run.seek(**arguments)


def test_a_tape_without_an_adapter_has_no_episodes(tmp_path: Path) -> None:
    """Inputs of a world of ours that say reset are not resets of an environment."""
    from small_worlds import Saved

    with recorder.Recorder(tmp_path / "run.tape", Saved()) as tape:
        tape.step(1)
    with replayer.open(tmp_path / "run.tape", world=Saved) as run:
        assert run.episodes == []


def replay(*arguments: str, folder: Path, without: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command; without: a package that cannot be imported."""
    hide = f"import sys; sys.modules[{without!r}] = None; " if without else ""
    paths = [str(Path(__file__).parent), *filter(None, sys.path)]
    return subprocess.run(
        [sys.executable, "-c", f"{hide}import replayer.cli; replayer.cli.main()", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"},
    )  # fmt: skip


def test_the_commands_know_episodes(tmp_path: Path) -> None:
    """Info counts them, seek goes to a step of one; what there is not is exit code 2."""
    truth = record_episodes(tmp_path / "run.tape")
    info = replay("info", "run.tape", folder=tmp_path)
    steps = [len(one["observations"]) - 1 for one in truth]
    assert f"  episodes: 3, of {min(steps)} to {max(steps)} steps, returns 4 to " in info.stdout
    assert "  adapter: gymnasium, level exact" in info.stdout

    sought = replay("seek", "run.tape", "--episode", "1", "--step", "2", "--field", "result.observation", "--json",
                    folder=tmp_path)  # fmt: skip
    assert json.loads(sought.stdout)["fields"]["result.observation"] == pytest.approx(truth[1]["observations"][2])


@pytest.mark.parametrize("wrong", [["--episode", "9"], ["--tick", "1", "--episode", "1"], [], ["--step", "1"]])
def test_mistakes_on_the_command_line_are_one_line(
    wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2."""
    record_episodes(tmp_path / "run.tape")
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["seek", str(tmp_path / "run.tape"), *wrong])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_without_the_adapters_package_frames_hashes_and_keyframes_are_shown(tmp_path: Path) -> None:
    """One clear line says what is missing; a keyframe's fields are there all the same."""
    record_episodes(tmp_path / "run.tape")
    info = replay("info", "run.tape", "--json", folder=tmp_path, without="gymnasium")
    assert json.loads(info.stdout)["episodes"][2]["seed"] == 8

    seek = replay("seek", "run.tape", "--tick", "20", "--field", "CartPoleEnv.state", folder=tmp_path,
                  without="gymnasium")  # fmt: skip
    assert seek.returncode == 0, seek.stderr
    assert "needs the package 'gymnasium', which is not installed" in seek.stderr
    assert "CartPoleEnv.state: 4 float64" in seek.stdout
    between = replay("seek", "run.tape", "--tick", "21", folder=tmp_path, without="gymnasium")
    assert between.returncode == 2
    assert "without it only the states that are on the tape can be shown" in between.stderr
    assert "Traceback" not in between.stderr
    verify = replay("verify", "run.tape", folder=tmp_path, without="gymnasium")
    assert verify.returncode == 2
    assert "Traceback" not in verify.stderr
