"""A PyTorch data set that reads tapes directly: the rows of ``samples`` as tensors, shared out among the workers."""

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

    With batch, give the DataLoader batch_size=None: the batches are made here, out of arrays, and lists of any length stay
    lists of tensors. Without it the DataLoader's batch_size works as usual, as long as no column has arrays of different
    lengths; columns chooses. Texts stay texts. Tensors share the memory of the arrays, which nobody else has.

    Shards of several machines are given as shard; each worker takes its share of its machine's.
    """

    def __init__(self, tapes: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], **wanted: Any) -> None:
        """Look at the tapes; wanted: as samples() takes it. Raises as that."""
        super().__init__()
        self._samples: Samples = samples(tapes, **wanted)
        # Shared memory, as workers that persist have copies of this object, which nobody could tell of a new epoch.
        self._epoch = torch.tensor(self._samples.epoch, dtype=torch.int64).share_memory_()

    @property
    def samples(self) -> Samples:
        """What the rows come from; what is missing in them, as far as this process has read it."""
        return self._samples

    def set_epoch(self, epoch: int) -> None:
        """Which epoch comes next: the same rows in another order. Reaches workers that persist, too."""
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
                # What a worker knows ends with it; a warning gets out.
                text = f"{name}: ticks {missing.first_tick:,} to {missing.last_tick:,} are left out: {missing.why}"
                warnings.warn(text, stacklevel=2)


def to_tensor(value: Any) -> Any:
    """A tensor on the memory of an array; texts as they are, in lists if there are several."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return [torch.from_numpy(array) for array in value]
    array = np.asarray(value)
    return array.tolist() if array.dtype.kind == "U" else torch.from_numpy(array)
