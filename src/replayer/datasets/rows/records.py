"""Tables of records (events, actions), whose columns are known only when all rows are: from lines of JSON to typed files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from replayer.datasets.request import ExtractionError
from replayer.export.event_files import COLUMNS_MAX

BATCH_ROWS = 8192  # So many rows are in memory at once.
_EXACT_MAX = 1 << 53  # Whole numbers up to here are the same as decimals.
_FORMS = {bool: "boolean", float: "decimal", str: "text", type(None): "none"}

Row = dict[str, Any]


def read_rows(paths: Sequence[Path]) -> Iterator[Row]:
    """The rows of these files, in their order."""
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            for line in file:
                yield json.loads(line)


def column_forms(tell: Callable[[], Iterator[Row]]) -> dict[str, str]:
    """The columns in the order in which they come, and what each holds: boolean, whole, decimal, text or json.

    What is nested, and what is of several kinds, is JSON text. Raises ExtractionError for too many columns.
    """
    found: dict[str, set[str]] = {}
    for row in tell():
        for name, value in row.items():
            found.setdefault(name, set()).add(_form_of(value))
        if len(found) > COLUMNS_MAX:
            raise ExtractionError(f"the rows have more than {COLUMNS_MAX} different keys")
    return {name: _settled(forms - {"none"}) for name, forms in found.items()}


def _form_of(value: Any) -> str:
    if type(value) is int:
        if abs(value) <= _EXACT_MAX:
            return "whole"
        return "long" if -(1 << 63) <= value < 1 << 63 else "json"
    return _FORMS.get(type(value), "json")


def _settled(forms: set[str]) -> str:
    if not forms:
        return "text"  # Nothing is known of it but that it is missing everywhere.
    if forms <= {"whole", "long"}:
        return "whole"
    if forms == {"whole", "decimal"}:
        return "decimal"
    return next(iter(forms)) if len(forms) == 1 else "json"


def as_form(form: str, value: Any) -> Any:
    """A value as its column holds it."""
    if value is None:
        return None
    if form == "json":
        return json.dumps(value, ensure_ascii=False)
    return float(value) if form == "decimal" else value
