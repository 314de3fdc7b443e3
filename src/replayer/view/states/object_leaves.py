"""The values of recorded objects as the page lists them: path, text, and a mark on those that the step changed.

The mark compares values, not texts: the text of a long array is cut, and that of a generator names its kind alone.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from replayer.desync.object_diff import MALFORMED, objects_in
from replayer.export.viewers.object_values import Value, values_of
from replayer.view.states.page_json import page_number, page_text
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from sim.adapters.object_view.object_tree import ObjectTree

LEAVES_MAX = 2000  # Values of recorded objects in one answer.


def object_leaves(snapshot: Snapshot, before: Snapshot | None) -> tuple[list[list[Any]], bool]:
    """The values of the recorded objects: path, text, and True if it changed; and whether there are more of them."""
    tree = objects_in(snapshot)
    if tree is None:
        return [], False
    try:
        found = values_of(tree, [])
        leaves = list(islice(found, LEAVES_MAX))
        has_more = next(found, None) is not None
        changed = _changed_paths(leaves, tree, objects_in(before)) if before is not None else set()
        return [[page_text(path), _leaf_text(value), path in changed] for path, value in leaves], has_more
    except MALFORMED as error:
        return [["…", f"the objects of this state cannot be shown: {type(error).__name__}", False]], False


def bits_differ(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Elements with different bytes: NaN equals itself, and 0.0 is not -0.0, as for the hash. Both have one shape."""
    words = [
        np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize) for array in (one, other)
    ]
    differ: npt.NDArray[np.bool_] = (words[0] != words[1]).any(axis=-1)
    return differ


def _changed_paths(leaves: list[tuple[str, Value]], tree: ObjectTree, before: ObjectTree | None) -> set[str]:
    """The paths of the values that are not as in the state before, or that it does not have."""
    earlier = dict(islice(values_of(before, []), LEAVES_MAX)) if before is not None else {}
    changed = {path for path, value in leaves if path not in earlier or _differ(value, earlier[path])}
    if before is not None and any(isinstance(value, str) and path not in changed for path, value in leaves):
        changed |= _differing_paths(tree, before)  # Equal texts may stand for states that are not shown.
    return changed


def _differ(one: Value, other: Value) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return not (isinstance(one, str) and isinstance(other, str)) or one != other
    return one.dtype != other.dtype or one.shape != other.shape or bool(bits_differ(one, other).any())


def _differing_paths(tree: ObjectTree, before: ObjectTree) -> set[str]:
    """The paths in tree of all values that differ from the state before; of an item of a set that of the set."""
    from sim.adapters.object_view.object_comparison import object_differences  # noqa: PLC0415 - as in objects_in

    return {difference.path.rpartition(" in ")[2] for difference in object_differences(tree, before, 1)}


def _leaf_text(value: Value) -> Any:
    if isinstance(value, str):
        return page_text(value)
    if value.ndim == 0:
        return page_number(value.item())
    shape = " × ".join(map(str, value.shape))
    values = np.array2string(value, threshold=24, edgeitems=3, separator=", ", max_line_width=10_000)
    return page_text(f"{values.replace(chr(10), ' ')}  ({shape} {value.dtype.name})")
