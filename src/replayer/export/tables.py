"""Write a table of columns as CSV, NDJSON or Parquet, atomically."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from recorder.storage.atomic_file import atomic_file
from replayer.csv_cells import CsvRows

Columns = Mapping[str, npt.NDArray[Any]]


def write_table(columns: Columns, path: str | os.PathLike[str], *, raw_text: bool = False) -> None:
    """Write columns of equal length in the format of the path's suffix, see FORMATS. An existing file is replaced.

    CSV leaves a missing value (NaN) empty, NDJSON leaves its key out, Parquet keeps NaN. Reading a float gives exactly
    the double that was written. raw_text: write texts in CSV as they are, even those that a spreadsheet takes for a
    formula; by default these get a ' in front.

    Raises ValueError for an unknown suffix, ModuleNotFoundError for Parquet without pyarrow, OSError.
    """
    target = Path(path)
    write = FORMATS[suffix_of(target)]
    with atomic_file(target, existing="replace") as part:
        write(columns, part, raw_text)


def suffix_of(target: Path) -> str:
    """The suffix, a key of FORMATS. Raises ValueError for any other suffix."""
    if target.suffix not in FORMATS:
        raise ValueError(f"expected a file name that ends in {', '.join(FORMATS)}, got {target.name!r}")
    return target.suffix


def _rows(columns: Columns) -> Iterator[tuple[Any, ...]]:
    return zip(*(values.tolist() for values in columns.values()), strict=True)


def _is_missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _write_csv(columns: Columns, path: Path, raw_text: bool) -> None:  # noqa: FBT001
    with open_text(path) as file:
        rows = CsvRows(file, raw=raw_text)
        rows.write(columns)
        for row in _rows(columns):
            rows.write("" if _is_missing(value) else value for value in row)


def _write_ndjson(columns: Columns, path: Path, _raw_text: bool) -> None:  # noqa: FBT001
    with open_text(path) as file:
        for row in _rows(columns):
            present = {name: value for name, value in zip(columns, row, strict=True) if not _is_missing(value)}
            file.write(json.dumps(present, ensure_ascii=False, allow_nan=True) + "\n")


def open_text(path: Path) -> IO[str]:
    """Open a file to write UTF-8 text without conversion of line ends."""
    return path.open("w", encoding="utf-8", newline="")


def _write_parquet(columns: Columns, path: Path, _raw_text: bool) -> None:  # noqa: FBT001
    import pyarrow as pa  # noqa: PLC0415 - an extra, needed for this format only
    import pyarrow.parquet as pq  # noqa: PLC0415

    pq.write_table(pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()}), path)


FORMATS: dict[str, Callable[[Columns, Path, bool], None]] = {
    ".csv": _write_csv,
    ".ndjson": _write_ndjson,
    ".jsonl": _write_ndjson,
    ".parquet": _write_parquet,
}
