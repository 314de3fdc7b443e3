"""Write a table of columns as CSV, NDJSON or Parquet, atomically."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from recorder.storage.atomic_file import atomic_file

Columns = Mapping[str, npt.NDArray[Any]]


def write_table(columns: Columns, path: str | os.PathLike[str]) -> None:
    """Write columns of equal length in the format of the path's suffix, see FORMATS. An existing file is replaced.

    CSV leaves a missing value (NaN) empty, NDJSON leaves its key out, Parquet keeps NaN. Reading a float gives exactly
    the double that was written.
    Raises ValueError for an unknown suffix, ModuleNotFoundError for Parquet without pyarrow, OSError.
    """
    target = Path(path)
    write = FORMATS[suffix_of(target)]
    with atomic_file(target, existing="replace") as part:
        write(columns, part)


def suffix_of(target: Path) -> str:
    """The suffix, a key of FORMATS. Raises ValueError for any other suffix."""
    if target.suffix not in FORMATS:
        raise ValueError(f"expected a file name that ends in {', '.join(FORMATS)}, got {target.name!r}")
    return target.suffix


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    return zip(*(values.tolist() for values in columns.values()), strict=True)


def _is_missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _write_csv(columns: Columns, path: Path) -> None:
    with open_text(path) as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(["" if _is_missing(value) else value for value in row] for row in _rows(columns))


def _write_ndjson(columns: Columns, path: Path) -> None:
    with open_text(path) as file:
        for row in _rows(columns):
            present = {name: value for name, value in zip(columns, row, strict=True) if not _is_missing(value)}
            file.write(json.dumps(present, ensure_ascii=False, allow_nan=True) + "\n")


def open_text(path: Path) -> IO[str]:
    """Open a file to write UTF-8 text without conversion of line ends."""
    return path.open("w", encoding="utf-8", newline="")


def _write_parquet(columns: Columns, path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 - an extra, needed for this format only
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()}), path)


FORMATS: dict[str, Callable[[Columns, Path], None]] = {
    ".csv": _write_csv,
    ".ndjson": _write_ndjson,
    ".jsonl": _write_ndjson,
    ".parquet": _write_parquet,
}
