"""Tables of records (events, actions): find their columns, which are known only when all rows are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from replayer.datasets.request import ExtractionError
from replayer.export.event_files import COLUMNS_MAX

BATCH_ROWS = 8192  # The number of rows in memory at once.
_EXACT_MAX = 1 << 53  # Integers up to here are exact as decimals.
_FORMS = {bool: "boolean", float: "decimal", str: "text", type(None): "none"}

Row = dict[str, Any]


def read_rows(paths: Sequence[Path]) -> Iterator[Row]:
    """Yield the rows of these files, in their order."""
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            for line in file:
                yield json.loads(line)


def column_forms(read: Callable[[], Iterator[Row]]) -> dict[str, str]:
    """Find the columns, in order of appearance, and the form of each: boolean, whole, decimal, text or json.

    Nested values and columns of mixed kinds become JSON text. Raises ExtractionError for too many columns.
    """
    forms_seen: dict[str, set[str]] = {}
    for row in read():
        for name, value in row.items():
            forms_seen.setdefault(name, set()).add(_form_of(value))
        if len(forms_seen) > COLUMNS_MAX:
            raise ExtractionError(f"the rows have more than {COLUMNS_MAX} different keys")
    return {name: _settled(forms - {"none"}) for name, forms in forms_seen.items()}


def _form_of(value: Any) -> str:
    if type(value) is int:
        if abs(value) <= _EXACT_MAX:
            return "whole"
        return "long" if -(1 << 63) <= value < 1 << 63 else "json"
    return _FORMS.get(type(value), "json")


def _settled(forms: set[str]) -> str:
    if not forms:
        return "text"  # The value is missing in all rows.
    if forms <= {"whole", "long"}:
        return "whole"
    if forms == {"whole", "decimal"}:
        return "decimal"
    return next(iter(forms)) if len(forms) == 1 else "json"


def joined_forms(*tables: Mapping[str, str]) -> dict[str, str]:
    """Return the columns of several tables as one: each with the form that holds the values of all."""
    forms: dict[str, set[str]] = {}
    for table in tables:
        for name, form in table.items():
            forms.setdefault(name, set()).add(form)
    return {name: _settled(found) for name, found in forms.items()}


def parsed(text: str) -> Any:
    """Return the value of a cell of the form json."""
    return json.loads(text)


def as_form(form: str, value: Any) -> Any:
    """Convert a value to the form of its column."""
    if value is None:
        return None
    if form == "json":
        return json.dumps(value, ensure_ascii=False)
    return float(value) if form == "decimal" else value
