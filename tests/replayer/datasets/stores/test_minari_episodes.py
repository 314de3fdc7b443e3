"""A Minari data set of an environment has its episodes, its spaces and its specification, by Minari's own reading."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily, needs

import recorder
import replayer
from replayer.commands.main import main
from replayer.datasets.request import ExtractionError

from oracle.command_lines import assert_one_line, run

minari = lazily("minari")
needs("h5py", "PIL", "gymnasium", "pettingzoo", "pyarrow")

import gymnasium  # noqa: E402
from collected_environments import vector_loop  # noqa: E402
from environment_runs import CASES, REBUILT, recorded  # noqa: E402
from gymnasium import spaces  # noqa: E402

NAMES = sorted(CASES.keys() - {"oddities"})


def stacked(values: list[Any], space: Any) -> Any:
    """Values of steps as Minari holds them."""
    if isinstance(space, spaces.Dict):
        return {key: stacked([value[key] for value in values], one) for key, one in space.spaces.items()}
    return np.asarray(values)


def ensure_equal(got: Any, expected: Any) -> None:
    """Raise AssertionError unless values, dtypes and bytes are equal."""
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key, one in expected.items():
            ensure_equal(got[key], one)
        return
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()


def by_episode(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows of each episode, environment and agent, in the order in which they end."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row.get("env"), row["agent"], row["episode"]), []).append(row)
    return list(groups.values())


def plain(options: Any) -> Any:
    """The options with lists in place of arrays."""
    return options and {name: np.asarray(value).tolist() for name, value in options.items()}


def key(row: dict[str, Any]) -> tuple[int, str, int]:
    return row.get("env", 0), row["agent"], row["episode"]


@pytest.mark.share(0.18)
@pytest.mark.parametrize("name", NAMES)
def test_each_episode_equals_that_of_the_loop(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Loaded, sampled, filtered and split by Minari, over rows of several batches."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    monkeypatch.setattr("replayer.datasets.parts.worker.BUFFER_BYTES", 4_000)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    rows = recorded(name, tmp_path / "run.tape")
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=REBUILT.get(name), file_format="minari")
    [identity] = made.manifest["tables"]["transitions"]["datasets"]
    loaded = minari.load_dataset(identity)

    groups = {key(group[0]): group for group in by_episode(rows)}
    assert loaded.total_steps == len(rows)
    assert loaded.total_episodes == len(groups)
    abouts = list(loaded.storage.get_episode_metadata(range(len(groups))))
    for episode, about in zip(loaded.iterate_episodes(), abouts, strict=True):
        group = groups.pop((int(about.get("env", 0)), about["agent"], int(about["episode"])))
        last = group[-1]
        ensure_equal(
            episode.observations, stacked([*(row["obs"] for row in group), last["next"]], loaded.observation_space)
        )
        ensure_equal(episode.actions, stacked([row["action"] for row in group], loaded.action_space))
        assert episode.rewards.tolist() == [float(row["reward"]) for row in group]
        assert episode.terminations.tolist() == [bool(row["terminated"]) for row in group]
        is_cut = not (last["terminated"] or last["truncated"])
        assert episode.truncations.tolist() == [
            *(bool(row["truncated"]) for row in group[:-1]),
            is_cut or last["truncated"],
        ]
        assert about["end"] == ("cut" if is_cut else "terminated" if last["terminated"] else "truncated")
        assert about.get("seed") == (None if group[0]["step"] else last["seed"])
        assert plain(about.get("options")) == last["options"]
        assert about["total_steps"] == len(group)
    assert not groups
    loaded.set_seed(1)
    assert len(list(loaded.sample_episodes(2))) == 2
    assert loaded.filter_episodes(lambda one: one.id < 3).total_episodes == 3
    assert [part.total_episodes for part in minari.split_dataset(loaded, [2, 1], seed=0)] == [2, 1]


def layers_of(env: Any) -> list[str]:
    names = []
    while isinstance(env, gymnasium.Wrapper):
        names.append(type(env).__name__)
        env = env.env
    return names


@pytest.mark.parametrize("name", ["cart", "lake", "autoreset"])
def test_minari_recovers_the_environment(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """With its wrappers, its limit of steps and its spaces."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    recorded(name, tmp_path / "run.tape")
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", file_format="minari")
    loaded = minari.load_dataset("set-v0")
    env, live = loaded.recover_environment(), CASES[name][0]()

    assert env.spec == live.spec
    assert (loaded.observation_space, loaded.action_space) == (live.observation_space, live.action_space)
    assert layers_of(env) == layers_of(live)


@pytest.mark.parametrize("name", ["next_step", "same_step", "disabled", "native", "watched"])
@pytest.mark.seldom(0.15)
def test_minari_recovers_an_environment_of_a_vector(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """One of those in the vector, with its limit of steps: of many objects, and of one that has all environments."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    path, limit = tmp_path / "run.tape", 12

    def watched() -> Any:
        envs = gymnasium.make_vec("CartPole-v1", 3, max_episode_steps=limit, sutton_barto_reward=True)
        return gymnasium.wrappers.vector.RecordEpisodeStatistics(envs) if name == "watched" else envs

    if name in CASES:
        recorded(name, path)
    else:
        live = recorder.record(watched(), path, quiet=True, trial_ms=0)
        vector_loop(live, 60, 3, "NextStep")
        live.close()
    world = watched if name == "watched" else None
    replayer.extract(path, tmp_path / "set", world=world, file_format="minari")
    loaded = minari.load_dataset("set-v0")
    env = loaded.recover_environment()

    assert (env.spec.id, env.spec.max_episode_steps, env.unwrapped.spec.kwargs) == (
        "CartPole-v1",
        limit,
        {} if name in CASES else {"sutton_barto_reward": True},
    )
    assert (loaded.observation_space, loaded.action_space) == (env.observation_space, env.action_space)
    env.action_space.seed(1)
    for episode in loaded.sample_episodes(5):
        env.reset()
        assert env.step(episode.actions[0])[0].shape == episode.observations[0].shape
        assert len(episode) <= limit


def test_no_environment_is_recovered_of_a_vector_that_changes_what_it_returns(tmp_path: Path, monkeypatch: Any) -> None:
    """The environments in it return other observations."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    envs = gymnasium.wrappers.vector.FlattenObservation(gymnasium.make_vec("CartPole-v1", 2, "sync"))
    live = recorder.record(envs, tmp_path / "run.tape", quiet=True, trial_ms=0)
    vector_loop(live, 20, 3, "NextStep")
    live.close()
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=lambda: envs, file_format="minari")
    with pytest.raises(ValueError, match="env_spec is None"):
        minari.load_dataset("set-v0").recover_environment()


@pytest.mark.parametrize("name", ["camera", "cameras", "guests", "turns"])
@pytest.mark.seldom(0.15)
def test_infos_have_a_mask(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    """The values are those of the table, after the place of the reset's, which no table has."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    monkeypatch.setattr("replayer.datasets.parts.worker.BUFFER_BYTES", 4_000)
    recorded(name, tmp_path / "run.tape")
    wanted: Any = {"world": REBUILT.get(name), "info": True}
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", file_format="minari", **wanted)
    rows = replayer.extract(tmp_path / "run.tape", **wanted).table("transitions").to_arrow().to_pylist()
    loaded = minari.load_dataset("set-v0")
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    names = [column.removeprefix("info.") for column in rows[0] if column.startswith("info.")]
    assert bool(names) == (name != "turns")

    abouts = loaded.storage.get_episode_metadata(range(len(groups)))
    for episode, about in zip(loaded.iterate_episodes(), abouts, strict=True):
        group = groups.pop((int(about.get("env", 0)), about["agent"], int(about["episode"])))
        assert episode.infos.keys() - {"tick"} == {*names, *(f"{path}.present" for path in names)}
        for path in names:
            values = [row[f"info.{path}"] for row in group]
            assert episode.infos[f"{path}.present"].tolist() == [False, *(value is not None for value in values)]
            found = [one.decode() if isinstance(one, bytes) else one for one in episode.infos[path].tolist()]
            assert len(found) == len(group) + 1 == len(episode.observations["flags"] if name[:3] == "cam" else found)
            assert [one for one, value in zip(found[1:], values, strict=True) if value is not None] == [
                value for value in values if value is not None
            ]
    assert not groups


def test_fields_cut_the_space(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "set"))
    recorded("camera", tmp_path / "run.tape")
    replayer.extract(
        tmp_path / "run.tape",
        tmp_path / "set",
        world=REBUILT["camera"],
        file_format="minari",
        fields=("image", "pose.x"),
    )
    loaded = minari.load_dataset("set-v0")

    assert list(loaded.observation_space.spaces) == ["image", "pose"]
    assert list(loaded.observation_space["pose"].spaces) == ["x"]
    assert loaded[0].observations["pose"]["x"].dtype == np.float32


@pytest.mark.seldom(0.15)
def test_what_minari_cannot_hold_is_named(tmp_path: Path, capsys: Any) -> None:
    """Before any work, in one line."""
    recorded("oddities", tmp_path / "odd.tape")
    recorded("cart", tmp_path / "cart.tape")
    with pytest.raises(ExtractionError, match=r"Minari cannot hold obs\.1, which is a Sequence: use parquet"):
        replayer.extract(tmp_path / "odd.tape", tmp_path / "set", world=REBUILT["oddities"], file_format="minari")
    capsys.readouterr()
    for rest, text in (
        ("--ticks 1..5 --ticks 8..9", "error: an episode of Minari must not have gaps, which several ranges"),
        ("--table transitions --table states", "error: Minari holds only pairs or transitions, not the table states"),
    ):
        assert run(main, f"extract {tmp_path}/cart.tape -o {tmp_path}/set -j 1 --format minari {rest}") == 2
        assert_one_line(capsys.readouterr(), text)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (lambda t: {"seen": np.arange(t % 3)}, "Minari holds infos of one shape, and info.seen is lists of <i8: leave"),
        (lambda t: {"words": ["a"] * (t % 2 + 1)}, r"and info.words is texts: leave --info out"),
        (lambda t: {"a/b": t}, "Minari cannot hold an info called 'a/b': leave --info out, or use parquet"),
        (lambda t: {"a": t, "a.present": t}, "info.a.present clashes with the mask of info.a, which gets this name"),
    ],
    ids=["lists", "texts", "slash", "clash"],
)
def test_infos_that_minari_cannot_hold_are_named(info: Any, text: str, tmp_path: Path) -> None:
    class Telling(gymnasium.Env[Any, Any]):
        observation_space = spaces.Discrete(2)
        action_space = spaces.Discrete(2)
        t = 0

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed, options=options)
            return 0, {}

        def step(self, action: Any) -> Any:
            self.t += 1
            return action, 0, False, False, info(self.t)

    env = recorder.record(Telling(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    env.reset(seed=1)
    for _ in range(5):
        env.step(1)
    env.close()
    with pytest.raises(ExtractionError, match=text):
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Telling, info=True, file_format="minari")
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]


@pytest.mark.parametrize("keys", [("robot/pos", "robot/vel"), (0, 1)])
def test_observations_whose_keys_minari_cannot_hold_are_named(keys: tuple[Any, ...], tmp_path: Path) -> None:
    """A data set of the first kind was written, and could not be read."""

    class Keyed(gymnasium.Env[Any, Any]):
        observation_space = spaces.Dict({key: spaces.Discrete(9) for key in keys})
        action_space = spaces.Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed, options=options)
            return {key: np.int64(1) for key in keys}, {}

        def step(self, action: Any) -> Any:
            return {key: np.int64(action) for key in keys}, 0, False, False, {}

    env = recorder.record(Keyed(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    env.reset(seed=1)
    env.step(1)
    env.close()
    with pytest.raises(
        ExtractionError, match=re.escape(f"without a slash, and the space has the key {keys[0]!r}: ren")
    ):
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Keyed, file_format="minari")
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]
