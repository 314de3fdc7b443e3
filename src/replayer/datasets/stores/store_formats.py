"""The formats of data sets, and the packages that each needs.

Workers write Parquet and Arrow files, part by part. The other formats are stores: their parts are Arrow files, from
which one process builds the store when all parts are done.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from replayer.datasets.manifest import JoinedStore, Tables
from replayer.datasets.request import ExtractionError
from replayer.datasets.task import Task
from sim.extras import missing_package

FileFormat = Literal["parquet", "arrow", "zarr", "minari", "lerobot"]
_NEEDS: dict[str, tuple[str, ...]] = {
    "parquet": ("pyarrow",),
    "arrow": ("pyarrow",),
    "zarr": ("pyarrow", "zarr"),
    "minari": ("pyarrow", "minari", "h5py", "PIL"),
    "lerobot": ("pyarrow", "PIL"),  # Our own writer: the package lerobot only reads it.
}
_EXTRAS = {"arrow": "parquet"}
assert set(_NEEDS) == set(get_args(FileFormat))


class Store(Protocol):
    """The functions of a module that builds a store."""

    def ensure_fits(self, task: Task) -> None:
        """Raise ExtractionError if the store cannot hold what the request asks for."""

    def ensure_columns(self, table: str, columns: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise ExtractionError if the store cannot hold these columns; called as soon as a part is done."""

    def assemble(self, folder: Path, name: str, tables: Tables, task: Task) -> Tables:
        """Build the store from the Arrow files below folder, and return its entries for the manifest.

        name: of the data set. An unfinished store is removed first. Raises ExtractionError, OSError.
        """

    def versions(self) -> dict[str, str]:
        """Return the versions of the packages that decide the contents of the store."""


# Builds, below the folder given last, the store of the rows of both, and returns its entries for the manifest. Raises
# ExtractionError if they do not fit together, OSError.
Join = Callable[[JoinedStore, JoinedStore, Path], Tables]


def ensure_rate(fps: float | None, file_format: str) -> None:
    """Raise ExtractionError for frames per second that are not a positive number, or of a format without frames."""
    if fps is None:
        return
    if file_format != "lerobot":
        raise ExtractionError(f"fps: only LeRobot has frames, got the format {file_format}: leave --fps out")
    if not (math.isfinite(fps) and fps > 0):
        raise ExtractionError(f"fps: expected a number of frames per second above 0, got {fps}")


def find_store(file_format: str) -> Store | None:
    """Return the module that builds a store; None for the formats that workers write.

    Raises ExtractionError for an unknown format, and for one whose packages are not installed.
    """
    if file_format not in _NEEDS:
        raise ExtractionError(f"there is no format {file_format}; formats: {', '.join(_NEEDS)}")
    missing = next((name for name in _NEEDS[file_format] if importlib.util.find_spec(name) is None), None)
    if missing is not None:
        extra = _EXTRAS.get(file_format, file_format)
        raise ExtractionError(missing_package(f"the format {file_format}", missing, extra))
    if file_format == "zarr":
        from replayer.datasets.stores import zarr as zarr_store  # noqa: PLC0415 - an extra, which takes a while to import

        return zarr_store
    if file_format == "minari":
        from replayer.datasets.stores import minari as minari_store  # noqa: PLC0415 - an extra, too

        return minari_store
    if file_format == "lerobot":
        from replayer.datasets.stores import lerobot as lerobot_store  # noqa: PLC0415 - an extra, too

        return lerobot_store
    return None


def find_join(file_format: str) -> Join:
    """Return the function that joins two stores of a format. Raises ExtractionError as find_store does."""
    find_store(file_format)
    if file_format == "zarr":
        from replayer.datasets.stores.joining.zarr_join import join_zarr  # noqa: PLC0415 - an extra, which takes a while to import

        return join_zarr
    from replayer.datasets.stores.joining.minari_join import join_minari  # noqa: PLC0415 - an extra, too

    return join_minari
