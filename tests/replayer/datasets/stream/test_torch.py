"""A PyTorch data set of tapes: the rows of samples as tensors, each once, however many workers there are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily

from replayer.datasets.request import ExtractionWarning

from oracle.live_runs import Live, record_live
from small_worlds import Herd, Walkers

pytestmark = pytest.mark.share(0.18)

torch = lazily("torch")

TICKS = 60
DATA_LOADER_OF_DAEMONS = "ignore:This process .* is multi-threaded:DeprecationWarning"


@pytest.fixture(scope="module")
def walkers(tmp_path_factory: Any) -> tuple[Path, Live]:
    path = tmp_path_factory.mktemp("walkers") / "walkers.tape"
    return path, record_live(path, Walkers(2), [[[1, 1]]] * TICKS, keyframe_interval_ticks=9)


def dataset(path: Path, **wanted: Any) -> Any:
    from replayer.datasets.stream.torch import TapeDataset

    return TapeDataset(path, **{"world": Walkers, "table": "states", "fields": ("x", "y"), **wanted})


def ticks_of(rows: Any) -> list[int]:
    return [int(tick) for row in rows for tick in np.atleast_1d(row["tick"])]


def test_tensors_are_those_of_the_live_run_and_share_memory(walkers: tuple[Path, Live]) -> None:
    path, live = walkers
    for row in dataset(path):
        assert isinstance(row["run"], str)
        assert row["x"].dtype == torch.int64
        assert row["x"].numpy().tobytes() == live[int(row["tick"])][2]["x"].tobytes()
    from replayer.datasets.stream.torch import to_tensor

    array = np.arange(3)
    to_tensor(array)[1] = 7
    assert array.tolist() == [0, 7, 2]


@pytest.mark.filterwarnings(DATA_LOADER_OF_DAEMONS)
@pytest.mark.parametrize("batch", [pytest.param(None, marks=pytest.mark.long), 8])
def test_two_workers_give_each_row_once(walkers: tuple[Path, Live], batch: int | None) -> None:
    path, live = walkers
    data = dataset(path, batch=batch)
    sizes = {"batch_size": 8} if batch is None else {"batch_size": None}
    loader = torch.utils.data.DataLoader(data, num_workers=2, **sizes)
    batches = list(loader)
    assert Counter(ticks_of(batches)) == Counter(range(TICKS + 1))
    assert all(isinstance(run, str) for run in batches[0]["run"])
    for found in batches:
        for tick, x in zip(found["tick"].tolist(), found["x"], strict=True):
            assert np.array_equal(x.numpy(), live[tick][2]["x"])


@pytest.mark.filterwarnings(DATA_LOADER_OF_DAEMONS)
@pytest.mark.long
def test_an_epoch_reaches_workers_that_persist(walkers: tuple[Path, Live]) -> None:
    data = dataset(walkers[0], buffer_rows=30)
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, persistent_workers=True)
    first, again = ticks_of(loader), ticks_of(loader)
    data.set_epoch(1)
    other = ticks_of(loader)
    assert (first == again, other == first, sorted(other) == sorted(first)) == (True, False, True)
    for number in range(2):
        own = ticks_of(dataset(walkers[0], buffer_rows=30, epoch=1, shard=(number, 2)))
        assert [tick for tick in other if tick in own] == own


@pytest.mark.filterwarnings(DATA_LOADER_OF_DAEMONS)
def test_shards_of_machines_and_workers_are_shards(walkers: tuple[Path, Live]) -> None:
    found = []
    for machine in range(2):
        data = dataset(walkers[0], shard=(machine, 2))
        found += ticks_of(torch.utils.data.DataLoader(data, batch_size=None, num_workers=2))
    assert Counter(found) == Counter(range(TICKS + 1))


def test_lists_stay_lists_of_tensors(tmp_path: Path) -> None:
    live = record_live(tmp_path / "herd.tape", Herd(3), [None] * 30)
    [found] = dataset(tmp_path / "herd.tape", world=Herd, fields=("animals.age",), batch=100)
    for tick, age in zip(found["tick"].tolist(), found["animals.age"], strict=True):
        assert np.array_equal(age.numpy(), live[tick][2]["animals.age"])


@pytest.mark.filterwarnings(DATA_LOADER_OF_DAEMONS)
def test_a_worker_warns_of_what_is_missing(walkers: tuple[Path, Live], tmp_path: Path) -> None:
    data = bytearray(walkers[0].read_bytes())
    data[len(data) // 2] ^= 0x40
    (tmp_path / "hurt.tape").write_bytes(data)
    hurt = dataset(tmp_path / "hurt.tape")
    with pytest.warns(ExtractionWarning, match=r"missing: .*hurt.tape, ticks"):
        found = ticks_of(hurt)
    missing = [tick for _, one in hurt.samples.missing for tick in range(one.first_tick, one.last_tick + 1)]
    assert missing
    assert sorted(found + missing) == list(range(TICKS + 1))
    with pytest.warns(UserWarning, match=r"missing: .*hurt.tape, ticks"):
        _in_worker(hurt)


def _in_worker(data: Any) -> None:
    """Iterate like the only worker of a loader, in this process, so that the warning can be caught."""
    from torch.utils.data import _utils

    worker = _utils.worker
    worker._worker_info = worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=data)
    try:
        list(data)
    finally:
        worker._worker_info = None
