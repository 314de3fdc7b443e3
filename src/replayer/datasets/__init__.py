"""Training data from recordings: plan, rows, files, one data set."""

from typing import TYPE_CHECKING

from recorder._lazy import names_for_later

if TYPE_CHECKING:
    from replayer.datasets.stream.torch import TapeDataset

__all__ = ["TapeDataset"]

_LATER = {"TapeDataset": "replayer.datasets.stream.torch"}  # It needs PyTorch.

__getattr__, __dir__ = names_for_later(__name__, _LATER, __all__)
