"""A Zarr store, read by zarr and xarray, holds what the live runs saw, in shards that are written once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily

import replayer
from recorder import Recorder
from replayer.commands.main import main
from replayer.datasets import plan
from replayer.datasets.dataset import DatasetError
from replayer.datasets.parts import run_parts
from replayer.datasets.parts import worker as work
from replayer.datasets.request import ExtractionError
from sim.extras import missing_package

from oracle.command_lines import assert_one_line, files, run
from oracle.live_runs import Live, record_live, splitting_seed
from small_worlds import Kinds

pytestmark = pytest.mark.share(0.18)

zarr = lazily("zarr")

TICKS = 32
FIXED = ("tick", "flag", "mask", "half", "byte", "wide", "real", "rng")
LISTS = ("ants.place", "ants.carries")
SPLITS = (("train", 0.67), ("test", 0.33))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: Any) -> list[tuple[Path, Live]]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        (path, record_live(path, Kinds(seed), list(range(TICKS)), keyframe_interval_ticks=8))
        for seed, path in enumerate(folder / f"{name}.tape" for name in "abc")
    ]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: Any) -> None:
    """Use sizes of parts, batches, chunks and shards that are not multiples of each other."""
    from replayer.datasets.stores import zarr as zarr_store

    monkeypatch.setattr(plan, "PART_TICKS", 16)
    monkeypatch.setattr(work, "BUFFER_BYTES", 2000)
    monkeypatch.setattr(zarr_store, "CHUNK_BYTES", 200)
    monkeypatch.setattr(zarr_store, "SHARD_BYTES", 1000)


def extracted(runs: Any, output: Path, tables: Any = ("states", "pairs"), **wanted: Any) -> replayer.Dataset:
    asked = {"world": Kinds, "tables": tables, "fields": (*FIXED, *LISTS)} | wanted
    asked["seed"] = splitting_seed([path for path, _ in runs], wanted.get("splits", ()), 2, 1)
    replayer.extract([path for path, _ in runs], output, file_format="zarr", **asked)
    return replayer.Dataset(output)


def truth(runs: Any, name: str, ticks: range) -> list[np.ndarray]:
    return [live[tick][2][name] for _, live in runs for tick in ticks]


@pytest.mark.seldom(0.15)
def test_zarr_holds_what_the_live_runs_had(runs: Any, tmp_path: Path) -> None:
    """Dtypes, shapes and values are kept; lists are stored as concatenated items and lengths."""
    extracted(runs, tmp_path / "set").verify()
    root = zarr.open_group(tmp_path / "set/data.zarr", mode="r")
    for table, starts in (("states", {"": range(TICKS + 1)}), ("pairs", {"obs.": range(TICKS), "next.": range(1, 33)})):
        for start, ticks in starts.items():
            for name in FIXED:
                expected, found = np.array(truth(runs, name, ticks)), root[f"{table}/{start}{name}"]
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
                assert np.array_equal(found[:], expected)
            for name in LISTS:
                lists, found = truth(runs, name, ticks), root[f"{table}/{start}{name}"]
                assert found.dtype == lists[0].dtype
                assert np.array_equal(found[:], np.concatenate(lists))
                assert root[f"{table}/{start}{name}.lengths"][:].tolist() == [len(one) for one in lists]
                assert root[f"{table}/{start}{name}.lengths"].attrs["sample_dimension"] == f"{start}{name}_item"
    assert root["pairs/reason"][:].tolist() == ([""] * (TICKS - 1) + ["closed"]) * 3
    assert root["pairs/action.inputs"][:].tolist() == list(range(TICKS)) * 3
    assert root.metadata.consolidated_metadata is None


@pytest.mark.seldom(0.15)
def test_xarray_opens_each_split(runs: Any, tmp_path: Path) -> None:
    """xarray opens it by the names of its dimensions, without a warning."""
    xarray = pytest.importorskip("xarray")
    data = extracted(runs, tmp_path / "set", "states", splits=SPLITS)
    assert data.manifest["tables"]["states"]["groups"] == ["states/train", "states/test"]
    lives = {run_of(path): live for path, live in runs}
    seen: list[str] = []
    for split in ("train", "test"):
        with xarray.open_zarr(tmp_path / "set/data.zarr", group=f"states/{split}", consolidated=False) as states:
            assert states["byte"].dims == ("row", "byte_0", "byte_1", "byte_2")
            assert states["ants.place"].dims == ("ants.place_item", "ants.place_0")
            for run_id in dict.fromkeys(states["run"].values.tolist()):
                seen.append(run_id)
                own = states.isel(row=states["run"].values == run_id)
                for name in FIXED:
                    expected = [lives[run_id][tick][2][name] for tick in own["tick"].values.tolist()]
                    assert np.array_equal(own[name].values, expected)
                assert own.sizes["row"] == TICKS + 1
    assert sorted(seen) == sorted(lives)


def run_of(path: Path) -> str:
    with replayer.Tape(path) as tape:
        assert tape.run_id is not None
        return tape.run_id


@pytest.mark.seldom(0.15)
def test_it_is_cut_into_shards(runs: Any, tmp_path: Path) -> None:
    """Shards have the size of one file; chunks are smaller parts of it."""
    extracted(runs, tmp_path / "set", "states", fields=("tick", "real", "flag"))
    real = zarr.open_array(tmp_path / "set/data.zarr/states/real", mode="r")
    assert (real.chunks, real.shards) == ((8, 3), (40, 3))  # 192 of 200 bytes, 960 of 1000.
    rows = 3 * (TICKS + 1)
    shards = sorted((tmp_path / "set/data.zarr/states/real/c").glob("*/0"))
    assert len(shards) == -(-rows // 40)
    flag = zarr.open_array(tmp_path / "set/data.zarr/states/flag", mode="r")
    assert (flag.chunks, flag.shards) == ((99,), (99,))  # No more than there are rows.


@pytest.mark.seldom(0.15)
def test_the_bytes_are_the_same_for_any_number_of_jobs(runs: Any, tmp_path: Path) -> None:
    found = []
    for jobs in (1, 2):
        fields = ("half", "mask", "ants.carries")
        extracted(runs, tmp_path / str(jobs) / "set", "pairs", jobs=jobs, splits=SPLITS, fields=fields)
        found.append(files(tmp_path / str(jobs)))
    assert found[0] == found[1]
    assert len(found[0]) > 60


def test_an_empty_list_everywhere_is_an_empty_array(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run.tape", Kinds()):
        pass
    replayer.extract(
        tmp_path / "run.tape", tmp_path / "set", world=Kinds, tables="states", file_format="zarr", fields=LISTS
    )
    place = zarr.open_array(tmp_path / "set/data.zarr/states/ants.place", mode="r")
    assert (place.shape, place.dtype) == ((0, 2), np.int16)
    lengths = zarr.open_array(tmp_path / "set/data.zarr/states/ants.place.lengths", mode="r")
    assert lengths[:].tolist() == [0]


class StoppedError(Exception):
    pass


@pytest.mark.seldom(0.15)
def test_a_stopped_extraction_goes_on(runs: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """A continued extraction keeps its parts and removes the unfinished store."""
    few = {"tables": "states", "fields": ("real", "ants.place")}
    extracted(runs, tmp_path / "whole/set", **few)

    def stop(done: int, total: int) -> None:
        if done == total:
            raise StoppedError

    with pytest.raises(StoppedError):
        extracted(runs, tmp_path / "again/set", progress=stop, **few)
    begun = tmp_path / "again/set.unfinished"
    (begun / "data.zarr/states/half").mkdir(parents=True)
    (begun / "data.zarr/states/half/0").write_bytes(b"x")
    noted = {int(record.stem.removeprefix("part-")) for record in (begun / "done").iterdir()}
    assert noted  # Not all: the end of the last parts is not noted, since their progress is told before.
    rest: list[int] = []
    batches = run_parts.part_batches

    def told(task: Any, parts: Any, *further: Any) -> Any:
        rest.extend(part.number for part in parts)
        return batches(task, parts, *further)

    monkeypatch.setattr(run_parts, "part_batches", told)
    extracted(runs, tmp_path / "again/set", **few)
    assert set(rest) == set(range(9)) - noted
    assert files(tmp_path / "again") == files(tmp_path / "whole")


def odd(state: Any) -> dict[str, Any]:
    return {"a/b": state["tick"]}


def clash(state: Any) -> dict[str, Any]:
    return {"x": np.arange(int(state["tick"])), "x.lengths": state["tick"]}


def test_mistakes_get_one_line(runs: Any, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    here, tape = Path(__file__).stem, runs[0][0]
    start = f"extract {tape} -o {tmp_path}/set --sim small_worlds:Kinds --format zarr -j 1"
    for rest, text in (
        ("--table states --table events", "Zarr holds arrays, and the rows of the table events have no common columns"),
        ("--table pairs --field tick --table actions", "the rows of the table actions have no common columns"),
        (f"--observe {here}:odd", "Zarr cannot hold a column called obs.a/b (table pairs)"),
        (
            f"--observe {here}:clash --list x",
            "the column obs.x.lengths clashes with the lengths of obs.x, which get this name in Zarr",
        ),
    ):
        assert run(main, f"{start} {rest}") == 2
        assert_one_line(capsys.readouterr(), text)
    monkeypatch.setitem(sys.modules, "zarr", None)
    assert run(main, f"{start} --table states") == 2
    assert_one_line(capsys.readouterr(), missing_package("the format zarr", "zarr", "zarr"))


def test_others_read_its_tables(runs: Any, tmp_path: Path, capsys: Any) -> None:
    """The command and Dataset name the reader; Dataset verifies the files."""
    line = f"extract {runs[0][0]} -o {tmp_path}/set --sim small_worlds:Kinds --format zarr --table states -j 1"
    assert run(main, line) == 0
    assert (
        f"xarray.open_zarr('{tmp_path}/set/data.zarr', group='states', consolidated=False)" in capsys.readouterr().out
    )
    data = replayer.Dataset(tmp_path / "set")
    with pytest.raises(ExtractionError, match=r"of format zarr: open it with xarray\.open_zarr or zarr\.open_group$"):
        data.table("states")
    path = tmp_path / "set/data.zarr/zarr.json"
    path.write_bytes(path.read_bytes().replace(b"set", b"sat"))
    with pytest.raises(DatasetError, match=rf"^the SHA-256 of {path} differs from the manifest$"):
        data.verify()
