"""pyarrow, polars, duckdb, pandas and NumPy read an extraction as the live run saw it, from files or without."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import replayer
from recorder import RecordingError
from replayer.datasets import plan
from replayer.datasets.dataset import DatasetError
from replayer.datasets.in_memory import ExtractionWarning
from replayer.datasets.parts import worker as work
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Lists
from sim import RandomStream

from oracle.command_lines import files
from oracle.live_runs import Live, record_live, splitting_seed
from small_worlds import Kinds

pytestmark = pytest.mark.share(0.18)

TICKS = 32
FIXED = ("tick", "flag", "mask", "half", "byte", "wide", "real", "rng")
LISTS = ("ants.place", "ants.carries")
SPLITS = (("train", 0.67), ("test", 0.33))
TABLES = ("states", "pairs", "actions", "events")
FORMATS = ("parquet", "arrow", "streamed")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: Any) -> list[tuple[Path, Live]]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        (path, record_live(path, Kinds(seed), list(range(TICKS)), keyframe_interval_ticks=8))
        for seed, path in enumerate(folder / f"{name}.tape" for name in "abc")
    ]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: Any) -> None:
    monkeypatch.setattr(plan, "PART_TICKS", 16)
    monkeypatch.setattr(work, "BUFFER_BYTES", 2000)


@pytest.fixture(scope="module", params=FORMATS)
def data(request: Any, runs: Any, tmp_path_factory: Any) -> Any:
    """All tables of three runs, as files in two formats and without files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "PART_TICKS", 16)
        patch.setattr(work, "BUFFER_BYTES", 2000)
        return extracted(runs, request.param, tmp_path_factory.mktemp("data") / "set", TABLES)


def extracted(runs: Any, form: str, output: Path, tables: Any, **wanted: Any) -> Any:
    paths = [path for path, _ in runs]
    asked = {"world": Kinds, "tables": tables, "fields": (*FIXED, *LISTS), "splits": SPLITS} | wanted
    if asked["splits"] == SPLITS:
        asked["seed"] = splitting_seed([path for path, _ in runs], SPLITS, (len(runs) + 1) // 2, len(runs) // 2)
    if form == "streamed":
        return replayer.extract(paths, **asked)
    replayer.extract(paths, output, file_format=form, **asked)
    return replayer.Dataset(output)


def run_of(path: Path) -> str:
    with replayer.Tape(path) as tape:
        assert tape.run_id is not None
        return tape.run_id


def truth(runs: Any, name: str, ticks: range) -> list[np.ndarray]:
    return [live[tick][2][name] for _, live in runs for tick in ticks]


def test_numpy_gives_what_the_live_runs_had(data: Any, runs: Any) -> None:
    """Every field of every tick keeps its dtype, shape and values; booleans stay booleans, lists have lengths."""
    states = data.table("states").numpy()
    assert states["run"].tolist() == [run_of(path) for path, _ in runs for _ in range(TICKS + 1)]
    for name in FIXED:
        expected = np.array(truth(runs, name, range(TICKS + 1)))
        assert (states[name].dtype, states[name].shape) == (expected.dtype, expected.shape)
        assert np.array_equal(states[name], expected)
    for name in LISTS:
        expected = truth(runs, name, range(TICKS + 1))
        assert isinstance(states[name], Lists)
        assert states[name].values.dtype == expected[0].dtype
        assert states[name].lengths.tolist() == [len(one) for one in expected]
        assert np.array_equal(states[name].values, np.concatenate(expected))
    assert 0 in states["ants.place"].lengths
    assert np.array_equal(data.table("states").numpy("mask"), states["mask"])


def test_numpy_gives_pairs(data: Any, runs: Any) -> None:
    pairs = data.table("pairs").numpy()
    for name in FIXED:
        assert np.array_equal(pairs[f"obs.{name}"], truth(runs, name, range(TICKS)))
        assert np.array_equal(pairs[f"next.{name}"], truth(runs, name, range(1, TICKS + 1)))
    assert pairs["action.inputs"].tolist() == list(range(TICKS)) * 3
    assert pairs["reason"].tolist() == ([""] * (TICKS - 1) + ["closed"]) * 3
    assert pairs["truncated"].tolist() == ([False] * (TICKS - 1) + [True]) * 3


@pytest.mark.seldom(0.15)
def test_numpy_gives_records_with_what_is_missing(data: Any, runs: Any) -> None:
    """Numbers with missing values are masked arrays; missing texts are None."""
    events = data.table("events").numpy()
    bells = events["kind"] == "bell"
    counts = [len(live[tick][2]["ants.place"]) for _, live in runs for tick in range(1, TICKS + 1)]
    assert events["count"][~bells].tolist() == [count for count in counts if count]
    assert np.array_equal(np.ma.getmaskarray(events["count"]), bells)
    assert events["loud"][bells].tolist() == [False, True, False] * 3
    assert events["share"][bells].tolist() == [1.25, 2.5, 3.75] * 3
    assert events["note"].tolist() == [("déjà" if bell else None) for bell in bells]
    assert data.table("actions").numpy("value").tolist() == list(range(TICKS)) * 3


def flat(runs: Any, name: str) -> list[Any]:
    return [one.reshape(-1).tolist() for one in truth(runs, name, range(TICKS + 1))]


def test_pyarrow_reads_it(data: Any, runs: Any) -> None:
    table = pa.table(data.table("states"))
    for name in ("mask", "half", "byte", "real"):
        tensors = np.concatenate([chunk.to_numpy_ndarray() for chunk in table[name].chunks])
        assert np.array_equal(tensors, truth(runs, name, range(TICKS + 1)))
    for name in LISTS:
        assert table[name].to_pylist() == [one.tolist() for one in truth(runs, name, range(TICKS + 1))]
    assert pa.schema(data.table("states")) == table.schema
    assert data.table("states").to_arrow().equals(table)


def test_polars_reads_it(data: Any, runs: Any) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(data.table("states"))
    for name in ("mask", "half", "byte", "real"):
        assert [np.asarray(one).tolist() for one in frame[name].to_list()] == flat(runs, name)
    for name in ("flag", "wide", "tick"):
        assert frame[name].to_list() == [int(one) for one in truth(runs, name, range(TICKS + 1))]
    for name in LISTS:
        assert frame[name].to_list() == [one.tolist() for one in truth(runs, name, range(TICKS + 1))]
    events = polars.DataFrame(data.table("events"))
    assert events.filter(polars.col("loud"))["tick"].to_list() == [20] * 3


def test_duckdb_reads_it(data: Any, runs: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    names = ("run", "tick", "mask", "real", "wide", "flag", "ants.place")
    states, events = data.table("states").select(*names), data.table("events")
    with duckdb.connect() as connection:
        connection.register("states", states)
        connection.register("events", events)
        found = connection.sql('select run, tick, mask, real, wide, flag, "ants.place" from states').fetchall()
        bells = connection.sql("select count(*) from events where kind = 'bell'").fetchall()
    assert [row[0] for row in found] == [run_of(path) for path, _ in runs for _ in range(TICKS + 1)]
    for place, name in ((2, "mask"), (3, "real"), (6, "ants.place")):
        expected = [one.tolist() for one in truth(runs, name, range(TICKS + 1))] if name in LISTS else flat(runs, name)
        assert [np.asarray(row[place]).tolist() for row in found] == expected
    assert [row[4] for row in found] == [int(one) for one in truth(runs, "wide", range(TICKS + 1))]
    assert bells == [(9,)]


def test_pandas_reads_it(data: Any, runs: Any) -> None:
    pandas = pytest.importorskip("pandas", minversion="3")
    frame = pandas.DataFrame.from_arrow(data.table("states"))
    assert [one.tolist() for one in frame["real"]] == flat(runs, "real")
    assert frame["flag"].tolist() == [bool(one) for one in truth(runs, "flag", range(TICKS + 1))]
    assert [len(one) for one in frame["ants.place"]] == [
        len(one) for one in truth(runs, "ants.place", range(TICKS + 1))
    ]


def test_a_split_has_whole_runs(data: Any) -> None:
    train, test = (data.table("states", split=name) for name in ("train", "test"))
    names = {name: dict.fromkeys(table.numpy("run").tolist()) for name, table in (("train", train), ("test", test))}
    assert data.splits == ("train", "test")
    assert [len(names["train"]), len(names["test"])] == [2, 1]
    assert len({*names["train"], *names["test"]}) == 3
    assert train.to_arrow().num_rows == 2 * (TICKS + 1)


@pytest.mark.parametrize(("file_format", "long"), [("parquet", False), ("arrow", True)])
@pytest.mark.seldom(0.15)
def test_without_files_it_is_the_same(runs: Any, tmp_path: Path, file_format: str, long: bool) -> None:  # noqa: FBT001
    """Compare all tables batch by batch with those of files."""
    made = extracted(runs[:2], file_format, tmp_path / "set", TABLES, long=long)
    streamed = extracted(runs[:2], "streamed", tmp_path, TABLES, long=long)
    assert sorted(streamed.tables) == sorted(made.tables)
    for name in made.tables:
        for split in (None, "test"):
            one, other = made.table(name, split=split), streamed.table(name, split=split)
            assert one.to_arrow().equals(other.to_arrow())
            assert one.shapes == other.shapes


SEEN: list[int] = []


def watch(state: Any) -> Any:
    SEEN.append(int(state["tick"]))
    return state["real"]


def test_rows_are_made_while_they_are_read(runs: Any, monkeypatch: Any) -> None:
    """Nothing is simulated in advance; the columns cost two samples, and a batch only its rows."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    module = Path(__file__).stem
    streamed = replayer.extract(runs[0][0], world=Kinds, tables="pairs", observations=f"{module}:watch", actions=())
    assert module not in sys.modules or sys.modules[module].SEEN == []
    table = streamed.table("pairs")
    assert table.schema.names[:4] == ["run", "tick", "ticks", "agent"]
    seen = sys.modules[module].SEEN
    assert seen == [0, 1]
    reader = table.reader()
    first = reader.read_next_batch()
    assert len(seen) - 2 == first.num_rows + 1 < TICKS
    assert first.num_rows + sum(batch.num_rows for batch in reader) == TICKS
    assert table.reader().read_all().num_rows == TICKS  # As often as one likes.


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_files_are_opened_when_their_turn_comes(runs: Any, tmp_path: Path, file_format: str) -> None:
    data = extracted(runs, file_format, tmp_path / "set", "states", splits=())
    last = tmp_path / "set" / data.manifest["tables"]["states"]["files"][-1]["path"]
    last.write_bytes(last.read_bytes()[:-1])
    batches: list[Any] = []
    with pytest.raises(DatasetError, match=rf"{last.name} has [\d,]+ bytes, expected [\d,]+ as in the manifest"):
        batches.extend(data.table("states"))
    assert sum(batch.num_rows for batch in batches) > 2 * TICKS


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_verify_names_the_files_that_differ(runs: Any, tmp_path: Path, file_format: str) -> None:
    data = extracted(runs[:2], file_format, tmp_path / "set", ("pairs", "actions"))
    data.verify()
    paths = [tmp_path / "set" / file["path"] for file in data.manifest["tables"]["pairs"]["files"]]
    whole = paths[0].read_bytes()
    for place in (0, len(whole) // 2, len(whole) - 1):
        paths[0].write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DatasetError, match=rf"^the SHA-256 of {paths[0]} differs from the manifest$"):
            data.verify()
    for path in paths[1:5]:
        path.unlink()
    with pytest.raises(
        DatasetError, match=rf"^the SHA-256 of {paths[0]} differs .*; {paths[1]} is missing; .*; and 1 more file$"
    ):
        data.verify()


def test_a_split_without_rows_is_an_empty_table(runs: Any, tmp_path: Path) -> None:
    for form in FORMATS:
        data = extracted(
            runs[:1], form, tmp_path / form, ("states", "events"), splits=(("all", 1 - 1e-9), ("none", 1e-9))
        )
        empty = data.table("states", split="none").numpy()
        assert (empty["mask"].shape, empty["mask"].dtype) == ((0, 2, 3), np.bool_)
        assert (empty["ants.place"].values.shape, empty["ants.place"].lengths.shape) == ((0, 2), (0,))
        assert data.table("states", split="none").to_arrow().schema == data.table("states").to_arrow().schema
        assert len(data.table("events", split="none").numpy("note")) == 0


def test_a_table_without_rows_is_not_there(runs: Any, tmp_path: Path) -> None:
    """Without a winner, there are no pairs of winners."""
    made = extracted(runs[:1], "parquet", tmp_path / "set", ("pairs", "states"), mode="winners")
    assert made.tables == ("states",)
    streamed = extracted(runs[:1], "streamed", tmp_path, "pairs", mode="winners")
    with pytest.raises(ExtractionError, match=r"^table pairs has no rows"):
        streamed.table("pairs").to_arrow()


class Other(Kinds):
    """Diverges from tick 20 on."""

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if self.state["tick"] == 20:
            RandomStream.seed(self.state["rng"], 99)


@pytest.mark.filterwarnings("ignore::replayer.datasets.request.ExtractionWarning")  # It is about what is missing.
def test_missing_rows_are_reported(runs: Any, tmp_path: Path) -> None:
    path = runs[0][0]
    made = replayer.extract(path, tmp_path / "set", world=Other, tables="states")
    streamed = replayer.extract(path, world=Other, tables="states").table("states")
    with pytest.warns(ExtractionWarning, match=r"missing in table states: .*a.tape, ticks 20 to 23: desync"):
        found = streamed.to_arrow()
    assert found.equals(made.table("states").to_arrow())
    [lost] = made.manifest["missing"]
    assert (lost["first_tick"], lost["last_tick"], found.num_rows) == (20, 23, TICKS + 1 - 4)


def test_an_extraction_gives_its_tables(runs: Any, tmp_path: Path) -> None:
    made = replayer.extract(runs[0][0], tmp_path / "set", world=Kinds, tables="states")
    assert made.tables == ("states",)
    assert made.table("states").to_arrow().num_rows == made.rows["states"] == made.table("states").rows == TICKS + 1
    assert repr(replayer.Dataset(made.path)) == f"<data set {made.path} (states: {TICKS + 1} rows)>"


def change(**changes: Any) -> Any:
    return lambda manifest: {**manifest, **changes}


def at(manifest: Any, path: str) -> Any:
    """Move the first file of the manifest to path."""
    next(iter(manifest["tables"].values()))["files"][0]["path"] = path
    return manifest


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (change(version=2), "expected version 1, got 2"),
        (change(version="1"), "expected version 1, got '1'"),
        (change(format="csv"), "is damaged: ValueError: unknown format 'csv'"),
        (change(tables=[]), "is damaged: AttributeError"),
        (
            change(tables={"states": {"rows": 1, "columns": {}, "files": []}}),
            "damaged: ValueError: a table without files",
        ),
        (change(tables={"states": {"rows": 1, "columns": {"x": {"dtype": "<f4"}}, "files": []}}), "damaged: KeyError"),
        (change(request={}), "is damaged: KeyError: 'splits'"),
        (lambda manifest: at(manifest, "/etc/passwd"), "damaged: ValueError: a file outside the folder"),
        (lambda manifest: at(manifest, "states/../../x"), "damaged: ValueError: a file outside the folder"),
        (lambda _: [], "is damaged: TypeError"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(runs: Any, tmp_path: Path, damage: Any, text: str) -> None:
    replayer.extract(runs[0][0], tmp_path / "set", world=Kinds, tables="states")
    path = tmp_path / "set/manifest.json"
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(DatasetError) as caught:
        replayer.Dataset(tmp_path / "set")
    assert text in str(caught.value)
    assert isinstance(caught.value, RecordingError)


def test_mistakes_of_readers(runs: Any, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"none does not exist: expected a manifest.json in it$"):
        replayer.Dataset(tmp_path / "none")
    (tmp_path / "run.tape").write_bytes(b"")
    with pytest.raises(
        DatasetError, match=r"run.tape is a file: give a folder; replay extract .*run.tape -o FOLDER makes"
    ):
        replayer.Dataset(tmp_path / "run.tape")
    with pytest.raises(DatasetError, match=r"is not a data set: expected a manifest.json in it$"):
        replayer.Dataset(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DatasetError, match=r"manifest.json is damaged: JSONDecodeError"):
        replayer.Dataset(tmp_path)
    for form in FORMATS:
        data = extracted(runs[:1], form, tmp_path / form, "states")
        with pytest.raises(ExtractionError, match=r"^there is no table pairs; tables: states$"):
            data.table("pairs")
        with pytest.raises(ExtractionError, match=r"^there is no split best; splits: train, test$"):
            data.table("states", split="best")
        with pytest.raises(ExtractionError, match=r"^table states has no column x; columns: run, tick, "):
            data.table("states").numpy("x")


def test_a_format_that_there_is_not(runs: Any, tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.raises(
        ExtractionError, match=r"^there is no format csv; formats: parquet, arrow, zarr, minari, lerobot$"
    ):
        replayer.extract(runs[0][0], tmp_path / "set", world=Kinds, file_format="csv")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ExtractionError, match=r"^the format parquet needs pyarrow: (uv )?pip install 'pyarrow>=15'$"):
        replayer.extract(runs[0][0], tmp_path / "set", world=Kinds, tables="states")
    assert not files(tmp_path)


def test_a_command_without_pyarrow_ends_with_one_line(runs: Any, tmp_path: Path) -> None:
    """In a fresh process: here, modules that import pyarrow are imported already."""
    code = "import sys; sys.modules['pyarrow'] = None; from replayer.commands.main import main; main()"
    words = [sys.executable, "-c", code, "extract", str(runs[0][0]), "-o", str(tmp_path / "set")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: the format parquet needs pyarrow: (uv )?pip install 'pyarrow>=15'\n", done.stderr)
    assert not files(tmp_path)


def test_importing_does_not_import_pyarrow() -> None:
    """The names are available without importing pyarrow or rich, and an unknown name raises."""
    code = "import sys, replayer; assert not {'pyarrow', 'rich'} & {*sys.modules}; replayer.extract; replayer.Dataset"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    with warnings.catch_warnings(), pytest.raises(AttributeError, match=r"'replayer' has no attribute 'extrakt'"):
        _ = replayer.extrakt  # type: ignore[attr-defined]
