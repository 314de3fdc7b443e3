"""Training data from recordings: plan, rows, files, one data set."""

from typing import TYPE_CHECKING

from recorder._lazy import names_for_later

if TYPE_CHECKING:
    from replayer.datasets.grow import merge_datasets, remove_runs
    from replayer.datasets.stream.torch import TapeDataset

__all__ = ["TapeDataset", "merge_datasets", "remove_runs"]

_LATER = {
    "TapeDataset": "replayer.datasets.stream.torch",  # It needs PyTorch.
    "merge_datasets": "replayer.datasets.grow",  # These need pyarrow.
    "remove_runs": "replayer.datasets.grow",
}

__getattr__, __dir__ = names_for_later(__name__, _LATER, __all__)
