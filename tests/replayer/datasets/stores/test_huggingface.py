"""``datasets.load_dataset`` opens the folder of an extraction: each row equals the one that a plain loop collected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily, needs

import replayer
from replayer.datasets.extract import extract
from replayer.datasets.rows.columns import Lists, Shape

from oracle.live_runs import record_live, splitting_seed
from small_worlds import Kinds

datasets = lazily("datasets")
needs("gymnasium", "pettingzoo", "pyarrow")

from collected_environments import Oddities  # noqa: E402
from environment_runs import CASES, REBUILT, recorded  # noqa: E402

from oracle.columns_of_values import ensure_row  # noqa: E402

TABLES = ("states", "pairs", "actions", "events")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def loaded(folder: Path, name: str | None = None, **settings: Any) -> Any:
    datasets.disable_progress_bars()
    return datasets.load_dataset(str(folder), name, cache_dir=str(folder.parent / "cache"), **settings)


@pytest.mark.share(0.22)
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.seldom(0.15)
def test_every_transition_equals_the_one_of_the_loop(
    name: str, *, is_streamed: bool, tmp_path: Path, monkeypatch: Any
) -> None:
    """In order, values, dtypes and shapes, over many files."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 60)
    rows = recorded(name, tmp_path / "run.tape")
    extract(tmp_path / "run.tape", tmp_path / "set", world=REBUILT.get(name))
    found = loaded(tmp_path / "set", streaming=is_streamed)
    assert list(found) == ["train"]
    schema = found["train"].features.arrow_schema
    observed = Oddities.observation_space if name == "oddities" else None
    for row, expected in zip(found["train"], rows, strict=True):
        ensure_row(row, expected, schema, observed)


@pytest.mark.sample(1)
@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
@pytest.mark.seldom(0.15)
def test_every_table_is_read_with_its_types(file_format: str, tmp_path: Path, monkeypatch: Any) -> None:
    """Tensors as flat lists, booleans as booleans; equal to what Dataset reads, split by split."""
    monkeypatch.setattr("replayer.datasets.plan.PART_TICKS", 8)
    paths = [tmp_path / f"{name}.tape" for name in "abc"]
    for seed, path in enumerate(paths):
        record_live(path, Kinds(seed), list(range(20)), keyframe_interval_ticks=8)
    splits = (("hold-out", 0.5), ("all", 0.5))  # Names that datasets does not take.
    seed = splitting_seed(paths, splits, 2, 1)
    fields = ("tick", "flag", "mask", "half", "byte", "wide", "real", "rng", "ants.place", "ants.carries")
    asked: dict[str, Any] = {"tables": TABLES, "fields": fields, "splits": splits, "seed": seed}
    extract(paths, tmp_path / "set", world=Kinds, file_format=file_format, **asked)
    data = replayer.Dataset(tmp_path / "set")

    assert loaded(tmp_path / "set")["hold_out"].column_names == data.table("pairs").schema.names
    for table in TABLES:
        found = loaded(tmp_path / "set", table)
        assert set(found) == {"hold_out", "all_"}
        for split, name in (("hold-out", "hold_out"), ("all", "all_")):
            own = data.table(table, split=split)
            assert len(found[name]) == own.rows
            for column, shape in own.shapes.items():
                ensure_column(found[name].with_format("arrow")[:][column], own, column, shape)


def ensure_column(got: Any, own: Any, name: str, shape: Shape | None) -> None:
    """Raise AssertionError unless a column has the values of ours."""
    if shape is None or shape.dtype == "text":
        assert got.to_pylist() == own.select(name).to_arrow()[name].to_pylist()
        return
    values, kind = own.numpy(name), got.type
    is_list = isinstance(values, Lists)
    if is_list:
        assert [len(one) for one in got.to_pylist()] == values.lengths.tolist()
        values = values.values
    items = got.combine_chunks()
    while hasattr(kind, "value_type"):
        kind, items = kind.value_type, items.flatten()
    flat = items.to_numpy(zero_copy_only=False)
    assert flat.dtype == values.dtype, (name, flat.dtype)
    assert flat.tobytes() == np.ascontiguousarray(values).tobytes(), name
