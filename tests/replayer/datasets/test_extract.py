"""Extracted rows equal what the live run saw, for any stride, range, part size and number of workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from recorder import Recorder
from replayer.datasets import plan
from replayer.datasets.extract import extract
from replayer.datasets.request import ExtractionError

from oracle.command_lines import files
from oracle.live_runs import Live, record_live, splitting_seed
from project_paths import SOURCES, SUPPORT
from small_worlds import Herd, Saved, Walkers

pytestmark = pytest.mark.share(0.18)

TICKS = 60


@pytest.fixture(scope="module")
def herd(tmp_path_factory: Any) -> tuple[Path, Live]:
    path = tmp_path_factory.mktemp("herd") / "herd.tape"
    return path, record_live(path, Herd(3), [None] * TICKS, keyframe_interval_ticks=7, full_every=3)


@pytest.fixture(scope="module")
def walkers(tmp_path_factory: Any) -> tuple[Path, Live, list[Any]]:
    path = tmp_path_factory.mktemp("walkers") / "walkers.tape"
    inputs = [[[tick % 20, tick]] for tick in range(TICKS)]
    return path, record_live(path, Walkers(2), inputs, keyframe_interval_ticks=9), inputs


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: Any) -> None:
    monkeypatch.setattr(plan, "PART_TICKS", 14)


def read(folder: Path, table: str) -> pa.Table:
    paths = sorted((folder / table).rglob("*.parquet"))
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])


def values(table: pa.Table, name: str) -> list[Any]:
    """A column as NumPy arrays, one per row."""
    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if isinstance(column, pa.FixedShapeTensorArray):
        return list(column.to_numpy_ndarray())
    return column.to_pylist()


def sampled(ranges: list[tuple[int, int]], stride: int) -> list[int]:
    return [tick for first, last in ranges for tick in range(first, last + 1, stride)]


RANGES = st.sampled_from([[], [(0, 20)], [(5, 33), (40, 60)], [(59, 60)], [(60, 60)], [(13, 14), (15, 29)]])


@pytest.mark.seldom(0.4)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stride=st.sampled_from([1, 2, 7, 13, 59, 60, 61, 500]),
    ranges=RANGES,
    ticks_a_part=st.sampled_from([1, 8, 21, 10**6]),
)
def test_states_are_those_of_the_live_run(
    herd: tuple[Path, Live], tmp_path_factory: Any, stride: int, ranges: Any, ticks_a_part: int, monkeypatch: Any
) -> None:
    path, live = herd
    monkeypatch.setattr(plan, "PART_TICKS", ticks_a_part)
    out = tmp_path_factory.mktemp("out")
    rows = extract(path, out / "rows", world=Herd, tables="states", stride=stride, ranges=tuple(ranges))
    assert (rows.code, rows.manifest["missing"]) == (0, [])
    table = read(out / "rows", "states")
    ticks = sampled(ranges or [(0, TICKS)], stride)
    assert values(table, "tick") == ticks
    for name in ("tick", "animals.age", "animals.place", "grass", "rng"):
        column = values(table, name)
        for tick, value in zip(ticks, column, strict=True):
            assert np.array_equal(np.array(value).reshape(live[tick][2][name].shape), live[tick][2][name]), (tick, name)


@pytest.mark.parametrize("stride", [1, 11])
@pytest.mark.seldom(0.15)
def test_the_long_form_has_a_row_for_each_live_row_and_cell(
    herd: tuple[Path, Live], tmp_path: Path, stride: int
) -> None:
    path, live = herd
    extract(path, tmp_path / "out", world=Herd, tables="states", long=True, stride=stride, jobs=2)
    animals, grass = read(tmp_path / "out", "states_animals"), read(tmp_path / "out", "states_4")
    expected = [
        (tick, row, int(age), *place.tolist())
        for tick in range(0, TICKS + 1, stride)
        for row, (age, place) in enumerate(
            zip(live[tick][2]["animals.age"], live[tick][2]["animals.place"], strict=True)
        )
    ]
    found = zip(*(values(animals, name) for name in ("tick", "row", "animals.age", "animals.place")), strict=True)
    assert [(tick, row, age, *place.tolist()) for tick, row, age, place in found] == expected
    rows = zip(values(grass, "tick"), values(grass, "row"), values(grass, "grass"), values(grass, "rng"), strict=True)
    for tick, row, cells, word in rows:
        assert np.array_equal(cells, live[tick][2]["grass"][row])
        assert word == live[tick][2]["rng"][row]
    assert grass.num_rows == 4 * len(range(0, TICKS + 1, stride))


def look(state: Any) -> dict[str, Any]:
    return {"x": state["x"], "far": np.abs(state["x"]).max()}


def few(state: Any) -> Any:
    return np.flatnonzero(state["x"] > 0)


def gain(before: Any, after: Any) -> float:
    return float(after["x"].sum() - before["x"].sum())


def moved(inputs: Any) -> Any:
    return np.array(inputs[0])


@pytest.mark.parametrize("stride", [1, 2, 7, 25, 60])
@pytest.mark.parametrize("ranges", [(), ((10, 40),)])
@pytest.mark.seldom(0.15)
def test_pairs_are_those_of_the_live_run(
    walkers: tuple[Path, Live, list[Any]], tmp_path: Path, stride: int, ranges: Any, monkeypatch: Any
) -> None:
    path, live, inputs = walkers
    monkeypatch.syspath_prepend(Path(__file__).parent)
    here = Path(__file__).stem
    extract(
        path,
        tmp_path / "out",
        world=Walkers,
        tables="pairs",
        stride=stride,
        ranges=ranges,
        observations=(f"{here}:look", f"{here}:few"),
        lists="few",
        fields="y",
        actions=f"{here}:moved",
        rewards=f"{here}:gain",
    )
    first, last = ranges[0] if ranges else (0, TICKS)
    starts = list(range(first, last, stride))
    table = read(tmp_path / "out", "pairs")
    assert values(table, "tick") == starts
    for place, begin in enumerate(starts):
        end = min(begin + stride, last)
        row = {name: values(table, name)[place] for name in table.column_names}
        assert row["ticks"] == end - begin
        for side, tick in (("obs", begin), ("next", end)):
            x = live[tick][2]["x"]
            assert np.array_equal(row[f"{side}.x"], x)
            assert row[f"{side}.far"] == abs(x).max()
            assert row[f"{side}.few"] == np.flatnonzero(x > 0).tolist()
            assert np.array_equal(row[f"{side}.y"], live[tick][2]["y"])
        assert row["reward.gain"] == live[end][2]["x"].sum() - live[begin][2]["x"].sum()
        sent = np.array([inputs[tick][0] for tick in range(begin, end)])
        if stride == 1:
            assert np.array_equal(row["action.moved"], sent[0])
        else:
            assert np.array_equal(row["action.moved"][: end - begin], sent)
            assert not row["action.moved"][end - begin :].any()
        assert (row["terminated"], row["truncated"]) == (False, end == TICKS)


def test_numbers_are_actions_as_they_are(tmp_path: Path) -> None:
    inputs = list(range(30))
    live = record_live(tmp_path / "saved.tape", Saved(), inputs, keyframe_interval_ticks=4)
    extract(tmp_path / "saved.tape", tmp_path / "out", world=Saved, tables="pairs", fields=("total", "grid", "trail"))
    table = read(tmp_path / "out", "pairs")
    assert values(table, "action.inputs") == inputs
    assert values(table, "obs.total") == [int(live[tick][2]["total"]) for tick in range(30)]
    assert values(table, "next.trail") == [live[tick][2]["trail"].tolist() for tick in range(1, 31)]


def test_the_world_ended_or_the_recording_did(tmp_path: Path) -> None:
    for reason, expected in (("eaten", (True, False)), ("ticks", (False, True)), ("interrupted", (False, True))):
        path = tmp_path / f"{reason}.tape"
        with Recorder(path, Walkers()) as tape:
            for _ in range(5):
                tape.step(None)
            tape.close({"reason": reason})
        extract(path, tmp_path / reason, world=Walkers, tables="pairs", fields="x")
        table = read(tmp_path / reason, "pairs")
        ends = list(zip(values(table, "terminated"), values(table, "truncated"), values(table, "reason"), strict=True))
        assert ends == [(False, False, "")] * 4 + [(*expected, reason)]


def test_only_pairs_with_inputs(tmp_path: Path) -> None:
    path = tmp_path / "run.tape"
    record_live(path, Walkers(), [[[1, 5]] if tick % 4 == 3 else [] for tick in range(20)])
    extract(path, tmp_path / "out", world=Walkers, tables=("pairs", "actions"), fields="x", mode="inputs", actions=())
    assert values(read(tmp_path / "out", "pairs"), "tick") == [3, 7, 11, 15, 19]
    assert values(read(tmp_path / "out", "actions"), "tick") == [4, 8, 12, 16, 20]


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
@pytest.mark.seldom(0.15)
def test_the_files_are_the_same_for_any_number_of_workers(
    herd: tuple[Path, Live], walkers: tuple[Path, Live, list[Any]], tmp_path: Path, file_format: str
) -> None:
    found = []
    for jobs in (1, 2, 4):
        out = tmp_path / str(jobs)
        extract(herd[0], out, world=Herd, tables="states", jobs=jobs, file_format=file_format, long=True)
        extract(
            walkers[0], out / "more", world=Walkers, tables=("pairs", "actions"), fields="x", actions=(), jobs=jobs,
            file_format=file_format,
        )  # fmt: skip
        found.append(files(out))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 12


@pytest.mark.seldom(0.15)
def test_arrow_files_hold_the_same(herd: tuple[Path, Live], tmp_path: Path) -> None:
    for file_format in ("parquet", "arrow"):
        extract(herd[0], tmp_path / file_format, world=Herd, tables="states", file_format=file_format)
    tables = []
    for path in sorted((tmp_path / "arrow" / "states").glob("*.arrow")):
        with pa.memory_map(str(path)) as mapped:
            tables.append(ipc.open_file(mapped).read_all())
    assert pa.concat_tables(tables).to_pylist() == read(tmp_path / "parquet", "states").to_pylist()


class StoppedError(Exception):
    pass


@pytest.mark.seldom(0.15)
def test_a_stopped_extraction_goes_on(herd: tuple[Path, Live], tmp_path: Path) -> None:
    extract(herd[0], tmp_path / "whole", world=Herd, tables="states")
    asked: list[int] = []

    def stop(done: int, _: int) -> None:
        asked.append(done)
        if done > 30:
            raise StoppedError

    with pytest.raises(StoppedError):
        extract(herd[0], tmp_path / "out", world=Herd, tables="states", progress=stop)
    assert not (tmp_path / "out").exists()
    with pytest.raises(ExtractionError, match="a different request"):
        extract(herd[0], tmp_path / "out", world=Herd, tables="states", stride=2)
    again: list[int] = []
    extract(herd[0], tmp_path / "out", world=Herd, tables="states", progress=lambda done, _: again.append(done))
    assert again[0] > 30  # What was done was not done again.
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert not (tmp_path / "out.unfinished").exists()


@pytest.mark.seldom(0.15)
def test_stopped_before_the_very_last_step_it_is_made_again(
    herd: tuple[Path, Live], tmp_path: Path, monkeypatch: Any
) -> None:
    def stop(*_: Any) -> None:
        raise StoppedError

    monkeypatch.setattr(Path, "rename", stop)
    with pytest.raises(StoppedError):
        extract(herd[0], tmp_path / "out", world=Herd, tables="states")
    monkeypatch.undo()
    assert not (tmp_path / "out").exists()
    extract(herd[0], tmp_path / "out", world=Herd, tables="states", stride=9)
    extract(herd[0], tmp_path / "whole", world=Herd, tables="states", stride=9)
    assert files(tmp_path / "out").keys() == files(tmp_path / "whole").keys()


KILLED = """
import sys
from replayer.datasets import extract
from replayer.datasets import plan
from small_worlds import Herd
plan.PART_TICKS = 14
extract.extract(sys.argv[1], sys.argv[2], world=Herd, tables="states", progress=lambda *_: print(end=".", flush=True))
"""


@pytest.mark.parametrize("progress", [1, 5])
@pytest.mark.seldom(0.15)
def test_killed_at_any_time_it_is_whole_or_not_there(herd: tuple[Path, Live], tmp_path: Path, progress: int) -> None:
    """Killed after the first of five reports of progress, and after the last, while the data set is completed."""
    extract(herd[0], tmp_path / "whole", world=Herd, tables="states")
    command = [sys.executable, "-c", KILLED, str(herd[0]), str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": f"{SUPPORT}{os.pathsep}{SOURCES}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.read(progress) == b"." * progress
        process.send_signal(signal.SIGKILL)
    if not (tmp_path / "out").exists():
        extract(herd[0], tmp_path / "out", world=Herd, tables="states")
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.seldom(0.15)
def test_runs_are_split_whole(tmp_path: Path) -> None:
    tapes = []
    for seed in range(10):
        tapes.append(tmp_path / f"{seed}.tape")
        record_live(tapes[-1], Walkers(seed), [None] * 5)
    splits = (("train", 0.7), ("test", 0.2), ("check", 0.1))
    seed = splitting_seed(tapes, splits, 7, 2, 1)
    asked: dict[str, Any] = {"world": Walkers, "splits": splits, "seed": seed}
    made = extract(tapes, tmp_path / "out", tables=("states", "actions"), **asked)
    by_split = {
        name: {
            run
            for path in (tmp_path / "out/states" / f"split={name}").glob("*")
            for run in values(pq.read_table(path, partitioning=None), "run")
        }
        for name, _ in splits
    }
    assert [len(by_split[name]) for name, _ in splits] == [7, 2, 1]
    assert set.union(*by_split.values()) == {tape["run"] for tape in made.manifest["tapes"]}
    known = {tape["run"]: tape["split"] for tape in made.manifest["tapes"]}
    for count in (10, 3, 1):  # No other run changes the split of a run, nor does the order.
        again = extract(list(reversed(tapes))[:count], tmp_path / f"again-{count}", tables="states", **asked)
        assert {tape["run"]: tape["split"] for tape in again.manifest["tapes"]}.items() <= known.items()
        empty = {name for name, _ in splits} - {tape["split"] for tape in again.manifest["tapes"]}
        assert len(again.manifest["notes"]) == len(empty)
    whole = pq.read_table(tmp_path / "out/states")  # Readers know the split from the folder's name.
    assert set(whole["split"].to_pylist()) == {"train", "test", "check"}


def test_the_manifest_says_where_it_comes_from(herd: tuple[Path, Live], tmp_path: Path) -> None:
    made = extract(herd[0], tmp_path / "out", world=Herd, tables="states", stride=3, command=["replay", "extract"])
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest == json.loads(json.dumps(made.manifest))
    assert manifest["command"] == ["replay", "extract"]
    assert manifest["request"]["stride"] == 3
    [tape] = manifest["tapes"]
    assert (tape["first_tick"], tape["last_tick"], tape["status"]) == (0, TICKS, "intact")
    states = manifest["tables"]["states"]
    assert states["columns"]["grass"] == {"dtype": "<f4", "shape": [4, 6], "is_list": False}
    assert states["columns"]["animals.place"] == {"dtype": "<i2", "shape": [2], "is_list": True}
    assert (
        sum(pq.read_metadata(tmp_path / "out" / file["path"]).num_rows for file in states["files"])
        == states["rows"]
        == 21
    )


def test_noise_is_written_without_dictionaries_and_with_its_bytes_apart(
    herd: tuple[Path, Live], tmp_path: Path
) -> None:
    extract(herd[0], tmp_path / "out", world=Herd, tables="states")
    group = pq.ParquetFile(tmp_path / "out/states/part-00000.parquet").metadata.row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert "BYTE_STREAM_SPLIT" in columns["grass.list.element"].encodings
    assert not columns["grass.list.element"].has_dictionary_page
    assert columns["run"].has_dictionary_page
    assert {column.compression for column in columns.values()} == {"ZSTD"}
