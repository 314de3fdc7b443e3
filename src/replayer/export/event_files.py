"""Write events as NDJSON, CSV or Parquet, one row per event; memory does not grow with their number."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from recorder.format.blocks.events_block import KIND, TICK, Event
from recorder.format.recording.stored_sections import StoredSections
from recorder.storage.atomic_file import atomic_file
from replayer.csv_cells import CsvRows
from replayer.export.tables import open_text, suffix_of
from replayer.value_text import to_json
from sim.kernel.plain_data import decode_plain

TickEvents = Iterable[tuple[int, Event]]

COLUMNS_MAX = 4096  # Of a CSV or Parquet table; NDJSON has no limit.
BATCH_ROWS = 8192  # Rows in memory at the same time.
_EXACT_MAX = 1 << 53  # Integers up to this value are exact as floats.


def write_events(read_events: Callable[[], TickEvents], path: Path, *, raw_text: bool = False) -> tuple[int, list[str]]:
    """Write the events that read_events() returns; returns their number and the columns. Replaces an existing file.

    NDJSON has one object per event, its tick first; arrays become lists, bytes become hexadecimal text. CSV and Parquet
    have the columns tick, kind and all other keys in the order of their first use. Nested values are JSON text, missing
    keys are empty or null. A Parquet column holds booleans, integers, floats or text; if it has values of several of
    these types, or larger integers, it holds JSON text. For CSV and Parquet, read_events is called twice: first to find
    the columns. raw_text: write texts in CSV as they are, even those that a spreadsheet takes for a formula.

    Raises ValueError for an unknown suffix or too many columns, ModuleNotFoundError for Parquet without pyarrow,
    OSError, and the errors of read_events.
    """
    suffix = suffix_of(path)
    with atomic_file(path, existing="replace") as part:
        if suffix == ".csv":
            return _write_csv(read_events, part, raw_text=raw_text)
        return (_write_parquet if suffix == ".parquet" else _write_ndjson)(read_events, part)


def section_rows(sections: StoredSections) -> Iterator[tuple[int, Event]]:
    """The changes of sections as rows: the section's name as the kind, and its value; or gone."""
    for change in sections.changes():
        for name, value in change.sections.items():
            yield change.tick, {KIND: name, "value": decode_plain(value)}
        for name in change.gone:
            yield change.tick, {KIND: name, "gone": True}


def _plain(events: TickEvents) -> Iterator[dict[str, Any]]:
    return ({TICK: tick, **to_json(event)} for tick, event in events)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write_ndjson(read_events: Callable[[], TickEvents], path: Path) -> tuple[int, list[str]]:
    columns, count = {TICK: None, KIND: None}, 0
    with open_text(path) as file:
        for event in _plain(read_events()):
            file.write(_json(event) + "\n")
            count += 1
            if len(columns) <= COLUMNS_MAX:
                columns |= dict.fromkeys(event)
    return count, list(columns)


def _columns(read_events: Callable[[], TickEvents]) -> dict[str, set[str]]:
    """The kinds of values in each column. Raises ValueError for too many columns."""
    kinds: dict[str, set[str]] = {TICK: set(), KIND: set()}
    for event in _plain(read_events()):
        for name, value in event.items():
            kinds.setdefault(name, set()).add(_kind_of(value))
        if len(kinds) > COLUMNS_MAX:
            raise ValueError(f"the events have more than {COLUMNS_MAX} different keys: write them as .ndjson")
    return kinds


def _kind_of(value: Any) -> str:
    if type(value) is int:
        if abs(value) <= _EXACT_MAX:
            return "integer"
        return "long" if -(1 << 63) <= value < 1 << 63 else "beyond"
    return {bool: "boolean", float: "float", str: "text", type(None): "none"}.get(type(value), "nested")


def _write_csv(read_events: Callable[[], TickEvents], path: Path, *, raw_text: bool) -> tuple[int, list[str]]:
    columns, count = list(_columns(read_events)), 0
    with open_text(path) as file:
        rows = CsvRows(file, raw=raw_text)
        rows.write(columns)
        for event in _plain(read_events()):
            rows.write(_cell(event.get(name)) for name in columns)
            count += 1
    return count, columns


def _cell(value: Any) -> Any:
    return "" if value is None else value if type(value) in (int, float, str) else _json(value)


def _write_parquet(read_events: Callable[[], TickEvents], path: Path) -> tuple[int, list[str]]:
    import pyarrow as pa  # noqa: PLC0415 - an extra, needed for this format only
    import pyarrow.parquet as pq  # noqa: PLC0415

    kinds, count = _columns(read_events), 0
    arrow_types = {"boolean": pa.bool_(), "integer": pa.int64(), "float": pa.float64(), "text": pa.string()}
    types = {name: _type_of(found - {"none"}) for name, found in kinds.items()} | {TICK: "ticks", KIND: "text"}
    schema = pa.schema([(name, arrow_types.get(kind, pa.string())) for name, kind in types.items() if name != TICK])
    schema = schema.insert(0, pa.field(TICK, pa.uint64() if "beyond" in kinds[TICK] else pa.int64()))
    with pq.ParquetWriter(path, schema) as writer:
        rows = _plain(read_events())
        while batch := list(itertools.islice(rows, BATCH_ROWS)):
            columns = {name: [_convert(kind, event.get(name)) for event in batch] for name, kind in types.items()}
            writer.write_table(pa.table(columns, schema=schema))
            count += len(batch)
    return count, list(types)


def _convert(column_type: str, value: Any) -> Any:
    return _json(value) if column_type == "json" and value is not None else value


def _type_of(kinds: set[str]) -> str:
    """The type of a column that holds values of these kinds."""
    if kinds in ({"long"}, {"integer", "long"}):
        return "integer"
    if kinds == {"integer", "float"}:
        return "float"
    only = next(iter(kinds)) if len(kinds) == 1 else "json"
    return "json" if only in ("nested", "beyond") else only
