"""A PyTorch data set that reads tapes directly: the rows of ``samples`` as tensors, divided among the workers."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from replayer.datasets.stream.samples import Sample, Samples, samples


class TapeDataset(IterableDataset):  # type: ignore[misc]
    """Rows of tapes as dicts of tensors, for a DataLoader or without one.

    With batch, give the DataLoader batch_size=None: the batches are made here, from arrays, and lists of any length stay
    lists of tensors. Without batch, the DataLoader's batch_size works as usual if no column has arrays of different
    lengths; choose columns that have none. Texts stay texts. Tensors share the memory of arrays that are not used again.

    For several machines, give each its shard; the workers of a machine divide its shard among them.
    """

    def __init__(self, tapes: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], **wanted: Any) -> None:
        """Inspect the tapes. wanted: the arguments of samples(). Raises as samples() does."""
        super().__init__()
        self._samples: Samples = samples(tapes, **wanted)
        # In shared memory: persistent workers have copies of this object, and have to see a new epoch.
        self._epoch = torch.tensor(self._samples.epoch, dtype=torch.int64).share_memory_()

    @property
    def samples(self) -> Samples:
        """The samples of this process, with the missing ones among the rows that it has read."""
        return self._samples

    def set_epoch(self, epoch: int) -> None:
        """Set the next epoch: the same rows in a different order. Persistent workers see it, too."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        rows = self._samples
        if worker is not None:
            number, count = rows.order.shard
            rows = rows.of_shard(number * worker.num_workers + worker.id, count * worker.num_workers)
        epoch = int(self._epoch)
        if epoch != rows.epoch or worker is not None:
            rows.set_epoch(epoch)
        for row in rows:
            yield {name: to_tensor(value) for name, value in row.items()}
        if worker is not None:
            for name, missing in rows.missing:
                # The list of missing samples ends with the worker; a warning reaches the main process.
                text = f"{name}: ticks {missing.first_tick:,} to {missing.last_tick:,} are left out: {missing.why}"
                warnings.warn(text, stacklevel=2)


def to_tensor(value: Any) -> Any:
    """Make a tensor on the memory of an array. Texts stay texts, several of them a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return [torch.from_numpy(array) for array in value]
    array = np.asarray(value)
    return array.tolist() if array.dtype.kind in "UO" else torch.from_numpy(array)
