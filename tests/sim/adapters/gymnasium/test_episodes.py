"""Episodes: found by their resets, sought by episode and step; T actions always give T + 1 observations."""

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
from replayer.commands.main import main

gymnasium = pytest.importorskip("gymnasium")


SEEDS = [3, None, 8]


def record_episodes(path: Path, *, last_closed: bool = True) -> list[dict[str, Any]]:
    """Record three episodes, the last one cut short, and return the facts of the live run about them."""
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
        env.tape.close()  # Not the environment, which alone knows the episode.
    return truth


def test_episodes_have_their_ticks_seeds_returns_and_observations(tmp_path: Path) -> None:
    """The episodes of the tape equal the values of the live run at each step."""
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


def test_the_return_of_an_episode_without_an_end_is_unknown(tmp_path: Path) -> None:
    """A recording that ends before the environment is closed holds no total of its last episode."""
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
    ("arguments", "error", "message"),
    [
        ({"episode": 3}, replayer.MissingTickError, "there is no episode 3: the tape has episodes 0 to 2"),
        ({"episode": 2, "step": 5}, replayer.MissingTickError, "^step 5: episode 2 has steps 0 to 4$"),
        ({"tick": 1, "episode": 1}, TypeError, "not both"),
        ({"step": 1}, TypeError, "a tick, or an episode and a step"),
        ({}, TypeError, "a tick, or an episode and a step"),
    ],
)
def test_mistakes_name_the_existing_episodes(arguments: Any, error: Any, message: str, tmp_path: Path) -> None:
    """The message for a missing episode or step is one line."""
    record_episodes(tmp_path / "run.tape")
    with replayer.open(tmp_path / "run.tape") as run, pytest.raises(error, match=message):
        run.seek(**arguments)


def test_a_tape_without_an_adapter_has_no_episodes(tmp_path: Path) -> None:
    """Inputs of our own worlds that contain "reset" are not resets of an environment."""
    from small_worlds import Saved

    with recorder.Recorder(tmp_path / "run.tape", Saved()) as tape:
        tape.step(1)
    with replayer.open(tmp_path / "run.tape", world=Saved) as run:
        assert run.episodes == []


WITHOUT_GYMNASIUM = """
import sys
sys.modules["gymnasium"] = None
from replayer.commands.main import main
for arguments in (["info", "--json"], ["seek", "--tick", "20", "--field", "CartPoleEnv.state"], ["seek", "--tick", "21"],
                  ["verify"]):
    code = None
    try:
        main([arguments[0], "run.tape", *arguments[1:]])
    except SystemExit as ended:
        code = ended.code
    for stream in (sys.stdout, sys.stderr):
        print("exit code", code, "=====", file=stream, flush=True)
"""


def without_gymnasium(folder: Path) -> list[tuple[int, str, str]]:
    """Run four commands in a process that cannot import gymnasium; return the exit code and output of each."""
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT_GYMNASIUM], cwd=folder, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "COLUMNS": "200"},
    )  # fmt: skip
    outs, errors = (text.split("=====\n")[:-1] for text in (finished.stdout, finished.stderr))
    codes = [int(out.split()[-1]) for out in outs]
    parts = [[one.rpartition("exit code")[0] for one in texts] for texts in (outs, errors)]
    return list(zip(codes, *parts, strict=True))


def test_the_commands_know_episodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Info counts the episodes, and seek goes to a step of an episode."""
    truth = record_episodes(tmp_path / "run.tape")
    path = str(tmp_path / "run.tape")

    def output_of(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        return capsys.readouterr().out

    info = output_of("info", path)
    steps = [len(one["observations"]) - 1 for one in truth]
    assert f"  episodes: 3, of {min(steps)} to {max(steps)} steps, returns 4 to " in info
    assert "  adapter: gymnasium, level exact" in info

    sought = output_of("seek", path, "--episode", "1", "--step", "2", "--field", "result.observation", "--json")
    assert json.loads(sought)["fields"]["result.observation"] == pytest.approx(truth[1]["observations"][2])


@pytest.mark.parametrize("wrong", [["--episode", "9"], ["--tick", "1", "--episode", "1"], [], ["--step", "1"]])
def test_mistakes_on_the_command_line_are_one_line(
    wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mistake has exit code 2."""
    record_episodes(tmp_path / "run.tape")
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["seek", str(tmp_path / "run.tape"), *wrong])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.seldom(0.15)
def test_without_the_adapters_package_frames_hashes_and_keyframes_are_shown(tmp_path: Path) -> None:
    """One line names the missing package; the fields of a keyframe are shown without it."""
    record_episodes(tmp_path / "run.tape")
    info, seek, between, verify = without_gymnasium(tmp_path)
    assert json.loads(info[1])["episodes"][2]["seed"] == 8

    code, out, errors = seek
    assert code == 0, errors
    assert "needs the package 'gymnasium', which is not installed" in errors
    assert "CartPoleEnv.state: 4 float64" in out
    code, _, errors = between
    assert code == 2
    assert (
        "only the states that are on the tape can be shown, those of ticks with a keyframe: replay seek TAPE" in errors
    )
    assert verify[0] == 2
    assert "Traceback" not in errors + verify[2]
