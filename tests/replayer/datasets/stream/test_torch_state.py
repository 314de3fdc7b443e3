"""A PyTorch data set resumes in mid-epoch, knows its length, and keeps its order for any number of workers."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily

from replayer.datasets.request import ExtractionError

from oracle.live_runs import record_live
from small_worlds import CountedWalkers, Walkers

pytestmark = [
    pytest.mark.share(0.18),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),  # More workers than cores.
]

torch = lazily("torch")

TICKS = 100
ORDERS = {"tapes": {"shuffle": False}, "shuffled": {"buffer_rows": 12}}


@pytest.fixture(scope="module")
def path(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("walkers") / "walkers.tape"
    record_live(path, Walkers(2), [[[1, 1]]] * TICKS, keyframe_interval_ticks=9)
    return path


def dataset(path: Path, **wanted: Any) -> Any:
    from replayer.datasets.stream.torch import TapeDataset

    return TapeDataset(path, **{"world": Walkers, "table": "states", "fields": ("x", "y"), "seed": 2, **wanted})


def as_bytes(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str | list) else (value.dtype, tuple(value.shape), value.numpy().tobytes())
        for name, value in item.items()
    }


@contextlib.contextmanager
def as_worker(number: int, count: int, data: Any) -> Iterator[None]:
    """Be a worker of a loader, in this process."""
    from torch.utils.data import _utils

    worker = _utils.worker
    worker._worker_info = worker.WorkerInfo(id=number, num_workers=count, seed=0, dataset=data)
    try:
        yield
    finally:
        worker._worker_info = None


@pytest.mark.parametrize("same_order", [False, True])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.seldom(0.15)
def test_each_process_continues_where_it_was(
    path: Path, workers: int, order: Mapping[str, Any], *, same_order: bool
) -> None:
    """As a loader does it: a copy of the data set in each worker, the state loaded before the iteration begins."""
    wanted = {**order, "batch": 7, "same_order": same_order}
    original = dataset(path, **wanted)
    for number in range(max(1, workers)):
        for count in (0, 1, 3, 5):
            whole, begun, later = (copy.deepcopy(original) for _ in range(3))
            for data in (whole, begun):
                data.set_epoch(4)
            with as_worker(number, workers, begun) if workers else contextlib.nullcontext():
                expected = [as_bytes(item) for item in whole]
                rows = iter(begun)
                found = [as_bytes(next(rows)) for _ in range(min(count, len(expected)))]
                state = json.loads(json.dumps(begun.state_dict()))
                later.load_state_dict(state)
                found += [as_bytes(item) for item in later]
                assert found == expected
                later.set_epoch(4)
                assert [as_bytes(item) for item in later] == expected  # The next epoch is complete.


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize(
    "workers", [0, pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)]
)
def test_the_same_order_for_any_number_of_workers(path: Path, workers: int, order: Mapping[str, Any]) -> None:
    expected = [as_bytes(item) for item in dataset(path, **order, batch=8)]
    data = dataset(path, **order, batch=8, same_order=True)
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
    assert len(loader) == len(data) == len(expected) == 13
    assert [as_bytes(item) for item in loader] == expected


def test_the_same_order_needs_batches(path: Path) -> None:
    with pytest.raises(ValueError, match=r"same_order: expected batch=\.\.\. with it, got none"):
        dataset(path, same_order=True)


def test_states_of_other_settings_are_refused(path: Path) -> None:
    data = dataset(path, batch=8, same_order=True)
    next(iter(data))
    state = data.state_dict()
    for other in ({"batch": 8}, {"batch": 4, "same_order": True}):
        with pytest.raises(ExtractionError, match="of a different same_order, batch or number of workers"):
            dataset(path, **other).load_state_dict(state)
    with (
        as_worker(1, 2, data),
        pytest.raises(ExtractionError, match="different same_order, batch or number of workers"),
    ):
        data.load_state_dict(state)
    data = dataset(path)
    with (
        as_worker(1, 2, data),
        pytest.raises(ExtractionError, match="of shard 0 of 1, and these are the rows of shard 1 of 2"),
    ):
        data.load_state_dict(dataset(path).state_dict())
    with pytest.raises(ExtractionError, match="different tapes, a different request or a different order"):
        dataset(path, seed=9).load_state_dict(data.state_dict())


def test_the_length_is_that_of_an_epoch_where_it_is_known(path: Path, tmp_path: Path) -> None:
    for wanted in ({}, {"batch": 8}, {"shard": (1, 3)}, {"table": "pairs"}, {"table": "pairs", "stride": 3}):
        data = dataset(path, **wanted)
        data.set_epoch(2)
        assert len(data) == len(list(data))
        with as_worker(1, 2, data):
            assert len(data) == len(list(data))
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0x40
    (tmp_path / "hurt.tape").write_bytes(damaged)
    with pytest.raises(TypeError, match="the number of rows is unknown before they are read"):
        len(dataset(tmp_path / "hurt.tape"))
    with pytest.raises(TypeError, match="the number of rows is unknown"):
        len(torch.utils.data.DataLoader(dataset(path, table="pairs", mode="inputs")))


def stateful(data: Any, workers: int, **settings: Any) -> Any:
    module = pytest.importorskip("torchdata.stateful_dataloader")
    return module.StatefulDataLoader(data, num_workers=workers, **settings)


@pytest.mark.parametrize("batch_size", [None, pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata_resumes_in_mid_epoch(
    path: Path, workers: int, order: Mapping[str, Any], batch_size: int | None
) -> None:
    """Interrupted before the first item, after it, in the middle, before the last and after the end; then an epoch."""
    wanted = {**order, "batch": None if batch_size else 5}
    wanted |= {"columns": ("tick", "x")} if batch_size else {}

    def loader() -> tuple[Any, Any]:
        data = dataset(path, **wanted)
        return data, stateful(data, workers, batch_size=batch_size)

    data, whole = loader()
    epochs = []
    for epoch in (3, 4):
        data.set_epoch(epoch)
        epochs.append([as_bytes(item) for item in whole])
    total = len(epochs[0])
    counts = (0, 1, total // 2, total - 1, total) if workers == 0 else (1, total // 2, total)
    for count in counts:
        data, begun = loader()
        data.set_epoch(3)
        items = iter(begun)
        found = [as_bytes(next(items)) for _ in range(count)]
        if count == total:
            assert next(items, None) is None
        state = copy.deepcopy(begun.state_dict())
        data, later = loader()
        later.load_state_dict(state)
        if count < total:
            data.set_epoch(3)
            assert found + [as_bytes(item) for item in later] == epochs[0]
        data.set_epoch(4)
        assert [as_bytes(item) for item in later] == epochs[1]  # A finished epoch is followed by the next one.


def test_torchdata_does_not_simulate_its_way_there_again(path: Path) -> None:
    begun = stateful(dataset(path, world=CountedWalkers, shuffle=False), 0, batch_size=None)
    for _ in zip(range(90), begun, strict=False):
        pass
    state = begun.state_dict()
    later = stateful(dataset(path, world=CountedWalkers, shuffle=False), 0, batch_size=None)
    later.load_state_dict(state)
    CountedWalkers.steps = 0
    assert [int(item["tick"]) for item in later] == list(range(90, TICKS + 1))
    assert CountedWalkers.steps < 30


class Tallied(Walkers):
    """Counts the steps of all processes, in a file."""

    tally = Path()

    def step(self, inputs: Any) -> None:
        super().step(inputs)
        with self.tally.open("ab") as file:
            file.write(b".")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.seldom(0.15)
def test_torchdata_resumes_a_shuffled_epoch_from_keyframes(tmp_path: Path, workers: int, monkeypatch: Any) -> None:
    """Only the pieces whose rows wait in the buffers are simulated again, in this process and in workers."""
    ticks, rest = 600, 10
    monkeypatch.setattr(Tallied, "tally", tmp_path / "tally")
    path = tmp_path / "long.tape"
    record_live(path, Walkers(4), [[[1, 1]]] * ticks, keyframe_interval_ticks=10)

    def loader() -> Any:
        return stateful(dataset(path, world=Tallied, buffer_rows=8, batch=10), workers, batch_size=None)

    def steps() -> int:
        taken = Tallied.tally.stat().st_size if Tallied.tally.exists() else 0
        Tallied.tally.unlink(missing_ok=True)
        return taken

    whole = [as_bytes(item) for item in loader()]
    epoch = steps()
    begun = loader()
    found = [as_bytes(item) for _, item in zip(range(len(whole) - rest), begun, strict=False)]
    state = copy.deepcopy(begun.state_dict())
    later = loader()
    later.load_state_dict(state)
    steps()
    assert found + [as_bytes(item) for item in later] == whole
    assert epoch > ticks * 0.8  # States at keyframes need no step.
    taken = steps()
    print("steps", taken, "of", epoch)
    assert taken < epoch / 2.5


def test_a_state_is_small(path: Path) -> None:
    """It holds the positions of the rows that wait in the buffer, not the rows."""
    data = dataset(path, buffer_rows=40, fields=())
    rows = iter(data)
    for _ in range(50):
        row = next(rows)
    assert sum(np.asarray(row[name]).nbytes for name in ("x", "y")) == 320
    state = data.state_dict()
    assert len(state["from"]["held"]["rows"]) == 40
    assert len(json.dumps(state)) < 40 * 12 + 300
