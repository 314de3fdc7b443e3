"""Replace the rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from sim.kernel.state import State


def replace_rows(state: State, table: str, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Give a table these rows. columns: all of its columns by name, without the table's; one row for each first index."""
    count, before = len(next(iter(columns.values()))), state.count(table)
    if count < before:
        state.truncate_rows(table, count)
    elif count > before:
        state.add_rows(table, count - before)
    for name, values in columns.items():
        state[f"{table}.{name}"][...] = values
