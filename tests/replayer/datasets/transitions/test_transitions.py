"""The table of transitions: what a request chooses of it, and what happens where a tape does not hold everything."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import needs

import recorder
import replayer
from recorder.format.blocks.block import HEADER_BYTES, BlockKind
from replayer.commands.main import main
from replayer.datasets.request import ExtractionError

from oracle.command_lines import assert_one_line, run
from oracle.live_runs import splitting_seed

needs("gymnasium", "pettingzoo", "pyarrow")

import gymnasium  # noqa: E402
from collected_environments import Camera, Changeable, Guests, loop, parallel_loop  # noqa: E402


def cart(path: Path, episodes: int = 12, **settings: Any) -> Path:
    """Episodes of CartPole, each with a seed."""
    env = recorder.record(
        gymnasium.make("CartPole-v1", max_episode_steps=30), path, quiet=True, keyframe_interval_ticks=20, **settings
    )
    env.action_space.seed(0)
    for seed in range(episodes):
        env.reset(seed=seed)
        while not any(env.step(env.action_space.sample())[2:4]):
            pass
    env.close()
    return path


def camera(path: Path) -> list[dict[str, Any]]:
    """Steps of the camera."""
    env = recorder.record(gymnasium.wrappers.TimeLimit(Camera(), 20), path, quiet=True, keyframe_interval_ticks=30)
    rows = loop(env, 90, 1)
    env.close()
    return rows


def camera_again() -> Any:
    return gymnasium.wrappers.TimeLimit(Camera(), 20)


def table(path: Path, folder: Path, **wanted: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = replayer.extract(path, folder, **wanted).table("transitions").to_arrow().to_pylist()
    return rows


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_one_command_without_options(tmp_path: Path, capsys: Any) -> None:
    """replay extract cart.tape -o out."""
    path = cart(tmp_path / "cart.tape")
    capsys.readouterr()

    assert run(main, f"extract {path} -o {tmp_path}/out") == 0
    printed = capsys.readouterr().out
    assert "transitions: " in printed
    assert "columns: run, episode, step, tick, agent, seed, obs, action, reward, next, terminated, truncated" in printed


@pytest.mark.seldom(0.15)
def test_the_files_are_the_same_for_any_number_of_processes_and_any_cut(tmp_path: Path, monkeypatch: Any) -> None:
    """With many parts, one process and three write the same bytes; without parts the rows are the same."""
    path = cart(tmp_path / "cart.tape")
    whole = table(path, tmp_path / "whole")
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 20)
    for jobs in (1, 3):
        assert table(path, tmp_path / f"jobs{jobs}", jobs=jobs) == whole

    assert files_of(tmp_path / "jobs1") == files_of(tmp_path / "jobs3")
    assert len(list((tmp_path / "jobs1" / "transitions").iterdir())) > 5


KILLED = """
import os, signal, sys
import replayer
import replayer.datasets.plan as plan
import replayer.datasets.parts.run_parts as run_parts
from replayer.datasets.build import Building
plan.PART_TICKS = 20
run_parts.ENVIRONMENT_PARTS, run_parts.LONGER_S = 1, 0
keep, kept = Building.keep, []
def keep_some(self, record):
    keep(self, record)
    kept.append(record)
    if len(kept) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
Building.keep = keep_some
replayer.extract(sys.argv[1], sys.argv[2], info=bool(int(sys.argv[3])))
"""


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("info", [False, True])
def test_killed_in_the_middle_and_continued_it_is_the_same(info: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """The same bytes as without the kill; the parts that were done are not made again."""
    path = cart(tmp_path / "cart.tape")
    arguments = [sys.executable, "-c", KILLED, str(path), str(tmp_path / "set"), str(int(info))]
    killed = subprocess.run(arguments, check=False)
    assert killed.returncode == -signal.SIGKILL
    done = files_of(tmp_path / "set.unfinished" / "transitions")
    assert len(done) == 4

    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 20)
    monkeypatch.setattr("replayer.datasets.plan_transitions.columns_of_all_steps", None)  # The columns are known.
    replayer.extract(path, tmp_path / "set", info=info)
    monkeypatch.undo()
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 20)
    replayer.extract(path, tmp_path / "other", info=info)
    assert files_of(tmp_path / "set") == files_of(tmp_path / "other")


def test_fields_reach_into_the_observation(tmp_path: Path) -> None:
    """By the path of a part, or of all parts below it; what is recorded besides stays."""
    camera(tmp_path / "run.tape")
    made = replayer.extract(tmp_path / "run.tape", world=camera_again, fields=("image", "pose"))
    names = made.table("transitions").schema.names

    assert [name for name in names if name.startswith("obs")] == ["obs.image", "obs.pose.x", "obs.pose.turn"]
    assert {"next.image", "action.move", "action.fire", "reward"} <= set(names)
    with pytest.raises(ExtractionError, match=r"no field nose in the observation, it has image, pose.x, pose.turn, f"):
        replayer.extract(tmp_path / "run.tape", world=camera_again, fields="nose")


def test_ticks_choose_the_transitions_inside(tmp_path: Path) -> None:
    """Those that begin and end there, whatever parts there are."""
    path = cart(tmp_path / "cart.tape")
    whole = table(path, tmp_path / "whole")
    chosen = table(path, tmp_path / "chosen", ranges=((30, 60), (100, 101)))

    assert chosen == [row for row in whole if 30 <= row["tick"] < 60 or row["tick"] == 100]


def test_infos_are_columns_on_request(tmp_path: Path) -> None:
    """With null where a step had none."""
    rows = camera(tmp_path / "run.tape")
    found = table(tmp_path / "run.tape", tmp_path / "set", world=camera_again, info=True)

    assert [row["info.hits"] for row in found] == [row["info"].get("hits") for row in rows]
    assert [row["info.by.name"] for row in found] == [row["info"].get("by", {}).get("name") for row in rows]
    assert None in [row["info.hits"] for row in found]


def test_agents_are_chosen_and_may_come_and_go(tmp_path: Path) -> None:
    """One agent's transitions; one that comes late has them from then on."""
    env = recorder.record(Guests(), tmp_path / "run.tape", quiet=True)
    rows = parallel_loop(env, 60, 1)
    env.close()
    found = table(tmp_path / "run.tape", tmp_path / "set", world=Guests, agents="cyd")

    assert [(row["step"], row["obs"]) for row in found] == [
        (row["step"], row["obs"].tolist()) for row in rows if row["agent"] == "cyd"
    ]
    assert found[0]["step"] == 2
    with pytest.raises(ExtractionError, match="there is no agent dan; agents: ann, bob, cyd"):
        replayer.extract(tmp_path / "run.tape", world=Guests, agents="dan")
    with replayer.Timeline(tmp_path / "run.tape") as tape:
        first = tape.episodes[0]
        assert (first.over, first.terminated, first.truncated) == (True, None, None)  # The agents ended differently.


def changeable(path: Path, count: int, *, raising: bool = False) -> list[dict[str, Any]]:
    """What a loop collects of an environment whose observations change their form; calls that raise give nothing."""
    env = recorder.record(Changeable(), path, quiet=True, keyframe_interval_ticks=30, trial_ms=0)
    rows: list[dict[str, Any]] = []
    is_over, step = True, 0
    while len(rows) < count:
        if is_over:
            seen, step = env.reset(seed=1)[0], 0
        if raising and len(rows) % 7 == 3:
            with pytest.raises(ValueError, match="not allowed"):
                env.step(8)
        then, reward, _, is_over, _ = env.step(len(rows) % 5)
        rows.append({"step": step, "obs": seen, "reward": reward, "next": then, "truncated": is_over})
        seen, step = then, step + 1
    env.close()
    return rows


@pytest.mark.seldom(0.15)
def test_a_column_that_comes_late_or_grows_is_found(tmp_path: Path, monkeypatch: Any) -> None:
    """The first steps do not show it: all steps are replayed once, and the files that were begun are made again."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 50)
    rows = changeable(tmp_path / "run.tape", 200)
    found = table(tmp_path / "run.tape", tmp_path / "set", world=Changeable, jobs=2)

    assert [row["obs.x"] for row in found] == [row["obs"]["x"].tolist() for row in rows]
    assert [row["next.late"] for row in found] == [row["next"].get("late") for row in rows]
    wide = [row["next"].get("wide") for row in rows]
    assert [row["next.wide"] for row in found] == [None if one is None else one.tolist() for one in wide]
    assert [row["reward"] for row in found] == [float(row["reward"]) for row in rows]
    with pytest.raises(ExtractionError, match="late is <i8, and there is no such column"):
        replayer.extract(tmp_path / "run.tape", world=Changeable).table("transitions").to_arrow()


def test_calls_that_raised_are_no_transitions(tmp_path: Path, monkeypatch: Any) -> None:
    """And no steps: their numbers are those of a loop that catches the exception."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 30)
    rows = changeable(tmp_path / "run.tape", 120, raising=True)
    found = table(tmp_path / "run.tape", tmp_path / "set", world=Changeable)

    assert [(row["step"], row["truncated"]) for row in found] == [(row["step"], row["truncated"]) for row in rows]
    with replayer.Timeline(tmp_path / "run.tape") as tape:
        raised = [tick for tick in range(1, tape.last_tick + 1) if tape.call(tick).raised]
        assert len(raised) == 17
        assert tape.call(raised[0]).action == 8


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")
def test_steps_before_the_first_reset_on_the_tape_are_reported(tmp_path: Path) -> None:
    """They are left out, since their episode is unknown, and the data set is incomplete."""
    inner = gymnasium.make("CartPole-v1")
    inner.reset(seed=1)
    env = recorder.record(inner, tmp_path / "run.tape", quiet=True)
    for _ in range(3):
        env.step(np.int64(0))
    env.reset(seed=2)
    env.step(np.int64(1))
    env.close()
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set")

    assert made.code == 3
    assert made.rows == {"transitions": 1}
    [problem] = made.manifest["problems"]
    assert problem == (
        f"transitions in {tmp_path}/run.tape that end at ticks 1 to 3 are left out: the beginning of their episode is not "
        "on the tape"
    )


def test_the_spaces_are_on_the_tape_and_in_the_manifest(tmp_path: Path) -> None:
    """And the specification, equal to the live one's."""
    path = cart(tmp_path / "cart.tape")
    made = replayer.extract(path, tmp_path / "set")
    [environment] = made.manifest["environments"]

    assert environment["spaces"]["action"] == {"type": "Discrete", "dtype": "<i8", "n": 2, "start": 0}
    assert environment["spaces"]["observation"]["low"][1] == "-inf"
    assert environment["env_spec"] == gymnasium.make("CartPole-v1", max_episode_steps=30).spec.to_json()
    json.loads((tmp_path / "set" / "manifest.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.seldom(0.15)
def test_a_tape_of_before_is_extracted_in_the_same_way(tmp_path: Path, monkeypatch: Any) -> None:
    """One without spaces: those of the rebuilt environment take their place."""
    monkeypatch.setattr("sim.adapters.gymnasium.adapter.describe_env", lambda _: {})
    path = cart(tmp_path / "cart.tape")
    monkeypatch.undo()
    with replayer.Timeline(path) as tape:
        assert "spaces" not in tape.tape.meta["adapter"]
    old, new = replayer.extract(path), replayer.extract(cart(tmp_path / "new.tape"))

    first, second = (one.table("transitions").to_arrow().drop_columns("run") for one in (old, new))
    assert first.equals(second)


def test_nulls_come_back_as_masked_arrays(tmp_path: Path) -> None:
    """And texts as None."""
    camera(tmp_path / "run.tape")
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=camera_again, info=True)
    arrays = made.table("transitions").numpy()

    assert arrays["obs.image"].shape == (90, 8, 8, 3)
    assert arrays["obs.image"].dtype == np.uint8
    is_masked = np.ma.getmaskarray(arrays["info.hits"])
    assert is_masked.any()
    assert [text is None for text in arrays["info.by.name"]] == is_masked.tolist()


@pytest.mark.seldom(0.15)
@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")  # It is about what is missing.
def test_of_a_damaged_tape_the_intact_transitions_are_extracted(tmp_path: Path, monkeypatch: Any) -> None:
    """Each as it was, and each missing one is reported by the tick at which it ends."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    path = cart(tmp_path / "cart.tape", 16, full_every=2, blame="none")
    expected = {row["tick"]: row for row in table(path, tmp_path / "whole")}
    data, numbers, losses = path.read_bytes(), random.Random(3), 0
    with replayer.Tape(path) as tape:
        entries = [entry for segment in tape.segments for entry in segment.contents.entries]
    frames = [entry.offset for entry in entries if entry.kind == BlockKind.FRAMES]
    places = [offset + HEADER_BYTES + 5 for offset in numbers.sample(frames, 3)]
    for number, place in enumerate([*places, *(numbers.randrange(8_000, len(data) - 2_000) for _ in range(5))]):
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        made = replayer.extract(path, tmp_path / f"set{number}")
        found = {row["tick"]: row for row in made.table("transitions").to_arrow().to_pylist()}
        for tick, row in found.items():
            assert row | {"episode": 0} == expected[tick] | {"episode": 0}  # A lost reset is not counted.
        missing = [range(one["first_tick"], one["last_tick"] + 1) for one in made.manifest["missing"]]
        unknown = [
            re.search(r"that end at ticks? ([\d,]+)(?: to ([\d,]+))? are", text) for text in made.manifest["problems"]
        ]
        ends = [[int(end.replace(",", "")) for end in one.groups() if end] for one in unknown if one]
        missing += [range(found_ends[0], found_ends[-1] + 1) for found_ends in ends]
        lost = expected.keys() - found.keys()
        assert not [tick for tick in lost if not any(tick + 1 in ticks for ticks in missing)]
        assert made.code == (4 if made.manifest["missing"] else made.code)
        losses += bool(lost)
    assert losses > 1


def test_tapes_of_different_environments_are_named(tmp_path: Path) -> None:
    """They cannot be one table."""
    first = cart(tmp_path / "cart.tape", 2)
    env = recorder.record(gymnasium.make("FrozenLake-v1"), tmp_path / "lake.tape", quiet=True)
    loop(env, 3, 1)
    env.close()
    with pytest.raises(ExtractionError) as caught:
        replayer.extract([first, tmp_path / "lake.tape"], tmp_path / "set")
    assert str(caught.value) == (
        f"obs is <f4 (4,) in {first} and <i8 in {tmp_path}/lake.tape: extract them into separate data sets"
    )
    assert not (tmp_path / "set.unfinished").exists()


def test_runs_are_split_whole_and_seeds_may_be_large(tmp_path: Path) -> None:
    """Several tapes are one table; a seed beyond 63 bits makes the column unsigned."""
    paths = []
    for number in range(4):
        env = recorder.record(gymnasium.make("CartPole-v1"), tmp_path / f"{number}.tape", quiet=True)
        env.reset(seed=2**63 + number if number == 2 else number)
        env.step(0)
        env.close()
        paths.append(tmp_path / f"{number}.tape")
    splits = (("train", 0.75), ("test", 0.25))
    seed = splitting_seed(paths, splits, 3, 1)
    made = replayer.extract(paths, tmp_path / "set", splits=splits, seed=seed)
    train, test = (made.table("transitions", split=name).numpy() for name in ("train", "test"))

    assert (len(train["run"]), len(test["run"])) == (3, 1)
    assert sorted([*train["seed"], *test["seed"]]) == [0, 1, 3, 2**63 + 2]


@pytest.mark.seldom(0.15)
def test_other_readers_see_the_same(tmp_path: Path) -> None:
    """polars, duckdb and pandas, images with their shape, from Parquet and from Arrow."""
    polars, duckdb, pandas = (pytest.importorskip(name) for name in ("polars", "duckdb", "pandas"))
    rows = camera(tmp_path / "run.tape")
    for file_format in ("parquet", "arrow"):
        made = replayer.extract(
            tmp_path / "run.tape", tmp_path / file_format, world=camera_again, info=True, file_format=file_format
        )
        pattern = str(tmp_path / file_format / "transitions" / f"*.{file_format}")
        frame = polars.read_parquet(pattern) if file_format == "parquet" else polars.read_ipc(pattern)
        images = np.array([row["obs"]["image"] for row in rows])
        assert frame["obs.image"].to_numpy().shape == images.shape
        assert frame["obs.image"].to_numpy().tobytes() == images.tobytes()
        assert frame["info.hits"].to_list() == [row["info"].get("hits") for row in rows]
        arrow = made.table("transitions")
        assert pandas.DataFrame(arrow.to_arrow().to_pandas())["obs.flags"].map(list).tolist() == [
            row["obs"]["flags"].tolist() for row in rows
        ]
        stream = arrow.reader()  # noqa: F841 - duckdb reads the variable
        found = duckdb.sql('select "obs.image"[3][2][1], terminated, "info.hits" from stream').fetchall()
        assert found == [(row["obs"]["image"][2, 1, 0], row["terminated"], row["info"].get("hits")) for row in rows]


def test_zarr_has_a_mask_for_missing_values(tmp_path: Path) -> None:
    """And only for columns that miss some."""
    zarr = pytest.importorskip("zarr")
    rows = camera(tmp_path / "run.tape")
    replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=camera_again, info=True, file_format="zarr")
    group = zarr.open_group(tmp_path / "set" / "data.zarr", mode="r")["transitions"]

    hits = [row["info"].get("hits") for row in rows]
    assert group["info.hits.present"][:].tolist() == [one is not None for one in hits]
    assert group["info.hits"][:].tolist() == [one or 0 for one in hits]
    assert group["info.by.name"][:].tolist() == [row["info"].get("by", {}).get("name", "") for row in rows]
    assert group["obs.image"].shape == (90, 8, 8, 3)
    assert "obs.image.present" not in group


def test_missing_lists_are_not_empty_lists(tmp_path: Path) -> None:
    """As NumPy reads them, from files and without."""
    rows = changeable(tmp_path / "run.tape", 200)
    made = replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Changeable)
    wide = made.table("transitions").numpy("next.wide")

    expected = [row["next"].get("wide") for row in rows]
    assert wide.present.tolist() == [one is not None for one in expected]
    assert wide.lengths.tolist() == [0 if one is None else len(one) for one in expected]
    assert 0 in wide.lengths[wide.present]


def test_mistakes_are_one_line(tmp_path: Path, capsys: Any) -> None:
    """Each names the option that helps."""
    path = cart(tmp_path / "cart.tape", 2)
    capsys.readouterr()
    for rest, text in (
        ("--stride 2", "error: stride: a transition is one step, got 2: leave --stride out"),
        ("--field x", "error: there is no field x in the observation, it is a single value"),
        ("--agent ann", "error: there is no agent ann: the environments have no agents"),
        ("--info --table states", "error: infos are columns of the table transitions: add it to the tables"),
        ("--reward mine:f", "use the table transitions (the default; it takes no --observe, --reward"),
    ):
        assert run(main, f"extract {path} -o {tmp_path}/set -j 1 {rest}") == 2
        assert_one_line(capsys.readouterr(), text)
    assert not (tmp_path / "set").exists()


def test_a_field_by_the_name_of_its_column_is_understood(tmp_path: Path) -> None:
    """Columns have obs. before the names of the observation's fields."""
    camera(tmp_path / "run.tape")
    with pytest.raises(ExtractionError, match=r"; did you mean image\?$"):
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=camera_again, fields=["obs.image"])


def test_an_environment_that_only_the_user_can_make_is_asked_for(tmp_path: Path, capsys: Any) -> None:
    """In one line with the option."""
    camera(tmp_path / "run.tape")
    capsys.readouterr()
    assert run(main, f"extract {tmp_path}/run.tape -o {tmp_path}/set -j 1") == 2
    assert_one_line(capsys.readouterr(), "world=… in Python or --sim module:factory")
    assert not (tmp_path / "set.unfinished").exists()


@pytest.mark.parametrize("is_info", [True, False])
def test_two_parts_with_one_column_are_refused(*, is_info: bool, tmp_path: Path) -> None:
    """Their values were put into one column, so that its rows were those of other ticks."""

    class Twice(gymnasium.Env[Any, Any]):
        box = gymnasium.spaces.Box(0, 9, (), np.float32)
        observation_space = (
            gymnasium.spaces.Discrete(9)
            if is_info
            else gymnasium.spaces.Dict({"a.b": box, "a": gymnasium.spaces.Dict({"b": box})})
        )
        action_space = gymnasium.spaces.Discrete(2)

        def values(self, number: int) -> Any:
            return {"a.b": np.float32(number), "a": {"b": np.float32(number + 1)}}

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed, options=options)
            return 1 if is_info else self.values(1), {}

        def step(self, action: Any) -> Any:  # noqa: ARG002
            return (1, 0, False, False, self.values(2)) if is_info else (self.values(2), 0, False, False, {})

    env = recorder.record(Twice(), tmp_path / "run.tape", quiet=True, trial_ms=0)
    env.reset(seed=1)
    for _ in range(3):
        env.step(1)
    env.close()
    match = r"two parts of a value would be in one column, a\.b: rename one of their keys"
    with pytest.raises(ExtractionError, match=match):
        replayer.extract(tmp_path / "run.tape", tmp_path / "set", world=Twice, info=is_info)
    with pytest.raises(ExtractionError, match=match):
        list(replayer.samples(tmp_path / "run.tape", world=Twice, info=is_info))
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]
