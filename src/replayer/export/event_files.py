"""Write events as NDJSON, CSV or Parquet, one row an event; memory does not grow with their number."""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from recorder.format.blocks.events_block import KIND, TICK, Event
from recorder.storage.atomic_file import atomic_file
from replayer.export.tables import open_text, suffix_of
from replayer.value_text import to_json

Told = Iterable[tuple[int, Event]]

COLUMNS_MAX = 4096  # Of a table; NDJSON has none.
BATCH_ROWS = 8192  # So many rows are in memory at once.
_EXACT_MAX = 1 << 53  # Whole numbers up to here are the same as decimals.


def write_events(tell: Callable[[], Told], path: Path) -> tuple[int, list[str]]:
    """Write the events that tell() gives; how many they are, and the columns. An existing file is replaced.

    NDJSON has one object an event, its tick first; arrays become lists, bytes hexadecimal text. CSV and Parquet have
    the columns tick, kind and all other keys in the order in which they come; what is nested is JSON text, what an event
    does not have is empty or null. In Parquet a column is of booleans, whole numbers, decimals or text; one of several
    of these, or of larger numbers, is JSON text. Told twice for these two: first for the columns.

    Raises ValueError for another suffix or too many columns, ModuleNotFoundError for Parquet without pyarrow, OSError,
    and what tell does.
    """
    write = {".ndjson": _write_ndjson, ".jsonl": _write_ndjson, ".csv": _write_csv, ".parquet": _write_parquet}[
        suffix_of(path)
    ]
    with atomic_file(path, existing="replace") as part:
        return write(tell, part)


def _plain(told: Told) -> Iterator[dict[str, Any]]:
    return ({TICK: tick, **to_json(event)} for tick, event in told)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write_ndjson(tell: Callable[[], Told], path: Path) -> tuple[int, list[str]]:
    columns, count = {TICK: None, KIND: None}, 0
    with open_text(path) as file:
        for event in _plain(tell()):
            file.write(_json(event) + "\n")
            count += 1
            if len(columns) <= COLUMNS_MAX:
                columns |= dict.fromkeys(event)
    return count, list(columns)


def _columns(tell: Callable[[], Told]) -> dict[str, set[str]]:
    """Which kinds of values each column has. Raises ValueError for too many columns."""
    found: dict[str, set[str]] = {TICK: set(), KIND: set()}
    for event in _plain(tell()):
        for name, value in event.items():
            found.setdefault(name, set()).add(_kind_of(value))
        if len(found) > COLUMNS_MAX:
            raise ValueError(f"the events have more than {COLUMNS_MAX} different keys: write them as .ndjson")
    return found


def _kind_of(value: Any) -> str:
    if type(value) is int:
        if abs(value) <= _EXACT_MAX:
            return "whole"
        return "long" if -(1 << 63) <= value < 1 << 63 else "beyond"
    return {bool: "boolean", float: "decimal", str: "text", type(None): "none"}.get(type(value), "nested")


def _write_csv(tell: Callable[[], Told], path: Path) -> tuple[int, list[str]]:
    columns, count = list(_columns(tell)), 0
    with open_text(path) as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for event in _plain(tell()):
            writer.writerow([_cell(event.get(name)) for name in columns])
            count += 1
    return count, columns


def _cell(value: Any) -> Any:
    return "" if value is None else value if type(value) in (int, float, str) else _json(value)


def _write_parquet(tell: Callable[[], Told], path: Path) -> tuple[int, list[str]]:
    import pyarrow as pa  # noqa: PLC0415 - an extra, needed for this format only
    import pyarrow.parquet as pq  # noqa: PLC0415

    kinds, count = _columns(tell), 0
    forms = {"boolean": pa.bool_(), "whole": pa.int64(), "decimal": pa.float64(), "text": pa.string()}
    types = {name: _type_of(own - {"none"}) for name, own in kinds.items()} | {TICK: "ticks", KIND: "text"}
    schema = pa.schema([(name, forms.get(one, pa.string())) for name, one in types.items() if name != TICK])
    schema = schema.insert(0, pa.field(TICK, pa.uint64() if "beyond" in kinds[TICK] else pa.int64()))
    with pq.ParquetWriter(path, schema) as writer:
        rows = _plain(tell())
        while batch := list(itertools.islice(rows, BATCH_ROWS)):
            columns = {name: [_as(one, event.get(name)) for event in batch] for name, one in types.items()}
            writer.write_table(pa.table(columns, schema=schema))
            count += len(batch)
    return count, list(types)


def _as(form: str, value: Any) -> Any:
    return _json(value) if form == "json" and value is not None else value


def _type_of(kinds: set[str]) -> str:
    """The form of a column that holds values of these kinds."""
    if kinds in ({"long"}, {"whole", "long"}):
        return "whole"
    if kinds == {"whole", "decimal"}:
        return "decimal"
    only = next(iter(kinds)) if len(kinds) == 1 else "json"
    return "json" if only in ("nested", "beyond") else only
