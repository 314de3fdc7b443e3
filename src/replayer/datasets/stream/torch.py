"""A PyTorch data set that reads tapes directly: the rows of ``samples`` as tensors, divided among the workers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from replayer.datasets.request import ExtractionError
from replayer.datasets.stream.samples import Sample, Samples, samples
from sim.extras import missing_package
from sim.user_warning import warn_user

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise  # A broken installation of it says so itself.
    raise ModuleNotFoundError(missing_package("TapeDataset", "PyTorch", "torch"), name="torch") from None

TURN = "turn"


class TapeDataset(IterableDataset):  # type: ignore[misc]
    """Rows of tapes as dicts of tensors, for a DataLoader or without one.

    With batch, give the DataLoader batch_size=None: the batches are made here, from arrays, and lists of any length stay
    lists of tensors. Without batch, the DataLoader's batch_size works as usual if no column has arrays of different
    lengths; choose columns that have none. Texts stay texts. Tensors share the memory of arrays that are not used again.

    For several machines, give each its shard; the workers of a machine divide its shard among them.
    """

    def __init__(
        self,
        tapes: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        same_order: bool = False,
        **wanted: Any,
    ) -> None:
        """Inspect the tapes.

        same_order: give the batches in the same order for any number of workers. It needs batch. Each worker then reads
        all pieces, and gives every n-th batch. wanted: the arguments of samples(). Raises ValueError for same_order
        without batch, and as samples() does.
        """
        super().__init__()
        if same_order and wanted.get("batch") is None:
            raise ValueError(
                "same_order: expected batch=... with it, got none: workers take turns by batches that are made here; give "
                "the DataLoader batch_size=None"
            )
        self._samples: Samples = samples(tapes, **wanted)
        self._same_order = same_order
        self._current = self._samples  # The rows of this process: a worker has its share.
        self._is_resumed = False  # The next iteration begins where a loaded state was.
        # In shared memory: persistent workers have copies of this object, and have to see a new epoch.
        self._epoch = torch.tensor(self._samples.epoch, dtype=torch.int64).share_memory_()

    @property
    def samples(self) -> Samples:
        """The samples of this process, with the missing ones among the rows that it has read."""
        return self._samples

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch: the same rows in a different order. Persistent workers see it, too.

        An iteration that a loaded state begins keeps the epoch of the state.
        """
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        """Return the number of items that this process gives in an epoch.

        Raises TypeError if only reading the tapes would tell.
        """
        rows = self._share()
        rows.set_epoch(int(self._epoch))
        length = rows.length()
        if length is None:
            raise TypeError(
                "the number of rows is unknown before they are read: a tape is damaged, or inputs decide it"
            )
        turn, turns = self._turn()
        return len(range(turn, length, turns))

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the current iteration as plain data, which JSON can hold.

        torchdata's StatefulDataLoader calls it in each worker.
        """
        state = self._current.state_dict()
        return {**state, TURN: [*self._turn(), self._samples.order.batch]} if self._same_order else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin the next iteration after the rows that had been given when state_dict was called.

        Raises ExtractionError for the state of different tapes, settings or numbers of workers.
        """
        turn = [*self._turn(), self._samples.order.batch] if self._same_order else None
        if state.get(TURN) != turn:
            raise ExtractionError(
                "this state is of a different same_order, batch or number of workers: use the same ones as before"
            )
        rows = self._share()
        rows.load_state_dict(state)
        self._current, self._is_resumed = rows, True

    def _turn(self) -> tuple[int, int]:
        """The turn of this process among those that read the same rows, and their number."""
        worker = get_worker_info()
        return (worker.id, worker.num_workers) if self._same_order and worker is not None else (0, 1)

    def _share(self) -> Samples:
        """The rows of this process, at their beginning."""
        rows, worker = self._samples, get_worker_info()
        number, count = rows.order.shard
        if worker is None or self._same_order:
            return rows.of_shard(number, count)
        return rows.of_shard(number * worker.num_workers + worker.id, count * worker.num_workers)

    def __iter__(self) -> Iterator[Sample]:
        # At once, not with the first row: of a finished epoch, a loader makes an iterator that it does not use.
        if not self._is_resumed:
            self._current = self._share()
            self._current.set_epoch(int(self._epoch))
        self._is_resumed = False
        if get_worker_info() is None:
            self._samples = self._current  # Its missing samples are those of this process.
        return self._tensors(self._current)

    def _tensors(self, rows: Samples) -> Iterator[Sample]:
        turn, turns = self._turn()
        given = 0
        if self._same_order:  # All batches but the last one are full.
            assert rows.order.batch is not None
            given = rows.state_dict()["rows"] // rows.order.batch
        for row in itertools.islice(rows, (turn - given) % turns, None, turns):
            yield {name: to_tensor(value) for name, value in row.items()}
        if get_worker_info() is not None:
            warned = set[str]()
            for name, missing in rows.missing:
                if name not in warned:  # The rows have warned of the first one of each tape.
                    warned.add(name)
                    continue
                # The list of missing samples ends with the worker; a warning reaches the main process.
                text = f"{name}: ticks {missing.first_tick:,} to {missing.last_tick:,} are left out: {missing.why}"
                warn_user(text, UserWarning)


def to_tensor(value: Any) -> Any:
    """Make a tensor on the memory of an array. Texts stay texts, several of them a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return [torch.from_numpy(array) for array in value]
    array = np.asarray(value)
    return array.tolist() if array.dtype.kind in "UO" else torch.from_numpy(array)
