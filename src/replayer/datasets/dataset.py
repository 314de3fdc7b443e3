"""Read a data set that was extracted into a folder, of this machine or at a URL: its manifest, and its tables, file by file.

Invariant: nothing outside the folder is opened, whatever the manifest states.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ipc

from recorder.errors import RecordingError
from recorder.location.tape_location import Location, tape_location
from recorder.location.tape_url import TapeUrl
from recorder.text import counted
from replayer.datasets.manifest import FORMAT_VERSION, MANIFEST
from replayer.datasets.remote.stored_file import StoredFile
from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Shape
from replayer.datasets.table import Columns, DatasetTable
from replayer.value_text import tick_range

FILES_SHOWN = 3  # Of those that differ.
_READ_BYTES = 4 << 20
OTHER_READERS = {
    "zarr": "open it with xarray.open_zarr or zarr.open_group",
    "minari": "open it with minari.load_dataset",
    "lerobot": "open it with LeRobotDataset(name, root=folder) of lerobot.datasets.lerobot_dataset",
}


Source = Path | StoredFile


class DatasetError(RecordingError):
    """A folder holds no data set, or its files differ from its manifest; the message gives the details."""


@attrs.frozen
class _File:
    """A file's entry in the manifest.

    Attributes:
        path: relative to the folder. bytes: the size. sha256: of the contents.
    """

    path: str
    bytes: int
    sha256: str


class Dataset:
    """A data set that ``replay extract`` made, opened by its manifest."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """path: of the folder, or its URL. Raises DatasetError if the folder holds no data set, OSError."""
        self.path: Location = tape_location(path)
        self.manifest: Mapping[str, Any] = _read_manifest(self.path)
        self.format: str = str(self.manifest["format"])

    def __repr__(self) -> str:
        tables = ", ".join(f"{name}: {rows:,} rows" for name, rows in self.rows.items())
        return f"<data set {self.path} ({tables or 'no rows'})>"

    def _repr_html_(self) -> str:
        from replayer.report.notebook import dataset_html  # noqa: PLC0415 - only notebooks ask for it

        return dataset_html(self.path, self.manifest)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that have rows."""
        return tuple(self.manifest["tables"])

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows by table."""
        return {name: table["rows"] for name, table in self.manifest["tables"].items()}

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits; empty if the runs are not split."""
        return tuple(name for name, _ in self.manifest["request"]["splits"])

    def table(self, name: str, *, split: str | None = None) -> DatasetTable:
        """A table of all runs, or of the runs of one split; nothing is read yet.

        Raises ExtractionError for an unknown name, and for a format that other libraries read. Reading raises
        DatasetError for a file that is missing or whose size differs from the manifest.
        """
        if not self.tables and self.manifest.get("missing"):
            raise ExtractionError(f"there is no table {name}: the data set has no rows; {_left_out(self.manifest)}")
        ensure_known(name, self.tables, split, self.splits)
        if self.format in OTHER_READERS:
            raise ExtractionError(f"{self.path} is a data set of format {self.format}: {OTHER_READERS[self.format]}")
        return file_table(self.path, self.format, name, self.manifest["tables"][name], split)

    def verify(self) -> None:
        """Compare all files with their sizes and hashes in the manifest.

        Raises DatasetError with the files that differ, OSError.
        """
        listed = [file for table in self.manifest["tables"].values() for file in table["files"]]
        differences = [text for file in listed if (text := _difference(self.path, _to_file(file)))]
        if differences:
            hidden = len(differences) - FILES_SHOWN
            more = f"; and {counted(hidden, 'more file')}" if hidden > 0 else ""
            raise DatasetError(f"{'; '.join(differences[:FILES_SHOWN])}{more}")


def _left_out(manifest: Mapping[str, Any]) -> str:
    """The first range of rows that the manifest lists as missing, with its reason, and the number of the others."""
    first, *others = manifest["missing"]
    more = f" (and {counted(len(others), 'more range')}: manifest['missing'] lists them)" if others else ""
    ticks = tick_range(first["first_tick"], first["last_tick"])
    return f"left out, by the manifest: {first['tape']}, {ticks}: {first['why']}{more}"


def ensure_known(name: str, names: Sequence[str], split: str | None, splits: Sequence[str]) -> None:
    """Raise ExtractionError for an unknown table or split."""
    if name not in names:
        raise ExtractionError(f"there is no table {name}; tables: {', '.join(names) or 'none'}")
    if split is not None and split not in splits:
        raise ExtractionError(f"there is no split {split}; splits: {', '.join(splits) or 'none'}")


def file_table(
    folder: Location, file_format: str, name: str, entry: Mapping[str, Any], split: str | None
) -> DatasetTable:
    """Return a table in files below a folder. entry: of the manifest. split: None for the files of all splits."""
    chosen = [file for file in entry["files"] if split is None or f"split={split}" in PurePosixPath(file["path"]).parts]

    def describe() -> Columns:
        with _source(folder, _to_file(entry["files"][0])) as source:
            shapes = {column: to_shape(shape) for column, shape in entry["columns"].items()}
            return Columns(SCHEMAS[file_format](source), shapes)

    def batches(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        for file in chosen:
            with _source(folder, _to_file(file)) as source:
                yield from _READERS[file_format](source, columns)

    return DatasetTable(name, describe, batches, sum(file["rows"] for file in chosen))


def _read_parquet(source: Source, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(source) as file:
        for group in range(
            file.num_row_groups
        ):  # One by one: a batch across several groups would be larger than a group.
            for batch in file.iter_batches(row_groups=[group], columns=columns):
                yield batch if columns is None else batch.select(columns)  # Given "a", Parquet reads "a.b" as well.


def _read_arrow(source: Source, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    with _arrow_bytes(source) as opened, ipc.open_file(opened) as file:
        for number in range(file.num_record_batches):
            batch = file.get_batch(number)
            yield batch if columns is None else batch.select(columns)


def _arrow_schema(source: Source) -> pa.Schema:
    with _arrow_bytes(source) as opened, ipc.open_file(opened) as file:
        return file.schema


def _arrow_bytes(source: Source) -> pa.NativeFile:
    return pa.memory_map(str(source)) if isinstance(source, Path) else pa.PythonFile(source, "r")


_READERS: dict[str, Callable[[Source, Sequence[str] | None], Iterator[pa.RecordBatch]]] = {
    "parquet": _read_parquet,
    "arrow": _read_arrow,
}
SCHEMAS: dict[str, Callable[[Source], pa.Schema]] = {"parquet": pq.read_schema, "arrow": _arrow_schema}


def to_shape(plain: Mapping[str, Any]) -> Shape | None:
    """The shape of a column's entry in the manifest; None for a column of records."""
    if "form" in plain:
        return None
    return Shape(str(plain["dtype"]), tuple(map(int, plain["shape"])), is_list=bool(plain["is_list"]))


def _to_file(plain: Mapping[str, Any]) -> _File:
    return _File(str(plain["path"]), int(plain["bytes"]), str(plain["sha256"]))


@contextmanager
def _source(folder: Location, file: _File) -> Iterator[Source]:
    """The path of a file, or the open one at a URL. Raises DatasetError if it is missing or has a different size, OSError."""
    path = folder / file.path
    with ExitStack() as stack:
        try:
            source = path if isinstance(path, Path) else stack.enter_context(StoredFile(path))
            size = source.stat().st_size if isinstance(source, Path) else source.size_bytes
            is_file = not isinstance(source, Path) or source.is_file()
        except FileNotFoundError:
            is_file = False
        if not is_file:
            raise DatasetError(f"{path} is missing")
        if size != file.bytes:
            raise DatasetError(f"{path} has {size:,} bytes, expected {file.bytes:,} as in the manifest")
        yield source


def _difference(folder: Location, file: _File) -> str | None:
    digest = hashlib.sha256()
    try:
        with _source(folder, file) as source, ExitStack() as stack:
            opened = stack.enter_context(source.open("rb")) if isinstance(source, Path) else source
            while data := opened.read(_READ_BYTES):
                digest.update(data)
    except DatasetError as error:
        return str(error)
    return (
        None if digest.hexdigest() == file.sha256 else f"the SHA-256 of {folder / file.path} differs from the manifest"
    )


def _manifest_text(folder: Location) -> str:
    """Raises DatasetError if there is none, OSError."""
    path = folder / MANIFEST
    if isinstance(path, Path) and isinstance(folder, Path):
        if path.is_file():
            return path.read_text(encoding="utf-8")
        if folder.is_file():
            raise DatasetError(
                f"{folder} is a file: give a folder; replay extract {folder} -o FOLDER makes one of a tape"
            )
        problem = "is not a data set" if folder.is_dir() else "does not exist"
    elif isinstance(path, TapeUrl):
        try:
            with StoredFile(path) as stored:
                return str(stored.read(), "utf-8")
        except FileNotFoundError:
            problem = "is not a data set"
    raise DatasetError(f"{folder} {problem}: expected a {MANIFEST} in it")


def _read_manifest(folder: Location) -> Mapping[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(_manifest_text(folder))
        version = manifest["version"]
        if version == FORMAT_VERSION:
            _check(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    if version != FORMAT_VERSION:
        raise DatasetError(f"{path}: expected version {FORMAT_VERSION}, got {version!r}")
    return manifest  # type: ignore[no-any-return]


def _check(manifest: Mapping[str, Any]) -> None:
    """Raise ValueError if the manifest contradicts itself, and as indexing does if an entry is missing or of a wrong type."""
    if manifest["format"] not in {*_READERS, *OTHER_READERS}:
        raise ValueError(f"unknown format {manifest['format']!r}")
    for _name, _share in manifest["request"]["splits"]:
        pass
    for table in manifest["tables"].values():
        int(table["rows"])
        for shape in table["columns"].values():
            to_shape(shape)
        if not table["files"]:
            raise ValueError("a table without files")
        for plain in table["files"]:
            parts = PurePosixPath(_to_file(plain).path).parts
            if not parts or parts[0] == "/" or ".." in parts:
                raise ValueError(f"a file outside the folder: {plain['path']}")
