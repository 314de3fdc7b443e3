"""Rows of a table, collected as columns: numbers of one shape, lists of any length, and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from replayer.datasets.request import ExtractionError

Array = npt.NDArray[Any]
AGENT = "agent"  # The column with the name of the agent that a row belongs to.
NAMES_SHOWN = 4


@attrs.frozen(eq=False)
class Lists:
    """A column of arrays whose lengths differ.

    Attributes:
        values: the items of all rows, one row after the other: (sum of lengths, *shape of an item).
        lengths: of each row, int64; 0 of a missing one.
        present: a mask of the rows that are not missing; None if none is.
    """

    values: Array
    lengths: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_] | None = None


@attrs.frozen(eq=False)
class Nested:
    """A column of arrays of one shape, some of which may be missing. Files hold them as nested lists.

    Attributes:
        values: (rows, *shape); zeros where a value is missing.
        present: a mask of the rows that are not missing; None if none is.
    """

    values: Array
    present: npt.NDArray[np.bool_] | None = None


@attrs.frozen(eq=False)
class Texts:
    """A column of texts, or of lists of texts, None where one is missing.

    Attributes:
        values: of each row. is_list: True for lists of texts.
    """

    values: Sequence[Any]
    is_list: bool = False


@attrs.frozen(eq=False)
class Labels:
    """A column of texts from a small set, which is the same in all parts of a data set.

    Attributes:
        texts: all possible texts.
        codes: the index of each row's text, int32.
    """

    texts: tuple[str, ...]
    codes: npt.NDArray[np.int32]


Column = Array | Lists | Labels | Nested | Texts
Block = Mapping[str, Column]  # All columns have the same number of rows.


def rows_of(block: Block) -> int:
    """Return the number of rows of a block."""
    column = next(iter(block.values()))
    if isinstance(column, Labels):
        return len(column.codes)
    if isinstance(column, Lists):
        return len(column.lengths)
    return len(column.values) if isinstance(column, Nested | Texts) else len(column)


def cut_block(block: Block, start: int, end: int) -> Block:
    """Return some rows of a block without lists, on the same memory."""
    return {name: _cut(column, start, end) for name, column in block.items()}


def _cut(column: Column, start: int, end: int) -> Column:
    if isinstance(column, Labels):
        return Labels(column.texts, column.codes[start:end])
    if isinstance(column, Texts):
        return Texts(column.values[start:end], column.is_list)
    if isinstance(column, Nested):
        return Nested(
            column.values[start:end], _unless_all(None if column.present is None else column.present[start:end])
        )
    assert not isinstance(column, Lists)
    return column[start:end]


def joined_blocks(blocks: Sequence[Block]) -> Block:
    """Return the rows of blocks with the same columns, one block after the other."""
    if len(blocks) == 1:
        return blocks[0]
    return {name: _joined([block[name] for block in blocks]) for name in blocks[0]}


def _joined(parts: Sequence[Any]) -> Column:
    first = parts[0]
    if isinstance(first, Labels):
        return Labels(first.texts, np.concatenate([part.codes for part in parts]))
    if isinstance(first, Texts):
        return Texts([value for part in parts for value in part.values], first.is_list)
    if not isinstance(first, Nested | Lists):
        return np.concatenate(parts)
    values = np.concatenate([part.values for part in parts])
    rows = [len(part.lengths) if isinstance(part, Lists) else len(part.values) for part in parts]
    masks = [
        np.ones(n, np.bool_) if part.present is None else part.present for n, part in zip(rows, parts, strict=True)
    ]
    present = _unless_all(np.concatenate(masks))
    if isinstance(first, Nested):
        return Nested(values, present)
    return Lists(values, np.concatenate([part.lengths for part in parts]), present)


def _unless_all(present: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_] | None:
    """A mask of rows that are not missing; None if all are there."""
    return None if present is None or present.all() else present


@attrs.frozen
class Shape:
    """The dtype and shape of the values of a column.

    Attributes:
        dtype: NumPy's text for it, or "text".
        shape: of one value; of one item if is_list.
        is_list: True if the rows hold lists of any length.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    is_list: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the shape as plain data for JSON."""
        return {"dtype": self.dtype, "shape": list(self.shape), "is_list": self.is_list}

    def __str__(self) -> str:
        size = f" {self.shape}" if self.shape else ""
        return f"{'lists of ' if self.is_list else ''}{self.dtype}{size}"


def shape_of(column: Column) -> Shape:
    """Return the shape of a column."""
    if isinstance(column, Labels):
        return Shape("text")
    if isinstance(column, Texts):
        return Shape("text", is_list=column.is_list)
    if isinstance(column, Lists):
        return Shape(column.values.dtype.str, column.values.shape[1:], is_list=True)
    if isinstance(column, Nested):
        return Shape(column.values.dtype.str, column.values.shape[1:])
    return Shape(column.dtype.str, column.shape[1:])


class Rows:
    """Collects rows, one after the other, and returns them as columns.

    The first row decides the dtype and shape of each column, which may not change after that. One-dimensional arrays
    whose lengths differ have to be named as lists; of arrays with more axes, the length of the first one.
    """

    def __init__(self, table: str, labels: Mapping[str, tuple[str, ...]]) -> None:
        """labels: all possible texts, by column of texts."""
        self.table = table
        self._labels = labels
        self.bytes = 0  # Of the collected rows.
        self._values: dict[str, list[Any]] = {}
        self._first_agent: str | None = None
        self._shapes: dict[str, Shape] = {}
        self._fitting: dict[
            str, Any
        ] = {}  # By column, dtype and shape of an array that fits it, or the type of another value.

    def __len__(self) -> int:
        return len(next(iter(self._values.values()), ()))

    def add(self, tick: int, row: Mapping[str, Any], lists: frozenset[str] = frozenset()) -> None:
        """Add a row; arrays are kept, not copied. lists: names of the columns whose lengths may differ.

        Raises ExtractionError for a row that does not fit those before it.
        """
        if not self._shapes:
            self._shapes = {name: _shape_of_value(value, is_list=name in lists) for name, value in row.items()}
            self._values = {name: [] for name in row}
            self._first_agent = row.get(AGENT)
            empty = next((name for name, shape in self._shapes.items() if 0 in shape.shape), None)
            if empty is not None:
                raise ExtractionError(
                    f"table {self.table}: {empty} has no values, its shape is {self._shapes[empty].shape}: leave it out, "
                    f"or, if its length changes, name it as a list (--list {empty.partition('.')[2]})"
                )
        if row.keys() != self._shapes.keys():
            differing = ", ".join(sorted(row.keys() ^ self._shapes.keys())[:NAMES_SHOWN])
            raise ExtractionError(
                f"table {self.table}, tick {tick:,}: the columns differ from those before ({differing}): "
                f"{self._fix(row) or _fix_of_names(self.table, tick, is_more=row.keys() > self._shapes.keys())}"
            )
        for name, value in row.items():
            form = (value.dtype, value.shape[name in lists :]) if type(value) is np.ndarray else type(value)
            if form == self._fitting.get(name):
                self._values[name].append(value)  # As nearly all values are.
                self.bytes += getattr(value, "nbytes", 8)
                continue
            shape, expected = _shape_of_value(value, is_list=name in lists), self._shapes[name]
            if shape != expected:
                problem = f"{shape} after {expected}; a value must keep its dtype and shape"
                if shape.shape and expected.shape and shape.shape[1:] == expected.shape[1:]:
                    problem += f", unless it is named as a list (--list {name.partition('.')[2]})"
                elif fix := self._fix(row):
                    problem += f": {fix}"
                raise ExtractionError(f"table {self.table}, tick {tick:,}: {name} is {problem}")
            self._fitting[name] = form
            self._values[name].append(value)
            self.bytes += getattr(value, "nbytes", 8)

    def _fix(self, row: Mapping[str, Any]) -> str:
        """Return the way out if a row differs because it is a different agent's; "" if it is the same agent's."""
        agent, first = row.get(AGENT), self._first_agent
        return f"extract {first} and {agent} separately, each with --agent" if agent != first else ""

    def take(self) -> Block:
        """Return the collected rows and forget them."""
        block = {name: self._column(name, values) for name, values in self._values.items()}
        self._values = {name: [] for name in self._values}
        self.bytes = 0
        return block

    def _column(self, name: str, values: list[Any]) -> Column:
        shape = self._shapes[name]
        if shape.dtype == "text":
            texts = self._labels[name]
            codes = {text: code for code, text in enumerate(texts)}
            return Labels(texts, np.array([codes[value] for value in values], np.int32))
        if shape.is_list:
            empty = np.zeros((0, *shape.shape), shape.dtype)
            return Lists(np.concatenate([*values, empty]), np.array([len(value) for value in values], np.int64))
        return np.array(values, dtype=shape.dtype).reshape(len(values), *shape.shape)


def _fix_of_names(table: str, tick: int, *, is_more: bool) -> str:
    """What to do. is_more: there are further columns from this tick on."""
    if table == "states":
        ticks = (
            f"begin where they are there, with --ticks {tick}..-1"
            if is_more
            else f"end before, with --ticks ..{tick - 1}"
        )
        return f"{ticks}, or choose fields that exist at all ticks, each with --field"
    return "a function must return the same names at all ticks"


def _shape_of_value(value: Any, *, is_list: bool) -> Shape:
    if isinstance(value, str):
        return Shape("text")
    if isinstance(value, bool):
        return Shape("|b1")
    if isinstance(value, int):
        return Shape("<i8")
    if isinstance(value, float):
        return Shape("<f8")
    return Shape(value.dtype.str, value.shape[1:] if is_list else value.shape, is_list)
