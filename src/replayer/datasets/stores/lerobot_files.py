"""Write the Parquet files of a LeRobotDataset: numbered files in numbered folders, and the table of tasks.

    data/chunk-000/file-000.parquet, file-001.parquet, ... file-999.parquet, data/chunk-001/file-000.parquet, ...

Invariant: the rows of an episode are in one file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

FILE_MIB, CHUNK_FILES = 100, 1000  # LeRobot's own limits: the size of a file, and the files of a folder.
GROUP_BYTES = 16 << 20  # Of rows that are collected before they are written.


class FileLocation(NamedTuple):
    """The numbers of a folder, and of a file in it."""

    chunk: int
    file: int


class NumberedFiles:
    """Writes tables into numbered files, of which each but the last has about FILE_MIB."""

    def __init__(self, folder: Path, schema: pa.Schema, indexed: Sequence[str]) -> None:
        """indexed: the columns by which readers choose rows; the others have no bounds in the file."""
        self._folder, self._schema, self._indexed = folder, schema, list(indexed)
        self._location = FileLocation(0, 0)
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def location(self) -> FileLocation:
        """Where the next table is written."""
        return self._location

    def add(self, table: pa.Table) -> None:
        """Write a table, all of it into one file. Raises OSError."""
        self._waiting.append(table)
        self._waiting_bytes += table.nbytes
        if self._waiting_bytes >= GROUP_BYTES:
            self._write()

    def finish(self) -> None:
        """Write what waits, and close the last file. Raises OSError."""
        self._write()
        self._close()

    def _write(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            path = self._folder / f"chunk-{self._location.chunk:03d}" / f"file-{self._location.file:03d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb")
            self._writer = pq.ParquetWriter(
                self._file,
                self._schema,
                compression="snappy",
                use_dictionary=self._indexed,
                write_statistics=self._indexed,
            )
        self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
        self._waiting, self._waiting_bytes = [], 0
        assert self._file is not None
        if self._file.tell() >= FILE_MIB << 20:
            self._close()
            chunk, file = self._location
            is_full = file == CHUNK_FILES - 1
            self._location = FileLocation(chunk + 1, 0) if is_full else FileLocation(chunk, file + 1)

    def _close(self) -> None:
        writer, file = self._writer, self._file
        self._writer = self._file = None
        try:
            if writer is not None:
                writer.close()
        finally:
            if file is not None:
                file.close()


def write_tasks(path: Path, tasks: Sequence[str]) -> None:
    """Write the tasks as pandas does: their texts are the index of the table. Raises OSError."""
    about = {
        "index_columns": ["task"],
        "column_indexes": [
            {
                "name": None,
                "field_name": None,
                "pandas_type": "unicode",
                "numpy_type": "object",
                "metadata": {"encoding": "UTF-8"},
            }
        ],
        "columns": [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_type, "metadata": None}
            for name, kind, numpy_type in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
        ],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    schema = pa.schema([("task_index", pa.int64()), ("task", pa.string())], metadata={"pandas": json.dumps(about)})
    pq.write_table(pa.table([list(range(len(tasks))), list(tasks)], schema=schema), path)
