"""TELEMETRY blocks: figures of ticks as columns. The recording can be replayed without them.

The payload is plain data: {tick: (n,) int64 ascending, columns: {name: (n,) int64 or float64}}. A block has one set of
columns; a different set begins a new block. A reader that does not know this kind of block skips it.
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

TICK = "tick"  # The column of the ticks in joined tables; a figure may not have this name.
NAME_BYTES_MAX = 256
COLUMNS_MAX = 4096


@attrs.frozen
class Row:
    """The figures of one tick.

    Attributes:
        tick: the tick.
        names, values: of the figures, in equal order.
    """

    tick: int
    names: tuple[str, ...]
    values: tuple[int | float, ...]


def encode_telemetry(ticks: Sequence[int], names: Sequence[str], rows: Sequence[Sequence[int | float]]) -> bytes:
    """Encode rows, ascending by tick. A column with a float in it is stored as floats."""
    columns = {}
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        whole = not any(isinstance(value, float) for value in values)
        columns[name] = np.array(values, np.int64 if whole else np.float64)
    return encode_plain({"tick": np.array(ticks, np.int64), "columns": columns})


def encode_columns(columns: Columns) -> bytes:
    """Encode columns as decode_telemetry returns them, the ticks among them."""
    return encode_plain({"tick": columns[TICK], "columns": {n: c for n, c in columns.items() if n != TICK}})


def decode_telemetry(payload: bytes, offset: int) -> Columns:
    """Decode the columns of the block at offset, the ticks first. Raises CorruptError if it is not a TELEMETRY block."""
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
    raise CorruptError(offset, "a TELEMETRY block that is incomplete")


def _is_column(values: Any, count: int) -> bool:
    return isinstance(values, np.ndarray) and values.shape == (count,) and values.dtype in (np.int64, np.float64)


def join_telemetry(blocks: Iterable[Columns]) -> Columns:
    """Join blocks to one table, ascending by tick. If two rows have the same tick, the one of the later block is kept.

    If a block lacks a column of a different block, whole numbers become floats and the gap is NaN.
    """
    parts = list(blocks)
    names = list(dict.fromkeys(name for block in parts for name in block))
    if not parts:
        return {TICK: np.zeros(0, np.int64)}
    table = {name: np.concatenate([_column(block, name) for block in parts]) for name in names}
    reversed_ticks = table[TICK][::-1]
    _, last = np.unique(reversed_ticks, return_index=True)  # The first in reverse is the last that was written.
    chosen = len(reversed_ticks) - 1 - last
    return {name: values[chosen] for name, values in table.items()}


def _column(block: Mapping[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    return block[name] if name in block else np.full(len(block[TICK]), np.nan)


def make_row(tick: int, row: Any, source: str = "telemetry()") -> Row:
    """Convert the result of telemetry() to a row. Raises TypeError or ValueError that names the bad figure.

    source: what returned it, for messages.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"{source} returned {type(row).__name__}: expected a mapping of figures by name")
    if len(row) > COLUMNS_MAX:
        raise ValueError(f"{source} returned {len(row)} figures: expected at most {COLUMNS_MAX}")
    names, values = [], []
    for name, value in row.items():
        if not isinstance(name, str) or not name or name == TICK or len(name.encode()) > NAME_BYTES_MAX:
            raise ValueError(f"{source} returned a figure named {name!r}: expected a short text other than {TICK!r}")
        if isinstance(value, bool | int | np.integer | np.bool_):
            number: int | float = int(value)
            if not -(1 << 63) <= number < 1 << 63:
                raise ValueError(f"{source} figure {name}: {number} does not fit into 64 bits")
        elif isinstance(value, float | np.floating):
            number = float(value)
        else:
            raise TypeError(f"{source} figure {name} is {type(value).__name__}: expected a number")
        names.append(name)
        values.append(number)
    return Row(tick, tuple(names), tuple(values))
