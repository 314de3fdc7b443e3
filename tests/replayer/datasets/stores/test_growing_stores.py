"""Zarr and Minari data sets grow: only new tapes are read, and a kill leaves the old data set or the new one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily, needs

import recorder
import replayer.commands.main
from replayer.datasets import merge_datasets, plan, remove_runs
from replayer.datasets.append import ADDED
from replayer.datasets.dataset import Dataset, DatasetError
from replayer.datasets.extract import extract
from replayer.datasets.request import ExtractionError

from oracle.command_lines import assert_one_line, files, run
from oracle.live_runs import record_live, splitting_seed
from project_paths import SOURCES, SUPPORT
from small_worlds import Kinds

minari = lazily("minari")
needs("zarr", "h5py", "PIL", "gymnasium", "pyarrow")

import gymnasium  # noqa: E402
from collected_environments import Camera  # noqa: E402

pytestmark = pytest.mark.share(0.15)

SPLITS = (("train", 0.67), ("test", 0.33))
COLUMNS = ("flag", "half", "wide", "ants.place")
KINDS: dict[str, Any] = {"world": Kinds, "tables": ("states", "pairs"), "fields": COLUMNS}


@pytest.fixture(autouse=True)
def small_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use sizes of parts, chunks and shards of which there are many."""
    from replayer.datasets.stores import zarr as zarr_store

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "PART_TICKS", 16)
    monkeypatch.setattr(zarr_store, "CHUNK_BYTES", 200)
    monkeypatch.setattr(zarr_store, "SHARD_BYTES", 1000)


def kinds(count: int) -> list[Path]:
    """Tapes of worlds with fields of all kinds, each of another length."""
    paths = [Path(f"kinds-{number}.tape") for number in range(count)]
    for number, path in enumerate(paths):
        record_live(path, Kinds(number), list(range(20 + 3 * number)), keyframe_interval_ticks=8)
    return paths


def carts(count: int) -> list[Path]:
    """Tapes of CartPole. Some episodes have no seed, others end by the limit of time; the last one is cut."""
    paths = [Path(f"cart-{number}.tape") for number in range(count)]
    for number, path in enumerate(paths):
        env = gymnasium.make("CartPole-v1", max_episode_steps=12)
        env = recorder.record(env, path, quiet=True, keyframe_interval_ticks=20, durability="none")
        env.action_space.seed(number)
        for episode in range(3):
            env.reset(seed=None if number == 1 and episode else 10 * number + episode)
            for _ in range(14 if episode < 2 else 5):
                if any(env.step(env.action_space.sample())[2:4]):
                    break
        env.close()
    return paths


def spoil(path: Path) -> None:
    """Its rows cannot be read any more, and neither have they to be."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(50))


def in_steps(tapes: list[Path], counts: tuple[int, ...], folder: str, **asked: Any) -> None:
    """Extract the first tapes, then more and more of them. Those that the data set holds are spoiled."""
    copies = [(path, path.read_bytes()) for path in tapes]
    for count in counts:
        extract(tapes[:count], folder, append=True, **asked)
        Dataset(folder).verify()
        for path in tapes[:count]:
            spoil(path)
    for path, content in copies:
        path.write_bytes(content)


@pytest.mark.parametrize("splits", [(), SPLITS], ids=["whole", "splits"])
@pytest.mark.parametrize("counts", [(1, 3), (2, 3)], ids=str)
@pytest.mark.seldom(0.15)
def test_a_zarr_store_has_the_files_of_one_run_over_all(counts: tuple[int, ...], splits: Any) -> None:
    """Byte by byte: numbers, texts, lists; chunks of a size that changes with the rows, and shards that stay."""
    tapes = kinds(3)
    asked = {**KINDS, "file_format": "zarr", "splits": splits, "seed": splitting_seed(tapes, splits, 2, 1)}
    in_steps(tapes, counts, "data", **asked)
    extract(tapes, "whole", **asked)
    grown, whole = files(Path("data/data.zarr")), files(Path("whole/data.zarr"))
    roots = [grown.pop("zarr.json"), whole.pop("zarr.json")]
    assert grown == whole
    assert roots[0] == roots[1].replace(b'"whole"', b'"data"')
    for name in ("states", "pairs"):
        one, other = (Dataset(folder).manifest["tables"][name] for folder in ("data", "whole"))
        assert {**one, "files": 0} == {**other, "files": 0}
    split_of = [{tape["run"]: tape["split"] for tape in Dataset(name).manifest["tapes"]} for name in ("data", "whole")]
    assert split_of[0] == split_of[1]
    assert sorted(path.name for path in Path().iterdir() if path.is_dir()) == ["data", "whole"]
    assert not list(Path("data").glob(f"{ADDED}*"))


@pytest.mark.seldom(0.15)
def test_complete_shards_stay_the_same_files(monkeypatch: Any) -> None:
    """They are not written again; of the values that come and go the mask is made for the old rows, too."""
    import zarr

    from replayer.datasets.stores import zarr as zarr_store

    monkeypatch.setattr(zarr_store, "SHARD_BYTES", 200)

    tapes = carts(3)
    extract(tapes[:1], "data", append=True, file_format="zarr")
    before = {
        path: path.stat().st_ino for path in Path("data/data.zarr/transitions/obs/c").rglob("*") if path.is_file()
    }
    assert len(before) > 1
    extract(tapes, "data", append=True, file_format="zarr")
    assert len([path for path, inode in before.items() if path.stat().st_ino == inode]) >= len(before) - 1
    extract(tapes, "whole", file_format="zarr")
    assert files(Path("data/data.zarr/transitions")) == files(Path("whole/data.zarr/transitions"))
    present = zarr.open_array("data/data.zarr/transitions/seed.present", mode="r")[:]
    assert (present[0], present.all(), present[-1]) == (True, False, True)


def episodes(folder: str, monkeypatch: Any) -> list[Any]:
    """All episodes by Minari's own reading: numbers, attributes, data and spaces, and the texts that it counts."""
    found: list[Any] = []
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(Path(folder).resolve()))
    for identity in Dataset(folder).manifest["tables"]["transitions"]["datasets"]:
        loaded = minari.load_dataset(identity)
        metadata = loaded.storage.metadata
        found.append(identity.replace(folder, "NAME"))
        found.append([str(metadata.get(name)) for name in ("description", "total_episodes", "total_steps", "env_spec")])
        found.append((str(loaded.observation_space), str(loaded.action_space), str(metadata.get("author"))))
        found.append(len(list(loaded.sample_episodes(2))))
        for episode, about in zip(
            loaded.iterate_episodes(), loaded.storage.get_episode_metadata(range(len(loaded))), strict=True
        ):
            values = [episode.observations, episode.actions, episode.rewards, episode.terminations, episode.infos]
            found.append((episode.id, sorted((name, str(value)) for name, value in about.items()), as_bytes(values)))
    return found


def as_bytes(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_bytes(one) for name, one in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [as_bytes(one) for one in value]
    return value if value is None else (str(np.asarray(value).dtype), np.shape(value), np.asarray(value).tobytes())


@pytest.mark.parametrize("splits", [(), SPLITS], ids=["whole", "splits"])
@pytest.mark.parametrize("counts", [(1, 3), (1, 2, 3)], ids=str)
@pytest.mark.seldom(0.15)
def test_minari_has_the_episodes_of_one_run_over_all(counts: tuple[int, ...], splits: Any, monkeypatch: Any) -> None:
    """In the same order, with the same attributes, by Minari's own reading."""
    tapes = carts(3)
    asked = {"file_format": "minari", "splits": splits, "seed": splitting_seed(tapes, splits, 2, 1)}
    in_steps(tapes, counts, "data", **asked)
    extract(tapes, "whole", **asked)
    assert episodes("data", monkeypatch) == episodes("whole", monkeypatch)
    assert len(episodes("data", monkeypatch)) > 9
    loaded = minari.load_dataset(Dataset("data").manifest["tables"]["transitions"]["datasets"][0])
    assert loaded.recover_environment().spec.id == "CartPole-v1"
    assert sorted(path.name for path in Path().iterdir() if path.is_dir()) == ["data", "whole"]


@pytest.mark.seldom(0.15)
def test_minari_joins_the_notes_of_tapes() -> None:
    """A name that both have is there once."""
    for number, author in enumerate(("Ann", "Ann", "Bo")):
        env = gymnasium.make("CartPole-v1", max_episode_steps=5)
        notes = {"author": author, "description": "balance"}
        env = recorder.record(env, f"{number}.tape", quiet=True, notes=notes)
        env.reset(seed=number)
        env.step(0)
        env.close()
    for count in (1, 2, 3):
        extract([f"{number}.tape" for number in range(count)], "data", append=True, file_format="minari")
    metadata = Path("data/data-v0/data/metadata.json")
    assert '"author": ["Ann, Bo"]' in metadata.read_text()
    assert '"description": "balance"' in metadata.read_text()


@pytest.mark.seldom(0.15)
def test_another_environment_is_refused_by_minari() -> None:
    """Spaces and specifications are those of all episodes; the data set is then unchanged."""
    [cart] = carts(1)
    extract([cart], "data", file_format="minari")
    before = files(Path("data"))
    env = gymnasium.make("CartPole-v1", max_episode_steps=13)
    env = recorder.record(env, "longer.tape", quiet=True)
    env.reset(seed=1)
    env.step(0)
    env.close()
    with pytest.raises(ExtractionError, match="data would have rows of different environments"):
        extract([cart, "longer.tape"], "data", append=True, file_format="minari")
    camera = recorder.record(gymnasium.wrappers.TimeLimit(Camera(), 5), "camera.tape", quiet=True)
    camera.reset(seed=1)
    camera.step(camera.action_space.sample())
    camera.close()
    with pytest.raises(ExtractionError, match="have different columns in table transitions"):
        extract(
            ["camera.tape"],
            "data",
            append=True,
            file_format="minari",
            world=lambda: gymnasium.wrappers.TimeLimit(Camera(), 5),
        )
    assert files(Path("data")) == before
    assert sorted(path.name for path in Path().iterdir() if path.is_dir()) == ["data"]


class StoppedError(BaseException):
    """The process ends here: nothing that follows is done."""


STOPS = ("zarr_join.fill_array", "zarr_join.link_or_copy", "minari_join._append", "minari_join._write_metadata")
PLACES = [(f"stores.joining.{place}", place.partition("_")[0]) for place in STOPS]
PLACES += [
    (f"grow_store.{name}", file_format)
    for name in ("_keep_own_files", "write_file", "exchange_folders", "_remove")
    for file_format in ("zarr", "minari")
]


@pytest.mark.parametrize(("place", "file_format"), PLACES, ids=str)
@pytest.mark.seldom(0.15)
def test_stopped_at_a_place_it_is_the_old_one_or_the_new_one(place: str, file_format: str, monkeypatch: Any) -> None:
    """The same call then gives the files of a call that was not stopped, and leaves nothing behind."""
    from replayer.datasets.stores import zarr as zarr_store

    monkeypatch.setattr(zarr_store, "SHARD_BYTES", 200)  # So small that some are complete.
    tapes = carts(3)
    extract(tapes[:1], "data", file_format=file_format)
    Path("data/mine.txt").write_text("a file of the user")
    shutil.copytree("data", "kept")
    extract(tapes, "data", append=True, file_format=file_format)
    expected = files(Path("data"))
    shutil.rmtree("data")
    shutil.copytree("kept", "data")
    old = files(Path("data"))
    assert expected["mine.txt"] == old["mine.txt"]

    def stop(*_: Any, **__: Any) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        extract(tapes[1:], f"data/{ADDED}", file_format=file_format)  # The rows of the new tapes are there already.
        patch.setattr(f"replayer.datasets.{place}", stop)
        with pytest.raises(StoppedError):
            extract(tapes, "data", append=True, file_format=file_format)
    found = {name: content for name, content in files(Path("data")).items() if not name.startswith(ADDED)}
    assert found in (old, {**expected, "manifest.json": found["manifest.json"]})
    Dataset("data").verify()
    extract(tapes, "data", append=True, file_format=file_format)
    assert {**files(Path("data")), "manifest.json": b""} == {**expected, "manifest.json": b""}
    assert sorted(path.name for path in Path().iterdir() if path.is_dir()) == ["data", "kept"]
    assert not list(Path("data").glob(f"{ADDED}*"))


KILLED = """
import os, signal, sys
from pathlib import Path
from replayer.datasets import plan
from replayer.datasets.extract import extract
from replayer.datasets.stores import zarr as zarr_store
plan.PART_TICKS, zarr_store.CHUNK_BYTES, zarr_store.SHARD_BYTES = 16, 200, 1000
left, own = int(sys.argv[1]), os.getpid()
def count(event, arguments):
    global left
    if os.getpid() == own and event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "ctypes.dlsym"):
        if any(part in str(argument) for argument in arguments for part in ("data", "renameat2")):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(count)
extract([f"cart-{number}.tape" for number in range(2)], "data", append=True, file_format=sys.argv[2])
print(left)
"""


@pytest.mark.seldom(0.15)
@pytest.mark.parametrize("file_format", ["zarr", "minari"])
def test_killed_at_any_file_it_is_the_old_one_or_the_new_one(file_format: str) -> None:
    """By SIGKILL, at an operation on a file that is drawn."""
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    draw = random.Random(seed)
    tapes = carts(2)
    environment = {**os.environ, "PYTHONPATH": f"{SUPPORT}{os.pathsep}{SOURCES}"}
    extract(tapes[:1], "data", file_format=file_format)
    shutil.copytree("data", "kept")

    def append(left: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", KILLED, str(left), file_format]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    whole = append(1_000_000)
    assert whole.returncode == 0, whole.stderr
    operations = 1_000_000 - int(whole.stdout)
    expected = {**files(Path("data")), "manifest.json": b""}
    old = {**files(Path("kept")), "manifest.json": b""}
    for place in [draw.randint(1, operations) for _ in range(4)]:
        shutil.rmtree("data")
        shutil.copytree("kept", "data")
        assert append(place).returncode == -signal.SIGKILL
        found = {name: content for name, content in files(Path("data")).items() if not name.startswith(ADDED)}
        assert {**found, "manifest.json": b""} in (old, expected), place
        Dataset("data").verify()
        assert append(1_000_000).returncode == 0
        assert {**files(Path("data")), "manifest.json": b""} == expected, place
        assert sorted(path.name for path in Path().iterdir() if path.is_dir()) == ["data", "kept"]


@pytest.mark.seldom(0.15)
def test_what_cannot_be_added_is_refused() -> None:
    """Other requests, balanced modes and damaged files, in one line; the data set is unchanged."""
    tapes = kinds(2)
    asked = {**KINDS, "file_format": "zarr"}
    extract(tapes[:1], "data", **asked)
    with pytest.raises(ExtractionError, match=r"with a different request \(stride: 1, now 2\)"):
        extract(tapes, "data", append=True, **{**asked, "stride": 2})
    extract(tapes, "both", **asked)
    run_id = str(Dataset("data").manifest["tapes"][0]["run"])
    with pytest.raises(
        ExtractionError, match="both does not state which files belong to a run: extract the other tapes"
    ):
        remove_runs("both", run_id)
    Path("data.grown").mkdir()
    with pytest.raises(ExtractionError, match=r"data.grown is needed for a moment and exists: remove or rename it"):
        extract(tapes, "data", append=True, **asked)
    Path("data.grown").rmdir()
    chunk = max(Path("data/data.zarr/states/wide/c").rglob("*"), key=lambda path: path.stat().st_size)
    chunk.write_bytes(chunk.read_bytes()[:-1])
    before = files(Path("data"))
    with pytest.raises(DatasetError, match="bytes, expected"):
        extract(tapes, "data", append=True, **asked)
    assert {name: content for name, content in files(Path("data")).items() if not name.startswith(ADDED)} == before


@pytest.mark.seldom(0.15)
def test_stores_are_merged_and_the_command_appends(capfd: Any) -> None:
    """Two data sets of the same request are one; the command says what it then has."""
    tapes = carts(2)
    for name, some in (("one", tapes[:1]), ("two", tapes[1:]), ("both", tapes)):
        extract(some, name, file_format="zarr")
    merge_datasets("one", "two")
    assert files(Path("one/data.zarr/transitions")) == files(Path("both/data.zarr/transitions"))
    line = "extract cart-0.tape cart-1.tape -o data -j 1 --format minari"
    assert run(replayer.commands.main.main, line.replace("cart-1.tape", "")) == 0
    capfd.readouterr()
    assert run(replayer.commands.main.main, line) == 2
    assert_one_line(capfd.readouterr(), "add new tapes to it by append (--append)")
    assert run(replayer.commands.main.main, f"{line} --append") == 0
    assert f"{Dataset('both').rows['transitions']} rows" in capfd.readouterr().out
