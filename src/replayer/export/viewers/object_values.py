"""The values of captured objects in a state, each by its path, for viewers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sim.adapters.object_view.object_tree import ObjectTree
    from sim.adapters.object_view.shown_values import Composite

Value = npt.NDArray[Any] | str  # Numbers as an array without axes; a text for everything else.
PATHS_MAX = 2000  # Of one state, unless paths are named: viewers list each of them.
_INT64 = range(-(1 << 63), 1 << 63)


def values_of(tree: ObjectTree, requested: Iterable[str]) -> Iterator[tuple[str, Value]]:
    """The values without parts, by their paths, outermost objects first; each object once, where its own path leads.

    An array, and a list of numbers of one type, is one value. A reference to an object that has another path is that
    path. requested: paths; only what is below them.
    """
    from sim.adapters.object_view.shown_values import Ref  # noqa: PLC0415 - most tapes have no objects

    found = [tree.find(path) for path in requested]
    roots = [one for one in found if one is not None] if found else [(one.step, one.value) for one in tree.entries]
    level: list[tuple[str, Any]] = list(roots)
    while level:
        deeper: list[tuple[str, Any]] = []
        for path, value in level:
            if isinstance(value, Ref):
                elsewhere = tree.elsewhere_than(value, path)
                if elsewhere is not None:
                    yield path, elsewhere
                    continue
            opened = tree.opened_at(path, value)
            numbers = None if opened is None or opened.is_set else _numbers(opened)
            if numbers is not None:
                yield path, numbers
            elif opened is not None and opened.entries and not opened.is_set:
                deeper += [(f"{path}{entry.step}", entry.value) for entry in opened.entries]
            else:
                yield path, _value(tree, path, value)
        level = deeper


def _numbers(opened: Composite) -> npt.NDArray[Any] | None:
    """An array that is an object of its own, or a list of numbers of one type, as an array; None for anything else."""
    values = [entry.value for entry in opened.entries]
    if len(values) == 1 and isinstance(values[0], np.ndarray) and not opened.entries[0].step:
        return values[0] if values[0].dtype.kind in "biufc" else None
    kinds = {type(value) for value in values}
    if not opened.is_list or opened.is_dict or len(kinds) != 1 or not kinds <= {int, float, bool}:
        return None
    if kinds == {int} and not all(value in _INT64 for value in values):
        return None
    return np.array(values)


def _value(tree: ObjectTree, path: str, value: Any) -> Value:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
        return np.asarray(value)
    if isinstance(value, bool | float) or (isinstance(value, int) and value in _INT64):
        return np.array(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # Lone surrogates are valid in Python alone.
    return next(tree.lines_at(path, value, whole=False)).removeprefix(f"{path} = ")
