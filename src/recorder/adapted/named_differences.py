"""Name what differs between two states: values of captured objects by their paths, other fields by their names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    from sim.adapters.object_view.object_comparison import ObjectDifference

SHOWN = 3
_MALFORMED = (ValueError, LookupError, TypeError, RecursionError, OverflowError)


def named_differences(live: Snapshot, now: Snapshot, fields: Sequence[str]) -> str:
    """The first values that differ, or the fields. fields: those that differ."""
    found = _object_differences(live, now, fields)
    if found is None:
        return ", ".join(fields) or "the layout of the state"
    differences, rest = found
    texts = [one.text(("live", "now")) for one in differences[:SHOWN]] + ["…"] * (len(differences) > SHOWN)
    return "; ".join([*texts, *rest]) or "how its objects are saved"


def differing_paths(live: Snapshot, now: Snapshot, fields: Sequence[str]) -> tuple[str, ...]:
    """The paths of the first values that differ, and the fields that hold no objects. fields: those that differ."""
    found = _object_differences(live, now, fields)
    if found is None:
        return tuple(fields)
    differences, rest = found
    return (*dict.fromkeys(one.subject for one in differences), *rest) or ("how its objects are saved",)


def _object_differences(
    live: Snapshot, now: Snapshot, fields: Sequence[str]
) -> tuple[list[ObjectDifference], list[str]] | None:
    """The first differences by path, one more than is shown, and the other fields; None for states without objects."""
    from sim.adapters.object_view.object_comparison import object_differences  # noqa: PLC0415 - few states have objects
    from sim.adapters.object_view.object_tree import GRAPH_PREFIX, tree_of  # noqa: PLC0415

    try:
        trees = tree_of(live), tree_of(now)
        if trees[0] is None or trees[1] is None:
            return None
        found = list(islice(object_differences(trees[0], trees[1], SHOWN), SHOWN + 1))
        known = trees[0].fields | trees[1].fields
    except _MALFORMED:
        return None  # Its own values contradict each other: the names are all that is known.
    return found, [name for name in fields if name not in known and not name.startswith((GRAPH_PREFIX, "#"))]
