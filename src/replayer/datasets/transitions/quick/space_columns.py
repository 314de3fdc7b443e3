"""Collect values of spaces as columns: copied when they come, checked and put together at the end of a block.

The spaces are those whose values are numbers, and Dict and Tuple of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from replayer.datasets.rows.columns import Array
from replayer.datasets.transitions.column_forms import ColumnForm
from replayer.datasets.transitions.flat_values import NUMBER_SPACES, Space, joined

# Numbers whose array has this dtype.
_DTYPES: dict[type[Any], np.dtype[Any]] = {
    kind: np.dtype(kind) for kind in (float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_)
}
_WHOLE = {int, np.int64}
EXACT_MAX = 1 << 53  # All whole numbers up to it are exact as float64.
_FLAGS = {bool, np.bool_}

Add = Callable[[Any], None]


class UnusualError(Exception):
    """Something that the way step by step has to take care of."""


def paths_of(space: Space | None, path: str = "") -> Iterator[str | None]:
    """The paths of the parts of a space; None for a part that this module does not know."""
    match space:
        case {"type": "Dict", "spaces": list(inner)}:
            for key, one in inner:
                yield from paths_of(one, joined(path, key))
        case {"type": "Tuple", "spaces": list(inner)}:
            for index, one in enumerate(inner):
                yield from paths_of(one, joined(path, index))
        case {"type": str(kind)} if kind in NUMBER_SPACES:
            yield path
        case _:
            yield None


def have_columns(
    spaces: Iterable[Space | None], prefix: str, forms: Mapping[str, ColumnForm], left_out: frozenset[str]
) -> bool:
    """Return True if the parts of each of the spaces are exactly the columns with this prefix, all of them arrays."""
    own = {name for name, form in forms.items() if name.partition(".")[0] == prefix and form.kind == "array"}
    paths = [[*paths_of(space)] for space in spaces]
    names = [{column_name(prefix, path) for path in one if path is not None} - left_out for one in paths]
    are_known = all(None not in one and len(one) == len(set(one)) for one in paths)
    return are_known and all(one == own for one in names)


def column_name(prefix: str, path: str) -> str:
    """The name of the column of a part of a value."""
    return joined(prefix, path) if path else prefix


class OnlyColumn(NamedTuple):
    """The only column of a space, to add to it without a call for each value.

    Attributes:
        values: the list to add to: numbers as they are, arrays by tobytes, which have to be of this dtype and shape.
        dtype: of the column. shape: of an array; () for numbers.
    """

    values: list[Any]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class SpaceColumns:
    """The values of a block, of one space or of several spaces with the same columns."""

    def __init__(self, prefix: str, forms: Mapping[str, ColumnForm]) -> None:
        """forms: of all columns of the table; those with another prefix are not touched."""
        self._prefix = prefix
        self._forms = {name: form for name, form in forms.items() if name.partition(".")[0] == prefix}
        self._values: dict[str, list[Any]] = {name: [] for name in self._forms}
        self._is_batched = False

    def adder(self, space: Space) -> Add:
        """A function that adds a value of a space. It raises any exception for a value of another form, or column() does."""
        return self._adder(space, "")

    def batch_adder(self, space: Space) -> Add:
        """As adder, for the values of a vector of environments with this space: arrays with a first axis for them."""
        self._is_batched = True
        return self._adder(space, "")

    def _adder(self, space: Space, path: str) -> Add:
        match space:
            case {"type": "Dict", "spaces": list(inner)}:
                return _add_to_each(dict, [(key, self._adder(one, joined(path, key))) for key, one in inner])
            case {"type": "Tuple", "spaces": list(inner)}:
                parts = [(index, self._adder(one, joined(path, index))) for index, one in enumerate(inner)]
                return _add_to_each(tuple, parts)
        name = column_name(self._prefix, path)
        values = self._values.get(name)
        if values is None:
            return lambda _: None  # A column that the table leaves out.
        if self._is_batched:
            return lambda value: values.append(value.copy())
        form = self._forms[name]
        if not form.shape:
            return lambda value: values.append(value[()] if type(value) is np.ndarray else value)
        return _add_bytes(values, np.dtype(form.dtype), form.shape)

    def add_parts(self, parts: Mapping[str, Any]) -> None:
        """Add a value by its parts, as they are in the columns."""
        for name, value in parts.items():
            is_bytes = self._forms[name].shape and not self._is_batched
            self._values[name].append(value.tobytes() if is_bytes else value)

    def only_column(self, space: Space) -> OnlyColumn | None:
        """The column of the values of a space that are arrays or numbers; None for a space with parts."""
        values, form = self._values.get(self._prefix), self._forms.get(self._prefix)
        if [*paths_of(space)] != [""] or values is None or form is None:
            return None
        return OnlyColumn(values, np.dtype(form.dtype), form.shape)

    def columns(self) -> dict[str, Array]:
        """The values added since the last call, by the names of their columns. Raises UnusualError."""
        make = _batched_column if self._is_batched else _column
        made = {name: make(self._values[name], form) for name, form in self._forms.items()}
        self.clear()
        return made

    def clear(self) -> None:
        """Forget the values."""
        for values in self._values.values():
            values.clear()


def _add_to_each(kind: type[Any], parts: Sequence[tuple[Any, Add]]) -> Add:
    count = len(parts)

    def add(value: Any) -> None:
        if type(value) is not kind or len(value) != count:
            raise UnusualError
        for key, add_part in parts:
            add_part(value[key])

    return add


def _add_bytes(values: list[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> Add:
    """A function that adds an array as bytes: in a fifth of the time of a copy, and of joining copies."""

    def add(value: Any) -> None:
        if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
            raise UnusualError
        values.append(value.tobytes())

    return add


def _column(values: list[Any], form: ColumnForm) -> Array:
    dtype, shape = np.dtype(form.dtype), form.shape
    if not values:
        return np.zeros((0, *shape), dtype)
    if shape:
        return np.frombuffer(b"".join(values), dtype).reshape(len(values), *shape)
    if any(_DTYPES.get(kind) != dtype for kind in {*map(type, values)}):
        raise UnusualError
    return np.array(values, dtype)


def _batched_column(values: list[Any], form: ColumnForm) -> Array:
    """The values of a vector as an array of calls and environments."""
    dtypes, shapes = {getattr(value, "dtype", None) for value in values}, {np.shape(value)[1:] for value in values}
    if values and (dtypes != {np.dtype(form.dtype)} or shapes != {form.shape}):
        raise UnusualError
    return np.stack(values) if values else np.zeros((0, 0, *form.shape), form.dtype)


def decimals(rewards: list[Any]) -> Array:
    """Rewards as float64. Raises UnusualError if they are not single numbers, or not exact as such."""
    kinds = {*map(type, rewards)}
    if not kinds <= _DTYPES.keys():
        raise UnusualError
    array = np.array(rewards, np.float64)
    if kinds & _WHOLE and np.abs(array).max() > EXACT_MAX:
        raise UnusualError
    return array


def flags(values: list[Any]) -> Array:
    """Flags as booleans. Raises UnusualError for anything else."""
    if not {*map(type, values)} <= _FLAGS:
        raise UnusualError
    return np.array(values, np.bool_)
