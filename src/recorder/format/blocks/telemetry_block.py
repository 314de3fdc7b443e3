"""TELEMETRY blocks: figures of ticks as columns, beside the recording proper, which does without them.

The payload is plain data: {tick: (n,) int64 ascending, columns: {name: (n,) int64 or float64}}. A block has one set of
columns; another set begins another block. A reader that does not know the kind passes it over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from recorder.errors import CorruptError
from sim.kernel.plain_data import decode_plain, encode_plain

Columns = dict[str, npt.NDArray[Any]]

TICK = "tick"  # The column of the ticks, in tables made of several blocks; no figure may be called so.
NAME_BYTES_MAX = 256
COLUMNS_MAX = 4096


@attrs.frozen
class Row:
    """The figures of one tick.

    Attributes:
        tick: which.
        names, values: of the figures, in equal order.
    """

    tick: int
    names: tuple[str, ...]
    values: tuple[int | float, ...]


def encode_telemetry(ticks: Sequence[int], names: Sequence[str], rows: Sequence[Sequence[int | float]]) -> bytes:
    """The payload for these rows, ascending by tick. A column with a decimal in it is one of decimals."""
    columns = {}
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        whole = not any(isinstance(value, float) for value in values)
        columns[name] = np.array(values, np.int64 if whole else np.float64)
    return encode_plain({"tick": np.array(ticks, np.int64), "columns": columns})


def decode_telemetry(payload: bytes, offset: int) -> Columns:
    """The columns of a block at offset, with that of the ticks first. Raises CorruptError if it is none."""
    try:
        plain = decode_plain(payload)
    except ValueError as error:
        raise CorruptError(offset, f"a TELEMETRY block that cannot be decoded: {error}") from None
    match plain:
        case {"tick": np.ndarray() as ticks, "columns": dict(columns)} if (
            _is_column(ticks, len(ticks) if ticks.ndim == 1 else -1)
            and ticks.dtype == np.int64
            and (np.diff(ticks) > 0).all()
            and all(isinstance(name, str) and name != TICK for name in columns)
            and all(_is_column(values, len(ticks)) for values in columns.values())
        ):
            return {TICK: ticks, **columns}
    raise CorruptError(offset, "a TELEMETRY block without all of its parts")


def _is_column(values: Any, count: int) -> bool:
    return isinstance(values, np.ndarray) and values.shape == (count,) and values.dtype in (np.int64, np.float64)


def join_telemetry(blocks: Iterable[Columns]) -> Columns:
    """One table of several blocks, ascending by tick; of two rows for one tick the later block's counts.

    Where a block lacks a column of another one, whole numbers become decimals and the gap is NaN.
    """
    found = list(blocks)
    names = list(dict.fromkeys(name for block in found for name in block))
    if not found:
        return {TICK: np.zeros(0, np.int64)}
    table = {name: np.concatenate([_column(block, name) for block in found]) for name in names}
    reversed_ticks = table[TICK][::-1]
    _, last = np.unique(reversed_ticks, return_index=True)  # The first in reverse is the last that was written.
    chosen = len(reversed_ticks) - 1 - last
    return {name: values[chosen] for name, values in table.items()}


def _column(block: Mapping[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    return block[name] if name in block else np.full(len(block[TICK]), np.nan)


def make_row(tick: int, row: Any) -> Row:
    """The row of a tick from what telemetry() gave. Raises TypeError or ValueError, naming the figure, for what is none."""
    if not isinstance(row, Mapping):
        raise TypeError(f"telemetry() gave {type(row).__name__}: a mapping of figures by name was expected")
    if len(row) > COLUMNS_MAX:
        raise ValueError(f"telemetry() gave {len(row)} figures: at most {COLUMNS_MAX}")
    names, values = [], []
    for name, value in row.items():
        if not isinstance(name, str) or not name or name == TICK or len(name.encode()) > NAME_BYTES_MAX:
            raise ValueError(f"telemetry() has a figure called {name!r}: a short text other than {TICK!r} was expected")
        if isinstance(value, bool | int | np.integer | np.bool_):
            number: int | float = int(value)
            if not -(1 << 63) <= number < 1 << 63:
                raise ValueError(f"telemetry() figure {name}: {number} does not fit into 64 bits")
        elif isinstance(value, float | np.floating):
            number = float(value)
        else:
            raise TypeError(f"telemetry() figure {name} is {type(value).__name__}: a number was expected")
        names.append(name)
        values.append(number)
    return Row(tick, tuple(names), tuple(values))
