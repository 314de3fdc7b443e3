"""The card of a data set says what was recorded, in YAML that tells each table's files, splits and types."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from optional_packages import lazily, needs

import recorder
import replayer
from replayer.commands.main import main
from replayer.datasets import merge_datasets, remove_runs
from replayer.datasets.extract import extract
from replayer.datasets.stores.card.dataset_card import card_text

from oracle.command_lines import run
from oracle.live_runs import record_live
from small_worlds import Kinds

needs("pyarrow")
yaml = lazily("yaml")

NAMES = ('say "hi"', "a: b #c", "two\nlines", "käse|brot", "- x", "\x7f\u2028", "日本 🎉")


class Named(gymnasium.Env):
    """Parts of its observation have names that YAML and Markdown could take for something else."""

    metadata = {"render_modes": []}  # noqa: RUF012
    observation_space = spaces.Dict({name: spaces.Discrete(3) for name in NAMES})
    action_space = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 2], np.float32))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        return dict.fromkeys(NAMES, 1), {}

    def step(self, action: Any) -> Any:
        return dict.fromkeys(NAMES, 2), float(action[0]), False, False, {}


def carts(path: Path, seeds: range) -> None:
    """Record an episode of CartPole for each seed."""
    env = recorder.record(gymnasium.make("CartPole-v1"), path, quiet=True, trial_ms=0)
    env.action_space.seed(1)
    for seed in seeds:
        env.reset(seed=seed)
        while not any(env.step(env.action_space.sample())[2:4]):
            pass
    env.close()


def read(folder: Path) -> tuple[Any, str]:
    """The YAML and the text of a card."""
    _, front, text = re.split(
        r"^---$", (folder / "README.md").read_text(encoding="utf-8"), maxsplit=2, flags=re.MULTILINE
    )
    return yaml.safe_load(front), text


def test_it_says_what_was_recorded_and_how(tmp_path: Path, monkeypatch: Any) -> None:
    """Environment, tapes, ticks, episodes, seeds, columns with dtype, shape and allowed values, and the command."""
    monkeypatch.chdir(tmp_path)
    carts(tmp_path / "cart.tape", range(40, 52))
    line = "replay extract cart.tape -o data --split train=0.5,test=0.5"
    monkeypatch.setattr("sys.argv", line.split())
    assert run(main, line.removeprefix("replay ")) == 0
    front, text = read(tmp_path / "data")

    assert front["configs"][0]["config_name"] == "transitions"
    [split] = front["configs"][0]["data_files"]
    assert split["path"] == f"transitions/split={split['split']}/*.parquet"
    assert front["task_categories"] == ["reinforcement-learning"]
    manifest = replayer.Dataset("data").manifest
    last, rows = manifest["tapes"][0]["last_tick"], manifest["tables"]["transitions"]["rows"]
    assert text.startswith("\n\n# Transitions of CartPole-v1\n")
    assert f"| transitions | {rows:,} | 1 | {split['split']} |" in text
    assert "| tick | int64 |  | ticks, of the observation |" in text
    assert "| obs | float32 | 4 | Box, with bounds for each item |" in text
    assert "| action | int64 |  | Discrete, 0 to 1 |" in text
    seeds = "40, 41, 42, 43, 44, 45, 46, 47, 48, 49 and 2 more"
    about = f"| CartPole-v1 | 0 to {last:,} | 12 | {seeds} | {split['split']} |"
    assert f"| cart.tape | {manifest['tapes'][0]['run']} {about}" in text
    assert f"$ {line}\n" in text
    assert "Each run is in one split (train 0.5, test 0.5), which the seed 0 and its id decide." in text


def test_environments_of_appended_tapes_are_in_the_manifest_and_on_the_card(tmp_path: Path) -> None:
    """With their episodes; those of removed runs are not."""
    for name, count in (("a", 1), ("b", 2), ("c", 3)):
        carts(tmp_path / f"{name}.tape", range(count))
    for names in ("a", "ab"):
        extract([tmp_path / f"{name}.tape" for name in names], tmp_path / "set", append=True)
    extract(tmp_path / "c.tape", tmp_path / "c")
    data = merge_datasets(tmp_path / "set", tmp_path / "c")
    assert [(Path(one["tape"]).stem, one["episodes"]) for one in data.manifest["environments"]] == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
    ]
    data = remove_runs(tmp_path / "set", data.manifest["tapes"][1]["run"])
    assert [Path(one["tape"]).stem for one in data.manifest["environments"]] == ["a", "c"]
    _, text = read(tmp_path / "set")
    rows = [line.split("|")[3:7] for line in text.splitlines() if ".tape |" in line]
    assert [(name.strip(), int(episodes), seeds.strip()) for name, _, episodes, seeds in rows] == [
        ("CartPole-v1", 1, "0"),
        ("CartPole-v1", 3, "0, 1, 2"),
    ]


def test_any_name_of_a_column_is_read_back(tmp_path: Path) -> None:
    """YAML has the name itself; a table of Markdown keeps its columns."""
    env = recorder.record(Named(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    env.reset(seed=1)
    env.step(np.zeros(2, np.float32))
    env.close()
    extract(tmp_path / "run.tape", tmp_path / "set", world=Named)
    front, text = read(tmp_path / "set")
    found = {feature["name"] for feature in front["dataset_info"][0]["features"]}
    assert {f"{prefix}.{name}" for prefix in ("obs", "next") for name in NAMES} <= found
    rows = [line for line in text.splitlines() if line.startswith("| obs.")]
    assert len(rows) == len(NAMES)
    assert all(len(re.split(r"(?<!\\)\|", row)) == 6 for row in rows)
    assert len({row for row in rows if row.endswith("| int64 |  | Discrete, 0 to 2 |")}) == len(NAMES)


def test_any_manifest_has_a_card(tmp_path: Path) -> None:
    """Of a tape with a specification that is none, of a data set that an older version made, and of one without rows."""
    carts(tmp_path / "cart.tape", range(2))
    manifest = extract(tmp_path / "cart.tape", tmp_path / "set").manifest
    [environment] = manifest["environments"]
    for changed, title in (
        ({"env_spec": "nonsense"}, "CartPoleEnv"),
        ({"env_spec": "[1]"}, "CartPoleEnv"),
        ({"env_spec": None}, "CartPoleEnv"),
        ({}, "CartPole-v1"),
    ):
        text = card_text(tmp_path / "set", {**manifest, "environments": [environment | changed]})
        assert f"\n# Transitions of {title}\n" in text
    old = {name: environment[name] for name in ("tape", "kind", "spaces")} | {"env_spec": None}
    text = card_text(tmp_path / "set", {**manifest, "environments": [old]})
    assert "# Transitions of a gymnasium environment\n" in text
    assert "| a gymnasium environment | 0 to" in text
    assert "The data set has no rows." in card_text(tmp_path / "set", {**manifest, "tables": {}})


def test_it_is_the_same_for_any_number_of_processes(tmp_path: Path, monkeypatch: Any) -> None:
    """And for both formats but for the suffix; stores that other libraries open by themselves have none."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 8)
    record_live(tmp_path / "k.tape", Kinds(1), list(range(20)), keyframe_interval_ticks=8)
    asked: dict[str, Any] = {"world": Kinds, "tables": ("states", "actions", "events")}
    cards = []
    for jobs, file_format in ((1, "parquet"), (2, "parquet"), (1, "arrow")):
        extract(tmp_path / "k.tape", tmp_path / "set", jobs=jobs, file_format=file_format, **asked)
        cards.append((tmp_path / "set/README.md").read_text(encoding="utf-8"))
        (tmp_path / "set").rename(tmp_path / f"{file_format}-{jobs}")
    assert cards[0] == cards[1] == cards[2].replace(".arrow", ".parquet")
    front, text = read(tmp_path / "parquet-1")
    assert [config["config_name"] for config in front["configs"]] == ["states", "actions", "events"]
    assert "Values with a shape are Arrow's tensors." in text
    assert "task_categories" not in front


def test_stores_have_no_card(tmp_path: Path) -> None:
    """Their libraries open them without, and datasets does not open them."""
    needs("zarr")
    record_live(tmp_path / "k.tape", Kinds(1), list(range(20)))
    extract(tmp_path / "k.tape", tmp_path / "set", world=Kinds, tables="states", file_format="zarr")
    assert not (tmp_path / "set/README.md").exists()


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")  # It is about what is missing.
def test_what_is_missing_is_on_the_card(tmp_path: Path, monkeypatch: Any) -> None:
    """With the ticks and the reason, as in the manifest."""
    record_live(tmp_path / "k.tape", Kinds(1), list(range(20)), keyframe_interval_ticks=8)
    monkeypatch.setattr(Kinds, "step", lambda _, __: None)  # Another version of the simulation.
    made = extract(tmp_path / "k.tape", tmp_path / "set", world=Kinds, tables="states")
    assert made.code == 1
    [*losses] = made.manifest["missing"]
    _, text = read(tmp_path / "set")
    assert text.count(f"- {losses[0]['tape']}, tick") == len(losses) > 0
    assert all(loss["why"] in text for loss in losses)
    assert json.loads((tmp_path / "set/manifest.json").read_text())["missing"] == losses
