"""The statistics of the features of a LeRobotDataset: of each episode, and of all frames.

    min, max, mean, std, count (frames), q01, q10, q50, q90, q99

As LeRobot does it, arrays keep their last axis alone, and images have a value for each color, from 0 to 1.

Invariant: all are exact but the quantiles of many numbers, which are those of rows at equal distances.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from replayer.datasets.rows.columns import Array
from replayer.datasets.stores.lerobot_features import Feature

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
NUMBERS_KEPT = 1 << 20  # Of a feature, for its quantiles: 8 MiB of float64.
_LEVELS = 256  # Of a pixel.


class FeatureStatistics(Protocol):
    """Collects the statistics of a feature."""

    def add(self, values: Array) -> None:
        """Add the values of some frames, (frames, *shape)."""

    def arrays(self) -> dict[str, Array]:
        """The statistics by name. There must be a frame."""


def statistics_of(feature: Feature) -> FeatureStatistics:
    """Begin the statistics of a feature."""
    return ImageStatistics(feature) if feature.kind == "image" else NumberStatistics(feature)


def statistics_types(feature: Feature) -> dict[str, pa.DataType]:
    """The Arrow types of the statistics of a feature, by name."""
    if feature.kind == "image":
        nested = pa.list_(pa.list_(pa.list_(pa.float64())))
        types = dict.fromkeys(("min", "max", "mean", "std", *QUANTILES), nested)
    else:
        own = pa.float64() if feature.dtype == "float16" else pa.from_numpy_dtype(feature.dtype)
        types = {"min": pa.list_(own), "max": pa.list_(own)}
        types |= dict.fromkeys(("mean", "std", *QUANTILES), pa.list_(pa.float64()))
    return {**types, "count": pa.list_(pa.int64())}


class NumberStatistics:
    """Those of numbers. The variance is merged by Chan's method, which loses no digits."""

    def __init__(self, feature: Feature) -> None:
        self._width = feature.stored_shape[-1]
        self._frames = self._rows = 0
        self._mean = self._squares = np.zeros(self._width)
        self._least: Array | None = None
        self._most: Array | None = None
        self._rows_max = max(NUMBERS_KEPT // self._width, 1)
        self._kept: list[Array] = []
        self._rows_kept = 0
        self._stride = 1  # Of the rows that are kept.

    def add(self, values: Array) -> None:
        """See FeatureStatistics."""
        rows = values.reshape(-1, self._width)
        if rows.dtype == np.float16:
            rows = rows.astype(np.float64)
        with np.errstate(all="ignore"):  # Infinite observations have no mean.
            self._merge(rows.astype(np.float64, copy=False))
        least, most = rows.min(axis=0), rows.max(axis=0)
        self._least = least if self._least is None else np.minimum(self._least, least)
        self._most = most if self._most is None else np.maximum(self._most, most)
        self._keep(rows)
        self._rows += len(rows)
        self._frames += len(values)

    def _merge(self, rows: Array) -> None:
        count = self._rows + len(rows)
        mean = rows.mean(axis=0)
        distance = mean - self._mean
        self._squares = (
            self._squares + ((rows - mean) ** 2).sum(axis=0) + distance**2 * (self._rows * len(rows) / count)
        )
        self._mean = self._mean + distance * (len(rows) / count)

    def _keep(self, rows: Array) -> None:
        self._kept.append(rows[-self._rows % self._stride :: self._stride].copy())
        self._rows_kept += len(self._kept[-1])
        while self._rows_kept > self._rows_max:
            self._kept = [np.concatenate(self._kept)[::2].copy()]
            self._rows_kept = len(self._kept[0])
            self._stride *= 2

    def arrays(self) -> dict[str, Array]:
        """See FeatureStatistics."""
        assert self._least is not None
        assert self._most is not None
        kept = np.concatenate(self._kept).astype(np.float64)
        with np.errstate(all="ignore"):
            quantiles = np.quantile(kept, list(QUANTILES.values()), axis=0)
            deviation = np.sqrt(self._squares / self._rows)
        return {
            "min": self._least,
            "max": self._most,
            "mean": self._mean,
            "std": deviation,
            "count": np.array([self._frames]),
            **dict(zip(QUANTILES, quantiles, strict=True)),
        }


class ImageStatistics:
    """Those of images, by the number of pixels of each level."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature
        self._frames = 0
        self._counts = np.zeros((feature.stored_shape[-1], _LEVELS), np.int64)

    def add(self, values: Array) -> None:
        """See FeatureStatistics."""
        pixels = self._feature.pixels(values).reshape(-1, len(self._counts))
        self._counts += [np.bincount(levels, minlength=_LEVELS) for levels in pixels.T]
        self._frames += len(values)

    def arrays(self) -> dict[str, Array]:
        """See FeatureStatistics."""
        levels = np.arange(_LEVELS)
        by_color: list[dict[str, Any]] = []
        for counts in self._counts:
            present = np.flatnonzero(counts)
            mean = np.average(levels, weights=counts)
            deviation = np.sqrt(np.average((levels - mean) ** 2, weights=counts))
            one = {"min": present[0], "max": present[-1], "mean": mean, "std": deviation}
            by_color.append(one | {name: _quantile(counts, share) for name, share in QUANTILES.items()})
        names = by_color[0]
        made: dict[str, Array] = {
            name: np.array([one[name] for one in by_color]).reshape(-1, 1, 1) / (_LEVELS - 1) for name in names
        }
        return {**made, "count": np.array([self._frames])}


def _quantile(counts: Array, share: float) -> float:
    """The quantile of levels from their counts, as numpy.quantile computes it of the pixels."""
    below = np.cumsum(counts)
    at = (int(below[-1]) - 1) * share
    first = int(np.floor(at))
    low, high = (int(np.searchsorted(below, index, side="right")) for index in (first, int(np.ceil(at))))
    return low + (high - low) * (at - first)
