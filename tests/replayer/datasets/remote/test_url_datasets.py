"""A data set at a URL is read as one in a folder; the truth is the files of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from counted_store import CountedStore, empty
from optional_packages import needs

needs("pyarrow")

from replayer.datasets.dataset import Dataset, DatasetError  # noqa: E402
from replayer.datasets.extract import extract  # noqa: E402
from replayer.datasets.grow import merge_datasets  # noqa: E402
from replayer.datasets.request import ExtractionError  # noqa: E402
from sim import State  # noqa: E402

from small_worlds import Walkers, record  # noqa: E402

URL = "counted://sets/data"


@pytest.fixture(params=["parquet", "arrow"])
def local(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A data set of thirty ticks in a folder, and at a URL."""
    empty()
    record(tmp_path / "run.tape", Walkers(0), [None] * 30, keyframe_interval_ticks=10, trial_ms=0)
    folder = tmp_path / "data"
    extract(tmp_path / "run.tape", folder, world=Walkers, tables=("states",), file_format=request.param)
    for path in folder.rglob("*"):
        if path.is_file():
            CountedStore().pipe_file(f"/sets/data/{path.relative_to(folder)}", path.read_bytes())
    yield folder
    empty()


def test_the_rows_are_those_of_the_folder(local: Path) -> None:
    there, here = Dataset(URL), Dataset(local)
    assert (there.manifest, there.rows) == (here.manifest, {"states": 31})
    rows = [one.table("states").numpy() for one in (there, here)]
    assert rows[0].keys() == rows[1].keys()
    assert all(np.array_equal(rows[0][name], rows[1][name]) for name in rows[0])
    assert rows[0]["x"].shape == (31, *Walkers(0).state["x"].shape)
    there.verify()
    assert repr(there) == f"<data set {URL} (states: 31 rows)>"


def test_a_file_that_is_missing_cut_or_changed_is_named(local: Path) -> None:
    data = Dataset(URL)
    (name,) = [f"/{one['path']}" for one in data.manifest["tables"]["states"]["files"]]
    store, whole = CountedStore(), CountedStore().cat_file("/sets/data" + name)
    store.pipe_file("/sets/data" + name, whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DatasetError, match=f"the SHA-256 of {URL}{name} differs"):
        data.verify()
    store.pipe_file("/sets/data" + name, whole[:-1])
    with pytest.raises(DatasetError, match=f"{URL}{name} has .* bytes, expected"):
        data.table("states").numpy()
    store.rm_file("/sets/data" + name)
    with pytest.raises(DatasetError, match=f"{URL}{name} is missing"):
        data.table("states").numpy()
    with pytest.raises(DatasetError, match=r"counted://sets/none is not a data set: expected a manifest\.json in it"):
        Dataset("counted://sets/none")
    with pytest.raises(ExtractionError, match=f"{URL} is not on this machine"):
        merge_datasets(URL, local)


@pytest.mark.usefixtures("local")
def test_a_store_that_fails_is_no_data_set_that_is_missing() -> None:
    CountedStore.failing.append(PermissionError("not now"))
    with pytest.raises(PermissionError, match="not now"):
        Dataset(URL)


def seen(state: State, _: str) -> dict[str, np.ndarray]:
    """An observation for the next test."""
    return {"x": state["x"]}


def test_the_samples_of_a_tape_at_a_url_are_those_of_its_file(tmp_path: Path) -> None:
    """Read by the data set of PyTorch, and as arrays."""
    needs("torch")
    from replayer.datasets.stream.torch import TapeDataset

    record(tmp_path / "run.tape", Walkers(0), [None] * 30, keyframe_interval_ticks=10, trial_ms=0)
    CountedStore().pipe_file("/runs/run.tape", (tmp_path / "run.tape").read_bytes())
    wanted = {"world": Walkers, "observations": f"{__name__}:seen", "batch": 8, "shuffle": False, "columns": ("tick",)}
    found = [
        [batch["tick"].tolist() for batch in TapeDataset(tape, **wanted)]
        for tape in ("counted://runs/run.tape", tmp_path / "run.tape")
    ]
    assert found[0] == found[1]
    assert sum(map(len, found[0])) >= 30
