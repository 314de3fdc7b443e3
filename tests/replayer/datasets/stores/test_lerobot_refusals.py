"""What a LeRobotDataset cannot hold is named in one line, and a write that fails leaves nothing wrong behind."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from optional_packages import needs

import recorder
import replayer
from replayer.commands.main import main
from replayer.datasets.request import ExtractionError

from oracle.command_lines import assert_one_line, run

needs("pyarrow", "PIL", "pettingzoo")

import pyarrow.parquet as pq  # noqa: E402
from collected_environments import Guests, Oddities, loop, parallel_loop  # noqa: E402
from environment_runs import cart, recorded  # noqa: E402
from gymnasium import spaces  # noqa: E402
from lerobot_layout import ensure_equal, episodes_of, frames_of, info_of  # noqa: E402


def record(path: Path, env: Any, count: int = 30) -> list[dict[str, Any]]:
    """Record an environment, and return what a plain loop collected."""
    wrapped = recorder.record(env, path, quiet=True, trial_ms=0, keyframe_interval_ticks=20)
    rows = loop(wrapped, count, 3)
    wrapped.close()
    return rows


class Vectors(gymnasium.Env[Any, Any]):
    """An environment of any space."""

    action_space = spaces.Discrete(3)
    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, space: Any = None, fps: Any = None) -> None:
        self.observation_space = space or spaces.Box(-1, 1, (2,), np.float32)
        self.metadata = {**self.metadata, "render_fps": fps} if fps is not None else self.metadata

    def _observed(self) -> Any:
        space = copy.deepcopy(self.observation_space)  # The generator of a space is not saved.
        space.seed(int(self.np_random.integers(1 << 30)))
        return space.sample()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        return self._observed(), {}

    def step(self, action: Any) -> Any:
        return self._observed(), float(action), bool(self.np_random.random() < 0.2), False, {}


def test_requests_that_lerobot_cannot_meet(tmp_path: Path, capsys: Any) -> None:
    """Before any work, in one line that names the option."""
    recorded("cart", tmp_path / "cart.tape")
    for rest, text in (
        ("--info", "error: infos are not written for LeRobot: leave --info out, or use parquet"),
        ("--ticks 1..5 --ticks 8..9", "error: an episode of LeRobot must not have gaps, which several ranges of ticks"),
        ("--table states", "error: LeRobot holds only transitions, not the table states: use parquet"),
        (
            "--table transitions --table states",
            "error: LeRobot holds only transitions, not the table states: use parquet",
        ),
        ("--append --stride 2", "error: stride: a transition is one step, got 2"),
    ):
        assert run(main, f"extract {tmp_path}/cart.tape -o {tmp_path}/set -j 1 --format lerobot {rest}") == 2
        assert_one_line(capsys.readouterr(), text)
        assert [path.name for path in tmp_path.iterdir()] == ["cart.tape"]


def test_a_run_without_transitions_is_refused(tmp_path: Path, capsys: Any) -> None:
    line = f"run arms-race --player caterpillar=greedy --player beetle=random --ticks 9 -o {tmp_path}/one.tape -q"
    from recorder.commands.main import main as record_command

    assert run(record_command, f"{line} --deterministic") == 0
    capsys.readouterr()
    assert run(main, f"extract {tmp_path}/one.tape -o {tmp_path}/set -j 1 --format lerobot") == 2
    assert_one_line(capsys.readouterr(), "error: LeRobot holds only transitions, not the table pairs: use parquet")
    assert run(main, f"extract {tmp_path}/one.tape -o {tmp_path}/set -j 1 --format lerobot --table transitions") == 2
    assert_one_line(capsys.readouterr(), "is not the tape of a Gymnasium or PettingZoo environment")


@pytest.mark.parametrize(
    ("space", "text"),
    [
        (spaces.Text(4), r"numbers and arrays of one shape, and obs is text: use parquet$"),
        (spaces.Sequence(spaces.Box(0, 1, (2,))), r"and obs is lists of <f4 \(2,\): use parquet$"),
        (
            spaces.Graph(spaces.Box(-1, 1, (2,)), None),
            r"and obs.nodes is lists of <f4 \(2,\): leave it out \(--field with the names of others\), or use parquet$",
        ),
        (
            spaces.Dict({"a": spaces.Box(0, 1), "word": spaces.Text(3)}),
            r"and obs.word is text: leave it out \(--field with the names of others\), or use parquet$",
        ),
        (spaces.Box(0, 1, (1, 2, 1, 2, 1, 2)), r"at most 5 axes, and obs is <f4 \(1, 2, 1, 2, 1, 2\): use parquet$"),
        (spaces.Dict({"a/b": spaces.Box(0, 1)}), r"a slash in its name, such as obs.a/b: leave it out"),
        (
            spaces.Dict(
                {"cam": spaces.Box(0, 255, (4, 4, 3), np.uint8), "images": spaces.Dict({"cam": spaces.Box(0, 1)})}
            ),
            r"two columns would be the feature observation.images.cam of LeRobot: leave it out",
        ),
    ],
    ids=["text", "sequence", "graph", "part", "axes", "slash", "twice"],
)
def test_spaces_that_lerobot_cannot_hold(space: Any, text: str, tmp_path: Path) -> None:
    """Named with the option that helps. Nothing is left behind."""
    record(tmp_path / "run.tape", Vectors(space))
    with pytest.raises(ExtractionError, match=text):
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=lambda: Vectors(space), file_format="lerobot")
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]


def test_fields_leave_out_what_lerobot_cannot_hold(tmp_path: Path) -> None:
    """The rest is as it was."""
    space = spaces.Dict({"a": spaces.Box(0, 1), "word": spaces.Text(3)})
    rows = record(tmp_path / "run.tape", Vectors(space))
    replayer.extract(
        tmp_path / "run.tape", tmp_path / "set", world=lambda: Vectors(space), fields="a", file_format="lerobot"
    )
    ensure_equal(tmp_path / "set", [row | {"obs": {"a": row["obs"]["a"]}} for row in rows], 30)


class Late(Vectors):
    """A part of the observation comes late."""

    def __init__(self) -> None:
        super().__init__(spaces.Dict({"x": spaces.Box(-1, 1, (2,))}))
        self.t = 0

    def _observed(self) -> Any:
        self.t += 1
        return super()._observed() | ({"late": self.t} if self.t > 5 else {})


@pytest.mark.seldom(0.15)
def test_parts_that_come_and_go(tmp_path: Path) -> None:
    """A feature has a value in each frame. What comes late is named when the frames are written."""
    rows = record(tmp_path / "run.tape", Late())
    with pytest.raises(
        ExtractionError, match=r"^episode 0: obs.late is missing in some steps, and an episode of LeRobot must not"
    ):
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Late, file_format="lerobot")
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Late, fields="x", file_format="lerobot")
    ensure_equal(tmp_path / "set", [row | {"obs": {"x": row["obs"]["x"]}} for row in rows], 30)


class Sizes(Guests):
    """Agents whose observations have different lengths."""

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 1, (1 + len(agent),) if agent == "bob" else (2,), np.float64)

    def _observed(self) -> dict[str, Any]:
        return {agent: self.rng.random(self.observation_space(agent).shape) for agent in self.agents}


def test_agents_of_different_shapes_are_chosen(tmp_path: Path, capsys: Any) -> None:
    env = recorder.record(Sizes(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    rows = parallel_loop(env, 40, 3)
    env.close()
    line = f"extract {tmp_path}/run.tape -o {tmp_path}/set -j 1 --format lerobot --sim {__name__}:Sizes"
    assert run(main, line) == 2
    assert_one_line(
        capsys.readouterr(),
        "and obs is lists of <f8: choose agents whose values have one shape (--agent), or use parquet",
    )
    assert run(main, f"{line} --agent ann --agent cyd --fps 30") == 0
    # The third agent's first observation comes in the step that brings it, before its first turn.
    ensure_equal(tmp_path / "set", [row for row in rows if row["agent"] != "bob"], 30)


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
@pytest.mark.seldom(0.15)
def test_tapes_with_different_rates_need_the_option(tmp_path: Path, monkeypatch: Any) -> None:
    for name, fps in (("Slow", 20), ("Quick", np.int64(50)), ("Odd", "fast")):
        spec = gymnasium.envs.registration.EnvSpec(f"{name}-v0", f"{__name__}:Vectors", kwargs={"fps": fps})
        monkeypatch.setitem(gymnasium.registry, f"{name}-v0", spec)
        rows = record(tmp_path / f"{name}.tape", gymnasium.make(f"{name}-v0", disable_env_checker=True))
    tapes = [tmp_path / "Slow.tape", tmp_path / "Quick.tape"]
    with pytest.raises(
        ExtractionError, match=r"has one rate of frames, and render_fps is 20 of Slow-v0, 50 of Quick-v0: give --fps$"
    ):
        replayer.extract(tapes, tmp_path / "set", file_format="lerobot")
    replayer.extract(tapes, tmp_path / "set", file_format="lerobot", fps=20)
    episodes = episodes_of(tmp_path / "set")
    assert {(row["recording/tape"], *row["tasks"]) for row in episodes} == {
        ("Slow.tape", "Slow-v0"),
        ("Quick.tape", "Quick-v0"),
    }
    replayer.extract(tmp_path / "Odd.tape", tmp_path / "odd", file_format="lerobot")
    ensure_equal(tmp_path / "odd", rows, 30)  # "fast" is not a rate.


@pytest.mark.seldom(0.15)
def test_splits_are_ranges_of_episodes(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.tape" for number in range(6)]
    for path in paths:
        record(path, cart())
    made = replayer.extract(
        paths, tmp_path / "set", splits=(("train", 0.5), ("test", 0.5)), file_format="lerobot", seed=1
    )
    split_of = {tape["run"]: tape["split"] for tape in made.manifest["tapes"]}
    splits, episodes = info_of(tmp_path / "set")["splits"], episodes_of(tmp_path / "set")
    assert splits.keys() == {"train", "test"}
    for name, text in splits.items():
        first, end = map(int, text.split(":"))
        assert first < end
        assert {split_of[row["recording/run"]] for row in episodes[first:end]} == {name}


@pytest.mark.seldom(0.15)
def test_episodes_are_kept_in_one_file(tmp_path: Path, monkeypatch: Any) -> None:
    """Files and folders are full after a size and a number of files."""
    for name, value in (("FILE_MIB", 0), ("CHUNK_FILES", 3), ("GROUP_BYTES", 1500)):
        monkeypatch.setattr(f"replayer.datasets.stores.lerobot_files.{name}", value)
    rows = record(tmp_path / "run.tape", cart(), 200)
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", file_format="lerobot")

    ensure_equal(tmp_path / "set", rows, 50)
    files = sorted(path.relative_to(tmp_path / "set").as_posix() for path in (tmp_path / "set/data").rglob("*.parquet"))
    assert len(files) > 3
    assert files[2:4] == ["data/chunk-000/file-002.parquet", "data/chunk-001/file-000.parquet"]
    for row in episodes_of(tmp_path / "set"):
        for kind in ("data", "meta/episodes"):
            chunk, file = row[f"{kind}/chunk_index"], row[f"{kind}/file_index"]
            table = pq.read_table(tmp_path / "set" / kind / f"chunk-{chunk:03d}" / f"file-{file:03d}.parquet")
            count = table["episode_index"].to_pylist().count(row["episode_index"])
            assert count == (row["length"] if kind == "data" else 1)


def test_a_write_that_fails_is_repeated_by_the_same_call(tmp_path: Path, monkeypatch: Any) -> None:
    """The folder has its name only when it is complete; what was begun is not mixed with what comes after."""
    rows = record(tmp_path / "run.tape", cart(), 100)
    with monkeypatch.context() as patched:
        patched.setattr("replayer.datasets.stores.lerobot.write_tasks", fail)
        with pytest.raises(OSError, match="No space left"):
            replayer.extract(tmp_path / "run.tape", tmp_path / "set", file_format="lerobot")
    assert not (tmp_path / "set").exists()
    stale = tmp_path / "set.unfinished" / "data" / "chunk-000" / "file-001.parquet"
    stale.write_bytes(b"of a run that was killed")
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", file_format="lerobot")
    ensure_equal(tmp_path / "set", rows, 50)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.tape", "set"]
    assert not (tmp_path / "set" / "transitions").exists()


def fail(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_your_own_simulation(tmp_path: Path) -> None:
    """Its agents' transitions, without spaces. Without rewards there is no such feature."""

    class Oven:
        def __init__(self) -> None:
            self.heat = 1.5

        def step(self, by: float) -> None:
            self.heat += by

        def agent_names(self) -> list[str]:
            return ["oven"]

        def agent_observation(self, agent: str) -> Any:
            return {"heat": self.heat, "name": len(agent)}

        def agent_actions(self, by: float) -> Any:
            return {"oven": by}

    oven = recorder.record(Oven(), tmp_path / "run.tape", quiet=True, durability="none")
    for by in (0.5, -1.0, 4.0):
        oven.step(by)
    oven.close()
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Oven, file_format="lerobot", fps=2)
    frames = frames_of(tmp_path / "set")

    assert frames["observation.heat"].ravel().tolist() == [1.5, 2.0, 1.0]
    assert frames["action"].ravel().tolist() == [0.5, -1.0, 4.0]
    assert frames["timestamp"].ravel().tolist() == [0.0, 0.5, 1.0]
    assert "next.reward" not in frames
    assert episodes_of(tmp_path / "set")[0]["tasks"] == ["Oven"]
    assert json.loads((tmp_path / "set" / "manifest.json").read_text())["format"] == "lerobot"


def test_graphs_and_texts_of_a_tuple(tmp_path: Path) -> None:
    """The first part that cannot be held is named."""
    record(tmp_path / "run.tape", Oddities())
    with pytest.raises(ExtractionError, match=r"obs.0 is text: leave it out \(--field"):
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Oddities, file_format="lerobot")
