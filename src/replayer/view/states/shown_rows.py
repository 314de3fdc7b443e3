"""Rows of a table for the page: sorted, filtered, one page of them, with the changed cells."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from replayer.view.states.page_json import page_json, page_number
from sim.kernel.schema import Layout
from sim.kernel.state import Snapshot

ROWS_MAX = 100
COLUMNS_MAX = 40
Column = npt.NDArray[Any]

_CONDITION = re.compile(r"\s*([\w.\-]{1,100})\s*(<=|>=|!=|==|=|<|>)\s*(-?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*")
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}


def table_names(layout: Layout) -> list[str]:
    """The tables of a state: owners of columns."""
    blobs = {slot.name for slot in layout.slots.values() if slot.owner == slot.name}
    owners = [slot.owner for slot in layout.slots.values() if slot.owner is not None and slot.owner not in blobs]
    return list(dict.fromkeys(owner for owner in owners if not owner.startswith(("#", "graph."))))


def table_rows(snapshot: Snapshot, before: Snapshot | None, query: Mapping[str, Any]) -> dict[str, Any] | None:
    """One page of a table. Rows of zeros alone are left out and counted: tables keep free rows so.

    query: "table"; "sort", a column, and "descending"; "filter", such as "energy > 10"; "offset", of the first row.
    Returns None for an unknown table.
    """
    name = query.get("table")
    if name not in table_names(snapshot.layout):
        return None
    columns = _columns(snapshot, str(name))
    count = len(next(iter(columns.values())))
    used = np.zeros(count, np.bool_)
    for column in columns.values():
        used |= column.reshape(count, -1).any(axis=1) if column.size else False
    kept, condition, problem = used.copy(), str(query.get("filter") or "").strip(), None
    if condition:
        chosen = _filtered(columns, condition)
        problem = f"expected a condition such as {next(iter(columns))} > 0" if chosen is None else None
        kept &= True if chosen is None else chosen
    rows = np.flatnonzero(kept)
    sort = query.get("sort")
    if sort in columns and columns[sort].ndim == 1:
        rows = rows[np.argsort(columns[sort][rows], kind="stable")]
    if query.get("descending"):
        rows = rows[::-1]
    offset = max(0, min(int(query.get("offset") or 0), max(0, len(rows) - 1)))
    page = rows[offset : offset + ROWS_MAX]
    earlier = _columns(before, str(name)) if before is not None and name in table_names(before.layout) else None
    return {
        "name": name,
        "count": len(rows),
        "free": int(count - used.sum()),
        "offset": offset,
        "page": ROWS_MAX,
        "problem": problem,
        "rows": page.tolist(),
        "columns": [
            {
                "name": column,
                "values": [_cell(values[row]) for row in page],
                "changed": _changed(values, earlier.get(column) if earlier is not None else values, page),
            }
            for column, values in columns.items()
        ],
    }


def _columns(snapshot: Snapshot, table: str) -> dict[str, Column]:
    slots = [slot for slot in snapshot.layout.slots.values() if slot.owner == table and slot.name != table]
    columns = {slot.name.removeprefix(f"{table}."): snapshot[slot.name] for slot in slots}
    names = sorted(columns, key=lambda name: name != "id")  # Numbers of things come first.
    return {name: columns[name] for name in names[:COLUMNS_MAX]}


def _filtered(columns: Mapping[str, Column], condition: str) -> npt.NDArray[np.bool_] | None:
    """The rows that satisfy a condition; None if it is not one."""
    match = _CONDITION.fullmatch(condition)
    if match is None or match[1] not in columns or columns[match[1]].ndim != 1:
        return None
    try:
        number: int | float = int(match[3]) if match[3].lstrip("-").isdigit() else float(match[3])
        chosen: npt.NDArray[np.bool_] = _OPERATORS[match[2]](columns[match[1]], number)
    except (ValueError, OverflowError):
        return None
    return chosen


def _changed(values: Column, earlier: Column | None, rows: npt.NDArray[np.int64]) -> list[bool]:
    if earlier is None or earlier.shape[1:] != values.shape[1:]:
        return [True] * len(rows)
    return [bool(row >= len(earlier) or values[row].tobytes() != earlier[row].tobytes()) for row in rows.tolist()]


def _cell(value: Any) -> Any:
    return page_json(value) if getattr(value, "ndim", 0) else page_number(value.item())
