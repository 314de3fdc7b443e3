"""The formats that a data set can have, and what each needs.

Parquet and Arrow files are written by the workers, part by part. The others are stores: their parts are Arrow files,
out of which one process builds the store when all parts are done.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from replayer.datasets.manifest import Tables
from replayer.datasets.request import ExtractionError
from replayer.datasets.task import Task
from sim.extras import missing_package

FileFormat = Literal["parquet", "arrow", "zarr", "minari"]
_NEEDS: dict[str, tuple[str, ...]] = {
    "parquet": ("pyarrow",),
    "arrow": ("pyarrow",),
    "zarr": ("pyarrow", "zarr"),
    "minari": ("pyarrow", "minari", "h5py", "PIL"),
}
_EXTRAS = {"arrow": "parquet"}
assert set(_NEEDS) == set(get_args(FileFormat))


class Store(Protocol):
    """What a module of a store does."""

    def ensure_fits(self, task: Task) -> None:
        """Raises ExtractionError if the request asks for what the store cannot hold."""

    def ensure_columns(self, table: str, columns: Mapping[str, Mapping[str, Any]]) -> None:
        """Raises ExtractionError if the store cannot hold these; called as soon as a part is done."""

    def assemble(self, folder: Path, name: str, tables: Tables, task: Task) -> Tables:
        """Build the store out of the Arrow files below folder; what the manifest says of it.

        name: of the data set. What is left of a store that was begun is removed. Raises ExtractionError, OSError.
        """

    def versions(self) -> dict[str, str]:
        """Of the packages that decide what the store holds."""


def find_store(file_format: str) -> Store | None:
    """The module of a store; None for the formats that workers write.

    Raises ExtractionError for a format that there is not, and for one whose packages are not installed.
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
        from replayer.datasets.stores import minari as minari_store  # noqa: PLC0415 - likewise

        return minari_store
    return None
